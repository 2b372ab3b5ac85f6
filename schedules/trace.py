"""Directives as data: to JSON and back, and as the Python that makes them.

A schedule is written as `{"schema": 1, "definition": fingerprint, "steps": [["split", {"loop": "C.i", "factor": 8}], ...]}`. Only known
steps with known fields are read; anything else is a refusal that names the step.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tensorlang.errors import did_you_mean
from tensorlang.schedules.accumulate import Accumulate
from tensorlang.schedules.cache_read import CacheRead
from tensorlang.schedules.compute_at import ComputeAt
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.fuse import Fuse
from tensorlang.schedules.inline import ComputeInline
from tensorlang.schedules.kinds import Parallel, Unroll, Vectorize
from tensorlang.schedules.pack import Pack
from tensorlang.schedules.placement import PLACEMENT, PlacementDirective
from tensorlang.schedules.reorder import Reorder
from tensorlang.schedules.split import Split
from tensorlang.schedules.structural import STRUCTURAL, StructuralDirective

SCHEMA: Final = 1

AnyDirective: TypeAlias = (
    "Split | Fuse | Reorder | Unroll | Vectorize | Parallel | ComputeAt | ComputeInline | CacheRead | Pack | Accumulate"
    " | PlacementDirective | StructuralDirective"
)

STEPS: Final[dict[str, type[AnyDirective]]] = {
    "split": Split,
    "fuse": Fuse,
    "reorder": Reorder,
    "unroll": Unroll,
    "vectorize": Vectorize,
    "parallel": Parallel,
    "compute_at": ComputeAt,
    "compute_inline": ComputeInline,
    "cache_read": CacheRead,
    "pack": Pack,
    "accumulate": Accumulate,
    **PLACEMENT,
    **STRUCTURAL,
}
NAMES: Final = {kind: name for name, kind in STEPS.items()}


_EXPECTED: Final[dict[str, type]] = {"str": str, "int": int, "tuple": list, "Tail": str, "bool": bool}


def fields(directive: AnyDirective) -> dict[str, Any]:
    """The fields of a directive that differ from their defaults, as plain values."""
    found: dict[str, Any] = {}
    for entry in dataclasses.fields(directive):
        value = getattr(directive, entry.name)
        if entry.default is dataclasses.MISSING or value != entry.default:
            found[entry.name] = list(value) if isinstance(value, tuple) else value
    return found


def call(directive: AnyDirective) -> str:
    """The method call that makes a directive: `s.split('C.i', 8)`."""
    known = fields(directive)
    if isinstance(directive, Reorder):
        return f"s.reorder({', '.join(repr(loop) for loop in directive.loops)})"
    required = [
        repr(known[entry.name]) for entry in dataclasses.fields(directive) if entry.default is dataclasses.MISSING and entry.name != "at"
    ]
    named = [
        f"{entry.name}={tuple(known[entry.name]) if isinstance(known[entry.name], list) else known[entry.name]!r}"
        for entry in dataclasses.fields(directive)
        if entry.name in known and (entry.default is not dataclasses.MISSING or entry.name == "at")
    ]
    return f"s.{NAMES[type(directive)]}({', '.join([*required, *named])})"


def require_fields(directive: AnyDirective) -> None:
    """Raise `Refusal` where a name in a directive is none. Numbers are told by each directive, which knows their range."""
    for entry in dataclasses.fields(directive):
        value, (base, optional, _) = getattr(directive, entry.name), _annotation(entry)
        if optional and value is None:
            continue
        if base == "tuple":
            if isinstance(value, tuple) and all(isinstance(part, str) for part in value):
                continue
            raise Refusal("TL-S005", f"{entry.name} of {NAMES[type(directive)]} is a tuple of names, not {value!r:.40}")
        if base == "bool" and not isinstance(value, bool):
            raise Refusal("TL-S005", f"{entry.name} of {NAMES[type(directive)]} is True or False, not {value!r:.40}")
        if base not in ("int", "bool") and not isinstance(value, str):
            raise Refusal("TL-S005", f"{entry.name} of {NAMES[type(directive)]} is a name, not {value!r:.40}")


def _annotation(entry: dataclasses.Field[Any]) -> tuple[str, bool, str]:
    """What a field holds: "str", "int", "bool", "tuple" or "Tail"; whether it may be None; and how that is spelled."""
    spelled = str(entry.type)
    return spelled.split(" | ", maxsplit=1)[0].split("[", maxsplit=1)[0], "None" in spelled, spelled


def to_json(directives: tuple[AnyDirective, ...], definition: str) -> str:
    """The directives as JSON text, with the fingerprint of the definition that they were made for."""
    steps = [[NAMES[type(step)], fields(step)] for step in directives]
    return json.dumps({"schema": SCHEMA, "definition": definition, "steps": steps})


def from_json(text: str) -> tuple[tuple[AnyDirective, ...], str]:
    """Directives and definition fingerprint from JSON text. Raises `Refusal` for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError, TypeError) as error:
        raise Refusal("TL-S007", f"the schedule is not JSON ({error})") from None
    if not isinstance(data, dict) or not isinstance(data.get("steps"), list):
        raise Refusal("TL-S007", "the schedule is not an object with a list of steps")
    if data.get("schema") != SCHEMA:
        raise Refusal("TL-S007", f"the schedule has schema {data.get('schema')!r}; this version reads {SCHEMA}")
    return tuple(_step(position, entry) for position, entry in enumerate(data["steps"])), str(data.get("definition", ""))


def _step(position: int, entry: object) -> AnyDirective:
    if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) and isinstance(entry[1], dict)):
        raise Refusal("TL-S007", f"step {position} is not a name with fields: {entry!r:.80}")
    name, given = entry
    if name not in STEPS:
        raise Refusal("TL-S007", f"step {position} is {name!r}, which is no directive{did_you_mean(name, STEPS)}")
    kind = STEPS[name]
    known = {field.name: field for field in dataclasses.fields(kind)}
    missing = [field for field, entry in known.items() if entry.default is dataclasses.MISSING and field not in given]
    unknown = [field for field in given if field not in known]
    if missing or unknown:
        raise Refusal(
            "TL-S007", f"step {position} ({name}) " + (f"lacks {missing[0]!r}" if missing else f"has an unknown field {unknown[0]!r}")
        )
    for field, value in given.items():
        base, optional, spelled = _annotation(known[field])
        fits = isinstance(value, _EXPECTED[base]) and isinstance(value, bool) == (base == "bool")
        if not (fits or (value is None and optional)):
            raise Refusal("TL-S007", f"step {position} ({name}) has {field} = {value!r:.40}, which is not {spelled}")
        if isinstance(value, list) and not all(isinstance(part, str) for part in value):
            raise Refusal("TL-S007", f"step {position} ({name}) has {field} = {value!r:.40}, which is not a list of names")
    make: Callable[..., AnyDirective] = kind
    return make(**{field: tuple(value) if isinstance(value, list) else value for field, value in given.items()})
