"""The proof behind directives: would two iterations touch one element in the wrong order?

One formula serves every question. For a pair of accesses to one buffer, at least one a store, take two instances of the statements
that make them: each with its own value of every loop and derived axis, tied by bounds, conditions and relations. Outer loops are
shared, the elements are equal, and the two instances stand in the order that the directive would break. `polyhedra.find` returns
such a pair of iterations or proves that there is none; a pair is the counterexample of the refusal. Accesses at data-dependent
indices are unknowns there, so they conflict unless the rest excludes it.

Two combining stores of one associative, commutative reducer may change places (that is the re-association that reordering a
reduction states), but they may not run at the same time. Buffers allocated inside the loop in question are private to its iterations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorlang import ir
from tensorlang.dtype import BOOL
from tensorlang.ir import Axis, Binary, Buffer, Compare, Const, Expr, For, Fuse, If, Load, Nest, Select, Split, Stmt, Store, Unary, Window
from tensorlang.linear import linear
from tensorlang.mentions import allocations, mentions
from tensorlang.polyhedra import find
from tensorlang.printer import short
from tensorlang.relations import closure, equations, in_scope, relation_names
from tensorlang.schedules.edit import path_to
from tensorlang.schedules.folds import Fold, folds
from tensorlang.traverse import axes_of, children, expressions, loads_of, map_children, statements, substatements

TRUE = Const(True, BOOL)
FALSE = Const(False, BOOL)


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write of a buffer element, with the loops and conditions around it (outermost first)."""

    stage: str
    buffer: Buffer
    index: tuple[Expr, ...]
    writes: bool
    reducer: str | None
    loops: tuple[For, ...]
    conditions: tuple[Expr, ...]
    position: int
    source: int = 0
    """The identity of the store that it is of."""


def accesses(
    stmt: Stmt, loops: tuple[For, ...] = (), conditions: tuple[Expr, ...] = (), position: Iterator[int] | None = None
) -> Iterator[Access]:
    """Every access within a statement, in program order. A combining store is one access that reads and writes."""
    position = itertools.count() if position is None else position
    match stmt:
        case Store(stage, buffers, index, values, reducer):
            here = next(position)
            for expr in (*index, *values):
                for read in _reads(stage, expr, loops, conditions, here):
                    yield replace(read, source=id(stmt))
            for buffer in buffers:
                name = None if reducer is None else reducer.name
                yield Access(stage, buffer, index, True, name, loops, conditions, here, id(stmt))
        case For():
            for part in substatements(stmt):
                yield from accesses(part, (*loops, stmt), conditions, position)
        case If(cond, then, orelse):
            yield from _reads("", cond, loops, conditions, next(position))
            yield from accesses(then, loops, (*conditions, cond), position)
            if orelse is not None:
                yield from accesses(orelse, loops, (*conditions, Unary("not", cond)), position)
        case _:
            for part in substatements(stmt):
                yield from accesses(part, loops, conditions, position)


def conditions_around(nest: Nest, stmt: Stmt) -> tuple[Expr, ...]:
    """What holds wherever a statement of the nest runs, as far as conditions around it say."""
    path = path_to(nest.body, lambda part: part is stmt, mentions(stmt).stages or None)
    return tuple(
        above.cond if above.then is below else Unary("not", above.cond)
        for above, below in itertools.pairwise(path)
        if isinstance(above, If)
    )


def _reads(stage: str, expr: Expr, loops: tuple[For, ...], conditions: tuple[Expr, ...], position: int) -> Iterator[Access]:
    """The reads of an expression, each under the conditions of the selects around it."""
    match expr:
        case Select(cond, yes, no):
            yield from _reads(stage, cond, loops, conditions, position)
            yield from _reads(stage, yes, loops, (*conditions, cond), position)
            yield from _reads(stage, no, loops, (*conditions, Unary("not", cond)), position)
        case _:
            for part in children(expr):
                yield from _reads(stage, part, loops, conditions, position)
            if isinstance(expr, Load) and isinstance(expr.buffer, Buffer):
                yield Access(
                    stage, expr.buffer, expr.index, writes=False, reducer=None, loops=loops, conditions=conditions, position=position
                )


