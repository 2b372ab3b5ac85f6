"""Making a report: operands where none are given, counts, time, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from tensorlang.codegen.cache.signature import Argument
from tensorlang.codegen.calling.arguments import checked_dim, prepare
from tensorlang.codegen.calling.runnable import Runnable
from tensorlang.codegen.calling.sample_operands import values
from tensorlang.codegen.cost.operation_count import OperationCount, Work, work
from tensorlang.codegen.reports import assembly
from tensorlang.codegen.reports.bounds import Evidence, verdict
from tensorlang.codegen.reports.instructions import bits, issue
from tensorlang.codegen.reports.levels import HOMES, Home, home, levels
from tensorlang.codegen.reports.machine import rates
from tensorlang.codegen.reports.report import Report
from tensorlang.codegen.reports.waits import Waits
from tensorlang.codegen.runtime import arrays, timing
from tensorlang.codegen.runtime.threads import get_threads
from tensorlang.codegen.target import target
from tensorlang.errors import CallError, did_you_mean
from tensorlang.ir import For, Nest, Stmt
from tensorlang.ir.dtype import DType, dtype
from tensorlang.ir.integers import known_value, value_of
from tensorlang.ir.traverse import substatements
from tensorlang.schedules.model.causes import causes
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.rewriting.edit import extent_of, loops, stores

FLOAT32: Final = dtype("float32")


def make(kernel: Runnable, inputs: Sequence[Any], repeats: int, keywords: Mapping[str, Any]) -> Report:
    """The report of a kernel; see `Kernel.report`."""
    program = kernel.program
    call, dims = sample_call(kernel, inputs, keywords)
    timed = timing.sample(call, repeats)
    cost = kernel.cost(**dims)
    origin = program.origin
    done = Work(OperationCount(cost["flops"], exact=False)) if origin is None else work(origin.plain, dims)
    element = _element(kernel, done)
    forks = (1 if "parallel " in program.nest else 0) if origin is None else _forks(origin.nest.body, dims)
    available = get_threads() if program.threads is None else program.threads
    threads = available if forks else 1
    here = target("native")
    machine = rates("float64" if element == "float64" else "float32", threads)
    footprint = cost["bytes"] + program.workspace_bytes
    found = () if origin is None else levels(origin.nest, _stage(origin.nest, done), dims, here.caches)
    written = sum(_bytes(argument, dims) for argument in program.signature.outputs)
    last = home(footprint, here.caches)
    sent = {last: cost["bytes"] + written} if origin is None else _sent(estimate(origin.nest, here.core, dims).bytes, last)
    hot = assembly.read(kernel.inspect("asm")).hot if here.is_x86 else None
    facts = Evidence(
        time=timed.min,
        flops=done.flops.value,
        rates=machine,
        exact=done.flops.exact,
        least=cost["bytes"] + written,
        integers=element.is_integer,
        sent=sent,
        calls=done.calls,
        issue=issue(done.flops.value, done.calls, hot, element, here),
        hot=hot,
        lanes=max(here.vector_bits // bits(dtype(machine.kind)), 1),
        vector_bits=here.vector_bits,
        target_bits=kernel.target.vector_bits,
        forks=forks if threads > 1 else 0,
        threads=threads,
        available=available,
        busy=1.0 if origin is None or threads == 1 else _busy(origin.nest.body, threads, dims),
        waits=None if origin is None or threads > 1 else Waits(*causes(origin.nest, here.core, dims)),
    )
    bound, sentence = verdict(facts)
    return Report(
        name=kernel.name,
        signature=str(program.signature),
        target=kernel.target.with_caches(here.caches),
        dims=dims,
        flops=done.flops,
        calls=done.calls,
        bytes=cost["bytes"],
        footprint=footprint,
        levels=found,
        sent=sent,
        hot=hot,
        threads=threads,
        forks=forks,
        in_lanes=1.0 if origin is None else _in_lanes(origin.nest.body, done),
        timing=timed,
        rates=machine,
        bound=bound,
        sentence=sentence,
        faults=() if origin is None else tuple(map(str, origin.scheduled.faults)),
        waits=facts.waits,
    )


def sample_call(kernel: Runnable, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Callable[[], Any], dict[str, int]]:
    """A call with the arrays that are given, or with made ones, and the dims of it."""
    signature, bound = kernel.program.signature, kernel.program.bound
    free = [argument for argument in signature.passed if argument.name not in bound]
    if inputs or "out" in keywords or any(argument.name in keywords for argument in free):
        words = prepare(signature, bound, inputs, keywords).words
        return kernel.bind(*inputs, **keywords), dict(zip(signature.dims, words[len(words) - len(signature.dims) :], strict=True))
    for name in keywords:
        if name not in signature.dims:
            known = [*signature.dims, *(argument.name for argument in free), "repeats"]
            raise CallError(f"{signature}: report() knows no {name!r}{did_you_mean(name, known)}")
    missing = [name for name in signature.dims if name not in keywords]
    if missing:
        told = f"report({', '.join(f'{name}=...' for name in missing)})"
        raise CallError(f"{signature}: report() needs the dim {missing[0]!r}; write {told}, or pass arrays")
    dims = {name: checked_dim(signature, name, keywords[name]) for name in signature.dims}
    rng = np.random.default_rng(0)
    return kernel.bind(*(_made(signature.name, argument, dims, rng) for argument in free), **dims), dims


def _made(kernel: str, argument: Argument, dims: Mapping[str, int], rng: np.random.Generator) -> Any:
    """Positive numbers, so that logarithms and roots take their usual way."""
    shape = tuple(value_of(extent, dims) for extent in argument.shape)
    try:
        kind, steps = argument.dtype.numpy, argument.strides
        array = arrays.strided_empty(shape, steps, kind) if steps else arrays.empty_aligned(shape, kind)
        array[...] = values(rng, shape, argument.dtype, signed=False)
    except (MemoryError, ValueError, OverflowError) as error:
        raise CallError(f"{kernel}: an operand {argument.name!r} of shape {shape} cannot be made: {error}") from None
    return array


def _sent(given: Mapping[str, float], last: Home) -> dict[Home, int]:
    """What each level of memory gives and takes back in a call, as far as the one that holds all: those beyond it see nothing."""
    return {name: round(given.get(name, 0.0)) for name in HOMES[: HOMES.index(last) + 1]}


def _bytes(argument: Argument, dims: Mapping[str, int]) -> int:
    return prod(value_of(extent, dims) for extent in argument.shape) * argument.dtype.bytes


def _element(kernel: Runnable, done: Work) -> DType:
    """The type that most arithmetic is done in."""
    if done.types:
        return dtype(max(done.types.items(), key=lambda item: item[1])[0])
    return kernel.program.signature.outputs[0].dtype if kernel.program.signature.outputs else FLOAT32


def _stage(nest: Nest, done: Work) -> str:
    """The stage with the most arithmetic, or the first output."""
    return max(done.stages.items(), key=lambda item: item[1])[0] if done.stages else nest.outputs[0].name


def _in_lanes(body: Stmt, done: Work) -> float:
    """The share of the arithmetic that is done by stages, or their partial results, in vector loops; 1 without any."""
    wide = {store.stage for loop in loops(body) if loop.kind in ("vector", "tensor") for store in stores(loop.body)}
    present = {store.stage for store in stores(body)}
    known = {name: value for name, value in done.stages.items() if name in present}
    total = sum(known.values())
    return sum(value for name, value in known.items() if {name, f"{name}_rf"} & wide) / total if total else 1.0


def _forks(stmt: Stmt, dims: Mapping[str, int]) -> int:
    """How many parallel loops of more than one iteration a call starts."""
    if isinstance(stmt, For):
        trips = known_value(extent_of(stmt), dims)
        trips = 2 if trips is None else trips
        if stmt.kind == "parallel":
            return int(trips > 1)
        return max(trips, 0) * _forks(stmt.body, dims)
    return sum(_forks(part, dims) for part in substatements(stmt))


def _busy(stmt: Stmt, threads: int, dims: Mapping[str, int]) -> float:
    """The share of the time of all threads for which the parallel loop with the least work for them has some."""
    if isinstance(stmt, For) and stmt.kind == "parallel":
        trips = known_value(extent_of(stmt), dims)
        return 1.0 if trips is None or trips < 2 else trips / (-(-trips // threads) * threads)
    return min((_busy(part, threads, dims) for part in substatements(stmt)), default=1.0)
