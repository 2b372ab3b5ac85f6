"""The reference results of a program, as far as they can be had in a given time; what the limited process runs.

The evaluator is simple and slow. Small results, and those that it has at once, are computed whole. Of others it computes the elements that
tell most (see `points`), more and more of them until the time is used. Where a few elements need most of a long program, as the finest
level of a pyramid needs its coarsest, the loops are compiled as they are written: candidates are held to what no schedule has changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct

from tensorlang.autotune.measurement.arrays import Array, Guarded, Sample, Spec, elements, inputs, jitter, places
from tensorlang.autotune.task import bound_array, longest_reduction, placeholders
from tensorlang.autotune.verification.conditioning import most_telling
from tensorlang.autotune.verification.cuts import follow_a_cut
from tensorlang.autotune.verification.draws import SLOWER, draw, hanging
from tensorlang.autotune.verification.points import sample_points
from tensorlang.autotune.workers.protocol import Blob, Point
from tensorlang.definition.tensor import Tensor
from tensorlang.semantics.evaluation import Evaluation
from tensorlang.semantics.rounding import ULPS, RoundedEvaluation
from tensorlang.serialization.rebuild import rebuild

WHOLE_S: Final = 0.5
"""Seconds within which a result is computed whole."""
WHOLE: Final = 256
"""Elements of a result that is computed whole in any case."""
FIRST: Final = 64
SAMPLED: Final = 2048
"""Elements that are computed first, and at most, of a result that is not."""
REFERENCE_SHARE: Final = 1 / 3
"""The part of the time for a larger sample that it may take of a program that is evaluated several times (see `draws`)."""


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
    """The expected results as bytes; for each the elements that they are (None: all); which inputs they are of.

    And for each the elements that hang on rounding: an `Unsteady` as bytes, None where a result follows from no cut of a float.
    """

    values: tuple[Blob, ...]
    at: tuple[tuple[Point, ...] | None, ...]
    sample: Sample
    unsteady: tuple[Blob | None, ...] = ()


def evaluated(request: ReferenceRequest) -> Reference:
    """The reference results of a request, by the evaluator."""
    return reference_of(*_given(request), request)


def as_written(request: ReferenceRequest) -> Reference:
    """The reference results of a request, by its loops as they are written."""
    return reference_of(*_given(request), request, _by_loops)


def _given(request: ReferenceRequest) -> tuple[tuple[Tensor, ...], dict[int, Array]]:
    bound = {
        place: np.frombuffer(blob.data, request.inputs[place].dtype.numpy).reshape(request.inputs[place].shape)
        for place, blob in request.bound.items()
    }
    return rebuild(request.definition), bound


_Feeds: TypeAlias = dict[Tensor, object]
_Values: TypeAlias = tuple[Array, tuple[Point, ...] | None]
_Way: TypeAlias = Callable[[tuple[Tensor, ...], _Feeds, ReferenceRequest, float], list[_Values]]


def _by_evaluator(outputs: tuple[Tensor, ...], feeds: _Feeds, request: ReferenceRequest, until: float) -> list[_Values]:
    shapes = [spec.shape for spec in request.results]
    sizes = [prod(shape) for shape in shapes]
    if max(sizes) <= WHOLE:
        return _whole(outputs, feeds, request)
    points = _points(request)
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


def _by_loops(outputs: tuple[Tensor, ...], feeds: _Feeds, request: ReferenceRequest, _: float) -> list[_Values]:
    found = _compiled(outputs)(*feeds.values())
    results = found if isinstance(found, tuple) else (found,)
    return [
        (values, None) if values.size <= WHOLE else (elements(values, places(some, values.ndim)), tuple(some))
        for values, some in zip(results, _points(request), strict=True)
    ]


@lru_cache(maxsize=1)
def _compiled(outputs: tuple[Tensor, ...]) -> Callable[..., Any]:
    from tensorlang.codegen.kernel.build import build_schedule  # noqa: PLC0415 - the evaluator needs no compiler
    from tensorlang.codegen.target import target  # noqa: PLC0415
    from tensorlang.schedules.schedule import Schedule  # noqa: PLC0415

    return build_schedule(Schedule(outputs), target())


def _points(request: ReferenceRequest) -> list[list[Point]]:
    shapes = [spec.shape for spec in request.results]
    return [sample_points(shape, SAMPLED, request.factors) if prod(shape) > 0 else [] for shape in shapes]


def reference_of(outputs: tuple[Tensor, ...], bound: dict[int, Array], request: ReferenceRequest, way: _Way = _by_evaluator) -> Reference:
    """The reference results of these outputs, on the most telling inputs of the request's seed, and which elements hang on rounding."""
    cut = follow_a_cut(outputs)
    until = time.perf_counter() + (request.seconds * REFERENCE_SHARE if any(cut) else request.seconds)
    some = [points[:FIRST] for points in _points(request)]
    reduction, took = longest_reduction(outputs, request.dims), 0.0

    def fed(made: list[Guarded]) -> _Feeds:
        arguments = enumerate(zip(placeholders(outputs), made, strict=True))
        return {
            placeholder: bound.get(place, guarded.array) for place, (placeholder, guarded) in arguments if bound_array(placeholder) is None
        }

    def run(made: list[Guarded]) -> list[_Values]:
        nonlocal took
        start = time.perf_counter()
        found = way(outputs, fed(made), request, until)
        took = time.perf_counter() - start
        return found

    def first(found: list[_Values]) -> list[Array]:
        return [
            elements(array, places(points, array.ndim)) if at is None else array[:FIRST]
            for (array, at), points in zip(found, some, strict=True)
        ]

    def otherwise(seed: int, sign: int) -> list[Array]:
        """The results, rounded otherwise: each operation by the evaluator, the operands by the loops."""
        if way is not _by_loops:
            rounded = RoundedEvaluation(outputs, fed(made), seed, sign, **request.dims)
            whole = all(at is None for _, at in found)
            return list(rounded.whole() if whole else rounded.at([at or () for _, at in found]))
        again = inputs(request.inputs, request.seed, sample)
        for place, (guarded, spec) in enumerate(zip(again, request.inputs, strict=True)):
            jitter(guarded, spec, seed, place, ULPS * sign)
        return [array for array, _ in way(outputs, fed(again), request, until)]

    sample, made, found = most_telling(outputs, request.inputs, request.seed, run, first, reduction)
    draws = draw(otherwise, took if way is _by_loops else SLOWER * took, 2 * request.seconds) if any(cut) else []
    unsteady = [
        Blob(hanging(values, [one[place] for one in draws], tensor.dtype, reduction).packed()) if follows else None
        for place, ((values, _), tensor, follows) in enumerate(zip(found, outputs, cut, strict=True))
    ]
    return Reference(
        values=tuple(Blob(values.tobytes()) for values, _ in found),
        at=tuple(at for _, at in found),
        sample=sample,
        unsteady=tuple(unsteady),
    )


def _whole(outputs: tuple[Tensor, ...], feeds: dict[Tensor, object], request: ReferenceRequest) -> list[_Values]:
    return [(values, None) for values in Evaluation(outputs, feeds, **request.dims).whole()]