def rename(expr: Expr, names: dict[str, str], mark: str = "") -> Expr:
    """The expression over a copy's axes. What it reads of a buffer that the nest writes is an unknown of that copy."""
    if isinstance(expr, Axis):
        return Axis(names.get(expr.name, expr.name))
    expr = map_children(expr, lambda child: rename(child, names, mark))
    if isinstance(expr, Load) and mark and isinstance(expr.buffer, Buffer):
        return Load(replace(expr.buffer, name=f"{expr.buffer.name}{mark}"), expr.index)
    return expr


@dataclass(frozen=True, slots=True)
class Instance:
    """One execution of a statement: its access, with every axis renamed to a copy of its own, and what holds of the copies."""

    access: Access
    names: dict[str, str]
    facts: tuple[Expr, ...]
    index: tuple[Expr, ...]

    def at(self, loop: str) -> Expr:
        """The copy's value of a loop."""
        return Axis(self.names.get(loop, loop))


def facts_of(loop: For) -> tuple[Expr, Expr]:
    """What the bounds of a loop say of it."""
    return Compare("le", loop.lo, Axis(loop.loop)), Compare("lt", Axis(loop.loop), loop.hi)


def instance(nest: Nest, access: Access, mark: str, shared: frozenset[str]) -> Instance:
    """A copy of an access whose loops outside `shared` are its own."""
    around = {loop.loop for loop in access.loops}
    relations = in_scope(nest, around)
    axes = around | {name for relation in relations for name in relation_names(relation)}
    shared_axes = {name for name in axes if closure(nest, (name,)) & around <= shared}
    names = {name: f"{name}{mark}" for name in axes - shared_axes}
    facts: list[Expr] = [fact for loop in access.loops for fact in facts_of(loop)]
    facts += [fact for relation in relations for fact in equations(relation)]
    inputs = {buffer.name for buffer in nest.inputs}

    def varies(expr: Expr) -> bool:
        return any(getattr(load.buffer, "name", "") not in inputs for load in loads_of(expr))

    facts += [condition for condition in access.conditions if not varies(condition)]
    index = tuple(rename(part, names, mark if varies(part) else "") for part in access.index)
    return Instance(access, names, tuple(rename(fact, names) for fact in facts), index)


def same_element(first: Instance, second: Instance) -> Iterator[Expr]:
    """What holds where two instances touch one element of a buffer."""
    for a, b in zip(first.index, second.index, strict=True):
        yield Compare("eq", a, b)


def conflict(
    nest: Nest, first: Access, second: Access, shared: frozenset[str], order: Sequence[Expr], either: tuple[Expr, Expr] = (TRUE, TRUE)
) -> dict[str, Any] | None:
    """Two instances that touch one element while `order` holds (over axes marked `'` and `''`), or None.

    Of `either`, the first holds of the first instance, or the second of the second.
    """
    one, two = instance(nest, first, "'", shared), instance(nest, second, "''", shared)
    facts = [*one.facts, *two.facts, *_ties(nest, one, two, shared), *same_element(one, two), *order]
    if TRUE not in either:
        facts.append(Binary("or", *(rename(part, copy.names) for part, copy in zip(either, (one, two), strict=True))))
    point = find(*facts)
    return None if point is None else example_of(one, two, point)


def _ties(nest: Nest, one: Instance, two: Instance, shared: frozenset[str]) -> Iterator[Expr]:
    """What the fused loops of two copies say of each other where the inner extent is no literal.

    Its equation is no linear one then, but the pairs (outer, inner) come in the order of the fused loop.
    """
    around = [loop.loop for loop in one.access.loops], [loop.loop for loop in two.access.loops]
    both = set(around[0]) | set(around[1])
    for relation in in_scope(nest, around[0]):
        if (
            not isinstance(relation, Fuse)
            or isinstance(relation.extent, Const)
            or relation.fused not in two.names.keys() & one.names.keys()
        ):
            continue
        fixed = closure(nest, axes_of(relation.extent) | axes_of(relation.outer_lo) | axes_of(relation.inner_lo)) & both <= shared
        if fixed and relation in in_scope(nest, around[1]):
            (f, o, i), (g, p, j) = ([copy.at(axis) for axis in relation_names(relation)] for copy in (one, two))
            for a, b, c, d, e, h in ((f, g, o, p, i, j), (g, f, p, o, j, i)):
                inside = Binary("and", Compare("eq", c, d), Compare("lt", e, h))
                yield Binary("or", Compare("ge", a, b), Binary("or", Compare("lt", c, d), inside))
            yield Binary("or", Compare("ne", f, g), Binary("and", Compare("eq", o, p), Compare("eq", i, j)))


