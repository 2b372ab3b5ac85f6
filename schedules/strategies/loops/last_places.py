"""Recurrences in one loop: what one of them reads of another is the last element or two, and no more is stored.

    for i_o: for i_i in range(16):                  for i_o: unroll i_i in range(16):
        a[i] = a[i - 1] + x[i]              ->          a[0] = a[0] + x[i]
        b[i] = b[i - 1] + a[i]                          b[i] = b[i - 1] + a[0]

Apart, each went through all that the one before had made. In one loop that is written for nobody, a cache line for each eight sums; and the
steps that are written out hand it on in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from tensorlang.ir import Block, For, Stmt, Store
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, statements
from tensorlang.schedules.directives.fold_storage import FoldStorage
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.rewriting.edit import literal_extent
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.processor import Processor

PLACES: Final = (1, 2, 4)
"""Places that are tried, of elements up to four steps back."""
WRITTEN_OUT: Final = 16
"""Steps that are written out, at most: those that recurrences alone are cut into."""
PAYS: Final = 0.97
"""The share of a program's time below which less is stored."""


def keep_last_places(s: Schedule, machine: Processor) -> Schedule:
    """The schedule with what only the statements of one loop read in its last places, where the cost model says that this is faster."""
    for loop in list(_chains(s)):
        folded = s.copy()
        for store in statements(loop):
            if isinstance(store, Store):
                _fold(folded, store, loop.loop)
        if len(folded.directives) == len(s.directives):
            continue
        ways = [folded]
        if (literal_extent(loop) or 0) <= WRITTEN_OUT and folded.can("unroll", loop.loop):
            ways.append(folded.copy())
            ways[-1].unroll(loop.loop)
        seconds, best = min(((estimate(way.nest, machine.core).seconds, way) for way in ways), key=itemgetter(0))
        if seconds < PAYS * estimate(s.nest, machine.core).seconds:
            s = best
    return s


def _chains(s: Schedule) -> Iterator[For]:
    """Serial loops over several stores and nothing else."""
    for loop in statements(s.nest.body):
        if isinstance(loop, For) and loop.kind == "serial" and isinstance(loop.body, Block) and all(map(_is_plain, loop.body.body)):
            yield loop


def _is_plain(stmt: Stmt) -> bool:
    return isinstance(stmt, Store) and stmt.reducer is None


def _fold(s: Schedule, store: Store, loop: str) -> None:
    """Store what a statement computes in the last places along the axis that the loop moves, where others need no more."""
    moved = [axis for axis, part in enumerate(store.index) if loop in closure(s.nest, axes_of(part))]
    if len(moved) != 1 or len(store.buffers) > 1 or store.buffers[0] in s.nest.outputs:
        return
    for places in PLACES:
        if s.attempt(FoldStorage(store.buffers[0].name, moved[0], places)):
            return
