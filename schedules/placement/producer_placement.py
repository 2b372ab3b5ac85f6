"""Where the producer of an intermediate stands: its storage, the loops around that, and the statements that compute it.

Shared by the directives that move a producer or its storage. A producer placed by `compute_at` covers a box: each dimension of its
storage is one loop, from the base of the box, so the element of the whole tensor is the loop itself. An implicit stage has no such
loops of its own: its values depend on the loops of its consumer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from tensorlang import ir
from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.rules import FALSE, TRUE
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Alloc, Axis, Binary, Block, Buffer, Compare, Expr, For, If, Load, Nest, Prefetch, Stmt, Store, allocate, const
from tensorlang.ir.linear import linear
from tensorlang.ir.printer import short
from tensorlang.ir.relations import bounds, closure, equations, in_scope, sides
from tensorlang.ir.traverse import axes_of, expressions, map_children, map_expressions, map_statements, statements, substitute, unless_empty
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.legality.accesses import Access, accesses, accesses_to, distinct, facts_of
from tensorlang.schedules.legality.dependences import conflict
from tensorlang.schedules.placement.upper_bounds import greatest
from tensorlang.schedules.rewriting.edit import AUXILIARY, allocated_names, path_to, require_single, require_stage, stage_of, stores
from tensorlang.schedules.rewriting.movable import require_movable
from tensorlang.schedules.rewriting.region import whole_start


@dataclass(frozen=True, slots=True)
class Placement:
    """An intermediate stage: its buffers, its statements, and the loops and conditions around these (outermost first).

    The outermost `stored` of the loops are around the storage too. A condition comes with the loops around it.
    """

    stage: str
    buffers: tuple[Buffer, ...]
    loops: tuple[For, ...]
    stored: int
    conditions: tuple[tuple[Expr, tuple[str, ...]], ...]
    parts: tuple[Stmt, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of its buffers."""
        return frozenset(buffer.name for buffer in self.buffers)

    @property
    def own(self) -> tuple[str, str]:
        """The stage and its initialisation."""
        return (self.stage, f"{self.stage}.init")


def placement_of(nest: Nest, stage: str, loop: str = "") -> Placement:
    """Where an intermediate stage stands. Raises `Refusal` for anything else, and where it shares its loops with other stages."""
    require_stage(nest, stage)
    require_single(nest, stage, loop)
    buffers = next(store.buffers for store in stores(nest.body) if store.stage == stage)
    outputs = {buffer.name for buffer in nest.outputs}
    if any(buffer.name in outputs for buffer in buffers):
        raise Refusal("TL-S301", f"{stage!r} is a result of the kernel, so it is computed whole", stage=stage, loop=loop)
    path = path_to(nest.body, lambda part: isinstance(part, Alloc) and any(buffer in buffers for buffer in part.buffers))
    if not path or stage.endswith(AUXILIARY):
        raise Refusal("TL-S301", f"{stage!r} is not an intermediate tensor; name the stage of one", stage=stage, loop=loop)
    require_movable(nest, stage, buffers, loop)
    own = (stage, f"{stage}.init")
    parts = _parts(path[-1], own)
    around = path_to(nest.body, lambda part: part is parts[0])
    names = {buffer.name for buffer in buffers}
    kept = any(store.stage not in own and names & {buffer.name for buffer in store.buffers} for store in stores(nest.body))
    if kept or any(isinstance(part, For) and stage_of(part.loop) in own and part.kind != "serial" for part in statements(nest.body)):
        raise Refusal(
            "TL-S301", f"the loops of {stage!r} are already scheduled; move it first, then schedule its loops", stage=stage, loop=loop
        )
    stored = sum(isinstance(part, For) for part in path)
    loops = tuple(part for part in around[:-1] if isinstance(part, For))
    between = {part.loop for part in loops[stored:]}
    for part in parts:
        local = allocated_names(part) | names
        other = next((store for store in stores(part) if not local.issuperset(buffer.name for buffer in store.buffers)), None)
        mine = [index for store in stores(part) if store.stage in own for index in store.index]
        if other is not None or closure(nest, frozenset().union(*map(axes_of, mine))) & between:
            shared = f" with {other.stage!r}" if other is not None else ""
            raise Refusal("TL-S301", f"{stage!r} shares its loops{shared}, so it cannot be moved alone", stage=stage, loop=loop)
    conditions: list[tuple[Expr, tuple[str, ...]]] = []
    for position, (above, below) in enumerate(itertools.pairwise(around)):
        if isinstance(above, If):
            test = above.cond if above.then is below else ir.Unary("not", above.cond)
            conditions.append((test, tuple(part.loop for part in around[:position] if isinstance(part, For))))
    return Placement(stage, buffers, loops, stored, tuple(conditions), tuple(parts))


