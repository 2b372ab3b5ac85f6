"""Moving a producer out of its consumer's loops: what `compute_root` and `compute_at` share.

`raised` is for stages whose values depend on the loops around them: the storage gets a dimension for each of these loops, and the
producer its own copies of them, with the relations that derive axes from them. Loops on which nothing depends are left behind, with a
test that they run at all where that is not known. `unplaced` is for a producer whose loops cover a box of the tensor: they cover the
whole tensor again. A stage may be both, where each iteration of an outer loop has a tensor of its own and an inner one takes a box of
it: then the box becomes whole first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tensorlang import ir
from tensorlang.algebra.bounds import conjuncts
from tensorlang.ir import Alloc, Axis, Block, Buffer, Compare, Expr, For, If, Nest, Prefetch, Relation, Stmt, Store, allocate, block
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure, renamed, sides
from tensorlang.ir.traverse import (
    axes_of,
    expressions,
    map_expressions,
    map_own_expressions,
    map_statements,
    statements,
    substatements,
    unless_empty,
)
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.legality.accesses import accesses
from tensorlang.schedules.legality.in_bounds import place_facts, sides_left
from tensorlang.schedules.placement.local_copies import Clone, clone, offsets
from tensorlang.schedules.placement.producer_placement import (
    Placement,
    StoredBox,
    box_of,
    boxed,
    dimensions,
    placement_of,
    reading,
    require_inside,
    require_operands_before,
    start_of,
    values_of,
    with_stage_moved,
)
from tensorlang.schedules.placement.scopes import unfollowed
from tensorlang.schedules.placement.upper_bounds import greatest
from tensorlang.schedules.placement.whole_reads import require_whole_reads
from tensorlang.schedules.rewriting.copies import derived
from tensorlang.schedules.rewriting.edit import always_runs, edit_loops, edit_stores, extent_of, stores


def raised(nest: Nest, place: Placement, keep: int, loop: str = "") -> Nest:
    """The nest with a stage moved in front of all but the outermost `keep` loops around it. Raises `Refusal`."""
    inside = {part.loop for part in place.loops[keep:]}
    box = boxed(nest, place) & inside
    if box and not box & _implied(nest, place):
        nest = _spread(nest, place, loop)
        place, box = placement_of(nest, place.stage, loop), frozenset()
    outer, between = place.loops[:keep], place.loops[keep:]
    start = between[0]
    require_operands_before(nest, place, start, loop)
    require_inside(nest, place, start, loop)
    conditions = [cond for cond, known in place.conditions if start.loop in known]
    dims = _needed(nest, place, conditions, between, box)
    spoken = frozenset().union(*(axes_of(expr) for part in place.parts for stmt in statements(part) for expr in expressions(stmt)))
    if closure(nest, spoken) & {part.loop for part in between if part not in dims}:  # a box that cannot be told from its loops
        reason = f"the loops of {place.stage!r} are already scheduled; move it first, then schedule its loops"
        raise Refusal("TL-S301", reason, stage=place.stage, loop=loop)
    sizes = [_most(nest, extent_of(dim), between, f"the number of iterations of {short(dim.loop)!r}", place.stage, loop) for dim in dims]
    local = {
        buffer.name: _roomy(
            buffer, (*sizes, *(_most(nest, size, between, f"the storage of {place.stage!r}", place.stage, loop) for size in buffer.shape))
        )
        for buffer in place.buffers
    }
    runs = [Compare("gt", extent_of(part), ir.const(0)) for part in between if part not in dims and not always_runs(part)]
    around = [test for test in runs if not closure(nest, axes_of(test)) & {part.loop for part in dims}]
    within = [test for test in runs if test not in around]
    parts: list[Stmt] = []
    relations = list(nest.relations)
    for part in place.parts:
        first = all(store.stage == f"{place.stage}.init" for store in stores(part))
        scoped = replace(nest, relations=tuple(relations))
        copies = clone(scoped, f"{place.stage}.init" if first else place.stage, dims, [around.loop for around in outer], follow=False)
        relations = _following(relations, part, copies)
        own = partial(_after, offsets(copies.loops))
        body = _stored(map_expressions(map_expressions(part, copies.of), reading(local, own)), local, own(()))
        asked = () if first else (test for test in conditions if not _asks(part, test))
        for test in [*within, *asked]:
            body = If(copies.of(test), body)
        body = copies.in_loops(body)
        for test in around:  # and not between the loops, which may change places
            body = If(copies.of(test), body)
        parts.append(body)
        relations += copies.relations

    def with_producer(rest: Stmt) -> Stmt:
        return allocate(local.values(), block(*parts, rest))

    return replace(
        nest,
        body=with_stage_moved(nest.body, place, start, local, partial(_after, offsets(dims)), with_producer),
        relations=tuple(relations),
    )


def _asks(part: Stmt, test: Expr) -> bool:
    """Does a statement ask a condition of all that it stores? Around its loops, once more, it would keep them from changing places."""
    match part:
        case If(cond, then, None):
            return test in conjuncts((cond,)) or _asks(then, test)
        case Store():
            return False
        case _:
            inside = substatements(part)
            return bool(inside) and all(_asks(inner, test) for inner in inside)


def _most(nest: Nest, size: Expr, loops: Sequence[For], what: str, stage: str, loop: str) -> Expr:
    """A size that no iteration of `loops` exceeds. Raises `Refusal` where none is known."""
    most = greatest(nest, size, loops)
    if most is None:
        raise Refusal("TL-S303", f"{what} has no simple bound over the loops around it", stage=stage, loop=loop)
    return most


def _implied(nest: Nest, place: Placement) -> frozenset[str]:
    """What the values depend on: where the box moves with that too, there is no whole tensor of which it is a part."""
    return closure(nest, frozenset().union(*map(axes_of, values_of(nest, place))))


def _needed(nest: Nest, place: Placement, conditions: Sequence[Expr], between: Sequence[For], box: frozenset[str]) -> tuple[For, ...]:
    """Those of the loops on which the values, the box, the conditions or the bounds of other needed loops depend."""
    axes = box.union(*(axes_of(expr) for expr in (*values_of(nest, place), *conditions)))
    for part in between:
        if not always_runs(part):
            axes |= axes_of(part.lo) | axes_of(part.hi)
    while True:
        found = tuple(part for part in between if part.loop in closure(nest, axes))
        grown = axes.union(*(axes_of(bound) for part in found for bound in (part.lo, part.hi)))
        if grown == axes:
            return found
        axes = grown


def _following(relations: Sequence[Relation], part: Stmt, copies: Clone) -> list[Relation]:
    """The relations, those of the moved statement's own loops over the copied axes."""
    own = derived(relations, (found.loop for found in statements(part) if isinstance(found, For)))
    return [renamed(relation, copies.names) if own.issuperset(sides(relation)[1]) else relation for relation in relations]