def example_of(one: Instance, two: Instance, point: dict[Expr, int]) -> dict[str, Any]:
    """Two instances at a point, as a counterexample."""

    def values(copy: Instance) -> dict[str, int]:
        return {short(loop.loop): point[copy.at(loop.loop)] for loop in copy.access.loops if copy.at(loop.loop) in point}

    index = [point.get(part, int(part.value) if isinstance(part, Const) else None) for part in one.index]
    element = f"{one.access.buffer.name}[{', '.join('?' if value is None else str(value) for value in index)}]"
    dims = {node.name: value for node, value in point.items() if isinstance(node, ir.Dim)}
    found: dict[str, Any] = {
        "first": {"stage": one.access.stage, "does": "writes" if one.access.writes else "reads", "at": values(one)},
        "second": {"stage": two.access.stage, "does": "writes" if two.access.writes else "reads", "at": values(two)},
        "element": element,
    }
    return {**found, "dims": dims} if dims else found


def _pairs(found: Sequence[Access]) -> Iterator[tuple[Access, Access]]:
    """Pairs of accesses to one buffer of which at least one writes."""
    by_buffer: dict[str, list[Access]] = {}
    for access in found:
        by_buffer.setdefault(access.buffer.name, []).append(access)
    for group in by_buffer.values():
        for first in group:
            for second in group:
                if first.writes or second.writes:
                    yield first, second


def race(nest: Nest, loop: For, outer: Sequence[For], *, reductions: bool) -> dict[str, Any] | None:
    """Two different iterations of a loop that touch one element, at least one writing it; None if there are none.

    `reductions` lets combining stores of one reducer share an element that the loop does not move (the lanes of a vector reduction keep
    partial results).
    """
    private = {buffer.name for buffer in allocations(loop.body)}
    found = [access for access in accesses(loop, tuple(outer), conditions_around(nest, loop)) if access.buffer.name not in private]
    shared = frozenset(around.loop for around in outer)
    differ = later(loop, "'", "''")
    for first, second in _pairs(found):
        if first.position > second.position or (first.position == second.position and first is not second and not first.writes):
            continue
        if reductions and first.reducer is not None and first.reducer == second.reducer and not moved(nest, loop, first, second):
            continue
        if _identity_apart(nest, loop, shared, first, second):
            continue
        orders = (differ,) if first is second else (differ, later(loop, "''", "'"))
        for order in orders:
            example = conflict(nest, first, second, shared, (order,))
            if example is not None:
                return example
    return None


def moved(nest: Nest, loop: For, *found: Access) -> bool:
    """Do the elements of accesses depend on a loop, by its axis or by what is stored inside it?"""
    written = {buffer.name for part in statements(loop.body) if isinstance(part, Store) for buffer in part.buffers}
    parts = [part for access in found for part in access.index]
    stored = any(getattr(load.buffer, "name", "") in written for part in parts for load in loads_of(part))
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
            case Split(parent, high, low, _, lo, _, tail) if (
                {high, low} & found and tail != "shift" and closure(nest, axes_of(lo)) & around <= outer
            ):
                found.add(parent)
            case Window(parent, inner, base) if inner in found and closure(nest, axes_of(base)) & around <= outer:
                found.add(parent)
            case _:
                pass
    return found


def repeated(nest: Nest, store: Store, loops: Sequence[For], outer: Sequence[For], inside: Sequence[For] = ()) -> dict[str, Any] | None:
    """Two different iterations of nested `loops` in which a store touches one element; None if each touches its own.

    `outer` are the loops around them, which are at one iteration; `inside` those within, which are at any.
    """
    around = (*outer, *loops, *inside)
    target = Access(store.stage, store.buffers[0], store.index, writes=True, reducer=None, loops=around, conditions=(), position=0)
    for position, loop in enumerate(loops):
        shared = frozenset(part.loop for part in (*outer, *loops[:position]))
        if _identity_apart(nest, loop, shared, target, target):
            continue
        example = conflict(nest, target, target, shared, (later(loop, "'", "''"),))
        if example is not None:
            return example
    return None