def _parts(stmt: Stmt, own: tuple[str, str]) -> list[Stmt]:
    """The statements of a stage, below the loops that they share with others."""
    match stmt:
        case Alloc(_, body):
            return _parts(body, own)
        case Block(body):
            found = [part for part in body if any(store.stage in own for store in stores(part))]
            return _parts(found[0], own) if len(found) == 1 else found
        case For(body=body) | If(_, body, None) if not _alone(stmt, own):
            return _parts(body, own)
        case _:
            return [stmt]


def _alone(stmt: Stmt, own: tuple[str, str]) -> bool:
    """Are there no stores but those of a stage, and to storage of their own?"""
    local = allocated_names(stmt)
    return all(store.stage in own or local.issuperset(buffer.name for buffer in store.buffers) for store in stores(stmt))


def values_of(nest: Nest, place: Placement) -> tuple[Expr, ...]:
    """What decides the values of a stage: every expression of its statements but the box that it covers, and hints about it."""
    found, own = list[Expr](), {buffer.name for buffer in place.buffers}
    for part in place.parts:
        index = [axis for store in stores(part) if store.stage in place.own for index in store.index for axis in axes_of(index)]
        boxed = closure(nest, index)
        for stmt in statements(part):
            if (isinstance(stmt, For) and stmt.loop in boxed) or (isinstance(stmt, Prefetch) and stmt.buffer.name in own):
                continue
            if isinstance(stmt, Store) and stmt.stage in place.own:
                found += (_beside(value, stmt.index, own) for value in stmt.values)
            else:
                found += expressions(stmt)
    return tuple(found)


def _beside(value: Expr, index: tuple[Expr, ...], own: Collection[str]) -> Expr:
    """A value that reads what it makes at its own place, where it does so, as if that was the first: the box says where that is."""
    value = map_children(value, lambda part: _beside(part, index, own))
    if not isinstance(value, Load) or getattr(value.buffer, "name", "") not in own:
        return value
    return replace(
        value, index=tuple(const(0) if linear(here) == linear(there) else here for here, there in zip(value.index, index, strict=True))
    )


def is_implicit(nest: Nest, place: Placement) -> bool:
    """Do the values depend on loops around the statements, other than by the box that these cover?"""
    own = {found.loop for part in place.parts for found in statements(part) if isinstance(found, For)}
    covered = frozenset().union(
        *(axes_of(index) for part in place.parts for store in stores(part) if store.stage in place.own for index in store.index)
    )
    box = closure(nest, covered)
    needed = set().union(*(axes_of(expr) for expr in values_of(nest, place)))
    for relation in reversed(nest.relations):
        given, derived = sides(relation)
        if own.intersection(given):
            own.update(derived)
            if not box.intersection(derived):
                needed |= set().union(*(axes_of(bound) for bound in bounds(relation)))
    for relation in nest.relations:  # a tile that is computed where it is wanted: part of its place comes from outside
        given, derived = sides(relation)
        if own.intersection(given) and needed.intersection(derived):
            needed |= set(given)
    return bool(closure(nest, needed - own) & {loop.loop for loop in place.loops})


@dataclass(frozen=True, slots=True)
class StoredBox:
    """The part of a tensor that the storage holds: for each dimension its base, and an end of the tensor that no iteration passes.

    `told`: the loops of the producer tell these ends; else they are what their ends can at most be.
    """

    bases: tuple[Expr, ...]
    ends: tuple[Expr, ...]
    told: bool = True

    def whole(self, index: Sequence[Expr]) -> tuple[Expr, ...]:
        """A position in the box as one in the tensor."""
        return tuple(simplify(Binary("add", part, base)) for part, base in zip(index, self.bases, strict=True))