def _roomy(buffer: Buffer, shape: tuple[Expr, ...]) -> Buffer:
    """A buffer of a larger shape, which no longer has to fit where the small one lived."""
    return replace(buffer, shape=shape, memory="auto" if buffer.memory in ("register", "stack") else buffer.memory)


def _after(leading: tuple[Expr, ...], index: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return (*leading, *index)


def _stored(part: Stmt, local: dict[str, Buffer], leading: tuple[Expr, ...]) -> Stmt:
    match part:
        case Store(buffers=buffers) if any(buffer.name in local for buffer in buffers):
            return replace(part, buffers=tuple(local[buffer.name] for buffer in buffers), index=(*leading, *part.index))
        case Prefetch(buffer, index) if buffer.name in local:
            return replace(part, buffer=local[buffer.name], index=(*leading, *index))
        case _:
            return map_statements(part, lambda inner: _stored(inner, local, leading))


def unplaced(nest: Nest, place: Placement, loop: str = "") -> Nest:
    """The nest with a producer that covers a box inside loops of its consumer moved in front of them, whole. Raises `Refusal`."""
    box = box_of(nest, place, loop)
    require_whole_reads(nest, place, box, loop)
    start = place.loops[0]
    require_operands_before(nest, place, start, loop)
    require_inside(nest, place, start, loop)
    local = {buffer.name: _roomy(buffer, box.ends) for buffer in place.buffers}
    parts = _covering(nest, place, box, local, loop)
    _require_free(nest, place, parts, loop)
    if not box.told:
        _require_readable(nest, place, parts, (), loop)

    def with_producer(rest: Stmt) -> Stmt:
        return allocate(local.values(), block(*parts, rest))

    return replace(nest, body=unfollowed(with_stage_moved(nest.body, place, start, local, box.whole, with_producer), place.parts))


def _spread(nest: Nest, place: Placement, loop: str) -> Nest:
    """The nest with a producer that covers a box covering the whole tensor, where it stands. Raises `Refusal`."""
    box = box_of(nest, place, loop)
    require_whole_reads(nest, place, box, loop)
    local = {buffer.name: _roomy(buffer, box.ends) for buffer in place.buffers}
    covering = _covering(nest, place, box, local, loop)
    if not box.told:
        _require_readable(nest, place, covering, tuple(place.loops), loop)
    parts = {id(old): new for old, new in zip(place.parts, covering, strict=True)}

    def rewrite(part: Stmt) -> Stmt:
        match part:
            case Alloc(buffers, body):
                return allocate((local.get(buffer.name, buffer) for buffer in buffers), rewrite(body))
            case Prefetch(buffer) if buffer.name in local:
                return Block(())
            case _ if id(part) in parts:
                return parts[id(part)]
            case _:
                return map_statements(map_own_expressions(part, read), rewrite)

    read = reading(local, box.whole)
    return replace(nest, body=unfollowed(rewrite(nest.body), place.parts))


def _covering(nest: Nest, place: Placement, box: StoredBox, local: dict[str, Buffer], loop: str) -> list[Stmt]:
    """The statements of a producer over the whole tensor instead of a box, into `local`."""
    parts: list[Stmt] = []
    for part in place.parts:
        dims = {id(found): tuple(dim.loop for dim, _ in around) for found, around in dimensions(part, place) or ()}
        ends = {axis: end for axes in dims.values() for axis, end in zip(axes, box.ends, strict=True)}

        def whole(found: For, ends: dict[str, Expr] = ends) -> For:
            return replace(found, lo=start_of(nest, found, place, loop), hi=ends[found.loop])

        def store(found: Store, dims: dict[int, tuple[str, ...]] = dims) -> Stmt:
            if id(found) not in dims:
                return found
            index = tuple(Axis(axis) for axis in dims[id(found)])
            return replace(found, buffers=tuple(local[buffer.name] for buffer in found.buffers), index=index)

        moved = edit_loops(edit_stores(part, store), lambda found, ends=ends: found.loop in ends, whole)  # type: ignore[misc]
        parts.append(_unhinted(map_expressions(moved, reading(local, box.whole)), local))
    return parts


def _unhinted(part: Stmt, local: dict[str, Buffer]) -> Stmt:
    """The statement without hints about what it computes: they are about the box."""
    if isinstance(part, Prefetch) and part.buffer.name in local:
        return Block(())
    return unless_empty(map_statements(part, lambda inner: _unhinted(inner, local)))


def _require_readable(nest: Nest, place: Placement, parts: Sequence[Stmt], outer: tuple[For, ...], loop: str) -> None:
    """Raise `Refusal` where a producer over the whole tensor would read what is not there.

    The end of the tensor is one that no iteration passes, and may be one that none reaches: then elements are computed that nobody asked
    for, of operands that need not have them.
    """
    for access in (access for part in parts for access in accesses(part, outer)):
        own = {part.loop for part in access.loops} - {part.loop for part in outer}
        if access.writes or not closure(nest, frozenset().union(*map(axes_of, access.index))) & own:
            continue
        if sides_left(access.index, access.buffer.shape, place_facts(nest, access.loops, access.conditions)):
            raise Refusal(
                "TL-S303",
                f"how far {place.stage!r} is needed is known by a bound alone, up to which {access.buffer.name!r} has nothing to read; "
                f"move {place.stage!r} before the loops that read it are cut",
                stage=place.stage,
                loop=loop,
            )


def _require_free(nest: Nest, place: Placement, parts: list[Stmt], loop: str) -> None:
    """Raise `Refusal` where something inside the producer depends on a loop that it leaves (a copy of what one iteration reads)."""
    own = {inner.loop for part in parts for inner in statements(part) if isinstance(inner, For)}
    used = frozenset().union(*(axes_of(expr) for part in parts for inner in statements(part) for expr in expressions(inner)))
    left = (closure(nest, used) & {around.loop for around in place.loops}) - own
    if left:
        reason = f"the loops of {place.stage!r} hold a copy that depends on {short(min(left))!r}; move it first, then copy"
        raise Refusal("TL-S301", reason, stage=place.stage, loop=loop)
