"""Values that nothing sees: of storage that no result depends on, and those that are written over before anything reads them.

for i0 in range(4):                 what A puts into R is gone before U reads it, so that it does not matter whether
    R[0, i0] = A[i0]                the two writes of an element are in this order, as long as the last one is of
for t in range(4):                  the second statement in both
    for i in range(4):
        R[(t + 1) % 2, i] = t
for i0 in range(4):
    U[i0] = R[0, i0]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorlang.algebra.polyhedra import Image, uncovered
from tensorlang.ir import Axis, Compare, Const, Expr, For, FuseRelation, Load, Nest, Store
from tensorlang.ir.mentions import allocations
from tensorlang.ir.relations import in_scope
from tensorlang.ir.traverse import children, expressions, loads_of, statements
from tensorlang.schedules.legality.accesses import Access, accesses
from tensorlang.schedules.legality.instances import instance, same_element
from tensorlang.schedules.rewriting.edit import stores


def is_dead(nest: Nest, access: Access) -> bool:
    """Does no result, no index, no condition and no bound depend on what an access stores, or on what is computed from what it loads?"""
    made = {access.buffer.name}
    if not access.writes:
        made = {own.name for part in stores(nest.body) if id(part) == access.source for own in part.buffers}
    return bool(made) and made.isdisjoint(_live(nest))


def _live(nest: Nest) -> set[str]:
    """The storage that results, indices, conditions or bounds depend on."""
    live = {output.name for output in nest.outputs}
    values: list[tuple[set[str], set[str]]] = []
    for part in statements(nest.body):
        if isinstance(part, Store):
            read = {name for value in part.values for name in _read(value)}
            values.append(({own.name for own in part.buffers}, read))
            live |= {name for index in part.index for name in _read(index)}
            live |= {name for value in part.values for name in _places(value)}
        else:
            live |= {name for expr in expressions(part) for name in _read(expr)}
    while more := {name for written, read in values if written & live for name in read - live}:
        live |= more
    return live


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
    every = [access for access in accesses(nest.body) if access.buffer.name == one.buffer.name]
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
    asked = any(True for part in (*write.index, *write.conditions) for _ in loads_of(part))
    relations = in_scope(nest, [around.loop for around in write.loops])
    return not asked and not any(isinstance(relation, FuseRelation) and not isinstance(relation.extent, Const) for relation in relations)


def _read(expr: Expr) -> Iterator[str]:
    return (getattr(load.buffer, "name", "") for load in loads_of(expr))


def _places(expr: Expr) -> Iterator[str]:
    """What says where an expression reads."""
    if isinstance(expr, Axis | Const):
        return
    for part in children(expr):
        yield from _read(part) if isinstance(expr, Load) else _places(part)
