"""Is an access in bounds where a directive makes it anew? The one rule for "this access happens only under these conditions".

A definition is accepted because each of its accesses is in bounds wherever it is made: where the conditions of the `where=` and the
selects around it hold. A directive that makes an access anew (the copy of a tile, a partial result, a consumer in another place) leaves
those conditions behind, and often has none of the loops that they speak of. So nothing is taken over: the access is judged in its new
place, by what the loops, the relations and the conditions there say. A side on which it may leave the buffer is tested at run time,

    if 0 <= I[p] < 5: H_acc[] = H[I[p]]

and what a test would have to read has to be inside by itself, or the directive is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tensorlang import ir
from tensorlang.algebra.bounds import conjuncts, negated
from tensorlang.algebra.polyhedra import find, uncovered
from tensorlang.algebra.rules import conjunction
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import (
    Axis,
    Buffer,
    Compare,
    Expr,
    For,
    FuseRelation,
    If,
    Load,
    Nest,
    Relation,
    Select,
    SplitRelation,
    Stmt,
    Store,
    Unary,
)
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure, equations, in_scope, tile_count
from tensorlang.ir.traverse import axes_of, children, loads_of, reads_data
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.legality.accesses import conditions_around, facts_of
from tensorlang.schedules.rewriting.edit import loops as loops_of, path_to, path_to_store, stores


def place_facts(nest: Nest, loops: Sequence[For], around: Sequence[Expr] = ()) -> list[Expr]:
    """What holds inside `loops`: their bounds, the relations of the axes that follow from them, and the conditions `around`."""
    facts = [fact for loop in loops for fact in facts_of(loop)]
    return [*facts, *(fact for relation in in_scope(nest, (loop.loop for loop in loops)) for fact in equations(relation)), *around]


def access_guard(nest: Nest, buffer: Buffer, index: Sequence[Expr], loops: Sequence[For], around: Sequence[Expr]) -> Expr | None:
    """What has to be tested before `buffer[index]` is touched inside `loops`, where the conditions `around` hold; None for nothing.

    Raises `Refusal` where the index reads an element that is not known to exist there.
    """
    facts = place_facts(nest, loops, around)
    for part in index:
        _require_readable(nest, part, facts, buffer)
    open_sides = [
        side
        for part, extent in zip(index, buffer.shape, strict=True)
        if not is_whole_axis(part, extent, loops, nest.relations)
        for side in sides_left((part,), (extent,), facts)
    ]
    return conjunction(open_sides) if open_sides else None


def guarded(test: Expr | None, stmt: Stmt, *more: Expr) -> Stmt:
    """The statement where a test holds, and more of them, which come first."""
    tests = [*more, *([] if test is None else [test])]
    return If(conjunction(tests), stmt) if tests else stmt


def covers(nest: Nest, store: Store, start: Store, loops: Sequence[For]) -> bool:
    """Do the `loops` around a reduction visit every element that its initialisation writes? A scatter may leave some out."""
    if visits_all(nest, store, loops):
        return True
    above = [part for part in path_to(nest.body, lambda part: part is start) if isinstance(part, For)]
    return left_out(nest, above, place_facts(nest, loops), list(zip(start.index, store.index, strict=True))) is None


def visits_all(nest: Nest, store: Store, loops: Sequence[For]) -> bool:
    """Do loops by their bounds alone visit every element of what is stored? Where they do, no integer set is needed.

    Each index is an axis that has loops to itself: nothing else cuts their iterations, as the condition of a split does of which one
    digit is in an index and the other is not.
    """
    shape = zip(store.index, store.buffers[0].shape, strict=True)
    own = [_loops_of(nest, part.name, ir.const(0), extent, loops) if isinstance(part, Axis) else None for part, extent in shape]
    names = {loop.loop for loop in loops}
    conditional = [relation for relation in in_scope(nest, names) if not isinstance(relation, FuseRelation)]
    cut = [closure(nest, (relation.parent,)) & names for relation in conditional]
    return all(
        part is not None
        and not any(part & other for other in own[:place] if other is not None)
        and all(part.isdisjoint(together) or together <= part for together in cut)
        for place, part in enumerate(own)
    )


def _loops_of(nest: Nest, axis: str, lo: Expr, hi: Expr, loops: Sequence[For]) -> frozenset[str] | None:
    """The loops whose iterations together visit an axis from `lo` to `hi`; None where they do not."""
    if any(loop.loop == axis and (loop.lo, loop.hi) == (lo, hi) for loop in loops):
        return frozenset([axis])
    for relation in nest.relations:
        if isinstance(relation, SplitRelation) and relation.parent == axis and (relation.lo, relation.hi) == (lo, hi):
            parts = (relation.outer, simplify(tile_count(relation))), (relation.inner, ir.const(relation.factor))
            outer, inner = (_loops_of(nest, digit, ir.const(0), end, loops) for digit, end in parts)
            return None if outer is None or inner is None or outer & inner else outer | inner
    return None


def left_out(nest: Nest, around: Sequence[For], facts: Sequence[Expr], pairs: Sequence[tuple[Expr, Expr]]) -> str | None:
    """An iteration of the loops `around` for which nothing that `facts` hold of makes the pairs equal, as text; None if there is none."""
    missing = uncovered(place_facts(nest, around), (facts, pairs))
    if missing is None:
        return None
    at = [f"{short(part.loop)} = {missing[Axis(part.loop)]}" for part in around if Axis(part.loop) in missing]
    return ", ".join(at) or "data decide which"


def sides_left(index: Iterable[Expr], shape: Iterable[Expr], facts: Sequence[Expr]) -> list[Expr]:
    """The conditions `0 <= index` and `index < extent`, of each dimension, that do not follow from the facts."""
    found: list[Expr] = []
    for part, extent in zip(index, shape, strict=True):
        if find(*facts, Compare("lt", part, ir.const(0))) is not None:
            found.append(Compare("ge", part, ir.const(0)))
        if find(*facts, Compare("ge", part, extent)) is not None:
            found.append(Compare("lt", part, extent))
    return found


def reads_left(expr: Expr, facts: Sequence[Expr]) -> Iterator[Buffer]:
    """What an expression reads elements of that are not known to exist, given the facts and the selects around each read."""
    asked = set[tuple[Load, tuple[Expr, ...]]]()  # an expression that was written into itself has each read many times
    for load, given in _reads_under(expr, tuple(facts)):
        if (load, given) not in asked and isinstance(load.buffer, Buffer) and sides_left(load.index, load.buffer.shape, given):
            yield load.buffer
        asked.add((load, given))


def _reads_under(expr: Expr, facts: tuple[Expr, ...]) -> Iterator[tuple[Load, tuple[Expr, ...]]]:
    """What an expression reads, with the facts and the selects around each read."""
    match expr:
        case Select(cond, yes, no):
            yield from _reads_under(cond, facts)
            yield from _reads_under(yes, (*facts, cond))
            yield from _reads_under(no, (*facts, Unary("not", cond)))
        case _:
            for part in children(expr):
                yield from _reads_under(part, facts)
            if isinstance(expr, Load):
                yield expr, facts


def is_written(nest: Nest, buffer: Buffer, facts: Sequence[Expr]) -> bool:
    """Has every element of a buffer a value where the facts hold? A copy of what conditions protect has some only where these do."""
    found = [store for store in stores(nest.body) if buffer in store.buffers]
    return not found or any(all(find(*facts, negated(cond)) is None for cond in conditions_around(nest, store)) for store in found)


def unknown_read(nest: Nest, expr: Expr, facts: Sequence[Expr]) -> Buffer | None:
    """What an expression reads an element of that is not known to exist, or to have a value, where the facts hold; None for nothing."""
    bare = next(reads_left(expr, facts), None)
    local = (load.buffer for load in loads_of(expr) if isinstance(load.buffer, Buffer) and load.buffer.memory != "argument")
    return next((read for read in local if not is_written(nest, read, facts)), None) if bare is None else bare


def unprotected(nest: Nest, store: Store) -> Buffer | None:
    """What a statement, or a loop or a condition around it, uses an element of that need not exist there; None for nothing.

    A condition is asked where those before it hold, and what is read besides where all do.
    """
    around, asked = list[For](), list[Expr]()
    for part in path_to_store(nest, store):
        read: Iterable[Expr] = ()
        match part:
            case For():
                read = (part.lo, part.hi)
            case If(cond):
                read = conjuncts((cond,))
            case Store():
                read = (*part.values, *part.index)
            case _:
                pass
        for expr in read:
            bare = unknown_read(nest, expr, place_facts(nest, around, asked)) if reads_data(expr) else None
            if bare is not None:
                return bare
            if isinstance(part, If):
                asked.append(expr)
        if isinstance(part, For):
            around.append(part)
    facts = place_facts(nest, around, asked)
    own = zip(store.index, store.buffers[0].shape, strict=True)
    left = any(sides_left((part,), (extent,), facts) for part, extent in own if not is_whole_axis(part, extent, around, nest.relations))
    return store.buffers[0] if left else None


def _require_readable(nest: Nest, expr: Expr, facts: Sequence[Expr], target: Buffer) -> None:
    """Raise `Refusal` unless everything that an expression reads is inside, and there."""
    buffer = unknown_read(nest, expr, facts)
    if buffer is not None:
        raise Refusal(
            "TL-S302",
            f"where {target.name!r} is touched is read from {buffer.name!r}, and that element exists only under a condition "
            "that the copy would leave",
            stage=target.name,
        )


def conditions_throughout(nest: Nest, loop: For, store: Store, outer: Sequence[For]) -> list[Expr]:
    """The conditions inside a loop, around a store, that are the same in all of its iterations and can be tested before it.

    None of their axes belongs to a loop inside, they read nothing that is written there, and what they read exists by what holds around.
    """
    around = conditions_around(nest, loop)
    inside = {part.loop for part in loops_of(loop.body)}
    written = {buffer for part in stores(loop.body) for buffer in part.buffers}
    facts, found = place_facts(nest, outer, around), list[Expr]()
    for cond in conjuncts(conditions_around(nest, store)[len(around) :]):
        fixed = not closure(nest, axes_of(cond)) & inside and not any(load.buffer in written for load in loads_of(cond))
        if fixed and next(reads_left(cond, facts), None) is None:
            found.append(cond)
            facts.append(cond)
    return found


def is_whole_axis(part: Expr, extent: Expr, loops: Sequence[For], relations: Sequence[Relation]) -> bool:
    """Is an index an axis, in scope here, whose own range is that of the dimension? Then it is inside, and no integer set is needed."""
    if not isinstance(part, Axis):
        return False
    zero = ir.const(0)
    return any(loop.loop == part.name and (loop.lo, loop.hi) == (zero, extent) for loop in loops) or any(
        isinstance(relation, SplitRelation) and relation.parent == part.name and (relation.lo, relation.hi) == (zero, extent)
        for relation in relations
    )
