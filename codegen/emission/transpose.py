"""Vector stores that stride through memory, next to each other: turned in registers and stored along memory instead.

    unroll i in range(16):                          lane l of the 16 values, for each l:
        vector j in range(16):          ->              one contiguous store of B[j0 + l, i0 .. i0 + 15]
            B[j0 + j, i0 + i] = value

The statements of such an unrolled loop are collected, and those whose elements lie side by side become the rows of a matrix that is
transposed by interleaving its halves log2(rows) times (each step rotates the bits of the position in the flattened matrix by one).

Lanes that a call tells, as those of the last tile, are rows of memory that are stored where they are on.

What waits may be read, as a recurrence does: just what one store writes is its value, what none of them writes is in memory, and before
anything else is read they are all made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, pairwise
from typing import Final

from llvmlite import ir as llvm

from tensorlang import ir
from tensorlang.codegen.emission import memory, streaming
from tensorlang.codegen.emission.affine import lane_step, number
from tensorlang.codegen.emission.frame import Frame, Pending, Tile
from tensorlang.codegen.emission.lanes import leading, picked, pieces, transposed
from tensorlang.codegen.emission.types import (
    I1,
    I8,
    I32,
    I64,
    POINTER,
    VOID,
    Builder,
    Poison,
    Value,
    intrinsic,
    known,
    lanes_of,
    literal,
    shaped,
    splat,
)
from tensorlang.codegen.emission.vector_access import VectorAccess, address
from tensorlang.ir.dtype import BOOL
from tensorlang.ir.traverse import axes_of, loads_of, reads_data, statements, walk
from tensorlang.schedules.model.touched import is_woven

LEAST_ROWS: Final = 2
SHORTEST: Final = 4
"""Lanes of the shortest part that a row is taken apart into, where it has as many."""


def side_by_side(loop: ir.For) -> bool:
    """Is an unrolled loop nothing but vector stores, perhaps of fewer lanes?

    Where some of what they write is read in it, as in a recurrence, no condition stands around them (see `written_before`) but those that
    ask which copy this is, and each copy stores once. Several write the same, and read none of it: the whole registers of a row, and the
    last one that has fewer lanes.
    """
    parts = list(statements(loop.body))
    stores = [part for part in parts if isinstance(part, ir.Store)]
    if not stores or any(store.reducer is not None or store.buffers != stores[0].buffers for store in stores):
        return False
    copies = frozenset(
        part.loop for part in (loop, *parts) if isinstance(part, ir.For) and part.kind == "unroll" and part.lo == ir.const(0)
    )
    reads = any(map(_own_reads, stores))
    if reads and _stores_of_a_copy(loop.body, copies) > 1:
        return False
    loops = all(part.kind in ("unroll", "vector") for part in parts if isinstance(part, ir.For))
    asked = [part for part in parts if isinstance(part, ir.If) and not _asks_which(part, copies)]
    plain = all(isinstance(part, ir.Block | ir.Store | ir.For | ir.If) for part in parts)
    return loops and plain and not (asked and (reads or len(stores) > 1))


def _asks_which(part: ir.If, copies: frozenset[str]) -> bool:
    """Is a condition known in each of the copies of loops that are written out from 0 on?"""
    return axes_of(part.cond) <= copies and not reads_data(part.cond)


def _stores_of_a_copy(part: ir.Stmt, copies: frozenset[str]) -> int:
    """Stores in the code of a copy, of which those that are for others are none."""
    match part:
        case ir.Store():
            return 1
        case ir.Block(body):
            return sum(_stores_of_a_copy(inner, copies) for inner in body)
        case ir.If(_, then, orelse):
            branches = [_stores_of_a_copy(inner, copies) for inner in (then, orelse) if inner is not None]
            return max(branches) if _asks_which(part, copies) else sum(branches)
        case ir.For(body=inner):
            return _stores_of_a_copy(inner, copies)
        case _:
            return 0


def _own_reads(store: ir.Store) -> list[ir.Load]:
    """The reads of what a store writes."""
    written = {buffer.name for buffer in store.buffers}
    return [load for value in (*store.values, *store.index) for load in loads_of(value) if getattr(load.buffer, "name", "") in written]


def defers(frame: Frame, access: VectorAccess) -> bool:
    """Does a store wait for its neighbours?"""
    strides = access.apart is not None or (access.offsets is None and abs(access.step) > 1)
    on = first_lanes(frame) > 1 or (frame.mask is not None and known(frame.mask) is None)
    return frame.deferred is not None and on and strides and not access.owned


def pending(frame: Frame, store: ir.Store, access: VectorAccess, new: Value) -> Pending:
    """A store that waits."""
    offset, moving = frame.space.offset(store.index, access.place.shape).parted()
    step = number(access.step) if access.apart is None else lane_step(moving)
    assert step is not None, "what is apart has a step"
    first = first_lanes(frame)
    return Pending(replace(access, lanes=first or frame.lanes), offset, step, new, store.stream, None if first else frame.mask)


def first_lanes(frame: Frame) -> int:
    """The number of lanes that are on where these are the first ones; 0 where others are, or where that is not known."""
    return leading(frame.mask, frame.lanes)


def collected(frame: Frame, tile: Tile | None, emit: Callable[[], None]) -> None:
    """Emit the copies of an unrolled loop, which are a `tile` where all of them load alike, and then what they left pending."""
    frame.deferred, frame.tile = [], tile
    emit()
    waiting, frame.deferred, frame.tile = frame.deferred, None, None
    _flushed(frame, waiting)


def settle(frame: Frame, store: ir.Store) -> None:
    """Make the stores that wait, unless each read of a statement is of one of them or of none; of none where lanes choose what is read."""
    if frame.deferred and (reads := _own_reads(store)):
        chosen = any(_tells_lanes(frame, value) for value in store.values)
        if any(_overlapping(frame, load, whole=not chosen) for load in reads):
            waiting, frame.deferred = frame.deferred, []
            _flushed(frame, waiting)


def written_before(frame: Frame, load: ir.Load) -> Value | None:
    """The value of a load of what a store that waits will have written; None where memory has it."""
    if not frame.deferred or not first_lanes(frame):
        return None
    found = next((row for row, distance in _waiting(frame, load) if distance == 0), None)
    return None if found is None else splat(frame.builder, found.value, frame.lanes)


def _tells_lanes(frame: Frame, value: ir.Expr) -> bool:
    """Does a condition choose by lanes what is read?"""
    return any(isinstance(part, ir.Select) and frame.lane_axis in axes_of(part.cond) for part in walk(value))


def _overlapping(frame: Frame, load: ir.Load, *, whole: bool) -> bool:
    """May a load read elements of several of the stores that wait, or of a part of one, as it does of any that is not read `whole`?"""
    for row, distance in _waiting(frame, load):
        if distance == 0:
            return not whole
        step = row.step.constant
        if distance is None or step is None or (distance % step == 0 and abs(distance) < abs(step) * row.access.lanes):
            return True
    return False


def _waiting(frame: Frame, load: ir.Load) -> Iterator[tuple[Pending, int | None]]:
    """The stores to a buffer that wait, the last one first, and how far before a load each begins; None where that is not known."""
    assert isinstance(load.buffer, ir.Buffer)
    place = frame.places[load.buffer.name]
    mine = [row for row in frame.deferred or () if row.access.place is place]
    if mine:
        fixed, moving = frame.space.offset(load.index, place.shape).parted()
        step = lane_step(moving)
        for row in reversed(mine):
            alike = step is not None and row.access.lanes == first_lanes(frame) and row.step == step
            yield row, (fixed - row.offset).constant if alike else None


def _flushed(frame: Frame, waiting: list[Pending]) -> None:
    """Make stores, turned where they are neighbours: those of each of several results by themselves, if none has elements of another."""
    apart = all(row.access.place.alone for row in waiting)
    places = dict.fromkeys(id(row.access.place) if apart else 0 for row in waiting)
    for rows in chain.from_iterable(_runs([row for row in waiting if place in (0, id(row.access.place))]) for place in places):
        if len(rows) < LEAST_ROWS:
            for row in rows:
                memory.store(frame.builder, frame.target, row.access, row.value, row.mask)
        else:
            _store(frame, rows)


def _runs(waiting: list[Pending]) -> Iterable[list[Pending]]:
    """Stores whose elements lie side by side, as many as there are lanes at most; each by itself where they might overlap.

    The last vector of a row may have fewer lanes, and is beside those of its kind. Lanes that are apart by extents of dims are at other
    places of an axis, as neighbours are of the last one: these overlap in none, since each is inside of the array.
    """
    if not waiting:
        return
    apart = [(row.offset - waiting[0].offset).constant for row in waiting]
    known = [(distance, place, waiting[place].access) for place, distance in enumerate(apart) if distance is not None]
    fixed = all(row.access.apart is None for row in waiting)
    elements = {(distance + access.step * lane, 0 if fixed else lane) for distance, _, access in known for lane in range(access.lanes)}
    alike = all(row.access.place == waiting[0].access.place and (fixed or row.step == waiting[0].step) for row in waiting)
    if not alike or len(elements) < sum(row.access.lanes for row in waiting):
        yield from ([row] for row in waiting)
        return

    def kind_of(place: int) -> tuple[int, int, int]:
        row = waiting[place]
        return row.access.lanes, row.access.step, id(row.mask)

    for kind in dict.fromkeys(kind_of(place) for _, place, _ in known):
        ordered = sorted((distance, place) for distance, place, _ in known if kind_of(place) == kind)
        run = [waiting[ordered[0][1]]]
        for (before, _), (distance, place) in pairwise(ordered):
            if distance != before + 1 or len(run) == kind[0]:
                yield run
                run = []
            run.append(waiting[place])
        yield run


def _store(frame: Frame, rows: list[Pending]) -> None:
    """The rows' lanes as contiguous stores."""
    builder, first = frame.builder, rows[0].access
    values = [splat(builder, row.value, first.lanes) for row in rows]  # of more lanes, perhaps, of which the first ones are wanted
    if first.place.dtype == BOOL:
        values = [builder.zext(value, shaped(I8, lanes_of(value))) for value in values]
    for start, size in pieces(first.lanes, SHORTEST):
        base = address(builder, first.place.dtype, first.base, _lane(builder, first, start))
        part = range(start, start + size)
        taken = [value if lanes_of(value) == size else picked(builder, value, Poison(value.type), part) for value in values]
        mask = None if rows[0].mask is None else rows[0].mask if size == first.lanes else picked(builder, rows[0].mask, rows[0].mask, part)
        _store_transposed(frame, replace(first, base=base, lanes=size), taken, mask, streamed=rows[0].streamed)


