"""Calls of Halide's pipelines: compiled ahead for operands of known extents, into a result that is there."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.peers.engines.halide import plugin
from bench.programs.halide import PIPELINES
from bench.programs.program import Program
from bench.programs.whole.dialects import NoFormError


def call(program: Program, given: Sequence[Any], outputs_like: Sequence[Any], automatic: str | None = None) -> Callable[[], Any]:
    """A pipeline scheduled by hand, or by the autoscheduler of this name. Raises `NoFormError`."""
    if program.name not in PIPELINES:
        raise NoFormError("no pipeline")
    import halide as hl  # noqa: PLC0415 - an optional peer

    algorithm = getattr(importlib.import_module(f"{__package__}.{PIPELINES[program.name]}"), program.name)
    (result,) = map(np.zeros_like, outputs_like)
    buffers = [hl.Buffer(array) for array in given]
    parameters = [hl.ImageParam(buffer.type(), buffer.dimensions(), f"operand{place}") for place, buffer in enumerate(buffers)]
    output = algorithm(result.shape, automatic is None, *parameters)
    for held, array in zip((*parameters, output.output_buffer()), (*given, result), strict=True):
        _fix(held, array)
    pipeline, target = hl.Pipeline(output), hl.get_jit_target_from_environment()
    if automatic is None:
        for axis, extent in zip(output.args(), reversed(result.shape), strict=True):
            output.bound(axis, 0, extent)
    else:
        plugin(automatic)
        for held, array in zip((*parameters, output), (*given, result), strict=True):
            held.set_estimates([(0, extent) for extent in reversed(array.shape)])
        pipeline.apply_autoscheduler(target, hl.AutoschedulerParams(automatic, {"parallelism": "1"}))
    run = functools.partial(pipeline.compile_to_callable(parameters, target), *buffers, hl.Buffer(result))

    def computed() -> Any:
        run()
        return result

    return computed


def _fix(held: Any, array: Any) -> None:
    """The extents and strides of an array are known where it is compiled."""
    for axis, (extent, stride) in enumerate(zip(reversed(array.shape), reversed(array.strides), strict=True)):
        held.dim(axis).set_bounds(0, extent)
        held.dim(axis).set_stride(stride // array.itemsize)
