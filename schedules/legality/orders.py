"""May loops of a perfect nest stand in another order?

They may where no two instances of what is inside change places of which one sees the other. Two writes of one element count as such,
unless they write the same value, the last write of the element is the same one in both orders (as it is where loops only repeat what
others do), or nothing reads the element. A read and a write do, unless another write of the same value lets the read see it in both
orders. Storage that each iteration fills for itself ties no iterations together, nor does storage whose elements have one value each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorlang.ir import Axis, Compare, For, Load, Nest
from tensorlang.ir.mentions import allocations
from tensorlang.schedules.legality import dependences
from tensorlang.schedules.legality.accesses import accesses, conditions_around, distinct
from tensorlang.schedules.legality.instances import instance
from tensorlang.schedules.legality.needed import needed
from tensorlang.schedules.legality.refilled import refilled
from tensorlang.schedules.legality.rewrites import NONE, before, idle, none_last, told, upright, written_by_another
from tensorlang.schedules.legality.settled import settled
from tensorlang.schedules.rewriting.edit import stores
from tensorlang.schedules.rewriting.folds import folds


def reordered(
    nest: Nest, old: Sequence[For], new: Sequence[str], outer: Sequence[For], result: Nest | None = None
) -> dict[str, Any] | None:
    """Two instances inside a chain of loops whose order a new order of the chain would swap, though one must see the other; or None.

    `result` is the nest with the new order, where that is known already.
    """
    body = old[-1].body
    own = {buffer.name for buffer in allocations(body)}
    private = own | refilled(nest, [body], (*outer, *old))
    computed = {buffer.name for part in stores(body) if part.reducer or not isinstance(part.values[0], Load) for buffer in part.buffers}
    copied = private - computed
    every = distinct(accesses(old[0], tuple(outer), conditions_around(nest, old[0])))
    found = [access for access in every if access.buffer.name not in private]
    found = needed(nest, body, own, found)
    shared = frozenset(around.loop for around in outer)
    chain = [loop.loop for loop in old]
    first_names, second_names = ({loop: f"{loop}{mark}" for loop in chain} for mark in ("'", "''"))
    swapped = before(chain, first_names, second_names), before(new, second_names, first_names)
    marks, slanted = folds(body), upright(nest, chain)
    for first, second in dependences.pairs(found):
        either = dependences.where_order_matters(marks, first, second)
        if either is None:
            continue
        if first is second and told(nest, old, first):
            continue
        example = dependences.conflict(nest, first, second, shared, swapped, either)
        if example is not None and first is second and sum(other.buffer == first.buffer for other in found) == 1:
            one, two = (instance(nest, first, mark, shared) for mark in ("'", "''"))
            same = [Compare("eq", Axis(first_names[loop]), Axis(second_names[loop])) for loop in idle(nest, old, first, copied)]
            if same and dependences.conflict(nest, first, second, shared, (*swapped, *same), either) is None:
                continue
            for roots in (NONE, slanted) if slanted else (NONE,):
                unless = none_last(nest, chain, new, one, two, roots)
                if unless and example is not None:
                    example = dependences.conflict(nest, first, second, shared, (*swapped, *unless), either)
        if example is not None and first.writes != second.writes and (first if first.writes else second).reducer is None:
            one, two = (instance(nest, access, mark, shared) for access, mark in ((first, "'"), (second, "''")))
            read, write, order = (two, one, new) if first.writes else (one, two, chain)
            unless = written_by_another(nest, old, order, read, write)
            example = dependences.conflict(nest, first, second, shared, (*swapped, *unless), either) if unless else example
        if example is None or dependences.unread(nest, first, second, shared, swapped):
            continue
        if result is None or not settled(result, first.buffer.name):
            return example
    return None
