"""Intermediates stored with the axis last along which lanes have most in common: numbers of a point, rows that wait for themselves.

    g: float32[19, 23, 29, 3, 3]                        g: float32[19, 23, 3, 3, 29]
    g[z, y, x, c, d] = f(...)                   ->      g[z, y, c, d, x] = f(...)
    s[z, y, x] = sum(g[z, y, x, a, b] ** 2)             s[z, y, x] = sum(g[z, y, a, b, x] ** 2)

As a gradient or a small matrix is written, lanes along a row of points find what they read nine numbers apart. Stored so, they find it side
by side, and a strip of rows has all of its numbers. Pixels whose channels are one run with their row have nothing to win, and stay.

    for w: for i: for j: d[w, i, j] = f(d[w, i - 1, j], d[w, i, j - 1])     ->      for i: for j: for w: d[i, j, w] = f(d[i - 1, j, w], ...)

A recurrence has lanes where it does not wait for itself: along the words that are compared, not along their letters.

    for n: for c: f[c, y[n], x[n]] = max(f[c, y[n], x[n]], g[n, c])            ->      f[y[n], x[n], c] = max(f[y[n], x[n], c], g[n, c])

What is written at places that data tell is written in whole vectors where the axis that is its own is the last one. Which it is the cost
model says, of the stages that write and read an intermediate.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import takewhile
from math import prod
from typing import Final

from tensorlang.ir import Axis, Buffer, Const, Expr
from tensorlang.ir.integers import ASSUMED_EXTENT
from tensorlang.ir.mentions import allocations
from tensorlang.ir.traverse import reads_data
from tensorlang.schedules.directive import Directive
from tensorlang.schedules.directives.reorder import Reorder
from tensorlang.schedules.directives.transform_layout import TransformLayout
from tensorlang.schedules.model.parts import paths
from tensorlang.schedules.model.program import program
from tensorlang.schedules.rewriting.intermediates import stored_with
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.distances import apart_along
from tensorlang.schedules.strategies.analysis.stages import StageInfo, size, stages_of, tensor_of
from tensorlang.schedules.strategies.contractions.contraction import Contraction
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.abreast import Abreast
from tensorlang.schedules.strategies.rows.lanes import seconds_along
from tensorlang.schedules.strategies.rows.reordered import seconds_in_rows
from tensorlang.schedules.strategies.rows.rows import RowVectors
from tensorlang.schedules.strategies.rows.side_by_side import MOST_INSIDE, SideBySide
from tensorlang.schedules.strategies.windows.windows import Windows

LOOKED_AT: Final = 16
"""Intermediates that are looked at, the largest first: each proof reads the whole program."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """An intermediate with one of its axes last, and the order of loops that goes with it; so are those `together` with it."""

    buffer: Buffer
    last: int
    together: frozenset[str]
    order: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Its elements, with a guess for extents known only at run time."""
        return prod(map(_extent, self.buffer.shape))

    @property
    def steps(self) -> tuple[Directive, ...]:
        """What makes it so."""
        axes = [f"i{axis}" for axis in range(len(self.buffer.shape))]
        places = [*axes[: self.last], *axes[self.last + 1 :], axes[self.last]]
        layout = TransformLayout(self.buffer.name, f"lambda {', '.join(axes)}: ({', '.join(places)})")
        return (layout, Reorder(self.order)) if self.order else (layout,)


def rearrange(s: Schedule, machine: Processor) -> None:
    """Append a layout for each intermediate of which that is legal, and its stages are predicted to be faster so."""
    layouts = (*_short_axes(s, machine), *_free_axes(s, machine), *_told_axes(s, machine))
    found = {layout.buffer.name: layout for layout in layouts}
    seen = set[str]()
    for name in sorted(found, key=lambda name: -found[name].size)[:LOOKED_AT]:
        tensors = found[name].together
        if name in seen or not _run_in_rows(s, tensors, machine):
            continue
        seen |= tensors
        before, known = _seconds(s, tensors, machine), len(s.directives)
        if not all(map(s.attempt, found[name].steps)) or _seconds(s, tensors, machine) >= OTHER_WAY * before:
            s.undo(len(s.directives) - known)


