"""Halide: pipelines and schedules of our own writing, in its classic style, and what its autoschedulers make of the same algorithms."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from bench.peers.engines import Candidate, Makers, kept, missing
from bench.peers.workload import Array, Workload, blank

AUTOMATIC: Final = {"Mullapudi2016": "mullapudi2016", "Adams2019": "adams2019"}
SEARCHED: Final = frozenset({"softmax", "layer_norm", "gelu", "chain", "transpose", "harris"})
"""Operators that autoschedulers are given; of the others a row each, since they are far behind there and search for up to two minutes."""
ALSO: Final = frozenset({"matmul_512", "depthwise3x3_256_28"})


def available() -> str | None:
    """Why not, if not."""
    return missing("halide")


def make(workload: Workload, operands: Sequence[Array]) -> Makers:
    """By hand, and by each autoscheduler."""
    algorithms = importlib.import_module("bench.peers.engines.halide_pipelines")
    if workload.operator not in algorithms.OPERATORS or not workload.plain_types or workload.threads > 1:
        return {}
    if workload.operator == "matmul" and any(len(shape) != 2 for shape in workload.shapes):
        return {}
    made: dict[str, Callable[[], Candidate]] = {"": functools.partial(candidate, workload, operands, None)}
    if workload.operator in SEARCHED or workload.name in ALSO:
        made |= {name: functools.partial(candidate, workload, operands, name) for name in AUTOMATIC}
    return made


@functools.cache
def plugin(name: str) -> None:
    """Load an autoscheduler, which the wheel ships beside the library."""
    import halide as hl  # noqa: PLC0415 - an optional peer

    (file,) = Path(hl.__file__).parent.rglob(f"libautoschedule_{AUTOMATIC[name]}.so")
    hl.load_plugin(str(file))


def candidate(workload: Workload, operands: Sequence[Array], automatic: str | None) -> Candidate:
    """Compiled ahead; the result goes to an array that is there. Weights may be laid out anew once, as a user of Halide would."""
    import halide as hl  # noqa: PLC0415 - an optional peer

    algorithms: Any = importlib.import_module("bench.peers.engines.halide_pipelines")
    pipeline = algorithms.OPERATORS[workload.operator](workload, operands, automatic is None)
    target = hl.get_jit_target_from_environment()
    shape, kind = workload.result
    whole = hl.Pipeline(pipeline.output)
    if automatic is not None:
        plugin(automatic)
        pipeline.output.set_estimates([(0, extent) for extent in reversed(shape)])
        for parameter, array in pipeline.inputs:
            parameter.set_estimates([(0, extent) for extent in reversed(array.shape)])
        whole.apply_autoscheduler(target, hl.AutoschedulerParams(automatic, {"parallelism": "1"}))
    out = blank(shape, kind)
    buffers = [hl.Buffer(array) for _, array in pipeline.inputs]
    compiled = whole.compile_to_callable([parameter for parameter, _ in pipeline.inputs], target)
    if pipeline.repeat == 1:
        return Candidate(functools.partial(compiled, *buffers, hl.Buffer(out)), kept(out))
    assert pipeline.repeat % 2 == 0
    other = hl.Buffer(blank(shape, kind))
    last = hl.Buffer(out)

    def call() -> None:
        compiled(*buffers, other)
        for turn in range(1, pipeline.repeat):
            source, target = (other, last) if turn % 2 else (last, other)
            compiled(source, target)

    return Candidate(call, kept(out), note=f"{pipeline.repeat} calls")
