"""Loads of lanes that lie rows apart, side by side in an unrolled loop: rows are loaded along memory, and turned in registers.

    unroll i in range(16):                          for each lane l: one load of X[j0 + l, i0 .. i0 + 15]
        vector j in range(8):           ->          16 vectors of 8 lanes, by interleaving halves of the rows
            B[j0 + j, i0 + i] = f(X[j0 + j, i0 + i])

As its stores, which are turned the other way and made at the end (`transpose`). All that is loaded some copy reads: loads that one chooses
are not turned, nor any where conditions tell copies apart. Of what the statement writes only rows are loaded ahead that no copy writes.
"""

from __future__ import annotations

from typing import Final

from tensorlang import ir
from tensorlang.codegen.emission.access import Evaluate, distance, uniform
from tensorlang.codegen.emission.affine import Polynomial, lane_step, number
from tensorlang.codegen.emission.arithmetic import binary
from tensorlang.codegen.emission.frame import Frame, Tile
from tensorlang.codegen.emission.lanes import joined, picked, transposed
from tensorlang.codegen.emission.spans import unconditional
from tensorlang.codegen.emission.transpose import first_lanes
from tensorlang.codegen.emission.types import I64, Value, filled, in_memory, literal, shaped
from tensorlang.codegen.emission.vector_access import address
from tensorlang.ir.dtype import BOOL, INT64
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of, statements
from tensorlang.schedules.rewriting.edit import literal_extent

COPIES: Final = (4, 8, 16, 32, 64)
"""Copies of which rows are turned: of fewer, picking their elements takes no longer."""
LANES: Final = (8, 16, 32)
"""Lanes of which they are: of four, each element waits for all four rows, and is picked as soon (running sums: 1.2 of the time)."""
MOST: Final = 256
"""Bits of the lanes, at most: of 16 words a Zen 4 takes four permutations of 512 bits a cycle each, as long as picking them, which begins
with the first copy (a filter of 16 rows: 1.2 of the time)."""


def tile_of(loop: ir.For) -> Tile | None:
    """The tile that an unrolled loop makes, whose stores wait; None where a condition around them asks for the copy."""
    parts, copies = list(statements(loop.body)), literal_extent(loop)
    if copies is None or any(isinstance(part, ir.If) and loop.loop in axes_of(part.cond) for part in parts):
        return None
    stores = tuple(part for part in parts if isinstance(part, ir.Store))
    sure, values = set[int](), [part for store in stores for part in (*store.index, *store.values)]
    while values:
        new = [load for load in unconditional(values) if id(load) not in sure]
        sure |= set(map(id, new))
        values = [part for load in new for part in load.index]  # what tells where is read too
    return Tile(loop.loop, copies, stores, frozenset(sure))


def turned(frame: Frame, load: ir.Load, value: Evaluate) -> Value | None:
    """What a load reads in the lanes, out of a tile that is turned once for all copies; None where it is no such load."""
    tile = frame.tile
    if tile is None or id(load) not in tile.sure or first_lanes(frame) < 2:
        return None
    assert isinstance(load.buffer, ir.Buffer)
    place, copy = frame.places[load.buffer.name], frame.space.polynomial(ir.Axis(tile.axis)).constant
    fits = frame.lanes in LANES and tile.copies in COPIES and frame.lanes * place.dtype.bits <= MOST
    if copy is None or not fits or place.own or place.dtype == BOOL or not _follows(load.index, tile.axis, frame.lane_axis):
        return None
    fixed, moving = frame.space.offset(load.index, place.shape).parted()
    step, first = distance(frame, load.index, moving), fixed - number(copy)
    if step is None or (step.constant is not None and abs(step.constant) < tile.copies):
        return None
    if _is_written(frame, tile, load.buffer, first, step):
        return None
    key = load.buffer.name, frozenset(first.terms.items()), frozenset(step.terms.items()), frame.lanes, first_lanes(frame)
    if key not in tile.turned:
        base = address(frame.builder, place.dtype, place.pointer, uniform(frame, first.without_offset(), value))
        base = address(frame.builder, place.dtype, base, literal(I64, first.offset))
        tile.turned[key] = _columns(frame, tile, load.buffer, base, uniform(frame, step, value))
    return tile.turned[key][copy]


def _follows(index: tuple[ir.Expr, ...], axis: str, lane: str) -> bool:
    """Do the copies follow neighbours along the last axis, and the lanes another one?"""
    if not index or lane in axes_of(index[-1]) or any(axis in axes_of(part) for part in index[:-1]):
        return False
    form = linear(index[-1]).terms
    return form.get(ir.Axis(axis)) == 1 and not any(axis in axes_of(atom) for atom in form if atom != ir.Axis(axis))


def _is_written(frame: Frame, tile: Tile, buffer: ir.Buffer, first: Polynomial, step: Polynomial) -> bool:
    """May a copy write an element of the tile that begins there? Lanes that are apart by extents of dims have no elements in common."""
    by = step.constant
    lanes = (0,) if by is None else [by * lane for lane in range(1 - frame.lanes, frame.lanes)]
    for store in tile.stores:
        for written in store.buffers:
            if written.name != buffer.name:
                continue
            fixed, moving = frame.space.offset(store.index, frame.places[written.name].shape).parted()
            copy = frame.space.polynomial(ir.Axis(tile.axis)).constant or 0
            apart, alike = (first - (fixed - number(copy))).constant, _follows(store.index, tile.axis, frame.lane_axis)
            if apart is None or not alike or lane_step(moving) != step:
                return True
            if any(abs(apart + beside) < tile.copies for beside in lanes):
                return True
    return False


def _columns(frame: Frame, tile: Tile, buffer: ir.Buffer, base: Value, step: Value) -> list[Value]:
    """For each copy its vector, zero in lanes that are off."""
    builder, dtype, lanes, on = frame.builder, buffer.dtype, frame.lanes, first_lanes(frame)
    kind = shaped(in_memory(dtype), tile.copies)
    places = (address(builder, dtype, base, binary(builder, frame.target, "mul", INT64, step, literal(I64, lane))) for lane in range(on))
    rows = [builder.load(at, name=buffer.name, align=dtype.bytes, typ=kind) for at in places]
    turned = transposed(builder, [*rows, *[filled(kind, 0)] * (lanes - on)])
    if lanes <= tile.copies:  # several vectors of lanes in each of these, one after the other
        starts = (divmod(copy * lanes, tile.copies) for copy in range(tile.copies))
        return [picked(builder, turned[vector], turned[vector], range(start, start + lanes)) for vector, start in starts]
    parts = lanes // tile.copies
    return [joined(builder, turned[copy * parts : (copy + 1) * parts], lanes) for copy in range(tile.copies)]
