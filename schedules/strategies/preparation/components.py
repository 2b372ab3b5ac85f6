"""Intermediates of a few numbers at each point, such as a gradient or a small matrix, stored number by number.

    g: float32[19, 23, 29, 3, 3]                        g: float32[19, 23, 3, 3, 29]
    g[z, y, x, c, d] = f(...)                   ->      g[z, y, c, d, x] = f(...)
    s[z, y, x] = sum(g[z, y, x, a, b] ** 2)             s[z, y, x] = sum(g[z, y, a, b, x] ** 2)

As it is written, lanes along a row of points find what they read nine numbers apart. Stored so, they find it side by side, and a strip of
rows has all of its numbers. Pixels whose channels are one run with their row have nothing to win, and stay: which it is the cost model
says, of the stages that write and read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from math import prod
from typing import Final

from tensorlang.ir import Const, Expr
from tensorlang.ir.integers import ASSUMED_EXTENT
from tensorlang.ir.mentions import allocations
from tensorlang.schedules.directives.transform_layout import TransformLayout
from tensorlang.schedules.model.parts import paths
from tensorlang.schedules.model.program import program
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.stages import StageInfo, stages_of, tensor_of
from tensorlang.schedules.strategies.contractions.contraction import Contraction
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.reordered import seconds_in_rows
from tensorlang.schedules.strategies.rows.rows import RowVectors
from tensorlang.schedules.strategies.rows.side_by_side import MOST_INSIDE, SideBySide
from tensorlang.schedules.strategies.windows.windows import Windows

LOOKED_AT: Final = 16
"""Intermediates that are looked at, the largest first: each proof reads the whole program."""


def store_by_components(s: Schedule, machine: Processor) -> None:
    """Append a layout for each intermediate of which that is legal, and its stages are predicted to be faster so."""
    running = {statement.stage for statement, _ in paths(program(s.nest))}
    for name, layout in _layouts(s, machine):
        if any(info.name not in running or _in_tiles(s, info, machine) for info in _around(s, name)):
            continue
        before = _seconds(s, name, machine)
        if s.attempt(TransformLayout(name, layout)) and _seconds(s, name, machine) >= OTHER_WAY * before:
            s.undo()


def _layouts(s: Schedule, machine: Processor) -> Iterator[tuple[str, str]]:
    """Intermediates whose last axes are short, and one outside of them fills lanes: this one goes last."""
    found = dict[str, tuple[int, str]]()
    for buffer in allocations(s.nest.body):
        short = len([*takewhile(lambda extent: _extent(extent) <= MOST_INSIDE, reversed(buffer.shape))])
        inside = prod(_extent(extent) for extent in buffer.shape[len(buffer.shape) - short :])
        long = len(buffer.shape) - short - 1
        if short and long >= 0 and 1 < inside <= MOST_INSIDE and _extent(buffer.shape[long]) >= machine.lanes(buffer.dtype):
            axes = [f"i{axis}" for axis in range(len(buffer.shape))]
            places = [*axes[:long], *axes[long + 1 :], axes[long]]
            found[buffer.name] = prod(map(_extent, buffer.shape)), f"lambda {', '.join(axes)}: ({', '.join(places)})"
    for name in sorted(found, key=lambda name: -found[name][0])[:LOOKED_AT]:
        yield name, found[name][1]


def _extent(extent: Expr) -> int:
    return int(extent.value) if isinstance(extent, Const) else ASSUMED_EXTENT


def _around(s: Schedule, tensor: str) -> Iterator[StageInfo]:
    """The stages that write or read a tensor."""
    for info in stages_of(s.nest):
        if any(buffer.name == tensor for buffer in (*info.store.buffers, *map(tensor_of, info.loads))):
            yield info


def _in_tiles(s: Schedule, info: StageInfo, machine: Processor) -> bool:
    """Does a stage keep tiles in registers, or pack what it reads, in an order of its own?"""
    if info.ragged.bounded:
        return False
    plain = program(s.nest)
    return bool(Windows.of(info, machine, 1, plain) or Contraction.of(info, machine, 1, plain, frozenset()))


def _seconds(s: Schedule, tensor: str, machine: Processor) -> float:
    """What the stages that write or read a tensor take in rows, by the cost model: tiles, where some can have them now, take less."""
    plain, seconds = program(s.nest), 0.0
    for info in _around(s, tensor):
        rows = RowVectors.of(info, machine, 1, plain)
        beside = SideBySide.of(rows, machine, plain)
        seconds += seconds_in_rows(rows, plain, machine) if beside is None else beside.seconds(plain, machine)
    return seconds