def box_of(nest: Nest, place: Placement, loop: str = "") -> StoredBox:
    """The box of a placed producer. Raises `Refusal` where its own loops are scheduled already."""
    bases: set[tuple[Expr, ...]] = set()
    ends: tuple[Expr, ...] = ()
    told = True
    for part in place.parts:
        found = dimensions(part, place)
        own = {inner.loop for inner in statements(part) if isinstance(inner, For)}
        if found is None or any(closure(nest, axes_of(dim.lo) | axes_of(dim.hi)) & own for _, dims in found for dim, _ in dims):
            reason = f"the loops of {place.stage!r} are already scheduled; move it first, then schedule its loops"
            raise Refusal("TL-S301", reason, stage=place.stage, loop=loop)
        bases |= {tuple(base for _, base in dims) for _, dims in found}
        ends = tuple(_end(nest, dim, place, loop) for dim, _ in found[-1][1])
        told = all(end in _sides(dim) for end, (dim, _) in zip(ends, found[-1][1], strict=True))
    if len(bases) != 1:
        raise Refusal("TL-S301", f"the statements of {place.stage!r} cover different boxes", stage=place.stage, loop=loop)
    return StoredBox(bases.pop(), ends, told)


def dimensions(part: Stmt, place: Placement) -> tuple[tuple[Store, tuple[tuple[For, Expr], ...]], ...] | None:
    """For each store of the stage, the loop over each dimension of the storage and its base; None where a dimension is no such loop.

    A loop that several stores share is the same dimension of each.
    """
    around = {found.loop: found for found in statements(part) if isinstance(found, For)}
    taken: dict[str, int] = {}
    result: list[tuple[Store, tuple[tuple[For, Expr], ...]]] = []
    for store in (found for found in stores(part) if found.stage in place.own):
        dims: list[tuple[For, Expr]] = []
        for position, index in enumerate(store.index):
            axes = [axis for axis in axes_of(index) if axis in around]
            base = simplify(Binary("sub", Axis(axes[0]), index)) if len(axes) == 1 else None
            if base is None or axes[0] in axes_of(base) or taken.setdefault(axes[0], position) != position:
                return None
            dims.append((around[axes[0]], base))
        result.append((store, tuple(dims)))
    return tuple(result)


def boxed(nest: Nest, place: Placement) -> frozenset[str]:
    """The loops around a producer that say where the box that it covers lies."""
    found = [dims for part in place.parts for _, dims in dimensions(part, place) or ()]
    bases = [expr for dims in found for dim, base in dims for expr in (base, dim.lo, dim.hi)]
    return closure(nest, frozenset().union(*map(axes_of, bases))) & {part.loop for part in place.loops}


def _end(nest: Nest, dimension: For, place: Placement, loop: str) -> Expr:
    inside = {part.loop for part in place.loops}
    if not closure(nest, axes_of(dimension.hi)) & inside:
        return dimension.hi
    for side in _sides(dimension):
        if not closure(nest, axes_of(side)) & inside:
            return side
    found = [most for most in (greatest(nest, side, place.loops) for side in _sides(dimension)) if most is not None]
    if not found:
        raise Refusal(
            "TL-S303", f"the end of {short(dimension.loop)!r} has no simple bound over the loops around it", stage=place.stage, loop=loop
        )
    return found[0]


def _sides(dimension: For) -> list[Expr]:
    """The end of a loop, or both sides where it is the smaller of two; the whole of it last."""
    hi = dimension.hi
    return [hi.left, hi.right, hi] if isinstance(hi, Binary) and hi.op == "min" else [hi]


def start_of(nest: Nest, dimension: For, place: Placement, loop: str = "") -> Expr:
    """Where the loop over a dimension starts once it covers the whole tensor: a loop of a copy that was shifted does not start at 0.

    Raises `Refusal` where that may be below 0, which is no place in the storage.
    """
    lo = whole_start(dimension)
    if closure(nest, axes_of(lo)) & {part.loop for part in place.loops}:
        most = greatest(nest, simplify(ir.Unary("neg", lo)), place.loops)
        lo = lo if most is None else simplify(ir.Unary("neg", most))
    if not isinstance(lo, ir.Const) or lo.value < 0:
        facts = [fact for part in place.loops for fact in facts_of(part)]
        facts += [fact for relation in in_scope(nest, (part.loop for part in place.loops)) for fact in equations(relation)]
        if find(*facts, Compare("lt", lo, ir.const(0))) is not None:
            reason = (
                f"the loop {short(dimension.loop)!r} starts below 0, so {place.stage!r} has no storage there; move it before shift or skew"
            )
            raise Refusal("TL-S301", reason, stage=place.stage, loop=loop)
    return ir.const(0) if closure(nest, axes_of(lo)) & {part.loop for part in place.loops} else lo


