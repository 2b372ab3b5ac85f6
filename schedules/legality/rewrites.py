"""Writes that come again: when the order of two of them does not matter.

A conflict is a pair of instances. Whether it does harm may depend on a third one: a write of the same element that both orders put last,
or one of the same value that both orders put first. Such a third instance is looked for where the pair says: some loops as the first of
the pair has them, the others as the second. That it is one (within all bounds, under all conditions, at the same element) is part of the
question, so that only pairs without it are left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tensorlang.algebra.bounds import conjuncts
from tensorlang.algebra.rules import FALSE, TRUE
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import (
    Axis,
    Binary,
    Compare,
    Const,
    Expr,
    For,
    FuseRelation,
    Nest,
    Param,
    Reducer,
    Select,
    Stmt,
    Store,
    Unary,
    WindowRelation,
    const,
)
from tensorlang.ir.linear import linear
from tensorlang.ir.mentions import allocations
from tensorlang.ir.relations import closure, derived_values, equations, in_scope, sides
from tensorlang.ir.traverse import axes_of, expressions, loads_of, map_children, read_in, reads_data, statements
from tensorlang.schedules.legality.accesses import Access, facts_of
from tensorlang.schedules.legality.instances import Instance, rename
from tensorlang.schedules.rewriting.edit import stores

NONE: Final[Mapping[str, str]] = MappingProxyType({})
"""No loop is slanted."""
SELECTIVE: Final = frozenset({"max", "min", "fmax", "fmin", "and", "or"})
"""Operations that give `a` of `a` and `a`."""


@dataclass(frozen=True, slots=True)
class MixedInstance:
    """A write with loops of two instances: what its derived axes are, and what has to hold for it to be one at their element."""

    names: dict[str, str]
    given: tuple[Expr, ...]
    demands: Expr


def mixed_instance(
    nest: Nest,
    loops: Sequence[For],
    one: Instance,
    two: Instance,
    chosen: frozenset[str],
    mark: str,
    step: str | None = None,
    roots: Mapping[str, str] = NONE,
) -> MixedInstance | None:
    """The write that `two` is with the loops `chosen` as `one` has them, and one iteration later of `step`; None if that cannot be said.

    `loops` are those of `two` that the two instances do not share. Of a loop with a root (see `upright`), it is the root that is taken
    from one of them, and the loop is what follows from it.
    """
    own = {loop.loop for loop in loops}
    stands_for = {root: loop for loop, root in roots.items()}
    names: dict[str, str] = {}
    mixed: set[str] = set()
    for axis in two.names:
        told = closure(nest, (axis,)) & own
        told = told.union(*(closure(nest, (roots[loop],)) & own for loop in told & roots.keys()))
        of = frozenset([stands_for[axis]]) if axis in stands_for else told
        if step in of or (of & chosen and not (of <= chosen and axis in one.names)):
            names[axis] = f"{axis}{mark}"
            mixed.add(axis)
        else:
            names[axis] = (one if of & chosen else two).names[axis]
    given: list[Expr] = []
    if step is not None:
        given.append(Compare("eq", Axis(names[step]), Binary("add", two.at(step), const(1))))
    asked = [fact for loop in loops for fact in facts_of(loop)] + [simplify(held) for held in conjuncts(two.access.conditions)]
    for relation in in_scope(nest, [loop.loop for loop in two.access.loops]):
        parts = equations(relation)
        if isinstance(relation, WindowRelation) and relation.inner in mixed and roots:
            given.append(rename(parts[0], names))  # what the loop is, given its root
            asked += parts[1:]
        elif not mixed.intersection(sides(relation)[1]):
            asked += parts
        elif isinstance(relation, FuseRelation):
            return None  # its axes exist only within its range
        else:
            given.append(rename(parts[0], names))
            asked += parts[1:]
    known = {*one.facts, *two.facts}
    wanted = [part for part in (rename(part, names) for part in asked) if part not in known]
    elements = [(rename(simplify(part), names), there) for part, there in zip(two.access.index, two.index, strict=True)]
    wanted += [Compare("eq", here, there) for here, there in elements if here != there]
    demands: Expr = TRUE
    for part in wanted:
        demands = Binary("and", demands, part)
    return MixedInstance(names, tuple(given), demands)


def none_last(
    nest: Nest, old: Sequence[str], new: Sequence[str], one: Instance, two: Instance, roots: Mapping[str, str] = NONE
) -> list[Expr]:
    """What is left of the question whether two writes of one store, `one` before `two` in the old order, may change places.

    Only the last write of an element matters. If the last one were another in the new order, it and the old one would be a pair that
    changes places and that no write of the element follows: neither the second in the old order nor the first in the new one. Writes
    that may follow are those with loops of both, or with `roots` of both, and the next ones of the second.
    """
    place = next(position for position, loop in enumerate(one.access.loops) if loop.loop == old[0])
    loops = one.access.loops[place:]
    fixed = all(rename(simplify(part), one.names) == there for part, there in zip(one.access.index, one.index, strict=True))
    if not fixed or any(reads_data(bound) for loop in loops for bound in (loop.lo, loop.hi)):
        return []  # where it writes, or whether, may depend on what is written meanwhile
    groups = [frozenset([loop]) for loop in old]
    if len(loops) > len(old):
        groups.append(frozenset(loop.loop for loop in loops[len(old) :]))
    every = frozenset(loop.loop for loop in loops)
    found: list[Expr] = []
    mixes: list[tuple[frozenset[str], str | None]] = [(chosen, None) for chosen in (*groups, *(every - group for group in groups))]
    mixes += [] if roots else [(frozenset(), loop) for loop in old]
    for position, (chosen, step) in enumerate(dict.fromkeys(mixes)):
        last = mixed_instance(nest, loops, one, two, chosen, f"'''{position}", step, roots)
        if last is not None:
            after = Binary("or", before(old, two.names, last.names), before(new, one.names, last.names))
            found += [*last.given, Unary("not", Binary("and", last.demands, after))]
    return found


def idle(nest: Nest, chain: Sequence[For], write: Access, copied: Collection[str] = ()) -> list[str]:
    """The loops of a chain that repeat a store as it is: nothing that it does, and no other loop of it, has anything to do with them.

    Where nothing else touches the buffer, the last write of an element is then one in the last iteration of these, whatever order they
    stand in, and of the others the one that is last among them. So only writes that are in the same iteration of these may not change
    places. What ties loops together is a bound of one that speaks of the other, a condition of both, an axis of which both are digits.
    What it reads of storage into which each iteration has `copied` anew is what was copied, so that where that is from counts as its own.
    """
    store, loops = _undisturbed(chain[0], write, copied)
    if store is None:
        return []
    names = {loop.loop for loop in loops}
    tied = [closure(nest, axes_of(loop.lo) | axes_of(loop.hi) | {loop.loop}) & names for loop in loops]
    tied += [closure(nest, axes_of(cond)) & names for cond in conjuncts(write.conditions)]
    tied += [closure(nest, sides(relation)[1]) & names for relation in in_scope(nest, names)]
    own = _expressions(chain[-1].body) if _reads((*store.index, *store.values, *write.conditions), copied) else []
    busy = closure(nest, frozenset().union(*map(axes_of, (*store.index, *store.values, *own)))) & names
    while more := {name for group in tied if group & busy for name in group - busy}:
        busy |= more
    return [loop.loop for loop in chain if loop.loop not in busy]


def upright(nest: Nest, chain: Sequence[str]) -> dict[str, str]:
    """The roots of loops that are slanted by others of a chain: of `p_s`, where `p = p_s - q`, the axis `p` that it was.

    Which `p` there are does not depend on `q`, as it does of `p_s`, so that one of each may be put together.
    """
    above = {relation.inner: relation.parent for relation in nest.relations if isinstance(relation, WindowRelation)}
    found: dict[str, str] = {}
    for loop in chain:
        root = loop
        while root in above:
            root = above[root]
        if closure(nest, (root,)) & set(chain) - {loop}:
            found[loop] = root
    return found


def before(loops: Sequence[str], earlier: dict[str, str], later: dict[str, str]) -> Expr:
    """One copy comes before another in the order of the loops."""
    result: Expr = FALSE
    for loop in reversed(loops):
        if earlier[loop] != later[loop]:
            less, same = (Compare(op, Axis(earlier[loop]), Axis(later[loop])) for op in ("lt", "eq"))
            result = less if result == FALSE else Binary("or", less, Binary("and", same, result))
    return result


def written_before(nest: Nest, loop: For, one: Instance, two: Instance) -> list[Expr]:
    """What is left of the question whether a read `one` may change places with a write `two` of a later iteration of `loop`.

    Where one store alone writes the buffer, and each time the same value into an element, a read sees this value wherever it stands after
    one of the writes. The one in the iteration of the read, if there is one, stands before it in both orders.
    """
    loops = _alike(nest, loop, two.access)
    same = mixed_instance(nest, loops, one, two, frozenset([loop.loop]), "'''") if loops else None
    return [] if same is None else [*same.given, Unary("not", same.demands)]


def written_by_another(nest: Nest, chain: Sequence[For], order: Sequence[str], read: Instance, write: Instance) -> list[Expr]:
    """What is left of the question whether a read and a write in a chain of loops may change places, where `order` is that of the loops.

    Where one store alone writes the buffer, and each time the same value into an element, a read sees this value if any of the writes
    stands before it. One that the read stood after may follow it where another one comes before it in the new order; one that it stood
    before may precede it where another one did in the old order, so that it saw the value, and not what was there before the chain. Such
    another one is looked for in the iteration of the read, where it stands before it in every order, and in iterations that some loops
    have as the read, the others as the write.
    """
    loops = _alike(nest, chain[0], write.access)
    inner = {part.loop for part in write.access.loops} & {part.loop for part in read.access.loops}
    own = write.access.position < read.access.position and not inner & {part.loop for part in loops} - {part.loop for part in chain}
    every = frozenset(part.loop for part in chain)
    groups = [frozenset([part.loop]) for part in chain]
    found: list[Expr] = []
    for place, chosen in enumerate(dict.fromkeys([every, *groups, *(every - group for group in groups)]) if loops else ()):
        other = mixed_instance(nest, loops, read, write, chosen, f"'''{place}") if chosen and (own or chosen < every) else None
        if other is not None:
            comes = TRUE if chosen == every else before(order, other.names, read.names)
            found += [*other.given, Unary("not", Binary("and", other.demands, comes))]
    return found


def _alike(nest: Nest, loop: For, write: Access) -> tuple[For, ...]:
    """The loops of a store from `loop` on, if it alone writes its buffer there, the same value into an element each time; else none."""
    store, loops = _undisturbed(loop, write)
    if store is None or any(part is not store and set(part.buffers) & set(store.buffers) for part in stores(loop)):
        return ()
    return loops if told(nest, loops, write) else ()


def _undisturbed(loop: For, write: Access, copied: Collection[str] = ()) -> tuple[Store | None, tuple[For, ...]]:
    """A store and its loops from `loop` on; no store where what it does, or whether it does, is read from what is stored there.

    Reading what each iteration of the loops has `copied` for itself is reading what was copied.
    """
    every = list(stores(loop))
    store = next(part for part in every if id(part) == write.source)
    place = next(position for position, part in enumerate(write.loops) if part.loop == loop.loop)
    loops = write.loops[place:]
    written = {buffer.name for part in every for buffer in part.buffers if buffer.name not in copied}
    around = [expr for part in loops for expr in (part.lo, part.hi)]
    spoken = [*store.values, *store.index, *write.conditions, *around]
    spoken += _expressions(loop.body) if _reads(spoken, copied) else []
    return None if _reads(spoken, written) else store, loops


def _reads(exprs: Iterable[Expr], buffers: Collection[str]) -> bool:
    return any(not read_in(expr).isdisjoint(buffers) for expr in exprs)


def _expressions(stmt: Stmt) -> list[Expr]:
    return [expr for part in statements(stmt) for expr in expressions(part)]


def told(nest: Nest, chain: Sequence[For], write: Access) -> bool:
    """Does the element tell every axis that the stored value speaks of, so that iterations which write one element write one value?

    The tiles of a "shift" split write an element twice, and so does storage that is filled in every iteration. An index tells an axis
    that it is but for what stays the same around the chain, two tell one of which they are the digits, and what is derived from such axes
    alone is told, too; of a loop inside the chain two iterations that write the element may be at different ones. What an axis that is told
    was derived from is not: `p = f // 5` leaves open which f, and `q = q_s - p` both of q_s and p.
    """
    store = next(part for part in statements(chain[0]) if id(part) == write.source)
    assert isinstance(store, Store)
    moving = {loop.loop for loop in write.loops[write.loops.index(chain[0]) :]}

    def moves(expr: Expr) -> bool:
        return bool(closure(nest, axes_of(expr)) & moving) or reads_data(expr)

    terms = [[atom for atom in linear(part).terms if moves(atom)] for part in write.index]
    alone = [part[0] for part in terms if len(part) == 1]
    known = {atom.name for atom in alone if isinstance(atom, Axis)}
    digits = [atom for atom in alone if isinstance(atom, Binary) and isinstance(atom.right, Const)]
    quotients, rests = ({(atom.left, atom.right) for atom in digits if atom.op == op} for op in ("floordiv", "mod"))
    known |= {part.name for part, _ in quotients & rests if isinstance(part, Axis)}
    private = set(allocations(chain[-1].body))
    hidden = any(load.buffer in private for value in store.values for load in loads_of(value))
    spoken = _expressions(chain[-1].body) if hidden else store.values
    derived = {axis: value for relation in nest.relations for axis, value in derived_values(relation).items()}

    def is_told(axis: str) -> bool:
        if axis in known or not closure(nest, (axis,)) & moving:
            return True
        return axis in derived and all(map(is_told, axes_of(derived[axis])))

    return all(is_told(axis) for expr in spoken for axis in axes_of(expr))


def idempotent(reducer: Reducer) -> bool:
    """Does combining a state with itself give that state, whatever it is?

    Read off the expressions: with `b` put as `a`, each component comes to `a`, since both operands of a `SELECTIVE` operation, or both
    sides of a choice, do. As a reducer is associative and commutative, a value may then be combined as often as one likes: of
    `x, ..., x` the second `x` moves to the first one, and is gone.
    """
    states = (Param(f"a{place}", identity.dtype) for place, identity in enumerate(reducer.identities))
    return all(_with_itself(result) == state for result, state in zip(reducer.results, states, strict=True))


def _with_itself(expr: Expr) -> Expr:
    """An expression over two equal states."""
    match map_children(expr, _with_itself):
        case Param(name, of):
            return Param(f"a{name[1:]}", of)
        case Binary(op, left, right) if op in SELECTIVE and left == right:
            return left
        case Select(_, yes, no) if yes == no:
            return yes
        case other:
            return other
