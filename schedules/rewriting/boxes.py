"""A stage of its own for what a stage computes in loops: a box with a dimension, and a loop, for each coordinate that this moves with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from tensorlang import ir
from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Buffer, Compare, Const, Expr, For, If, Nest, Stmt, Store
from tensorlang.ir.printer import short
from tensorlang.ir.relations import derived_values, in_scope
from tensorlang.ir.traverse import axes_of, substitute
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.rewriting.coordinates import Coordinate
from tensorlang.schedules.rewriting.copies import FreshNames
from tensorlang.schedules.rewriting.edit import (
    extent_of,
    loops_on,
    path_to_store,
    require_no_vector,
    require_single,
    require_stage,
    stage_of,
    stages,
    stores_of,
)

MAX_PARTIAL_BYTES: Final = 1 << 30
"""Of results of a part of a reduction, which are stored until the whole of it combines them."""


def own_loops(path: tuple[Stmt, ...], stage: str) -> tuple[For, ...]:
    """The loops of a stage around its statement, at the end of a path, with nothing beside them but conditions; outermost first."""
    start = len(path) - 1
    while start and _is_own(path[start - 1], stage):
        start -= 1
    return loops_on(path[start:])


def _is_own(stmt: Stmt, stage: str) -> bool:
    return (isinstance(stmt, For) and stage_of(stmt.loop) == stage) or (isinstance(stmt, If) and stmt.orelse is None)


def alone(nest: Nest, stage: str) -> tuple[Store, tuple[For, ...], dict[str, Expr]]:
    """The statement of a stage, its own loops around it, with bounds over loops alone, and what derived axes are. Raises `Refusal`."""
    require_stage(nest, stage)
    require_single(nest, stage)
    (store,) = stores_of(nest.body, (stage,))
    path = path_to_store(nest, store)
    around, own = loops_on(path), own_loops(path, stage)
    if not own:
        raise Refusal("TL-S301", f"{stage!r} stands in no loops of its own", stage=stage)
    require_no_vector(around, own[0].loop, stage)
    known = derived_axes(nest, around)
    return store, tuple(over_loops(loop, known) for loop in own), known


def derived_axes(nest: Nest, around: Sequence[For]) -> dict[str, Expr]:
    """The axes that loops derive, over these loops."""
    known: dict[str, Expr] = {}
    for relation in in_scope(nest, (loop.loop for loop in around)):
        known.update({axis: substitute(value, known) for axis, value in derived_values(relation).items()})
    return known


def over_loops(loop: For, known: dict[str, Expr]) -> For:
    """A loop whose bounds are over loops alone."""
    return replace(loop, lo=substitute(loop.lo, known), hi=substitute(loop.hi, known))


def varying(coordinates: Iterable[Coordinate], loops: Sequence[For]) -> For | None:
    """The first of the loops in a coordinate whose range depends on others, so that no box holds what moves with it; None for none."""
    own, around = {loop for part in coordinates for loop in part.loops}, {loop.loop for loop in loops}
    inside = (loop for loop in loops if loop.loop in own)
    return next((loop for loop in inside if axes_of(extent_of(loop)) or axes_of(loop.lo) & around), None)


def shape_of(coordinates: Iterable[Coordinate]) -> tuple[Expr, ...]:
    """The extents of the box."""
    return tuple(at_least_none(part.extent) for part in coordinates)


def at_least_none(extent: Expr) -> Expr:
    """An extent as one of storage, which is not below 0."""
    return extent if find(Compare("lt", extent, ir.const(0))) is None else simplify(Binary("max", extent, ir.const(0)))


def sweep(coordinates: Iterable[Coordinate], shape: Iterable[Expr], store: Store, stage: str, names: FreshNames) -> list[For]:
    """Loops of a new stage over the box; named after those of the elements of the statement, where they are part of a coordinate."""
    called = [next((name for name in part.loops if Axis(name) in store.index), part.loops[0]) for part in coordinates]
    extents = zip(called, shape, strict=True)
    return [For(names.fresh(f"{stage}.{short(name)}"), ir.const(0), extent, store) for name, extent in extents]


def literal_bytes(shape: Iterable[Expr], buffers: Iterable[Buffer]) -> int:
    """The bytes of the elements of buffers in a box, as far as its extents are literals."""
    return prod(int(extent.value) for extent in shape if isinstance(extent, Const)) * sum(buffer.dtype.bytes for buffer in buffers)


def values_at(coordinates: Iterable[Coordinate], loops: Iterable[For]) -> dict[Coordinate, Expr]:
    """What the coordinates are where the loops over the box stand."""
    return {part: Binary("add", part.lo, Axis(loop.loop)) for part, loop in zip(coordinates, loops, strict=True)}


def new_stage(nest: Nest, wanted: str) -> str:
    """A name for a new stage, after which no loops are named."""
    return FreshNames({*stages(nest), *map(stage_of, FreshNames.of(nest).taken)}).fresh(wanted)


def axes(around: Iterable[For]) -> tuple[Axis, ...]:
    """The axes of loops."""
    return tuple(Axis(loop.loop) for loop in around)
