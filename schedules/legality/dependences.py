"""The proof behind directives: would two iterations touch one element in the wrong order?

One formula serves every question. For a pair of accesses to one buffer, at least one a store, take two instances of the statements
that make them: each with its own value of every loop and derived axis, tied by bounds, conditions and relations. Outer loops are
shared, the elements are equal, and the two instances stand in the order that the directive would break. `polyhedra.find` returns
such a pair of iterations or proves that there is none; a pair is the counterexample of the refusal. Accesses at data-dependent
indices are unknowns there, each some element that there is, so they conflict unless the rest excludes it.

Two combining stores of one associative, commutative reducer may change places (that is the re-association that reordering a
reduction states), but they may not run at the same time. Buffers allocated inside the loop in question are private to its iterations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.rules import FALSE, TRUE
from tensorlang.ir import Axis, Binary, Compare, Expr, For, Nest, SplitRelation, Stmt, Store, WindowRelation, const
from tensorlang.ir.mentions import allocations
from tensorlang.ir.relations import closure, in_scope
from tensorlang.ir.traverse import axes_of, loads_of, read_in, reads_data, written_in
from tensorlang.schedules.legality.accesses import Access, accesses, accesses_to, conditions_around, distinct
from tensorlang.schedules.legality.fused_loops import fused_loop_facts, fused_tile_facts
from tensorlang.schedules.legality.instances import example_of, exists, instance, rename, same_element
from tensorlang.schedules.legality.needed import needed
from tensorlang.schedules.legality.overwritten import is_overwritten
from tensorlang.schedules.legality.refilled import refilled
from tensorlang.schedules.legality.rewrites import written_before
from tensorlang.schedules.legality.settled import settled
from tensorlang.schedules.rewriting.edit import loops, stores
from tensorlang.schedules.rewriting.folds import Fold, folds


def conflict(
    nest: Nest,
    first: Access,
    second: Access,
    shared: frozenset[str],
    order: Sequence[Expr],
    either: tuple[Expr, Expr] = (TRUE, TRUE),
    reader: Access | None = None,
) -> dict[str, Any] | None:
    """Two instances that touch one element while `order` holds (over axes marked `'` and `''`), or None.

    Of `either`, the first holds of the first instance, or the second of the second. Given a `reader`, an instance of it touches the
    element, too, in whatever iterations of all its loops.
    """
    one, two = instance(nest, first, "'", shared), instance(nest, second, "''", shared)
    facts = [*one.facts, *two.facts, *fused_loop_facts(nest, one, two, shared), *same_element(one, two), *exists(one), *exists(two), *order]
    if reader is not None:
        third = instance(nest, reader, "*", frozenset())
        facts += [*third.facts, *same_element(one, third)]
    if TRUE not in either:
        facts.append(Binary("or", *(rename(part, copy.names) for part, copy in zip(either, (one, two), strict=True))))
    point = find(*facts)
    if point == {} and find(*(fact for fact in facts if fact in order or (isinstance(fact, Compare) and fact.op == "eq"))) is None:
        return None  # the whole is too large a question, and what derived axes and the element say is enough
    if point and (more := list(fused_tile_facts(nest, one, two, shared))):
        nearer = find(*facts, *more)
        point = None if nearer is None else nearer or point
    return None if point is None else example_of(one, two, point)


def runs(nest: Nest, store: Store, around: For, outer: Sequence[For]) -> bool:
    """May a store within a loop run at all? It does not where its conditions contradict each other or the loops."""
    return find(*instance(nest, write_of(nest, store, around, outer), "'", frozenset()).facts) is not None


def write_of(nest: Nest, store: Store, around: For, outer: Sequence[For]) -> Access:
    """The access of a store within a loop that writes."""
    found = accesses(around, tuple(outer), conditions_around(nest, around))
    return next(access for access in found if access.source == id(store) and access.writes)


def met(
    nest: Nest, one: Access, others: Iterable[Access], shared: frozenset[str], order: Sequence[Expr] = ()
) -> tuple[Access, dict[str, Any]] | None:
    """The first of some accesses that meets another in the same iteration of the loops `shared`, where either writes, and an example.

    `order`: what else has to hold, over axes marked `'` and `''`.
    """
    for other in others:
        own = one.source == other.source and one.writes == other.writes
        if other.buffer == one.buffer and (one.writes or other.writes) and not own:
            example = conflict(nest, one, other, shared, order)
            if example is not None:
                return other, example
    return None


def unread(nest: Nest, first: Access, second: Access, shared: frozenset[str], order: Sequence[Expr]) -> bool:
    """Does nothing in the nest read an element that two plain stores write while `order` holds? Then the last of them is anyone's."""
    if first.reducer is not None or second.reducer is not None or not (first.writes and second.writes):
        return False
    bounds = (load.buffer for loop in loops(nest.body) for end in (loop.lo, loop.hi) for load in loads_of(end))
    if first.buffer not in allocations(nest.body) or first.buffer in bounds:
        return False
    every = distinct(accesses_to((first.buffer.name,), nest.body))
    readers = [access for access in every if not access.writes or access.reducer is not None]
    return all(conflict(nest, first, second, shared, order, reader=reader) is None for reader in readers)


