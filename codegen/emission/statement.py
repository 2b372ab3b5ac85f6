"""Statements: stores, conditions and the dispatch to loops and storage.

A condition that is the same in every lane is a branch; one that differs is a mask, and-ed into the mask of the statement. Where the
statement reads or writes something uniform, the mask is first asked for any lane, since a scalar access is only in bounds if some
iteration makes it.
"""

from __future__ import annotations

from typing import assert_never

from tensorlang import ir
from tensorlang.codegen.emission import loops, memory, storage, streaming, tensors, transpose
from tensorlang.codegen.emission.access import access_of, any_lane
from tensorlang.codegen.emission.arithmetic import both, unary
from tensorlang.codegen.emission.combining import combined, given_values
from tensorlang.codegen.emission.expression import takes_many, value
from tensorlang.codegen.emission.frame import Frame
from tensorlang.codegen.emission.in_turn import in_turn, takes_turns
from tensorlang.codegen.emission.parallel import parallel
from tensorlang.codegen.emission.turned_loads import tile_of
from tensorlang.codegen.emission.types import I32, Value, known, lanes_of, literal
from tensorlang.codegen.emission.vector_access import VectorAccess
from tensorlang.ir.dtype import BOOL, INT64
from tensorlang.ir.mentions import read_by
from tensorlang.ir.traverse import axes_of, dtype_of, expressions, loads_of, reads_data, statements


def statement(frame: Frame, stmt: ir.Stmt) -> None:
    """Emit a statement at the frame's position."""
    if frame.lines is not None:
        with frame.lines.at(frame.builder, stmt):
            _statement(frame, stmt)
    else:
        _statement(frame, stmt)


def _statement(frame: Frame, stmt: ir.Stmt) -> None:
    frame.asked = frame.asked and isinstance(stmt, ir.Store | ir.If)
    match stmt:
        case ir.Store():
            _store(frame, stmt)
        case ir.Block(body):
            for part in body:
                statement(frame, part)
        case ir.If():
            _condition(frame, stmt)
        case ir.Alloc(body=inner):
            with storage.allocated(frame, stmt):
                statement(frame, inner)
        case ir.Prefetch(buffer, index, level):
            frame.fresh()
            memory.prefetch(frame.builder, access_of(frame, buffer, index, value), level)
        case ir.For(kind="unroll", body=inner) if frame.deferred is None and transpose.side_by_side(stmt):
            transpose.collected(frame, tile_of(stmt), lambda: loops.unrolled(frame, stmt, lambda inside: statement(inside, inner)))
        case ir.For(kind=kind, body=inner):
            emit_loop = {
                "serial": loops.serial,
                "unroll": loops.unrolled,
                "vector": loops.vector,
                "parallel": parallel,
                "tensor": tensors.tensor,
            }[kind]
            emit_loop(frame, stmt, lambda inside: statement(inside, inner))
        case _:
            assert_never(stmt)


def _condition(frame: Frame, stmt: ir.If) -> None:
    frame.fresh()
    builder, cond = frame.builder, _asked(frame, stmt.cond)
    number = known(cond)
    if isinstance(number, int):
        chosen = stmt.then if number else stmt.orelse
        if chosen is not None:
            statement(frame, chosen)
    elif lanes_of(cond):
        mask = frame.mask
        frame.asked = True
        shared = bool(frame.copied - axes_of(stmt.cond))
        by_data = reads_data(stmt.cond)
        _under(frame, stmt.then, both(builder, mask, cond), by_data=by_data, shared=shared)
        frame.asked = False
        if stmt.orelse is not None:
            _under(frame, stmt.orelse, both(builder, mask, unary(builder, "not", BOOL, cond)), by_data=by_data, shared=shared)
    elif stmt.orelse is None:
        with builder.if_then(cond), frame.branch():
            statement(frame, stmt.then)
    else:
        with builder.if_else(cond) as (then, otherwise):
            with then, frame.branch():
                statement(frame, stmt.then)
            with otherwise, frame.branch():
                statement(frame, stmt.orelse)


def _asked(frame: Frame, cond: ir.Expr) -> Value:
    """The value of a condition, which is one for copies whose stores wait for one another, where it asks the same of indices in each."""
    if frame.deferred is None or not isinstance(cond, ir.Compare) or dtype_of(cond.left) != INT64 or reads_data(cond):
        return value(frame, cond)
    terms = [tuple(frame.space.polynomial(side).terms.items()) for side in (cond.left, cond.right)]
    atoms = tuple(frame.scalars.get(atom.name) for side in terms for monomial, _ in side for atom in monomial)
    return frame.numbering.once(("asked", cond.op, *terms, atoms, frame.lanes), lambda: value(frame, cond))


