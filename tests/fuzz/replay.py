"""Steps applied to a schedule, each refusal held to its contract.

A refusal is a `ScheduleError` with a known code, a reason, the nest of the moment and, for a violated dependence, two iterations; it
changes nothing. Where it was made because of a dependence, the step is forced through without its proof and the result is run, to see
whether the refusal was needed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from unittest import mock

import tensorlang as tl
from tensorlang.ir import Nest
from tensorlang.ir.printer import print_nest
from tensorlang.ir.traverse import statements
from tensorlang.ir.verify import verify
from tensorlang.schedules import catalogue
from tensorlang.schedules.directive import CODES
from tensorlang.schedules.directives.split import Split
from tensorlang.schedules.legality import dependences

from .view import Step

DEPENDENCE: Final = ("TL-S101", "TL-S102", "TL-S103")


class Wrong(Exception):  # noqa: N818 - the verdict on a case
    """An oracle disagrees."""

    def __init__(self, oracle: str, text: str) -> None:
        super().__init__(f"{oracle}: {text}")
        self.oracle = oracle
        self.text = text


@dataclass(slots=True)
class Tally:
    """What happened, counted: `accepted split`, `refused TL-S103 reorder`, `oracle tags`, ..."""

    counts: Counter[str] = field(default_factory=Counter)
    false_rejects: list[str] = field(default_factory=list)

    def add(self, *what: str) -> None:
        """Count once."""
        self.counts[" ".join(what)] += 1


def label(step: Step) -> str:
    """The directive that a step is."""
    return str(step.get("call") or step.get("apply") or "garbage")


def perform(schedule: Any, step: Step) -> None:
    """Apply a step to a schedule."""
    if "garbage" in step:
        schedule.apply(step["garbage"])
    elif "apply" in step:
        fields = {name: tuple(value) if isinstance(value, list) else value for name, value in step["fields"].items()}
        kind: Any = catalogue.DIRECTIVES[step["apply"]]
        schedule.apply(kind(**fields))
    else:
        named = {name: tuple(value) if isinstance(value, list) else value for name, value in step.get("named", {}).items()}
        getattr(schedule, step["call"])(*step["args"], **named)


def attempt(schedule: Any, step: Step, tally: Tally, needed: Callable[[Nest, Nest, Any], str] | None = None) -> bool:
    """Apply a step; was it accepted? Raises `Wrong` where it breaks its contract."""
    name, before, directives = label(step), schedule.nest, schedule.directives
    try:
        perform(schedule, step)
    except tl.ScheduleError as error:
        refused(schedule, step, error)
        if schedule.nest is not before or schedule.directives != directives:
            raise Wrong("refusal", f"{step} was refused and changed the schedule") from None
        tally.add("illegal" if step.get("illegal") else "refused", name)
        tally.add("code", error.code)
        if error.code in DEPENDENCE and needed is not None:
            judged(schedule, step, error, tally, needed)
        return False
    except Exception as error:
        raise Wrong("directive", f"{step} raised {type(error).__name__}: {error!s:.300}") from error
    if step.get("illegal"):
        raise Wrong("accepted", f"{step} was accepted")
    tally.add("accepted", name)
    try:
        verify(schedule.nest)
    except Exception as error:
        raise Wrong("verify", f"after {step}: {error!s:.300}") from error
    found = [id(part) for part in statements(schedule.nest.body)]
    if len(set(found)) < len(found):
        raise Wrong("shared", f"after {step} a statement stands in two places: edits, which find it by what it is, would change both")
    return True


def refused(schedule: Any, step: Step, error: tl.ScheduleError) -> None:
    """Raise `Wrong` where a refusal lacks something."""
    lacks = [
        *(["a known code"] if error.code not in CODES else []),
        *(["a reason"] if not error.reason else []),
        *(["the nest"] if error.nest.splitlines()[:1] != print_nest(schedule.nest).splitlines()[:1] else []),
        *(["a counterexample"] if error.code in DEPENDENCE and not error.counterexample else []),
    ]
    if lacks:
        raise Wrong("refusal", f"the refusal of {step} lacks {' and '.join(lacks)}: {error.code} {error.reason}")
    try:
        json.dumps(error.to_json())
        str(error)
    except Exception as fault:
        raise Wrong("refusal", f"the refusal of {step} cannot be written: {fault}") from fault


def judged(schedule: Any, step: Step, error: tl.ScheduleError, tally: Tally, needed: Callable[[Nest, Nest, Any], str]) -> None:
    """Count whether a refusal for a dependence was needed, where that can be told."""
    directive = error.directive
    if directive is None:
        return
    forced = without_proof(schedule.nest, directive)
    verdict = "not judged" if forced is None else needed(schedule.nest, forced, directive)
    tally.add("refusal", verdict)
    if verdict == "not needed":
        tally.false_rejects.append(f"{error.code} {label(step)} {step.get('args', step.get('fields'))}: {error.reason}")


@contextmanager
def unproved() -> Iterator[None]:
    """While this lasts, the dependence checks of directives say yes to everything."""
    with mock.patch.object(dependences, "conflict", return_value=None), mock.patch.object(Split, "_require_idempotent", return_value=None):
        yield


def without_proof(nest: Nest, directive: Any) -> Nest | None:
    """The nest after a directive whose dependence checks say yes to everything; None where it refuses for another reason."""
    with unproved():
        try:
            return directive.apply(nest)  # type: ignore[no-any-return]
        except Exception:  # noqa: BLE001 - forced, so anything may happen
            return None


def replayed(schedule: Any) -> None:
    """Raise `Wrong` unless JSON, and the Python of `repr`, rebuild the schedule.

    JSON is replayed on the nest that the schedule began with, so that equal steps are taken as found before; Python builds the nest
    anew, and every step has to come to the same there.
    """
    text = schedule.to_json()
    again = tl.Schedule.from_json(schedule.program, text)
    if again.nest != schedule.nest or again.directives != schedule.directives or again.to_json() != text:
        raise Wrong("replay", "JSON replays to another schedule")
    names = [buffer.name for buffer in schedule.nest.outputs]
    scope: dict[str, Any] = {"tl": tl, **dict(zip(names, schedule.outputs, strict=True))}
    try:
        exec(repr(schedule), scope)
    except Exception as error:
        raise Wrong("replay", f"repr does not run: {error!r:.200}") from error
    if scope["s"].nest != schedule.nest:
        raise Wrong("replay", "repr rebuilds another schedule")