def pairs(found: Sequence[Access]) -> Iterator[tuple[Access, Access]]:
    """Pairs of accesses to one buffer of which at least one writes."""
    by_buffer: dict[str, list[Access]] = {}
    for access in found:
        by_buffer.setdefault(access.buffer.name, []).append(access)
    for group in by_buffer.values():
        for first in group:
            for second in group:
                if first.writes or second.writes:
                    yield first, second


def race(nest: Nest, loop: For, outer: Sequence[For], *, reductions: bool, parts: tuple[Stmt, Stmt] | None = None) -> dict[str, Any] | None:
    """Two different iterations of a loop that touch one element, at least one writing it; None if there are none.

    `reductions` lets combining stores of one reducer share an element that the loop does not move (the lanes of a vector reduction keep
    partial results), and stores share elements that data tell (lanes write them in turn). Of two `parts` neither is known to race by
    itself: one instance is of each.
    """
    private = {buffer.name for buffer in allocations(loop.body)}
    every = distinct(accesses(loop, tuple(outer), conditions_around(nest, loop)))
    found = [access for access in every if access.buffer.name not in private]
    shared = frozenset(around.loop for around in outer)
    differ = later(loop, "'", "''")
    within = None if parts is None else frozenset(id(store) for store in stores(parts[0]))
    for first, second in pairs(found):
        if within is not None and first.source and second.source and (first.source in within) == (second.source in within):
            continue
        if first.position > second.position or (first.position == second.position and first is not second and not first.writes):
            continue
        if reductions and first.reducer is not None and first.reducer == second.reducer and not depends_on_loop(nest, loop, first, second):
            continue
        if reductions and _take_turns(first, second, loop):
            continue
        if _identity_apart(nest, loop, shared, first, second):
            continue
        orders = (differ,) if first is second else (differ, later(loop, "''", "'"))
        for order in orders:
            example = conflict(nest, first, second, shared, (order,))
            if example is not None:
                return example
    return None


def _take_turns(first: Access, second: Access, loop: For) -> bool:
    """Do lanes of a loop write elements that data tell one after the other, in an order that is right?

    What combines may do so in any order. Plain stores of one statement do so in the order of the lanes, which is that of the iterations
    where no other loop stands inside.
    """
    told = all(any(map(reads_data, access.index)) for access in (first, second))
    if not (told and first.writes and second.writes) or first.reducer != second.reducer:
        return False
    return first.reducer is not None or (first.source == second.source and first.loops[-1] is loop)


def depends_on_loop(nest: Nest, loop: For, *found: Access) -> bool:
    """Do the elements of accesses depend on a loop, by its axis or by what is stored inside it?"""
    written = written_in(loop.body)
    parts = [part for access in found for part in access.index]
    stored = any(written & read_in(part) for part in parts)
    return stored or any(loop.loop in closure(nest, axes_of(part)) for part in parts)


def later(loop: For, earlier: str, later: str) -> Expr:
    """The iteration of copy `earlier` comes before that of copy `later`."""
    return Compare("lt", Axis(loop.loop + earlier), Axis(loop.loop + later))


def _identity_apart(nest: Nest, loop: For, outer: frozenset[str], first: Access, second: Access) -> bool:
    """Is some index of both accesses the loop itself, or an axis of which the loop is one digit?

    Then different iterations touch different elements, and no integer set is needed.
    """
    found = digits(nest, loop, outer, {part.loop for access in (first, second) for part in access.loops})
    return any(isinstance(a, Axis) and a == b and a.name in found for a, b in zip(first.index, second.index, strict=True))


