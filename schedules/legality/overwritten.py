"""Values that nothing sees, since they are written over before anything reads them.

    for i0 in range(4):                 what A puts into R is gone before U reads it, so that it does not matter whether
        R[0, i0] = A[i0]                the two writes of an element are in this order, as long as the last one is of
    for t in range(4):                  the second statement in both
        for i in range(4):
            R[(t + 1) % 2, i] = t
    for i0 in range(4):
        U[i0] = R[0, i0]

The write that comes last need not be one of the two, nor in an iteration that has anything to do with theirs: it is looked for in all.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorlang.algebra.polyhedra import Image, uncovered
from tensorlang.ir import Compare, Const, For, FuseRelation, Nest
from tensorlang.ir.mentions import allocations
from tensorlang.ir.relations import in_scope
from tensorlang.ir.traverse import reads_data
from tensorlang.schedules.legality.accesses import Access, accesses_to
from tensorlang.schedules.legality.instances import instance, same_element


def is_overwritten(nest: Nest, loop: For, one: Access, two: Access, writes: Sequence[Access]) -> bool:
    """Is an element that two plain stores write, `two` in a later iteration of `loop`, written again before anything reads it?

    `loop` stands in no other. `writes` are of the statement that stands last in it, in this order and in the other one: in the iteration
    of `two` or a later one they come after both. Whoever reads the element stands outside of the loop; before it, or after such a write.
    """
    if not (one.writes and two.writes) or one.reducer is not None or two.reducer is not None:
        return False
    copies = instance(nest, one, "'", frozenset()), instance(nest, two, "''", frozenset())
    pair = [*copies[0].facts, *copies[1].facts, *same_element(*copies), Compare("lt", copies[0].at(loop.loop), copies[1].at(loop.loop))]
    images: list[Image] = []
    for write in writes:
        if write.reducer is None and _is_told_by_loops(nest, write):
            third = instance(nest, write, "*", frozenset())
            facts = [*third.facts, Compare("le", copies[1].at(loop.loop), third.at(loop.loop))]
            images.append((facts, list(zip(copies[0].index, third.index, strict=True))))
    if not images:
        return False
    if one.buffer not in allocations(nest.body):
        return uncovered(pair, *images) is None
    every = [*accesses_to((one.buffer.name,), nest.body)]
    first = min(access.position for access in every if loop.loop in {around.loop for around in access.loops})
    for access in every:
        if (not access.writes or access.reducer is not None) and access.position >= first:
            reader = instance(nest, access, "^", frozenset())
            touched = [*pair, *reader.facts, *same_element(copies[0], reader)]
            inside = loop.loop in {around.loop for around in access.loops}
            if uncovered(touched, *(() if inside else images)) is not None:
                return False
    return True


def _is_told_by_loops(nest: Nest, write: Access) -> bool:
    """Do loops and literals alone say which instances of a write there are, and where it writes?"""
    asked = any(map(reads_data, (*write.index, *write.conditions)))
    relations = in_scope(nest, [around.loop for around in write.loops])
    return not asked and not any(isinstance(relation, FuseRelation) and not isinstance(relation.extent, Const) for relation in relations)
