"""Along which loops the stages of a program read one another: which loop strips are cut from, and which strips recurrences stand in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tensorlang.ir import Axis, Expr
from tensorlang.ir.traverse import axes_of, reads_data
from tensorlang.schedules.strategies.analysis.stages import StageInfo, size, tensor_of
from tensorlang.system.lazy import cached_property

Question: TypeAlias = Callable[[StageInfo, str, tuple[Expr, ...]], bool]
"""Asked of a stage that is read, one of its loops, and the indices along that at which it is read."""


@dataclass(frozen=True)
class Reads:
    """Along which loops stages read one another, and along which of these an iteration reads several elements."""

    stages: Mapping[str, StageInfo]

    @cached_property
    def makers(self) -> Mapping[str, str]:
        """The stage that computes a tensor, by the tensor's name."""
        return {buffer.name: name for name, info in self.stages.items() for buffer in info.store.buffers}

    def of(self, name: str) -> dict[str, tuple[tuple[Expr, ...], ...]]:
        """The different indices at which a stage reads others, by these."""
        found: dict[str, dict[tuple[Expr, ...], None]] = {}
        for load in self.stages[name].loads:
            if self.makers.get(tensor_of(load).name, name) != name:
                found.setdefault(self.makers[tensor_of(load).name], {})[load.index] = None
        return {made: tuple(indices) for made, indices in found.items()}

    @cached_property
    def _known(self) -> dict[tuple[Question, str, str], bool]:
        return {}

    def has_halo(self, name: str, loop: str) -> bool:
        """Does an element need several elements of some stage before it, along a loop?"""
        return self._holds(_has_several, name, loop)

    def recurs(self, name: str, loop: str) -> bool:
        """Does an element need some that are computed one after another along a loop, of a recurrence before it?"""
        return self._holds(_is_in_order, name, loop)

    def _holds(self, question: Question, name: str, loop: str) -> bool:
        """Does it hold of what a stage, or one before it, reads along a loop?"""
        key = question, name, loop
        if key not in self._known:
            self._known[key] = False  # stages of a scan read one another in a circle
            self._known[key] = any(
                question(self.stages[made], own.name, forms) or self._holds(question, made, own.name)
                for made, indices in self.of(name).items()
                for forms, own in zip(zip(*indices, strict=True), self.stages[made].store.index, strict=True)
                if isinstance(own, Axis) and any(loop in axes_of(form) for form in forms)
            )
        return self._known[key]

    def strip_loops(self, name: str, made: Collection[str], lanes: str | None) -> tuple[str, ...]:
        """The loops of a stage that most of its reads of others follow, first that of which it can be cut into strips; or none.

        In an iteration of a loop that a read does not follow all of what is read would be computed anew.
        """
        info, found = self.stages[name], self.of(name)
        reads = [[axes_of(part) for index in indices for part in index] for other, indices in found.items() if other in made]
        times = {loop.loop: sum(any(loop.loop in axes for axes in read) for read in reads) for loop in info.outer if size(loop) > 1}
        most = max(times.values(), default=0)
        followed = [loop for loop, count in times.items() if count == most > 0]
        first = sorted(followed, key=lambda loop: (self.recurs(name, loop), loop == lanes, not self.has_halo(name, loop)))[:1]
        return (*first, *(loop for loop in followed if loop not in first))


def _has_several(_: StageInfo, __: str, forms: tuple[Expr, ...]) -> bool:
    told = {form for form in forms if not reads_data(form)}  # of a table any element may be read
    return len(told) > 1 or not all(isinstance(form, Axis) for form in told)


def _is_in_order(made: StageInfo, own: str, _: tuple[Expr, ...]) -> bool:
    return own not in made.followed