def digits(nest: Nest, loop: For, outer: frozenset[str], around: set[str]) -> set[str]:
    """The axes that differ wherever a loop does: itself, and those of which it is one digit."""
    found = {loop.loop}
    for relation in in_scope(nest, around):
        match relation:
            case SplitRelation(parent, high, low, _, lo, _, tail) if (
                {high, low} & found and tail != "shift" and closure(nest, axes_of(lo)) & around <= outer
            ):
                found.add(parent)
            case WindowRelation(parent, inner, base) if inner in found and closure(nest, axes_of(base)) & around <= outer:
                found.add(parent)
            case _:
                pass
    return found


def repeated(
    nest: Nest, store: Store, loops: Sequence[For], outer: Sequence[For], inside: Sequence[For] = (), first: Access | None = None
) -> dict[str, Any] | None:
    """Two different iterations of nested `loops` in which a store touches one element; None if each touches its own.

    `outer` are the loops around them, which are at one iteration; `inside` those within, which are at any. Given `first`, the earlier of
    the two iterations is one in which this access is made. An index that leaves the buffer is that of no element.
    """
    around, buffer = (*outer, *loops, *inside), store.buffers[0]
    inside_buffer = tuple(
        side
        for part, extent in zip(store.index, buffer.shape, strict=True)
        if not isinstance(part, Axis)
        for side in (Compare("le", const(0), part), Compare("lt", part, extent))
    )
    target = Access(store.stage, buffer, store.index, writes=True, reducer=None, loops=around, conditions=inside_buffer, position=0)
    for position, loop in enumerate(loops):
        shared = frozenset(part.loop for part in (*outer, *loops[:position]))
        if _identity_apart(nest, loop, shared, target, target):
            continue
        example = conflict(nest, first or target, target, shared, (later(loop, "'", "''"),))
        if example is not None:
            return example
    return None


def overtaken(
    nest: Nest,
    loop: For,
    outer: Sequence[For],
    held: tuple[Expr, ...],
    first: Stmt,
    second: Stmt,
    parts: Sequence[Stmt] = (),
    *,
    joined: bool = False,
) -> dict[str, Any] | None:
    """Of two statements in a loop: an iteration of the second and a later one of the first that touch one element; None if none do.

    Running all iterations of the first before the second would swap them, running them together again would swap them back. The loop
    runs inside `outer`, where the conditions `held` hold; `parts` are all statements in it that are run apart, where there are more;
    `joined`: the nest is the one in which they run together.
    """
    around = (*outer, loop)
    shared = frozenset(part.loop for part in outer)
    own = refilled(nest, parts or (first, second), around)
    found = []
    for part in (second, first):
        private = _private(part)
        shown = [access for access in distinct(accesses(part, around, held)) if access.buffer.name not in private | own]
        found.append(needed(nest, part, private, shown))
    marks = {**folds(first), **folds(second)}
    for one, two in itertools.product(*found):
        if one.buffer.name != two.buffer.name or not (one.writes or two.writes):
            continue
        either = where_order_matters(marks, one, two)
        if either is None or _identity_apart(nest, loop, shared, one, two):
            continue
        order = later(loop, "'", "''")
        example = conflict(nest, one, two, shared, (order,), either)
        if example is not None and two.writes and two.reducer is None and not one.writes:
            unless = written_before(nest, loop, instance(nest, one, "'", shared), instance(nest, two, "''", shared))
            example = conflict(nest, one, two, shared, (order, *unless), either) if unless else example
        if example is not None and not unread(nest, one, two, shared, (order,)):
            last = [access for access in found[0] if access.writes and access.buffer.name == one.buffer.name]
            if (outer or not is_overwritten(nest, loop, one, two, last)) and not (joined and settled(nest, one.buffer.name)):
                return example
    return None


def where_order_matters(marks: dict[int, Fold], first: Access, second: Access) -> tuple[Expr, Expr] | None:
    """Where two accesses may not change places, as conditions on the copies of which one holds; None for nowhere: both combine."""
    if first.reducer is not None and first.reducer == second.reducer:
        return None
    one, two = marks.get(first.source), marks.get(second.source)
    if one is None or two is None or one.reducer != two.reducer:
        return TRUE, TRUE
    return None if one.fresh == two.fresh == FALSE else (one.fresh, two.fresh)


def _private(stmt: Stmt) -> frozenset[str]:
    return frozenset(buffer.name for buffer in allocations(stmt))
