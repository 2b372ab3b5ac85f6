"""The steps of one schedule on another nest: that of a program at a literal size, on the program whose size a call tells.

Loops of the two have the same names, or those that are given (a version of a nest has its own). What a step makes is called as it happens
to be called there: what appears on one side is the counterpart of what appears on the other, in program order. A loop that is no literal
here has its last tile under conditions, where a literal one has it peeled off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tensorlang.ir import Nest
from tensorlang.ir.mentions import allocations
from tensorlang.schedules.directive import Directive, field_kinds
from tensorlang.schedules.directives.fuse import Fuse
from tensorlang.schedules.directives.split import Split
from tensorlang.schedules.rewriting.edit import literal_extent, loops
from tensorlang.schedules.schedule import Schedule


class Replay:
    """The steps of `model`, one after the other.

    `names` are its loops and tensors that are called otherwise here; loops that a step names itself get the `suffix`.
    """

    def __init__(self, model: Schedule, names: Mapping[str, str], suffix: str = "", first: int = 0) -> None:
        self.model, self.names, self.suffix, self.at = model, dict(names), suffix, first

    def until(self, s: Schedule, end: int | None = None) -> bool:
        """Append the steps up to the one numbered `end` to `s`; False where one is refused, and some may then be there."""
        last = len(self.model.directives) if end is None else end
        while self.at < last:
            if not self._step(s):
                return False
            self.at += 1
        return True

    def _step(self, s: Schedule) -> bool:
        before, after = self.model.nests[self.at : self.at + 2]
        held = s.nest
        if not s.attempt(self._fitted(self.model.directives[self.at], s)):
            return False
        for kind in (_loops, _tensors):
            theirs, ours = kind(before, after), kind(held, s.nest)
            if len(theirs) != len(ours):
                return False
            self.names |= zip(theirs, ours, strict=True)
        return True

    def _fitted(self, step: Directive, s: Schedule) -> Directive:
        """The step under the names that are used here."""
        changed: dict[str, Any] = {}
        for field, kind in field_kinds(type(step)).items():
            value = getattr(step, field)
            if kind.names and value is not None:
                named = tuple(self.names.get(part, part) for part in value) if kind.holds is tuple else self.names.get(value, value)
                changed[field] = named
        if isinstance(step, Split) and step.names is not None:
            changed["names"] = tuple(f"{name}{self.suffix}" for name in step.names)
        if isinstance(step, Fuse) and step.name is not None:
            changed["name"] = f"{step.name}{self.suffix}"
        return _tailed(replace(step, **changed), s.nest)  # type: ignore[type-var]


def replayed(model: Schedule, s: Schedule) -> bool:
    """Append all steps of `model` to `s`; False where one is refused, and some may then be there."""
    return Replay(model, {}).until(s)


def _tailed(step: Directive, nest: Nest) -> Directive:
    """The step; a split of a loop whose length is no literal leaves conditions."""
    if not isinstance(step, Split) or step.tail != "peel":
        return step
    literal = any(literal_extent(loop) is not None for loop in loops(nest.body) if loop.loop == step.loop)
    return step if literal else replace(step, tail="mask")


def _loops(before: Nest, after: Nest) -> list[str]:
    known = {loop.loop for loop in loops(before.body)}
    return [loop.loop for loop in loops(after.body) if loop.loop not in known]


def _tensors(before: Nest, after: Nest) -> list[str]:
    known = set(_allocated(before))
    return [name for name in _allocated(after) if name not in known]


def _allocated(nest: Nest) -> Iterator[str]:
    return (buffer.name for buffer in allocations(nest.body))
