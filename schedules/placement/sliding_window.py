"""The sliding window: what an earlier iteration has computed is not computed again.

    for y_i in range(8):                                for y_i in range(8):
        for y in range(y', y' + 3):         ->              for y in range(y' + select(y_i > 0, 2, 0), y' + 3):
            h[y - 8 y_o] = f(y)                                 h[y - 8 y_o] = f(y)

(y' = 8 y_o + y_i.) The storage outlives the iterations of the loops in between, and a producer covers a box: where one of these loops
moves one dimension of the box forwards by a constant step, an iteration adds `step` rows at its end and finds the others where the one
before left them. A loop that moves no dimension leaves nothing to add after its first iteration.

Why this is sound. Take an element of the box of some iteration, and for each dimension that slides, independently, the first position
of its loop at which the element's coordinate was new. These positions make one iteration, none of whose coordinates lies after the
given one; it ran, because the loops in between have bounds that do not depend on one another and the conditions of tails that hold
at a position hold at every earlier one; and it computed the element, because no other dimension moves with that loop. What it
computed is still right, because the value depends on the element alone and on nothing that is written in the meantime but
storage of which the same can be said. Where any of this cannot be read off the nest, the whole box is computed each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Compare, Const, Expr, For, If, Load, Nest, Select, SplitRelation, WindowRelation
from tensorlang.ir.linear import Linear, linear
from tensorlang.ir.relations import closure, in_scope
from tensorlang.ir.traverse import axes_of, map_children, map_expressions, reads_data, statements
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.legality.accesses import accesses
from tensorlang.schedules.placement.producer_placement import Placement, StoredBox, box_of, dimensions, is_implicit, placement_of
from tensorlang.schedules.rewriting.edit import allocated_names, edit_loops, loops, stores
from tensorlang.schedules.rewriting.region import expand, whole_start

ROOT: Final = "root"
"""A loop of one iteration around everything, which `store_root` puts there for a moment."""


@dataclass(frozen=True, slots=True)
class _Side:
    """One dimension of the box: where it begins, and its extent; 0 where that is not a literal, and the dimension stays."""

    base: Expr
    extent: int


def slid(nest: Nest, place: Placement, at: int) -> dict[str, Expr]:
    """New starts of the producer's loops, by name, once its storage stands inside the loop number `at` of those around it."""
    between = place.loops[at + 1 :]
    boxes = _boxes(place)
    sides = {tuple(_side(nest, loop, between) for loop in box) for box in boxes}
    if len(sides) != 1 or not _steady(nest, place, at):
        return {}
    box = sides.pop()
    found: dict[str, Expr] = {}
    for dimension, kept in _plan(nest, place, between, box).items():
        side = box[dimension]
        assert side is not None
        for dims in boxes:
            found[dims[dimension].loop] = simplify(Binary("add", side.base, kept))
    return found


def _boxes(place: Placement) -> list[tuple[For, ...]]:
    """For each store of the producer the loops over its dimensions."""
    return [tuple(loop for loop, _ in dims) for part in place.parts for _, dims in dimensions(part, place) or ()]


def _plan(nest: Nest, place: Placement, between: Sequence[For], box: Sequence[_Side | None]) -> dict[int, Expr]:
    """For the dimensions that slide, the number of rows at the start that an earlier iteration has computed."""
    found: dict[int, Expr] = {}
    still: list[For] = []
    for loop in reversed(between):
        if loop.kind not in ("serial", "unroll") or not _downward(nest, place, loop):
            continue
        steps = [_step(nest, side, loop) for side in box]
        moving = [dimension for dimension, step in enumerate(steps) if step != 0]
        if not moving:
            still.append(loop)
        elif len(moving) == 1 and moving[0] not in found:
            side, step = box[moving[0]], steps[moving[0]]
            if side is not None and step is not None and 0 < step < side.extent:
                found[moving[0]] = _after(loop, side.extent - step)
    for loop in still:
        dimension = next((place for place, side in enumerate(box) if side is not None and side.extent > 0 and place not in found), None)
        if dimension is not None:
            side = box[dimension]
            assert side is not None
            found[dimension] = _after(loop, side.extent)
    return found


def _after(loop: For, rows: int) -> Expr:
    """`rows` in all iterations of a loop but the first."""
    return Select(Compare("gt", Axis(loop.loop), loop.lo), ir.const(rows), ir.const(0))


def _side(nest: Nest, dimension: For, between: Sequence[For]) -> _Side | None:
    """The box in one dimension; None where it neither stays nor is `extent` rows from its base, cut at an end that stays."""
    hi = dimension.hi
    ends = (hi.left, hi.right) if isinstance(hi, Binary) and hi.op == "min" else (hi,)
    inside = {loop.loop for loop in between}
    for end in ends:
        extent = simplify(Binary("sub", end, dimension.lo))
        others = [other for other in ends if other is not end]
        if isinstance(extent, Const) and not any(closure(nest, axes_of(other)) & inside for other in others):
            return _Side(dimension.lo, int(extent.value))
    return None if closure(nest, axes_of(dimension.lo) | axes_of(hi)) & inside else _Side(dimension.lo, 0)