def ahead(first: Access, second: Access) -> Expr:
    """Copy `'` of the first access runs before copy `''` of the second, in program order."""
    common = [a.loop for a, b in zip(first.loops, second.loops, strict=False) if a.loop == b.loop]
    result: Expr = TRUE if first.position < second.position else FALSE
    for loop in reversed(common):
        less = Compare("lt", Axis(loop + "'"), Axis(loop + "''"))
        same = Compare("eq", Axis(loop + "'"), Axis(loop + "''"))
        result = simplify(Binary("or", less, Binary("and", same, result)))
    return result


def require_operands_before(nest: Nest, place: Placement, start: For, loop: str = "") -> None:
    """Raise `Refusal` unless everything that a stage reads is there before the loop `start`, around its place, begins."""
    own = place.names.union(*(allocated_names(part) for part in place.parts))
    wanted = {access.buffer.name for part in place.parts for access in accesses(part)} - own
    local = allocated_names(start) & wanted
    if local:
        reason = f"{place.stage!r} reads {min(local)!r}, which is computed inside {short(start.loop)!r}; move that first"
        raise Refusal("TL-S301", reason, stage=place.stage, loop=loop)
    outer = place.loops[: place.loops.index(start)]
    shared = frozenset(part.loop for part in outer)
    found = distinct(access for access in accesses(start, outer) if access.buffer.name in wanted)
    mine = {store.stage for part in place.parts for store in stores(part)}
    for write in (access for access in found if access.writes and access.stage not in mine):
        for read in (access for access in found if access.buffer.name == write.buffer.name and access.stage in {*mine, ""}):
            before = ahead(write, read)
            example = None if before == FALSE else conflict(nest, write, read, shared, unmarked(before, shared))
            if example is not None:
                reason = f"{place.stage!r} reads {example['element']} after {write.stage!r} has written it inside {short(start.loop)!r}"
                raise Refusal("TL-S103", reason, stage=place.stage, loop=loop, counterexample=example)


def require_inside(nest: Nest, place: Placement, start: For, loop: str = "") -> None:
    """Raise `Refusal` where something outside the loop `start`, before which the storage will stand, uses a stage.

    What runs in no iteration may stand before what it reads: nothing that it needs is written too late.
    """
    for access in accesses_to(place.names, nest.body):
        if access.stage not in place.own and all(part is not start for part in access.loops):
            reason = f"{place.stage!r} is also used by {access.stage!r}, outside {short(start.loop)!r}; move that first"
            raise Refusal("TL-S301", reason, stage=place.stage, loop=loop)


def unmarked(order: Expr, shared: frozenset[str]) -> tuple[Expr, ...]:
    """An order between two copies that agree on the shared loops."""
    values: dict[str, Expr] = {loop + mark: Axis(loop) for loop in shared for mark in ("'", "''")}
    return (simplify(substitute(order, values)),)


def reading(local: dict[str, Buffer], index: Callable[[tuple[Expr, ...]], tuple[Expr, ...]]) -> Callable[[Expr], Expr]:
    """What makes an expression read other buffers in place of those of their names, at `index` of the position."""

    def read(expr: Expr) -> Expr:
        expr = map_children(expr, read)
        if isinstance(expr, Load) and getattr(expr.buffer, "name", "") in local:
            return Load(local[getattr(expr.buffer, "name", "")], index(expr.index))
        return expr

    return read


def with_stage_moved(
    stmt: Stmt,
    place: Placement,
    start: For,
    local: dict[str, Buffer],
    index: Callable[[tuple[Expr, ...]], tuple[Expr, ...]],
    around: Callable[[Stmt], Stmt],
) -> Stmt:
    """`stmt` without the statements and the storage of a stage; `start`, reading `local` at `index` instead, becomes `around` of it."""
    read = reading(local, index)

    def rewrite(part: Stmt) -> Stmt:
        if any(part is own for own in place.parts):
            return Block(())
        match part:
            case Alloc(buffers, body):
                return allocate((buffer for buffer in buffers if buffer not in place.buffers), rewrite(body))
            case Prefetch(buffer) if buffer in place.buffers:
                return Block(())
            case For() if part is start:
                return around(map_expressions(map_statements(part, rewrite), read))
            case _:
                return unless_empty(map_statements(part, rewrite))

    return rewrite(stmt)
