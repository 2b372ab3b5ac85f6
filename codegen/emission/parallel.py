"""Parallel loops, by the entry point that every OpenMP runtime exports: `GOMP_parallel(function, environment, threads, 0)`.

The body becomes a function of everything it uses: `noalias` pointers of the buffers, the variables around it, the bounds. A second
function with OpenMP's signature unpacks these from an environment on the caller's stack. Threads take chunks of iterations, each of its own
share first (`shares`), until none is left. One that runs out of memory sets a status, the others stop at their next chunk, and the kernel
fails. One thread, or one iteration, does without the runtime. A parallel loop inside another is serial. Where the caller may hand memory
over, no more threads run than it suffices for, and each has the part of it whose turn it is.
"""

from __future__ import annotations

from llvmlite import ir as llvm

from tensorlang import ir
from tensorlang.codegen.emission import loops
from tensorlang.codegen.emission.frame import Frame, begin, define, finish, readable
from tensorlang.codegen.emission.loops import Body
from tensorlang.codegen.emission.shares import COUNTERS, Shares, least
from tensorlang.codegen.emission.storage import leave, needs_heap
from tensorlang.codegen.emission.types import I32, I64, POINTER, VOID, Builder, Value, external, literal
from tensorlang.codegen.emission.vector_access import BufferAddress
from tensorlang.codegen.emission.workspace import Part
from tensorlang.errors import InternalError
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.ir.mentions import allocations
from tensorlang.ir.traverse import axes_of, expressions, loads_of, statements

THREADS = "tensorlang_num_threads"
THREAD = "omp_get_thread_num"


def parallel(frame: Frame, loop: ir.For, body: Body) -> None:
    """Iterations in any order, on many threads."""
    if frame.lanes:
        raise InternalError(f"the parallel loop {loop.loop} stands inside the vector loop {frame.lane_axis}")
    extent = loops.constant_extent(frame, loop)
    if frame.outlined or (extent is not None and extent <= 1):
        loops.serial(frame, loop, body)
        return
    builder = frame.builder
    lo, hi = loops.bounds(frame, loop)
    places = _used(frame, loop.body)
    status = frame.reserve(I32, "status")
    if frame.counters is None:
        frame.counters = frame.reserve(COUNTERS, "counters", LINE_BYTES)  # away from what is only read
    with builder.if_then(builder.icmp_signed("<", lo, hi)):
        builder.store(literal(I32, 0), status)
        part = frame.part if needs_heap(frame, allocations(loop.body)) else None
        threads = _threads(frame, builder.sub(hi, lo), part)
        shares = Shares.begun(builder, lo, hi, threads, frame.counters)
        captured = [*(place.pointer for _, place in places), *frame.scalars.values(), *shares, status]
        if part is not None:
            turns = frame.reserve(I64, "turns", LINE_BYTES)
            builder.store(literal(I64, 0), turns)
            captured = [part.memory, part.slots, turns, *captured]
        entry = _outlined(frame, loop, body, places, captured, part)
        environment = _environment(frame, captured)
        with builder.if_else(builder.icmp_signed("<=", threads, literal(I64, 1))) as (alone, together):
            with alone:
                builder.call(entry, [environment])
            with together:
                start = external(builder.module, "GOMP_parallel", VOID, [POINTER, POINTER, I32, I32])
                builder.call(start, [entry, environment, builder.trunc(threads, I32), literal(I32, 0)])
        with builder.if_then(builder.icmp_signed("!=", builder.load(status, typ=I32), literal(I32, 0)), likely=False):
            leave(frame)


def _used(frame: Frame, stmt: ir.Stmt) -> list[tuple[str, BufferAddress]]:
    """The buffers from outside that a statement touches; storage it does not touch can stay in registers."""
    names: dict[str, None] = {}
    for part in statements(stmt):
        if isinstance(part, ir.Store):
            names.update(dict.fromkeys(buffer.name for buffer in part.buffers))
        if isinstance(part, ir.Prefetch):
            names[part.buffer.name] = None
        loads = [load for expr in expressions(part) for load in loads_of(expr)]
        names.update(dict.fromkeys(load.buffer.name for load in loads if isinstance(load.buffer, ir.Buffer)))
    own = {buffer.name for buffer in allocations(stmt)}
    return [(name, frame.places[name]) for name in names if name not in own]


def _threads(frame: Frame, extent: Value, part: Part | None) -> Value:
    """How many threads run."""
    builder = frame.builder
    module = builder.module
    setting = module.globals.get(THREADS) or llvm.GlobalVariable(module, I32, THREADS)
    wanted = builder.sext(builder.load(setting, typ=I32), I64)
    if part is not None:
        wanted = least(builder, wanted, part.slots)
    threads = least(builder, wanted, extent)
    return builder.select(builder.icmp_signed("<", threads, literal(I64, 1)), literal(I64, 1), threads)


