"""Sliding windows: which loops of a reduction slide over the data, and the stage whose elements they read.

A window slides where an index is the sum of an output axis and a reduced one, as `y + r`. Neighbouring elements of the output share
what they read, and nothing else does: each channel of a depthwise convolution, of a pooling or of a blur has data of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Buffer, Call, Expr, For, Load, Source, const
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.traverse import axes_of, substitute, walk
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.roles import componentwise
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, readers, size, stages_of
from tensorlang.system.lazy import cached_property

LEAST_LANES = 4
"""Iterations of the output's last axis, at least."""
LEAST_REUSE = 4
"""Elements of the output that read the same window, below which there is nothing to gain by treating it as an operand to be reused."""
MOST_SHARED = 16
"""Elements besides a window that lanes of a group may sum over."""


@dataclass(frozen=True, slots=True)
class SlidingIndex:
    """`step * outer + dilation * tap` is an index of what is read."""

    outer: For
    tap: For
    step: int
    dilation: int

    @property
    def overlaps(self) -> bool:
        """Do neighbouring elements of the output share what they read?"""
        return abs(self.step) < abs(self.dilation) * size(self.tap)

    def rows(self, count: int) -> int:
        """How many different indices a run of `count` outputs reads."""
        return len({self.step * at + self.dilation * tap for at in range(count) for tap in range(size(self.tap))})


@dataclass(frozen=True)
class SlidingReduction:
    """A reduction over a window: its lanes, the `row` loop whose neighbours share what they read (or None), and what it slides over."""

    stage: StageInfo
    slides: tuple[SlidingIndex, ...]
    source: Load

    @property
    def vector(self) -> For:
        """The loop whose iterations are lanes: the output's last axis."""
        return self.stage.outer[-1]

    @cached_property
    def row(self) -> SlidingIndex | None:
        """The innermost slide along another axis than the lanes."""
        places = {slide.outer.loop: slide for slide in self.slides if slide.outer is not self.vector}
        return next((places[loop.loop] for loop in reversed(self.stage.outer) if loop.loop in places), None)

    @property
    def reduced(self) -> tuple[For, ...]:
        """The loops of the reduction, those that slide innermost."""
        taps = {slide.tap.loop for slide in self.slides}
        return tuple(sorted(self.stage.reduced, key=lambda loop: loop.loop in taps))

    @property
    def unrolled(self) -> Mapping[str, tuple[For, ...]]:
        """The loops of the window that each value of the knob unrolls, from none to all."""
        loops = tuple(loop for loop in self.reduced if size(loop) > 1)
        return {"none": (), "inner": loops[-1:], "whole": loops} if len(loops) > 1 else {"none": (), "whole": loops}

    def inner(self, row: Sequence[str], unrolled: Sequence[For]) -> list[str]:
        """The loops of a tile around its lanes, outermost first: those of the reduction, and the `row` loop of the tile if there is one.

        The tap that slides along the rows stands inside them where it is unrolled: what the taps of neighbouring rows share is then read,
        masked or shuffled a moment before it is read again, and few registers hold it.
        """
        taps = [] if self.row is None or self.row.tap not in unrolled else [self.row.tap.loop]
        return [*(loop.loop for loop in self.reduced if loop.loop not in taps), *row, *taps]

    def order(self, config: Mapping[str, Any]) -> list[For]:
        """The loops of the output whose tiles stand around one another at a point, outermost first."""
        order = list(self.stage.outer)
        if config.get("order") == "around":
            order.insert(len(self.around), order.pop())
        return order

    @property
    def results(self) -> int:
        """Results that are computed together, each in registers of its own."""
        return len(self.stage.store.buffers)

    @property
    def taps(self) -> int:
        """Elements of a window."""
        return prod(size(loop) for loop in self.stage.reduced)

    @property
    def step(self) -> int:
        """The stride of neighbouring lanes in what is slid over, in elements; 0 where it is not a constant along the last dimension."""
        moves = self.stage.moves(self.source, self.vector)
        return 0 if moves is None else moves

    @property
    def slides_along_lanes(self) -> bool:
        """Is it shifted by lanes from tap to tap?"""
        return any(slide.outer is self.vector for slide in self.slides)

    @property
    def around(self) -> tuple[For, ...]:
        """The loops outside every one that slides: each of their iterations has data of its own."""
        moving = {slide.outer.loop for slide in self.slides}
        first = next(place for place, loop in enumerate(self.stage.outer) if loop.loop in moving)
        return self.stage.outer[:first]


