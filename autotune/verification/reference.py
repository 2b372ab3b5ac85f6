"""What a worker is told of a task, and the results that candidates are held to: computed once, by the reference evaluator.

It runs in a process with limits of time and memory (see `limited`), since it can take any amount of both. Only what is over in some
milliseconds whatever happens is evaluated here. Where not all of a result can be had in time, it is a sample; the worker then also
compares whole results with the default schedule's. Where not even that can be, the loops as they are written compute it.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final

import numpy as np

from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.settings import BUILDER
from tensorlang.autotune.task import Task, bound_arrays
from tensorlang.autotune.verification.evaluated import Reference, ReferenceRequest, as_written, evaluated, reference_of
from tensorlang.autotune.workers.limited import LimitedProcess, LimitError, duty
from tensorlang.autotune.workers.protocol import Blob, WorkerTask
from tensorlang.codegen.target import Target
from tensorlang.definition.tensor import Placeholder, Stage, definitions
from tensorlang.ir import Reduce
from tensorlang.ir.integers import known_value
from tensorlang.ir.traverse import walk
from tensorlang.schedules.spaces.feasible import Config
from tensorlang.serialization import canonical
from tensorlang.system.memory import memory

LIMIT_S: Final = 30.0
"""Seconds that the reference may take where nobody says."""
SAMPLING_S: Final = 5.0
SHARE: Final = 0.4
"""What is spent on a larger sample: so many seconds at most, and no more than this part of the limit."""
EVALUATING: Final = 0.5
"""The part of the limit after which the evaluator is stopped, and the loops are compiled as they are written."""
HERE: Final = 1 << 16
"""Steps of the evaluator up to which no process is started for it."""


def worker_task(
    task: Task,
    target: Target,
    threads: int,
    policy: Policy,
    builder: str = BUILDER,
    default: Config | None = None,
    *,
    limit_s: float = LIMIT_S,
    sampling_s: float = SAMPLING_S,
    factors: Iterable[int] = (),
) -> WorkerTask:
    """What a worker is told of a task, here or on another host; on which cores to measure is left open.

    The reference results are computed now, in at most `limit_s` seconds, of which `sampling_s` are for a larger sample: 0 for programs of
    ours, whose first elements will do and need no process. `factors` are likely sizes of tiles. Raises `TuningError` where time or memory
    is not enough.
    """
    reference = make_reference(task, seed=0, limit_s=limit_s, sampling_s=sampling_s, factors=factors)
    return WorkerTask(
        builder=builder,
        policy=policy,
        threads=threads,
        inputs=task.inputs,
        results=task.results,
        expected=reference.values,
        at=reference.at,
        unsteady=reference.unsteady,
        reduction=task.reduction,
        sample=reference.sample,
        bound=_blobs(task),
        dims=task.dims,
        definition=task.definition,
        fingerprint=task.fingerprint,
        target=target.name,
        default=default,
        constants=task.fixed_inputs,
    )


def make_reference(
    task: Task, seed: int, *, limit_s: float = LIMIT_S, sampling_s: float = SAMPLING_S, factors: Iterable[int] = ()
) -> Reference:
    """Evaluate the task on the inputs of this seed, and on the operands bound to arrays. Raises as `worker_task` does."""
    request = ReferenceRequest(
        definition=canonical.describe(task.outputs),
        inputs=task.inputs,
        results=task.results,
        seed=seed,
        seconds=min(sampling_s, SHARE * limit_s),
        bound=_blobs(task),
        dims=task.dims,
        factors=tuple(factors),
    )
    if sampling_s == 0 or _is_small(task):
        return reference_of(task.outputs, {}, request)
    what = f"the reference results of {task.op}"
    with LimitedProcess(memory()) as process:
        try:
            return process.call(duty(evaluated), request, Reference, EVALUATING * limit_s, what)
        except LimitError:
            loops = f"{what}, by its loops as they are written"
            return process.call(duty(as_written), request, Reference, (1 - EVALUATING) * limit_s, loops)


def _blobs(task: Task) -> dict[int, Blob]:
    return {place: Blob(np.ascontiguousarray(array).tobytes()) for place, array in bound_arrays(task.outputs).items()}


def _is_small(task: Task) -> bool:
    """Is it over in some milliseconds, whatever the operands hold?"""
    steps = sum(prod(spec.shape) for spec in task.inputs)
    for definition in definitions(task.outputs):
        if isinstance(definition, Placeholder):
            continue
        if not isinstance(definition, Stage) or definition.itself:
            return False
        each = 1
        for value in definition.values:
            for node in walk(value):
                for axis in node.axes if isinstance(node, Reduce) else ():
                    lo, hi = known_value(axis.lo, task.dims), known_value(axis.hi, task.dims)
                    each *= HERE + 1 if lo is None or hi is None else max(hi - lo, 1)
        extents = [known_value(extent, task.dims) for extent in definition.shape]
        steps += each * prod(HERE + 1 if extent is None else extent for extent in extents)
    return steps <= HERE