def _environment(frame: Frame, captured: list[Value]) -> Value:
    """The captured values in memory, for the threads to read."""
    kind = llvm.LiteralStructType([value.type for value in captured])
    environment = frame.reserve(kind, "environment", LINE_BYTES)
    for n, value in enumerate(captured):
        frame.builder.store(value, _field(frame.builder, kind, environment, n))
    return environment


def _field(builder: llvm.IRBuilder, kind: llvm.Type, environment: Value, n: int) -> Value:
    return builder.gep(environment, [literal(I32, 0), literal(I32, n)], source_etype=kind)


def _outlined(
    frame: Frame, loop: ir.For, body: Body, places: list[tuple[str, BufferAddress]], captured: list[Value], part: Part | None
) -> Value:
    """The functions of one parallel loop; gives the one that each thread calls."""
    module = frame.builder.module
    name = module.get_unique_name(f"{frame.function.name}.{readable(loop.loop)}")
    kinds = [value.type for value in captured]
    work = define(module, frame.target, name, VOID, kinds)
    work.linkage = "internal"
    inner = begin(work, frame.target, _fail, frame)
    passed = list(work.args)
    if part is not None:
        memory, slots, turns, *passed = passed
        turn = inner.builder.atomic_rmw("add", turns, literal(I64, 1), "monotonic")
        inner.part = Part(Part(memory, slots).of_thread(inner.builder, turn), slots)
    for (buffer, place), argument in zip(places, passed, strict=False):
        argument.name = place.name
        if place.alone:
            argument.add_attribute("noalias")
        inner.places[buffer] = BufferAddress(place.name, argument, place.dtype, place.shape, spare=place.spare, alone=place.alone)
    for scalar, argument in zip(frame.scalars, passed[len(places) :], strict=False):
        argument.name = readable(scalar)
        inner.scalars[scalar] = argument
    _run_shares(inner, loop, body, Shares(*passed[-6:-1]), passed[-1])
    finish(inner)
    if part is not None and inner.part is not None:
        part.share = max(part.share, inner.part.peak)
    entry = define(module, frame.target, name + ".thread", VOID, [POINTER])
    entry.linkage = "internal"
    builder = llvm.IRBuilder(entry.append_basic_block("entry"))
    if frame.lines is not None:  # or what is inlined here would lose its lines
        frame.lines.outlined(entry, frame.builder, builder)
    kind = llvm.LiteralStructType(kinds)
    builder.call(work, [builder.load(_field(builder, kind, entry.args[0], n), typ=part) for n, part in enumerate(kinds)])
    builder.ret_void()
    return entry


def _run_shares(frame: Frame, loop: ir.For, body: Body, shares: Shares, status: Value) -> None:
    """Run the own share, then those after it in turn, until nothing is left or some thread has failed."""
    builder = frame.builder
    before = builder.block
    begin, claim, run, after, done = (builder.append_basic_block(name) for name in ("share", "claim", "run", "after", "done"))
    thread = builder.call(external(builder.module, THREAD, I32, []), [])
    own = builder.urem(builder.zext(thread, I64), shares.count)
    builder.branch(begin)

    builder.position_at_end(begin)
    ended, share = builder.phi(I64, "ended"), builder.phi(I64, "share")
    ended.add_incoming(literal(I64, 0), before)
    share.add_incoming(own, before)
    builder.branch(claim)

    builder.position_at_end(claim)
    chunk = shares.taken(builder, share, moves=bool(axes_of(loop.lo) | axes_of(loop.hi)))
    failed = builder.icmp_signed("!=", builder.load_atomic(status, "monotonic", 4, typ=I32), literal(I32, 0))
    builder.cbranch(builder.or_(chunk.none, failed), after, run)

    builder.position_at_end(run)
    loops.counted(frame, loop.loop, chunk.start, chunk.end, body)
    builder.branch(claim)

    builder.position_at_end(after)
    more = builder.add(ended, literal(I64, 1))
    ended.add_incoming(more, after)
    share.add_incoming(shares.after(builder, share), after)
    builder.cbranch(builder.or_(failed, builder.icmp_signed(">=", more, shares.count)), done, begin)

    builder.position_at_end(done)
    builder.ret_void()


def _fail(frame: Frame, builder: Builder) -> None:
    """Leave a thread that found no memory."""
    builder.atomic_rmw("xchg", frame.function.args[-1], literal(I32, 1), "monotonic")
    builder.ret_void()
