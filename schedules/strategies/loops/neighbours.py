"""Stages over the same rows that stand one after the other and touch the same tensors, row by row.

    for i: next[i, :] = f(now[i - 1, :], now[i, :], now[i + 1, :])      ->      for i: { next[i, :] = ...; before[i, :] = now[i, :] }
    for i: before[i, :] = now[i, :]

A tensor that leaves a cache is read from further away by each stage that goes through it; in one loop the second has the row that the
first has just touched. Stages that are computed for a reader alone go into its loops (`InRows`, `placements`): these are what is
left, results and states of scans, and what several read. Loops inside stay apart, so that each stage keeps its own vectors.

Recurrences that stand one after the other, as the sections of a filter, wait for their own past, each by itself; in one loop the others
compute meanwhile. Of these the loops inside are joined as well, and what one hands to the next is not stored in full (`last_places`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import prod
from operator import itemgetter
from typing import Final

from tensorlang.ir import Axis, Block, Const, For, Stmt, Store
from tensorlang.ir.traverse import loads_of, statements
from tensorlang.schedules.directives.fuse_loops import FuseLoops
from tensorlang.schedules.legality.accesses import Access, accesses
from tensorlang.schedules.legality.read_where import copies_apart
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.rewriting.edit import find_loop, literal_extent, stage_of
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.loops.last_places import keep_last_places
from tensorlang.schedules.strategies.processor import Processor

MEETING: Final = 0.97
"""The share of a program's time below which two of its loops become one. It is no more code, but lines of both stages then share the near
caches, and the prefetchers follow both: on a Zen 4 what was predicted at 0.96 took 0.75 of the time, and what was at 0.98 took 1.01."""

SERIAL: Final = (frozenset({"serial"}),)
"""The kinds of two loops that run one after the other."""


def may_meet(s: Schedule, machine: Processor) -> bool:
    """Are there neighbours that can run in one loop, and touch more together than the first-level cache holds, or wait for themselves?"""
    return any(s.can("fuse_loops", *pair) for pair in _pairs(s.nest.body, machine.l1))


def fuse_neighbours(s: Schedule, machine: Processor) -> Schedule:
    """The schedule with those neighbours in one loop of which the cost model says that this is faster."""
    seconds, asked, met = estimate(s.nest, machine.core).seconds, set[tuple[str, str]](), False
    while (pair := next((pair for pair in _pairs(s.nest.body, machine.l1) if pair not in asked), None)) is not None:
        asked.add(pair)
        judged = [(estimate(trial.nest, machine.core).seconds, trial) for trial in _fused(s, pair, machine)]
        best, trial = min(judged, key=itemgetter(0), default=(seconds, s))
        if best < MEETING * seconds:
            s, seconds = trial, best
            met = True
    return keep_last_places(s, machine) if met else s


def _fused(s: Schedule, pair: tuple[str, str], machine: Processor) -> Iterator[Schedule]:
    """The schedule with two loops as one; then with the loops inside as well, as long as nothing else stands there."""
    found: tuple[str, str] | None = pair
    while found is not None:
        s = s.copy()
        if not s.attempt(FuseLoops(*found)):
            return
        yield s
        body = find_loop(s.nest, found[1]).body
        alone = isinstance(body, Block) and len(body.body) == 2
        found = next(_pairs(body, machine.l1), None) if alone else None


def _pairs(body: Stmt, room: int) -> Iterator[tuple[str, str]]:
    yield from neighbours(body, room)
    yield from following(body)


def following(body: Stmt) -> Iterator[tuple[str, str]]:
    """Serial loops that follow one another in a block, run equally often, and wait for their own past."""
    for first, second in _equally_often(body, SERIAL):
        if _follows_itself(first) and _follows_itself(second):
            yield first.loop, second.loop


def _follows_itself(loop: For) -> bool:
    """Does a statement of the loop read what it computed before?"""
    for store in statements(loop):
        if isinstance(store, Store) and store.reducer is None:
            own = {buffer.name for buffer in store.buffers}
            if any(getattr(load.buffer, "name", "") in own for value in store.values for load in loads_of(value)):
                return True
    return False


def neighbours(body: Stmt, room: int, kinds: Collection[frozenset[str]] = SERIAL) -> Iterator[tuple[str, str]]:
    """Loops of some kinds that follow one another in a block, and go through the same rows of tensors of more bytes than `room`."""
    for first, second in _equally_often(body, kinds):
        begins = stage_of(first.loop) == f"{stage_of(second.loop)}.init"
        if not begins and shared_bytes(first, second) > room:
            yield first.loop, second.loop


def _equally_often(body: Stmt, kinds: Collection[frozenset[str]]) -> Iterator[tuple[For, For]]:
    """Loops of some kinds that follow one another in a block, and are known to run equally often."""
    for stmt in statements(body):
        for first, second in pairwise(stmt.body) if isinstance(stmt, Block) else ():
            if isinstance(first, For) and isinstance(second, For) and frozenset({first.kind, second.kind}) in kinds:
                extent = literal_extent(first)
                if extent is not None and extent == literal_extent(second):
                    yield first, second


def shared_bytes(first: For, second: For) -> int:
    """Bytes of the tensors of which both loops touch the row of their iteration; 0 where one touches other rows that the other writes."""
    one, other, total = _touched(first), _touched(second), 0
    for name in one.keys() & other.keys():
        pairs = [(a, b, _meet(a, b, first, second)) for a, b in product(one[name], other[name]) if not _are_copies(a, b)]
        if not all(meet for a, b, meet in pairs if a.writes or b.writes):
            return 0
        if any(meet for *_, meet in pairs):
            buffer = one[name][0].buffer
            total += prod(int(extent.value) for extent in buffer.shape if isinstance(extent, Const)) * buffer.dtype.bytes
    return total


def _meet(one: Access, other: Access, first: For, second: For) -> bool:
    """Do iterations of two loops touch the same row, each the one that it is numbered by?"""
    return any(a == Axis(first.loop) and b == Axis(second.loop) for a, b in zip(one.index, other.index, strict=True))


def _are_copies(one: Access, other: Access) -> bool:
    """Do two accesses touch different copies of a state, `s[t % 2, ...]` and `s[(t + 1) % 2, ...]`?"""
    return any(copies_apart(a, b) for a, b in zip(one.index, other.index, strict=True))


def _touched(loop: For) -> Mapping[str, Sequence[Access]]:
    """The accesses within a loop, by tensor; those that touch the same are one."""
    found = dict[str, dict[object, Access]]()
    for access in accesses(loop):
        found.setdefault(access.buffer.name, {}).setdefault((access.index, access.writes), access)
    return {name: list(known.values()) for name, known in found.items()}