def _lane(builder: Builder, access: VectorAccess, lane: int) -> Value:
    """How far a lane is beyond the first one."""
    return literal(I64, access.step * lane) if access.apart is None or not lane else builder.mul(access.apart, literal(I64, lane))


def _store_transposed(frame: Frame, first: VectorAccess, values: list[Value], mask: Value | None, *, streamed: bool) -> None:
    """Store rows of as many lanes as `first` has, a power of two, along memory: of each lane of the mask that is on."""
    builder, dtype, lanes, count = frame.builder, first.place.dtype, first.lanes, len(values)
    padded = 1 << (count - 1).bit_length()
    if count == first.step and is_woven(count) and mask is None:  # what the lanes leave between them is what the other rows fill
        columns = transposed(builder, values) if count == padded else _woven(builder, values)
        for place, column in zip(range(0, lanes * count, lanes), columns, strict=True):
            base = address(builder, dtype, first.base, literal(I64, place))
            _write(frame, replace(first, base=base, step=1), column, 0, streamed=streamed)
        return
    columns = transposed(builder, [*values, *[Poison(values[0].type)] * (padded - count)])
    for lane in range(lanes):
        with nullcontext() if mask is None else builder.if_then(builder.extract_element(mask, literal(I32, lane))):
            begin = address(builder, dtype, first.base, _lane(builder, first, lane))
            for row in range(0, count, lanes):
                vector, start = divmod(lane * padded + row, lanes)
                access = replace(first, base=address(builder, dtype, begin, literal(I64, row)), lanes=min(lanes, count - row), step=1)
                _write(frame, access, columns[vector], start, streamed=streamed)