def overtaken(nest: Nest, loop: For, outer: Sequence[For], first: Stmt, second: Stmt) -> dict[str, Any] | None:
    """Of two statements in a loop: an iteration of the second and a later one of the first that touch one element; None if none do.

    Running all iterations of the first before the second would swap them, running them together again would swap them back.
    """
    around = (*outer, loop)
    shared = frozenset(part.loop for part in outer)
    held = conditions_around(nest, loop)
    found = [[access for access in accesses(part, around, held) if access.buffer.name not in _private(part)] for part in (second, first)]
    marks = {**folds(first), **folds(second)}
    for one, two in itertools.product(*found):
        if one.buffer.name != two.buffer.name or not (one.writes or two.writes):
            continue
        either = _fixed(marks, one, two)
        if either is None or _identity_apart(nest, loop, shared, one, two):
            continue
        example = conflict(nest, one, two, shared, (later(loop, "'", "''"),), either)
        if example is not None:
            return example
    return None


def _fixed(marks: dict[int, Fold], first: Access, second: Access) -> tuple[Expr, Expr] | None:
    """Where two accesses may not change places, as conditions on the copies of which one holds; None for nowhere: both combine."""
    if first.reducer is not None and first.reducer == second.reducer:
        return None
    one, two = marks.get(first.source), marks.get(second.source)
    if one is None or two is None or one.reducer != two.reducer:
        return TRUE, TRUE
    return None if one.fresh == two.fresh == FALSE else (one.fresh, two.fresh)


def _private(stmt: Stmt) -> frozenset[str]:
    return frozenset(buffer.name for buffer in allocations(stmt))


def reordered(nest: Nest, old: Sequence[For], new: Sequence[str], outer: Sequence[For]) -> dict[str, Any] | None:
    """Two instances inside a chain of loops whose order a new order of the chain would swap, though one must see the other; or None."""
    body = old[-1].body
    private = {buffer.name for buffer in allocations(body)}
    found = [access for access in accesses(old[0], tuple(outer), conditions_around(nest, old[0])) if access.buffer.name not in private]
    shared = frozenset(around.loop for around in outer)
    before = _lexicographic([loop.loop for loop in old], "'", "''")
    after = _lexicographic(list(new), "''", "'")
    marks = folds(body)
    for first, second in _pairs(found):
        either = _fixed(marks, first, second)
        if either is None:
            continue
        if first is second and _told(nest, old, first):
            continue
        example = conflict(nest, first, second, shared, (before, after), either)
        if example is not None:
            return example
    return None


def _told(nest: Nest, chain: Sequence[For], write: Access) -> bool:
    """Does the element tell every axis that the stored value speaks of, so that iterations which write one element write one value?

    Only the tiles of a "shift" split write an element twice, which this lets change places. An index tells an axis that it is but for a
    constant. It does not tell what it was derived from: `p = f // 5` leaves open which f, and `q = q_s - p` both of q_s and p.
    """
    store = next(part for part in statements(chain[0]) if id(part) == write.source)
    assert isinstance(store, Store)
    told = {
        next(iter(axes_of(part)))
        for part in write.index
        if len(linear(part).terms) == 1 and isinstance(next(iter(linear(part).terms)), Axis)
    }
    private = set(allocations(chain[-1].body))
    hidden = any(load.buffer in private for value in store.values for load in loads_of(value))
    spoken = [expr for part in statements(chain[-1].body) for expr in expressions(part)] if hidden else store.values
    loops = {loop.loop for loop in chain}
    return all(axis in told or not closure(nest, (axis,)) & loops for expr in spoken for axis in axes_of(expr))


def _lexicographic(loops: Sequence[str], earlier: str, later: str) -> Expr:
    """Copy `earlier` comes before copy `later` in the order of the loops."""
    result: Expr = FALSE
    for loop in reversed(loops):
        less = Compare("lt", Axis(loop + earlier), Axis(loop + later))
        same = Compare("eq", Axis(loop + earlier), Axis(loop + later))
        result = Binary("or", less, Binary("and", same, result)) if result != FALSE else less
    return result


def reads(stmt: Stmt) -> Iterator[Load]:
    """Every load within a statement, its bounds and conditions included."""
    for part in statements(stmt):
        for expr in expressions(part):
            yield from loads_of(expr)