def _short_axes(s: Schedule, machine: Processor) -> Iterator[_Layout]:
    """Intermediates whose last axes are short, and one outside of them fills lanes."""
    for buffer in allocations(s.nest.body):
        short = len([*takewhile(lambda extent: _extent(extent) <= MOST_INSIDE, reversed(buffer.shape))])
        inside = prod(_extent(extent) for extent in buffer.shape[len(buffer.shape) - short :])
        last = len(buffer.shape) - short - 1
        if short and last >= 0 and 1 < inside <= MOST_INSIDE and _extent(buffer.shape[last]) >= machine.lanes(buffer.dtype):
            yield _Layout(buffer, last, frozenset(stored_with(s.nest, buffer.name)))


def _free_axes(s: Schedule, machine: Processor) -> Iterator[_Layout]:
    """Recurrences that wait for themselves along their last axis, or have few lanes there, and do not wait along a longer one."""
    intermediates = {buffer.name for buffer in allocations(s.nest.body)}
    for info in stages_of(s.nest):
        buffer, lanes, apart = info.store.buffers[0], machine.lanes(info.widest), apart_along(info)
        free = [loop for loop in info.outer[:-1] if not apart.get(loop.loop) and size(loop) >= lanes]
        if not free or not any(apart.values()) or not (apart.get(info.outer[-1].loop) or size(info.outer[-1]) < lanes):
            continue
        plain = info.loops == info.outer and [*info.store.index] == [Axis(loop.loop) for loop in info.outer]
        together = frozenset(stored_with(s.nest, buffer.name))
        if plain and not info.conditional and together <= intermediates:
            last = info.outer.index(max(free, key=size))
            loops = [loop.loop for loop in info.outer]
            yield _Layout(buffer, last, together, (*loops[:last], *loops[last + 1 :], loops[last]))


def _told_axes(s: Schedule, machine: Processor) -> Iterator[_Layout]:
    """Scatters of which data tell the place along the last axis, and not along one that fills lanes."""
    intermediates = {buffer.name for buffer in allocations(s.nest.body)}
    for info in stages_of(s.nest):
        buffer, lanes = info.store.buffers[0], machine.lanes(info.widest)
        loops = {loop.loop: loop for loop in info.loops}
        own = [
            (size(loops[part.name]), axis)
            for axis, part in enumerate(info.store.index)
            if isinstance(part, Axis) and part.name in loops and size(loops[part.name]) >= lanes
        ]
        if not own or not reads_data(info.store.index[-1]):
            continue
        together = frozenset(stored_with(s.nest, buffer.name))
        if together <= intermediates:
            yield _Layout(buffer, max(own)[1], together)


def _extent(extent: Expr) -> int:
    return int(extent.value) if isinstance(extent, Const) else ASSUMED_EXTENT


def _around(s: Schedule, tensors: Collection[str]) -> Iterator[StageInfo]:
    """The stages that write or read any of the tensors."""
    for info in stages_of(s.nest):
        if any(buffer.name in tensors for buffer in (*info.store.buffers, *map(tensor_of, info.loads))):
            yield info


def _run_in_rows(s: Schedule, tensors: Collection[str], machine: Processor) -> bool:
    """Does every stage around tensors run, and none keep tiles in registers, or pack what it reads, in an order of its own?"""
    plain = program(s.nest)
    running = {statement.stage for statement, _ in paths(plain)}

    def in_tiles(info: StageInfo) -> bool:
        return bool(Windows.of(info, machine, 1, plain) or Contraction.of(info, machine, 1, plain, frozenset()))

    return all(info.name in running and (info.ragged.bounded or not in_tiles(info)) for info in _around(s, tensors))


def _seconds(s: Schedule, tensors: Collection[str], machine: Processor) -> float:
    """What the stages that write or read tensors take in rows, by the cost model: tiles, where some can have them now, take less."""
    plain, seconds = program(s.nest), 0.0
    for info in _around(s, tensors):
        rows = RowVectors.of(info, machine, 1, plain)
        beside = Abreast.of(rows, machine, plain) or SideBySide.of(rows, machine, plain)
        if beside is not None:
            seconds += beside.seconds(plain, machine)
        elif info.reduced and rows.vector is not None and rows.run is None:
            seconds += seconds_along(info, rows.vector, rows.lanes, plain, machine)
        else:
            seconds += seconds_in_rows(rows, plain, machine)
    return seconds