def _step(nest: Nest, side: _Side | None, loop: For) -> int | None:
    """By how much an iteration of a loop moves the box in one dimension; None where that is not a constant."""
    if side is None:
        return None
    base = side.base
    if isinstance(base, Binary) and base.op == "max" and isinstance(base.right, Const):
        base = base.left  # cut at the start of the tensor: it moves by at most as much, and never back
    if isinstance(base, Binary) and base.op == "min" and not closure(nest, axes_of(base.right)):
        base = base.left  # and so where it is cut at its end
    return _coefficient(nest, linear(base), loop)


def _coefficient(nest: Nest, form: Linear, loop: For) -> int | None:
    """The factor of a loop in a form; None where it also stands inside an atom."""
    for atom in form.terms:
        hidden = reads_data(atom) or loop.loop in closure(nest, axes_of(atom))
        if atom != Axis(loop.loop) and hidden:
            return None
    return form.terms.get(Axis(loop.loop), 0)


def _downward(nest: Nest, place: Placement, loop: For) -> bool:
    """Does an iteration whose tail conditions hold mean that those of the earlier ones held?"""
    around = [part.loop for part in place.loops]
    for relation in in_scope(nest, around):
        if isinstance(relation, (SplitRelation, WindowRelation)):
            value = expand(nest, Axis(relation.parent), around)
            factor = _coefficient(nest, linear(value), loop)
            if factor is None or factor < 0 or loop.loop in closure(nest, axes_of(relation.hi)):
                return False
    return True


def _steady(nest: Nest, place: Placement, at: int) -> bool:
    """Are the loops in between independent of one another, and the values of the elements independent of them?"""
    start, between = place.loops[at], place.loops[at + 1 :]
    inside = {loop.loop for loop in between}
    if any(loop.kind not in ("serial", "unroll", "parallel") for loop in between):
        return False
    if any(closure(nest, axes_of(loop.lo) | axes_of(loop.hi)) & inside for loop in between):
        return False
    whole = _absolute(nest, place, start)
    if any(start.loop in known for _, known in place.conditions) or whole is None or is_implicit(nest, whole):
        return False
    if any(isinstance(part, If) and reads_data(part.cond) for part in statements(start.body)):
        return False
    own = place.names.union(*(allocated_names(part) for part in place.parts))
    wanted = {access.buffer.name for part in place.parts for access in accesses(part)} - own
    return all(_settled(nest, start, name, place.names) for name in wanted)


def _settled(nest: Nest, start: For, name: str, seen: frozenset[str]) -> bool:
    """Does what an iteration of `start` reads of a buffer not change while it runs?

    A buffer that is allocated and computed inside holds, whenever it is read, elements whose values depend on their place alone, if
    that is true of what they are computed from, and these are no partial results of an iteration, whose place does not tell of which;
    one that is computed from itself may not.
    """
    writers = [store for store in stores(start.body) if any(buffer.name == name for buffer in store.buffers)]
    if not writers:
        return True
    if name in seen or name not in allocated_names(start.body):
        return False
    stages = {store.stage for store in writers}
    if any(_tells_not(nest, stage) for stage in stages):
        return False
    read = {access.buffer.name for access in accesses(start.body) if access.stage in stages and not access.writes}
    return all(_settled(nest, start, other, seen | {name}) for other in read)


def _tells_not(nest: Nest, stage: str) -> bool:
    """May the values of a stage differ between iterations around it, at one place?"""
    try:
        return is_implicit(nest, placement_of(nest, stage.removesuffix(".init")))
    except Refusal:
        return True


def _absolute(nest: Nest, place: Placement, start: For) -> Placement | None:
    """The producer, reading other producers that stand inside `start` at positions in the whole tensor; None where one has no box.

    In its storage, an element has another position in each iteration.
    """
    own = place.names.union(*(allocated_names(part) for part in place.parts))
    boxes: dict[str, StoredBox] = {}
    for name in {access.buffer.name for part in place.parts for access in accesses(part)} & allocated_names(start.body) - own:
        stage = next((store.stage for store in stores(start.body) if any(buffer.name == name for buffer in store.buffers)), "")
        if start.loop == ROOT and not any(name in allocated_names(loop) for loop in loops(start.body)):
            continue  # its storage is that of the whole tensor
        try:
            boxes[name] = box_of(nest, placement_of(nest, stage.removesuffix(".init")))
        except Refusal:
            return None

    def read(expr: Expr) -> Expr:
        expr = map_children(expr, read)
        if isinstance(expr, Load) and getattr(expr.buffer, "name", "") in boxes:
            return replace(expr, index=boxes[getattr(expr.buffer, "name", "")].whole(expr.index))
        return expr

    return replace(place, parts=tuple(map_expressions(part, read) for part in place.parts)) if boxes else place


def unslid(nest: Nest, place: Placement) -> Nest:
    """The nest with a producer that computes its whole box in each iteration again."""
    starts = {loop.loop: whole_start(loop) for box in _boxes(place) for loop in box}
    slides = {loop.loop for box in _boxes(place) for loop in box if loop.lo != starts[loop.loop]}
    if not slides:
        return nest
    return replace(nest, body=edit_loops(nest.body, lambda loop: loop.loop in slides, lambda loop: replace(loop, lo=starts[loop.loop])))
