"""What is read only to be kept, and kept only to be read where some condition holds.

    for i in range(8):
        for j in range(8):                              S[max(i - 1, 0), j] is read for i = 0, too, where nothing asks for the copy:
            c = S[max(i - 1, 0), j]                     what another iteration writes there, and when, is nothing to this one
            S[i, j] = select(i >= 1, c, 0) + A[i, j]

So what a store into storage of one iteration reads matters under the conditions that all readers of this storage share. That is an argument
about the order of iterations. The read is made all the same: it is none about bounds, nor about iterations that run at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tensorlang.algebra.bounds import conjuncts
from tensorlang.ir import Expr, Nest, Stmt
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, read_in
from tensorlang.schedules.legality.accesses import Access, accesses
from tensorlang.schedules.rewriting.edit import loops, stores


def needed(nest: Nest, body: Stmt, private: Collection[str], found: Sequence[Access]) -> list[Access]:
    """The accesses, with reads that a store into `private` storage of `body` makes under what all that read this storage ask."""
    kept = {id(store): store.buffers[0].name for store in stores(body) if len(store.buffers) == 1 and store.reducer is None}
    said = frozenset[str]().union(*(read_in(end) for loop in loops(body) for end in (loop.lo, loop.hi)))
    kept = {source: name for source, name in kept.items() if name in private and name not in said}
    if all(access.writes or access.source not in kept for access in found):
        return list(found)
    readers: dict[str, list[Access]] = {}
    for access in accesses(body):
        if not access.writes or access.reducer is not None:
            readers.setdefault(access.buffer.name, []).append(access)
    return [
        access
        if access.writes or access.source not in kept
        else replace(access, conditions=(*access.conditions, *_asked(nest, access, readers.get(kept[access.source], []))))
        for access in found
    ]


def _asked(nest: Nest, access: Access, readers: Sequence[Access]) -> list[Expr]:
    """The conditions that all readers share, and that an iteration of the loops around an access decides."""
    around = {loop.loop for loop in access.loops}
    inside = {loop.loop for reader in readers for loop in reader.loops} - around
    each = [list(dict.fromkeys(conjuncts(reader.conditions))) for reader in readers]
    return [
        condition
        for condition in (each[0] if each else [])
        if all(condition in other for other in each) and not read_in(condition) and not closure(nest, axes_of(condition)) & inside
    ]
