"""Lanes that cannot be: a vector loop all of whose iterations would store to one element.

Where the tail of a split lets only one iteration of a loop run, no two of them race, and yet the loop is none for lanes: what they have
in common is where they store, and which of them does is known at run time only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tensorlang.algebra.polyhedra import find
from tensorlang.ir import Axis, Binary, Expr, For, Nest, SplitRelation, Store, Unary, WindowRelation
from tensorlang.ir.mentions import allocations
from tensorlang.ir.relations import condition
from tensorlang.ir.traverse import statements
from tensorlang.schedules.legality.accesses import accesses
from tensorlang.schedules.legality.dependences import depends_on_loop, digits, later
from tensorlang.schedules.legality.instances import Instance, instance, rename, same_element


def store_to_one_element(nest: Nest, loop: For, outer: Sequence[For]) -> Store | None:
    """A store whose index depends on a loop and yet is the same in all of its iterations, but for the conditions of tails; or None."""
    private = {buffer.name for buffer in allocations(loop.body)}
    shared = frozenset(around.loop for around in outer)
    for access in accesses(loop, tuple(outer)):
        if not access.writes or access.buffer.name in private or not depends_on_loop(nest, loop, access):
            continue
        apart = digits(nest, loop, shared, {part.loop for part in access.loops})
        if any(isinstance(part, Axis) and part.name in apart for part in access.index):
            continue
        same = shared | {part.loop for part in access.loops[len(outer) + 1 :]}
        one, two = instance(nest, access, "'", same), instance(nest, access, "''", same)
        facts = [fact for copy in (one, two) for fact in copy.facts if fact not in _tails(nest, copy)]
        facts.append(later(loop, "'", "''"))
        differ: list[Expr] = [Unary("not", part) for part in same_element(one, two)]
        if find(*facts, reduce(lambda left, right: Binary("or", left, right), differ)) is None and find(*facts) is not None:
            return next(part for part in statements(loop) if isinstance(part, Store) and id(part) == access.source)
    return None


def _tails(nest: Nest, copy: Instance) -> set[Expr]:
    """The conditions of partial tiles, over the axes of a copy."""
    return {rename(condition(part), copy.names) for part in nest.relations if isinstance(part, (SplitRelation, WindowRelation))}
