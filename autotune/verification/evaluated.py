"""The reference results of a program, as far as they can be had in a given time; what the limited process runs.

The evaluator is simple and slow. Small results, and those that it has at once, are computed whole. Of others it computes the elements that
tell most (see `points`), more and more of them until the time is used.
"""

from __future__ import annotations

import time
from math import prod
from typing import Any, Final

import numpy as np
from msgspec import Struct

from tensorlang.autotune.measurement.arrays import Array, Spec, inputs
from tensorlang.autotune.task import bound_array, placeholders
from tensorlang.autotune.verification.points import sample_points
from tensorlang.autotune.workers.protocol import Blob, Point
from tensorlang.definition.tensor import Tensor
from tensorlang.semantics.evaluate import Evaluation
from tensorlang.serialization.rebuild import rebuild

WHOLE_S: Final = 0.5
"""Seconds within which a result is computed whole."""
WHOLE: Final = 256
"""Elements of a result that is computed whole in any case."""
FIRST: Final = 64
SAMPLED: Final = 2048
"""Elements that are computed first, and at most, of a result that is not."""


class ReferenceRequest(Struct, frozen=True, kw_only=True):
    """A program as `canonical.describe` has it, the specs of its arguments and results, and the arrays that are bound to arguments.

    `seconds` may be spent on elements beyond the first ones, `factors` are likely sizes of tiles.
    """

    definition: dict[str, Any]
    inputs: tuple[Spec, ...]
    results: tuple[Spec, ...]
    seed: int
    seconds: float
    bound: dict[int, Blob] = {}
    dims: dict[str, int] = {}
    factors: tuple[int, ...] = ()


class Reference(Struct, frozen=True, kw_only=True):
    """The expected results as bytes; for each the elements that they are (None: all); whether the inputs have negative floats."""

    values: tuple[Blob, ...]
    at: tuple[tuple[Point, ...] | None, ...]
    signed: bool


def evaluated(request: ReferenceRequest) -> Reference:
    """The reference results of a request."""
    outputs = rebuild(request.definition)
    bound = {
        place: np.frombuffer(blob.data, request.inputs[place].dtype.numpy).reshape(request.inputs[place].shape)
        for place, blob in request.bound.items()
    }
    return reference_of(outputs, bound, request)


def reference_of(outputs: tuple[Tensor, ...], bound: dict[int, Array], request: ReferenceRequest) -> Reference:
    """The reference results of these outputs, on inputs of the request's seed.

    Inputs have negative values unless that makes results NaN or infinite (a logarithm, a square root).
    """
    until = time.perf_counter() + request.seconds
    found = _results(outputs, bound, request, until, signed=True)
    signed = all(mostly_finite(values) for values, _ in found)
    if not signed:
        found = _results(outputs, bound, request, until, signed=False)
    return Reference(values=tuple(Blob(values.tobytes()) for values, _ in found), at=tuple(at for _, at in found), signed=signed)


_Values = tuple[Array, tuple[Point, ...] | None]


def _results(
    outputs: tuple[Tensor, ...], bound: dict[int, Array], request: ReferenceRequest, until: float, *, signed: bool
) -> list[_Values]:
    made = inputs(request.inputs, request.seed, signed=signed)
    arguments = enumerate(zip(placeholders(outputs), made, strict=True))
    feeds: dict[Tensor, object] = {
        placeholder: bound.get(place, guarded.array) for place, (placeholder, guarded) in arguments if bound_array(placeholder) is None
    }
    shapes = [spec.shape for spec in request.results]
    sizes = [prod(shape) for shape in shapes]
    if max(sizes) <= WHOLE:
        return _whole(outputs, feeds, request)
    points = [sample_points(shape, SAMPLED, request.factors) if size > 0 else [] for shape, size in zip(shapes, sizes, strict=True)]
    evaluation = Evaluation(outputs, feeds, **request.dims)
    parts: list[tuple[Array, ...]] = []
    done, count, most = 0, FIRST, max(map(len, points))
    while done < most:
        start = time.perf_counter()
        parts.append(evaluation.at([some[done : done + count] for some in points]))
        seconds, now = time.perf_counter() - start, time.perf_counter()
        if done and seconds / count * sum(sizes) <= WHOLE_S and now + WHOLE_S <= until:
            return _whole(outputs, feeds, request)
        done, count = done + count, 2 * count
        if now + 2 * seconds > until:
            break
    values = (np.concatenate(column) for column in zip(*parts, strict=True))
    return [(array, tuple(some[: len(array)])) for array, some in zip(values, points, strict=True)]


def _whole(outputs: tuple[Tensor, ...], feeds: dict[Tensor, object], request: ReferenceRequest) -> list[_Values]:
    return [(values, None) for values in Evaluation(outputs, feeds, **request.dims).whole()]


def mostly_finite(values: Array) -> bool:
    """Are nine of ten elements finite, as those of most programs are on most inputs?"""
    if values.dtype.kind in "biu" or not values.size:
        return True
    return bool(np.isfinite(values.astype(np.float64)).mean() > 0.9)