def _write(frame: Frame, access: VectorAccess, column: Value, start: int, *, streamed: bool) -> None:
    """The `access.lanes` elements of `column` from `start` on."""
    builder, count, align = frame.builder, access.lanes, access.place.dtype.bytes
    if count == lanes_of(column):
        if streamed and access.place.dtype != BOOL and streaming.streams(frame.target, access, None):
            frame.streamed = True
            streaming.stream(builder, access, column)
        else:
            builder.store(column, access.base, align=align)
        return
    width = lanes_of(column)
    if start:
        column = picked(builder, column, Poison(column.type), [min(start + lane, width - 1) for lane in range(width)])
    if frame.target.has_masks:
        mask = llvm.Constant(llvm.VectorType(I1, width), [int(lane < count) for lane in range(width)])
        intrinsic(builder, "masked.store", VOID, [column, access.base, mask], [column.type, POINTER], align={1: align})
        return
    memory.store_parts(builder, access.place.dtype, access.base, column, pieces(count, SHORTEST))


def _woven(builder: Builder, rows: list[Value]) -> list[Value]:
    """A matrix of few rows, no power of two, flattened along its columns: each vector put together from one row after the other."""
    count, lanes = len(rows), lanes_of(rows[0])
    found: list[Value] = []
    for first in range(0, lanes * count, lanes):
        wanted = [divmod(first + place, count) for place in range(lanes)]  # a lane, of which row
        column = rows[0]
        for turn in range(1, count):
            kept = [lane for lane, _ in wanted] if turn == 1 else range(lanes)
            column = picked(
                builder, column, rows[turn], [lanes + lane if row == turn else at for at, (lane, row) in zip(kept, wanted, strict=True)]
            )
        found.append(column)
    return found