def _under(frame: Frame, stmt: ir.Stmt, mask: Value, *, by_data: bool, shared: bool) -> None:
    """A statement in the lanes of `mask`, which lie within the current ones.

    What all lanes touch alike stands in a branch for where one is on, but for what exists anyway where copies have the same mask
    (`shared`): in branches they would share nothing of what they compute. So does what takes many elements one by one, where data tell
    the lanes.
    """
    told = known(mask) is not None or _has_uniform(frame, stmt, sure=not shared) or (by_data and not shared and _is_dear(frame, stmt))
    some = any_lane(frame.builder, mask) if told else None
    if some is None:
        with frame.masked(mask):
            statement(frame, stmt)
    elif known(some) == 1:
        with frame.masked(mask, alive=True):
            statement(frame, stmt)
    elif known(some) is None:
        with frame.builder.if_then(some), frame.branch(), frame.masked(mask, alive=True):
            statement(frame, stmt)


def _is_dear(frame: Frame, stmt: ir.Stmt) -> bool:
    """Does a statement gather and scatter so many elements that a branch around it may be mispredicted?"""
    parts = [*statements(stmt)]
    scattered = sum(any(map(reads_data, part.index)) for part in parts if isinstance(part, ir.Store))
    return takes_many(frame, (expr for part in parts for expr in expressions(part)), scattered)


def _has_uniform(frame: Frame, stmt: ir.Stmt, *, sure: bool) -> bool:
    """Whether a statement touches an element whose index does not speak of the lane; also one that exists (`sure`)."""
    for part in statements(stmt):
        indices = [load.index for expr in expressions(part) for load in loads_of(expr) if sure or not load.exists]
        if isinstance(part, ir.Store):
            indices.append(part.index)
        if any(not any(frame.lane_axis in axes_of(place) for place in index) for index in indices):
            return True
    return False


def _store(frame: Frame, stmt: ir.Store) -> None:
    if ir.const(0) in stmt.buffers[0].shape:
        return  # never run, and all lanes would mean one element: the strides of what has none are 0
    frame.fresh()
    frame.stored = stmt.values
    transpose.settle(frame, stmt)
    accesses = [access_of(frame, buffer, stmt.index, value) for buffer in stmt.buffers]
    uniform = bool(frame.lanes) and accesses[0].uniform
    spoken_of = uniform and any(frame.lane_axis in axes_of(place) for place in stmt.index)
    if spoken_of and frame.mask is not None:
        with frame.builder.if_then(any_lane(frame.builder, frame.mask)), frame.branch():
            _write(frame, stmt, accesses, [_last_lane(frame, new) for new in _values(frame, stmt, accesses)])
        return
    if takes_turns(frame, stmt, accesses[0]):
        in_turn(frame, stmt, accesses)
        return
    values = _values(frame, stmt, accesses)
    if uniform and (spoken_of or stmt.reducer is not None or any(map(lanes_of, values))):
        # one lane is on at most, or none ever comes here: in turn they are what they were before they were lanes
        loops.lane_by_lane(frame, lambda inside: _store(inside, stmt))
        return
    if uniform and not frame.wanted:
        assert frame.mask is not None
        with frame.builder.if_then(any_lane(frame.builder, frame.mask)):
            _write(frame, stmt, accesses, values)
    else:
        _write(frame, stmt, accesses, values)


def _last_lane(frame: Frame, new: Value) -> Value:
    """The value of the last lane that is on, where all mean one element: a tail leaves one of them on, or they would race."""
    if not lanes_of(new):
        return new
    builder = frame.builder
    found = builder.extract_element(new, literal(I32, 0))
    for lane in range(1, frame.lanes):
        on = builder.extract_element(frame.mask, literal(I32, lane))
        found = builder.select(on, builder.extract_element(new, literal(I32, lane)), found)
    return found


def _write(frame: Frame, stmt: ir.Store, accesses: list[VectorAccess], values: list[Value]) -> None:
    read_again = stmt.reducer is not None or not read_by(stmt).isdisjoint(buffer.name for buffer in stmt.buffers)
    for access, new in zip(accesses, values, strict=True):
        if transpose.defers(frame, access) and frame.deferred is not None:
            frame.deferred.append(transpose.pending(frame, stmt, access, new))
        elif stmt.stream and streaming.streams(frame.target, access, frame.mask):
            frame.streamed = True
            streaming.stream(frame.builder, access, new)
        else:
            memory.store(frame.builder, frame.target, access, new, frame.mask, read_again=read_again)


def _values(frame: Frame, stmt: ir.Store, accesses: list[VectorAccess]) -> list[Value]:
    """What a store writes: its values, or their combination with what is there."""
    given = [value(frame, expr) for expr in given_values(stmt)]
    if stmt.reducer is None:
        return given
    return combined(frame, stmt, given, [memory.load(frame.builder, frame.target, access, frame.mask) for access in accesses])
