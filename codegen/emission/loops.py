"""Loops: a serial one is an LLVM loop over int64; an unrolled or vector loop is its body with the variable bound to a value.

An unrolled loop emits its body once per iteration with the variable bound to a number, and a vector loop once with it bound to
`lo + lane`, so that index arithmetic and conditions fold. A loop of one iteration binds its variable likewise.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorlang import ir
from tensorlang.codegen.emission.affine import LANE, Polynomial, number, of
from tensorlang.codegen.emission.expression import value
from tensorlang.codegen.emission.frame import Frame, readable
from tensorlang.codegen.emission.neighbours import chunks_of
from tensorlang.codegen.emission.types import I32, I64, Value, known, lanes_of, literal
from tensorlang.errors import InternalError
from tensorlang.schedules.rewriting.edit import literal_extent

Body = Callable[[Frame], None]
MAX_LANES = 256


def serial(frame: Frame, loop: ir.For, body: Body) -> None:
    """Iterations in order, at run time."""
    extent = constant_extent(frame, loop)
    if extent is not None and extent <= 1:
        if extent == 1:
            unrolled(frame, loop, body)
        return
    lo, hi = bounds(frame, loop)
    counted(frame, loop.loop, lo, hi, body)


def counted(frame: Frame, name: str, lo: Value, hi: Value, body: Body) -> None:
    """The loop `for name in range(lo, hi)` over two values."""
    builder, plain = frame.builder, readable(name)
    head, inside, after = (builder.append_basic_block(f"{plain}.{part}") for part in ("head", "body", "end"))
    before = builder.block
    builder.branch(head)
    builder.position_at_end(head)
    variable = builder.phi(I64, name=plain)
    variable.add_incoming(lo, before)
    builder.cbranch(builder.icmp_signed("<", variable, hi), inside, after)
    builder.position_at_end(inside)
    with frame.loop(), frame.numbering.inside(before):
        frame.variable(name, variable)
        start = known(lo)
        frame.natural = frame.natural | {name} if isinstance(start, int) and start >= 0 else frame.natural - {name}
        body(frame)
    following = builder.add(variable, literal(I64, 1), flags=("nsw",))  # variable < hi
    variable.add_incoming(following, builder.block)
    builder.branch(head)
    builder.position_at_end(after)


def unrolled(frame: Frame, loop: ir.For, body: Body) -> None:
    """Every iteration written out. Raises `InternalError` where their number is not known."""
    extent = _known_extent(frame, loop)
    around = frame.chunks, frame.copied
    frame.chunks, frame.copied = chunks_of(loop), frame.copied | {loop.loop}
    with frame.loop():
        _written_out(frame, loop.loop, _base(frame, loop), extent, body)
    frame.chunks, frame.copied = around


def _written_out(frame: Frame, name: str, first: Polynomial, count: int, body: Body) -> None:
    for step in range(count):
        frame.bind(name, first + number(step))
        body(frame)


def vector(frame: Frame, loop: ir.For, body: Body) -> None:
    """All iterations at once, one in each lane. Raises `InternalError` inside another vector loop and for an unknown or large number."""
    lanes = _known_extent(frame, loop)
    if frame.lanes:
        raise InternalError(f"the vector loop {loop.loop} stands inside the vector loop {frame.lane_axis}")
    if lanes > MAX_LANES:
        raise InternalError(f"the vector loop {loop.loop} has {lanes} lanes; at most {MAX_LANES} are possible")
    if lanes <= 1:
        unrolled(frame, loop, body)
        return
    with frame.loop():
        frame.bind(loop.loop, _base(frame, loop) + of(LANE))
        frame.lanes, frame.lane_axis = lanes, loop.loop
        body(frame)
        frame.lanes, frame.lane_axis = 0, ""


def lane_by_lane(frame: Frame, body: Body) -> None:
    """What stands in a vector loop for each of its lanes that is on in turn, as iterations."""
    lanes, axis, mask = frame.lanes, frame.lane_axis, frame.mask
    with frame.loop(), frame.masked(None):
        first = frame.space.polynomial(ir.Axis(axis)) - of(LANE)
        frame.lanes, frame.lane_axis = 0, ""
        for lane in range(lanes):
            frame.bind(axis, first + number(lane))
            if mask is None:
                body(frame)
                continue
            with frame.builder.if_then(frame.builder.extract_element(mask, literal(I32, lane))), frame.branch():
                body(frame)
        frame.lanes, frame.lane_axis = lanes, axis


def bounds(frame: Frame, loop: ir.For) -> tuple[Value, Value]:
    """The bounds of a loop as scalars. Raises `InternalError` where they change from lane to lane."""
    frame.fresh()
    lo, hi = value(frame, loop.lo), value(frame, loop.hi)
    if lanes_of(lo) or lanes_of(hi):
        raise InternalError(f"the bounds of loop {loop.loop} differ between the lanes of {frame.lane_axis}")
    return lo, hi


def constant_extent(frame: Frame, loop: ir.For) -> int | None:
    """The number of iterations where it is known."""
    extent = (frame.space.polynomial(loop.hi) - frame.space.polynomial(loop.lo)).constant
    if extent is None:  # an atom of a polynomial is one object; two equal ones cancel here
        extent = literal_extent(loop)
    return None if extent is None else max(extent, 0)


def _known_extent(frame: Frame, loop: ir.For) -> int:
    extent = constant_extent(frame, loop)
    if extent is None:
        raise InternalError(f"the {loop.kind} loop {loop.loop} has no constant extent")
    return extent


def _base(frame: Frame, loop: ir.For) -> Polynomial:
    """The lower bound as a polynomial of variables; what it computes otherwise (it may read memory) is computed once, here."""
    lo = frame.space.polynomial(loop.lo)
    if not any(atom.name in frame.space.opaque for atom in frame.space.atoms(lo)):
        return lo
    first, _ = bounds(frame, loop)
    start = known(first)
    if isinstance(start, int):
        return number(start)
    frame.variable(loop.loop + ".lo", first)
    return frame.space.axes[loop.loop + ".lo"]
