"""What a worker is told of a task, and the results that candidates are held to: computed once, by the reference evaluator, in the parent.

The evaluator is simple and slow. Where the whole result would take too long, it computes a sample of elements: corners, edges and random
ones; the worker then also compares whole results with the default schedule's.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensorlang.autotune.measurement.arrays import Array, Spec, inputs
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.settings import BUILDER
from tensorlang.autotune.task import Task, placeholders
from tensorlang.autotune.workers.protocol import Blob, Point, WorkerTask
from tensorlang.codegen.target import Target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.spaces.feasible import Config
from tensorlang.semantics.evaluate import evaluate

WHOLE_S: Final = 0.5
PROBE: Final = 256
SAMPLED: Final = 2048


@dataclass(frozen=True, slots=True)
class Reference:
    """The expected results as bytes; for each the elements that they are (None: all); whether the inputs have negative floats."""

    values: tuple[bytes, ...]
    at: tuple[tuple[Point, ...] | None, ...]
    signed: bool


def worker_task(
    task: Task,
    target: Target,
    threads: int,
    policy: Policy,
    builder: str = BUILDER,
    default: Config | None = None,
    *,
    whole_s: float = WHOLE_S,
) -> WorkerTask:
    """What a worker is told of a task, here or on another host; on which cores to measure is left open.

    The reference results are computed now: a sample of them where the whole would take more than `whole_s` seconds.
    """
    reference = make_reference(task, seed=0, whole_s=whole_s)
    return WorkerTask(
        builder=builder,
        policy=policy,
        threads=threads,
        inputs=task.inputs,
        results=task.results,
        expected=tuple(map(Blob, reference.values)),
        at=reference.at,
        reduction=task.reduction,
        signed=reference.signed,
        bound={place: Blob(np.ascontiguousarray(array).tobytes()) for place, array in bound(task.outputs).items()},
        dims=task.dims,
        definition=task.definition,
        fingerprint=task.fingerprint,
        target=target.name,
        default=default,
    )


def bound(outputs: tuple[Tensor, ...]) -> dict[int, Array]:
    """The arrays of operands that `tl.buffer` bound, by their place among the arguments."""
    found = (getattr(tensor.definition, "array", None) for tensor in placeholders(outputs))
    return {place: array for place, array in enumerate(found) if array is not None}


def make_reference(task: Task, seed: int, whole_s: float = WHOLE_S) -> Reference:
    """Evaluate the task on the inputs of this seed, and on the operands bound to arrays.

    Inputs have negative values unless that makes results NaN or infinite (a logarithm, a square root).
    """
    signed, expected = True, _expected(task, seed, whole_s, signed=True)
    if not all(_mostly_finite(values) for values, _ in expected):
        signed, expected = False, _expected(task, seed, whole_s, signed=False)
    return Reference(
        tuple(values.tobytes() for values, _ in expected), tuple(None if at is None else tuple(at) for _, at in expected), signed
    )


def _expected(task: Task, seed: int, whole_s: float, *, signed: bool) -> list[tuple[Array, list[Point] | None]]:
    made = inputs(task.inputs, seed, signed=signed)
    fixed = bound(task.outputs)
    arguments = enumerate(zip(placeholders(task.outputs), made, strict=True))
    feeds = {placeholder: guarded.array for place, (placeholder, guarded) in arguments if place not in fixed}
    return [_values(tensor, spec, feeds, task.dims, whole_s) for tensor, spec in zip(task.outputs, task.results, strict=True)]


def _values(
    tensor: Tensor, spec: Spec, arrays: dict[Tensor, Array], dims: dict[str, int], whole_s: float
) -> tuple[Array, list[Point] | None]:
    """The result or a sample of it, whichever is affordable."""
    size = int(np.prod(spec.shape, dtype=np.int64))
    if size <= PROBE:
        return _array(evaluate(tensor, arrays, None, **dims)), None
    points = sample_points(spec.shape, SAMPLED)
    _, first = _timed(tensor, arrays, dims, points[:PROBE])
    values, both = _timed(tensor, arrays, dims, points)
    slope = max(both - first, 1e-6) / max(len(points) - PROBE, 1)
    if first + slope * size <= whole_s or size <= len(points):
        return _array(evaluate(tensor, arrays, None, **dims)), None
    return values, points


def _timed(tensor: Tensor, arrays: dict[Tensor, Array], dims: dict[str, int], points: list[Point]) -> tuple[Array, float]:
    start = time.perf_counter()
    values = _array(evaluate(tensor, arrays, points, **dims))
    return values, time.perf_counter() - start


def _array(values: Any) -> Array:
    return np.asarray(values)


def sample_points(shape: tuple[int, ...], count: int) -> list[Point]:
    """Distinct indices: the corners (of at most ten axes), points on edges, and random ones."""
    rng = np.random.default_rng(0)
    axes = shape[:10]
    corners = (corner + tuple(0 for _ in shape[10:]) for corner in itertools.product(*({0, size - 1} for size in axes)))
    chosen = dict.fromkeys(itertools.islice(corners, count // 2))
    inside = rng.integers(0, shape, size=(count, len(shape)))
    snapped = np.where(rng.random(inside.shape) < 0.5, np.where(rng.random(inside.shape) < 0.5, 0, np.array(shape) - 1), inside)
    inside[: count // 4] = snapped[: count // 4]
    rng.shuffle(inside)
    for row in inside.tolist():
        chosen.setdefault(tuple(row))
    return list(chosen)[:count]


def _mostly_finite(values: Array) -> bool:
    if values.dtype.kind in "biu" or not values.size:
        return True
    return bool(np.isfinite(values.astype(np.float64)).mean() > 0.9)
