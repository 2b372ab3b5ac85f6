"""What two schedules of one program do differently: steps and nest lines."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from tensorlang.schedules.directive import Directive
from tensorlang.schedules.trace import call


@dataclass(frozen=True, slots=True)
class Difference:
    """Steps that only one of two schedules has, and a line-by-line comparison of their nests. False where there is none."""

    removed: tuple[Directive, ...]
    added: tuple[Directive, ...]
    text: str

    def __bool__(self) -> bool:
        return bool(self.removed or self.added or self.text)

    def __str__(self) -> str:
        return self.text or "no difference"


def difference(old: Sequence[Directive], new: Sequence[Directive], old_nest: str, new_nest: str) -> Difference:
    """How `new` differs from `old`: steps in order, then the nests as a unified comparison."""
    before, after = [call(step) for step in old], [call(step) for step in new]
    removed: list[Directive] = []
    added: list[Directive] = []
    lines: list[str] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if tag != "equal":
            removed += old[i1:i2]
            added += new[j1:j2]
            lines += [f"- {step}" for step in before[i1:i2]] + [f"+ {step}" for step in after[j1:j2]]
    nests = list(difflib.unified_diff(old_nest.splitlines(), new_nest.splitlines(), lineterm="", n=2))[2:]
    return Difference(tuple(removed), tuple(added), "\n".join([*lines, *nests]))