def sliding(stage: StageInfo) -> SlidingReduction | None:
    """The stage as a sliding window, or None where it is none, or where an operand is reused by other elements than neighbours."""
    store = stage.store
    if store.reducer is None or not componentwise(store.reducer) or not stage.outer or not all(map(is_literal, stage.reduced)):
        return None
    vector = stage.outer[-1]
    if size(vector) < LEAST_LANES or store.index[-1] != Axis(vector.loop):
        return None
    found = {load: tuple(_slides(stage, load)) for load in stage.loads}
    moved = [load for load, slides in found.items() if slides]
    slides = tuple(dict.fromkeys(slide for load in moved for slide in found[load]))
    taps = {slide.tap.loop for slide in slides}
    others = [loop for loop in stage.reduced if size(loop) != 1 and loop.loop not in taps]
    if not moved or (others and not _few(stage, moved, others)):
        return None
    reads = [frozenset().union(*map(axes_of, load.index)) for load in moved]
    if not any(slide.overlaps for slide in slides):  # blocks of a sum: what one operand has for an element, others use with another one
        reads = [frozenset.intersection(*reads)]
    if any(size(loop) >= LEAST_REUSE and all(loop.loop not in read for read in reads) for loop in stage.outer):
        return None
    return SlidingReduction(stage, slides, moved[0])


def _few(stage: StageInfo, moved: list[Load], others: list[For]) -> bool:
    """Is the rest of a sum over the few elements that the lanes of a group share, the lanes of every other operand side by side?

    So it is in a convolution of small groups with channels last, whose lanes are the output channels of several groups.
    """
    vector = stage.outer[-1]
    shared = all(nearly_contiguous(stage, load, vector, LEAST_LANES * LEAST_LANES) for load in moved)
    return (
        shared
        and prod(map(size, others)) <= MOST_SHARED
        and all(stage.moves(load, vector) in (0, 1) for load in stage.loads if load not in moved)
    )


def nearly_contiguous(stage: StageInfo, load: Load, loop: For, lanes: int) -> bool:
    """Do the elements that neighbouring iterations of a loop read lie no further apart than they do, though not evenly?"""
    *leading, last = load.index
    if any(loop.loop in axes_of(part) for part in leading) or stage.moves(load, loop) is not None:
        return False
    moving = [(atom, factor) for atom, factor in linear(last).terms.items() if loop.loop in axes_of(atom)]
    if any(axes_of(atom) != {loop.loop} for atom, _ in moving):
        return False
    form = expression(Linear(0, dict(moving)))
    places = [linear(simplify(substitute(form, {loop.loop: const(lane)}))) for lane in range(min(lanes, size(loop)))]
    found = [place.constant for place in places]
    return all(place.is_constant for place in places) and max(found) - min(found) < lanes


def _slides(stage: StageInfo, load: Load) -> Iterator[SlidingIndex]:
    for part in load.index:
        terms = linear(part).terms
        outer = [loop for loop in stage.outer if Axis(loop.loop) in terms and size(loop) != 1]
        inner = [loop for loop in stage.reduced if Axis(loop.loop) in terms and size(loop) != 1]
        if len(outer) == len(inner) == 1:
            yield SlidingIndex(outer[0], inner[0], terms[Axis(outer[0].loop)], terms[Axis(inner[0].loop)])


def producer_of(stage: StageInfo, buffer: Source, s: Schedule) -> StageInfo | None:
    """The pointwise stage that makes what a stage reads, for this stage only; None where there is no such stage."""
    for info in stages_of(s.nest):
        if buffer in info.store.buffers and isinstance(buffer, Buffer):
            used = {stage for stage, _ in readers(s.nest, info.store.buffers)}
            alone = used == {stage.name} and buffer.name not in {output.name for output in s.nest.outputs}
            return info if alone and info.store.reducer is None and not info.reduced else None
    return None


def inlines_cheaply(window: SlidingReduction, producer: StageInfo) -> bool:
    """May the producer be computed anew at every tap: a copy or little more, its lanes as side by side as before?"""
    (value, *others) = producer.store.values
    if others or len(producer.loads) != 1 or any(isinstance(node, Call) for node in walk(value)):
        return False
    places: list[Expr] = [
        axis for axis, part in zip(producer.store.index, window.source.index, strict=True) if window.vector.loop in axes_of(part)
    ]
    loops = [loop for loop in producer.outer if Axis(loop.loop) in places]
    return all(producer.moves(load, loop) in (0, 1) for load in producer.loads for loop in loops)
