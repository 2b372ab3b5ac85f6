"""What nobody reads is not computed: of scores that a mask cuts out, the tiles that the mask reaches.

    for i: for j_o: S[tile] = ...                       for i: for j_o: if tile reaches the band: S[tile] = ...
    for i: for j: if j <= i: m[i] = max(.., S[i, j])    for i: for j: if j <= i: m[i] = max(.., S[i, j])

Readers come before what they read, so that what they no longer read is known by then. A tile of a sum is computed as a whole or not at all;
an element of anything else, which needs no storage of its own, under the condition itself, as lanes that are off cost nothing. A tile of a
sum that stands on one side of a choice is asked for in each of its elements, which takes longer than it saves: it is asked for once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tensorlang.algebra.bounds import conjuncts
from tensorlang.ir import Alloc, Buffer, For, If, Nest, Store
from tensorlang.ir.linear import below_zero
from tensorlang.ir.mentions import allocations
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, statements
from tensorlang.schedules.directives.trim import Trim
from tensorlang.schedules.legality.accesses import Access, accesses
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.rewriting.edit import path_to_store, stores
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.processor import Processor

WORTH: Final = 0.97
"""The share of a program's time below which iterations are asked for: a condition is code, and cuts vectors at its edge."""


def trim_unread(s: Schedule, machine: Processor) -> Schedule:
    """The schedule without what nobody reads, where the cost model says that this is faster."""
    kept = list(reversed(list(allocations(s.nest.body))))
    tiles = _trimmed(s, [buffer for buffer in kept if buffer.memory == "register"])
    trial = _trimmed(tiles, [buffer for buffer in kept if buffer.memory != "register"])
    pays = trial is not tiles and estimate(trial.nest, machine.core).seconds < WORTH * estimate(tiles.nest, machine.core).seconds
    return trial if pays else tiles


def _trimmed(s: Schedule, buffers: Sequence[Buffer]) -> Schedule:
    """The schedule without what nobody reads of some tensors; itself where there is nothing of that kind."""
    trial, found = s.copy(), list(accesses(s.nest.body))
    for buffer in buffers:
        for loop in _loops(trial.nest, buffer, found):
            if trial.attempt(Trim(loop)):
                found = list(accesses(trial.nest.body))
    return s if trial.directives == s.directives else trial


def _loops(nest: Nest, buffer: Buffer, found: Sequence[Access]) -> Iterator[str]:
    """The loops that compute a tensor of which every read is under an order of indices; those of a tile that are asked inside.

    Of a state that steps write in turn those count that are read by a later step.
    """
    read = [access for access in found if access.buffer == buffer and not access.writes]
    own = {access.stage for access in found if access.buffer == buffer and access.writes}
    read = [access for access in read if access.stage in own] or read
    if read and all(map(_is_cut, read)):
        for store in stores(nest.body):
            if buffer in store.buffers and (store.reducer is not None or buffer.memory != "register"):
                loop = _whole(nest, store, buffer)
                if loop is not None and (buffer.memory != "register" or any(isinstance(part, If) for part in statements(loop.body))):
                    yield loop.loop


def _is_cut(read: Access) -> bool:
    return any(below_zero(condition) is not None and axes_of(condition) for condition in conjuncts(read.conditions))


def _whole(nest: Nest, store: Store, buffer: Buffer) -> For | None:
    """The innermost loop that computes whole elements of a tensor, and what they need storage for."""
    path = path_to_store(nest, store)
    home = next((place for place, part in enumerate(path) if isinstance(part, Alloc) and buffer in part.buffers), 0)
    inside = [part for part in path[home:] if isinstance(part, For)]
    storing = [part for part in inside if any(isinstance(piece, Alloc) for piece in statements(part.body))]
    if storing or store.reducer is None:
        return next(iter((storing or inside)[-1:]), None)
    moved = closure(nest, frozenset().union(*map(axes_of, store.index)))
    whole = next((place for place, part in enumerate(inside) if part.loop not in moved), len(inside))
    return inside[max(whole - 1, 0)] if inside else None
