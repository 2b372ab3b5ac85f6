"""Directives as data: to JSON and back, and as the Python that makes them.

A schedule is written as `{"schema": 1, "definition": fingerprint, "steps": [["split", {"loop": "C.i", "factor": 8}], ...]}`. Only known
steps with known fields are read; anything else is a refusal that names the step.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Final

from tensorlang.errors import did_you_mean
from tensorlang.schedules.catalogue import DIRECTIVES, NAMES
from tensorlang.schedules.directive import Directive, Refusal, field_kinds

SCHEMA: Final = 1


def fields(directive: Directive) -> dict[str, Any]:
    """The fields of a directive that differ from their defaults, as plain values."""
    found: dict[str, Any] = {}
    for entry in dataclasses.fields(directive):  # type: ignore[arg-type]
        value = getattr(directive, entry.name)
        if entry.default is dataclasses.MISSING or value != entry.default:
            found[entry.name] = list(value) if isinstance(value, tuple) else value
    return found


def call(directive: Directive) -> str:
    """The method call that makes a directive: `s.split('C.i', 8)`."""
    known = {name: tuple(value) if isinstance(value, list) else value for name, value in fields(directive).items()}
    kinds = field_kinds(type(directive))
    plain: list[str] = []
    for name, value in known.items():
        if kinds[name].required and name != "at":
            plain += map(repr, value if kinds[name].one_by_one else (value,))
    named = [f"{name}={value!r}" for name, value in known.items() if not kinds[name].required or name == "at"]
    return f"s.{NAMES[type(directive)]}({', '.join([*plain, *named])})"


def require_fields(directive: Directive) -> None:
    """Raise `Refusal` where a name in a directive is none. Numbers are told by each directive, which knows their range."""
    for name, kind in field_kinds(type(directive)).items():
        value = getattr(directive, name)
        if kind.holds is not int and not kind.fits(value):
            raise Refusal("TL-S005", f"{name} of {NAMES[type(directive)]} is {kind}, not {value!r:.40}")


def to_json(directives: tuple[Directive, ...], definition: str) -> str:
    """The directives as JSON text, with the fingerprint of the definition that they were made for."""
    steps = [[NAMES[type(step)], fields(step)] for step in directives]
    return json.dumps({"schema": SCHEMA, "definition": definition, "steps": steps})


def from_json(text: str) -> tuple[tuple[Directive, ...], str]:
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


def _step(position: int, entry: object) -> Directive:
    if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) and isinstance(entry[1], dict)):
        raise Refusal("TL-S007", f"step {position} is not a name with fields: {entry!r:.80}")
    name, given = entry
    if name not in DIRECTIVES:
        raise Refusal("TL-S007", f"step {position} is {name!r}, which is no directive{did_you_mean(name, DIRECTIVES)}")
    kinds = field_kinds(DIRECTIVES[name])
    missing = [field for field, kind in kinds.items() if kind.required and field not in given]
    unknown = [field for field in given if field not in kinds]
    if missing or unknown:
        raise Refusal(
            "TL-S007", f"step {position} ({name}) " + (f"lacks {missing[0]!r}" if missing else f"has an unknown field {unknown[0]!r}")
        )
    values = {field: tuple(value) if isinstance(value, list) else value for field, value in given.items()}
    for field, value in values.items():
        if not kinds[field].fits(value):
            raise Refusal("TL-S007", f"step {position} ({name}) has {field} = {given[field]!r:.40}, which is not {kinds[field]}")
    return DIRECTIVES[name](**values)
