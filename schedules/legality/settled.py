"""Storage whose elements never change: each has one value, whoever writes it, and however often.

    for p in range(4):                               A_cache[d] is A[d] wherever it was written; iterations of p write most elements again,
        for d in range(p, p + 3):                    and which of these writes came last makes no difference
            A_cache[d] = A[d]
        C[p] = A_cache[p] + A_cache[p + 2]

So writes may stand in any order, and a read sees the value in every nest in which one of the writes stands before it. That is asked of the
whole nest as it would be, not of a pair of instances.
"""

from __future__ import annotations

from tensorlang.ir import Alloc, Axis, Expr, For, Nest, Store
from tensorlang.ir.traverse import axes_of, read_in, substitute, written_in
from tensorlang.schedules.legality.accesses import accesses_to, distinct
from tensorlang.schedules.legality.refilled import come_first
from tensorlang.schedules.rewriting.edit import loops, path_to, stores


def settled(nest: Nest, name: str) -> bool:
    """Has each element of storage one value, and does a write of it stand before each read of the nest?

    Iterations that run at once are no order: before a read stands what is written in its own iteration of these.
    """
    path = path_to(nest.body, lambda part: isinstance(part, Alloc) and any(buffer.name == name for buffer in part.buffers))
    written = written_in(nest.body)
    values = {_value(store, name, written) for store in stores(nest.body) if any(buffer.name == name for buffer in store.buffers)}
    if (
        not path
        or len(values) != 1
        or None in values
        or any(name in read_in(end) for loop in loops(nest.body) for end in (loop.lo, loop.hi))
    ):
        return False
    found = distinct(accesses_to((name,), nest.body))
    writes = [access for access in found if access.writes]
    inside = {part.loop for part in path if isinstance(part, For)}
    return all(
        come_first(nest, writes, access, [loop for loop in access.loops if loop.loop in inside or loop.kind != "serial"], written)
        for access in found
        if not access.writes
    )


def _value(store: Store, name: str, written: frozenset[str]) -> Expr | None:
    """What a store writes to an element, over the element's index; None where that is not all that decides it."""
    value = next(value for buffer, value in zip(store.buffers, store.values, strict=True) if buffer.name == name)
    axes = [part.name for part in store.index if isinstance(part, Axis)]
    told = len(axes) == len(store.index) == len(set(axes)) and axes_of(value) <= set(axes)
    if store.reducer is not None or not told or not read_in(value).isdisjoint(written):
        return None
    return substitute(value, {axis: Axis(f"?{place}") for place, axis in enumerate(axes)})
