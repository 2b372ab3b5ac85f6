"""What each directive did to the nest, as edits of its lines: small, whatever the schedule, since a step changes few of them."""

from __future__ import annotations

import difflib
import inspect
from dataclasses import dataclass
from typing import Any, Final

from tensorlang.ir.printer import print_nest
from tensorlang.schedules import trace
from tensorlang.schedules.directive import Directive
from tensorlang.schedules.schedule import Schedule

MOST: Final = 400_000
"""Characters of edits on a page; beyond, the nest is no longer followed."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a schedule as the page follows them.

    `lines` are all different lines, `first` the places in it of the lines of the nest before the first step. Each of `calls` has what its
    directive does in general, and its edits: at a line of the nest before, so many lines go and these come.
    """

    lines: tuple[str, ...]
    first: tuple[int, ...]
    calls: tuple[tuple[str, str, list[Any] | None], ...]


def steps(schedule: Schedule) -> Steps:
    """The steps of a schedule."""
    known: dict[str, int] = {}

    def places(text: str) -> list[int]:
        return [known.setdefault(line, len(known)) for line in text.splitlines()]

    first = before = places(print_nest(schedule.nests[0]))
    calls: list[tuple[str, str, list[Any] | None]] = []
    room = MOST
    for directive, nest in zip(schedule.directives, schedule.nests[1:], strict=True):
        edits: list[Any] | None = None
        if room > 0:
            count, after = len(known), places(print_nest(nest))
            edits = [
                [i1, i2 - i1, after[j1:j2]]
                for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes()
                if tag != "equal"
            ]
            room -= sum(map(len, list(known)[count:])) + len(str(edits))
            before = after
        calls.append((trace.call(directive), summary_of(directive), edits))
    return Steps(tuple(known), tuple(first), tuple(calls))


def summary_of(directive: Directive) -> str:
    """What a directive does in general: the first sentence of its documentation."""
    told = inspect.getdoc(type(directive)) or ""
    return " ".join(told.split("\n\n", 1)[0].replace("`", "").split())
