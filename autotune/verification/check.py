"""Is a kernel right? Asked of a schedule for which nobody here vouches: one that another version of the software, or another CPU, found.

The kernel runs once on inputs of our own. Elements at corners, edges and random places are compared with the reference evaluator, and
the whole result with that of the default schedule; writes outside the outputs are noticed. This happens in the process that asked, as it
is about to call the kernel anyway; `autotune verify` does the same for a whole log in processes that may die of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tensorlang.autotune.measurement.arrays import Array, Guarded, Spec, elements, mismatch, places
from tensorlang.autotune.measurement.unsteady import Unsteady
from tensorlang.autotune.task import NO_DIMS, bound_array, longest_reduction, placeholders, specs
from tensorlang.autotune.verification.conditioning import most_telling
from tensorlang.autotune.verification.cuts import follow_a_cut
from tensorlang.autotune.verification.draws import draw, hanging
from tensorlang.autotune.verification.points import Point, sample_points
from tensorlang.codegen.compilation import default_schedule
from tensorlang.codegen.kernel.build import build_schedule
from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.definition.tensor import Placeholder, Stage, Tensor, definitions
from tensorlang.errors import TensorlangError
from tensorlang.semantics.evaluation import evaluate
from tensorlang.semantics.rounding import RoundedEvaluation

POINTS: Final = 96
CUT_POINTS: Final = 2048
"""Elements that are compared with the reference evaluator, and as many where a result follows from a cut of floats: the more there are, the
fewer others may differ from the default schedule."""
NONE_OF_A_SAMPLE: Final = Unsteady.of(np.zeros(CUT_POINTS), [], np.zeros(CUT_POINTS, bool))
"""What is said of results of which the evaluator is not asked."""
AFFORDABLE: Final = 1e8
"""Operations up to which the reference evaluator is asked about a program whose intermediate results it computes whole."""


def why_wrong(kernel: Kernel, outputs: tuple[Tensor, ...], dims: Mapping[str, int] = NO_DIMS) -> str | None:
    """What is wrong with a kernel of these outputs, extents known only at run time having the values `dims`; None if nothing was found."""
    try:
        arguments, results = specs(outputs, dims)
        operands = [(tensor, spec) for tensor, spec in zip(placeholders(outputs), arguments, strict=True) if bound_array(tensor) is None]
        default = build_schedule(default_schedule(outputs, kernel.target), kernel.target)
        given = [spec for _, spec in operands]
        reduction = longest_reduction(outputs, dims)
        _, made, wanted = most_telling(outputs, given, 0, lambda made: _run(default, made, results, dims), _arrays, reduction)
        feeds = {tensor: guarded.array for (tensor, _), guarded in zip(operands, made, strict=True)}
        return _compare(kernel, _run(kernel, made, results, dims), wanted, outputs, feeds, dims)
    except TensorlangError as error:
        return str(error).splitlines()[0]


def _compare(
    kernel: Kernel,
    got: list[Guarded],
    wanted: list[Guarded],
    outputs: tuple[Tensor, ...],
    feeds: dict[Tensor, Array],
    dims: Mapping[str, int],
) -> str | None:
    reduction, sampled = longest_reduction(outputs, dims), _samplable(outputs, kernel, dims)
    for place, (guarded, default, tensor, cut) in enumerate(zip(got, wanted, outputs, follow_a_cut(outputs), strict=True)):
        array, kind = guarded.array, tensor.dtype
        if not guarded.intact():
            return f"it wrote outside output {place}"
        expected, unsteady = None, NONE_OF_A_SAMPLE if cut else None
        points = sample_points(array.shape, CUT_POINTS if cut else POINTS) if sampled and array.size else []
        if points:
            expected = np.asarray(evaluate(tensor, feeds, points, **dims))
            unsteady = _hanging(tensor, feeds, points, expected, reduction, dims) if cut else None
        if why := mismatch(array, default.array, kind, reduction, beyond=unsteady):
            return f"output {place}, against the default schedule: {why}"
        if expected is None:
            continue
        if why := mismatch(elements(array, places(points, array.ndim)), expected, kind, reduction, unsteady):
            return f"output {place}: {why}"
    return None


def _hanging(
    tensor: Tensor, feeds: dict[Tensor, Array], points: list[Point], expected: Array, reduction: int, dims: Mapping[str, int]
) -> Unsteady:
    def otherwise(seed: int, sign: int) -> list[Array]:
        return list(RoundedEvaluation((tensor,), feeds, seed, sign, **dims).at([points]))

    return hanging(expected, [array for (array,) in draw(otherwise)], tensor.dtype, reduction)


def _arrays(found: list[Guarded]) -> list[Array]:
    return [guarded.array for guarded in found]


def _run(kernel: Kernel, operands: list[Guarded], results: Sequence[Spec], dims: Mapping[str, int]) -> list[Guarded]:
    outputs = [Guarded(spec) for spec in results]
    for guarded in outputs:
        guarded.poison()
    into = tuple(guarded.array for guarded in outputs)
    kernel(*_arrays(operands), out=into if len(into) > 1 else into[0], **dims)
    return outputs


def _samplable(outputs: tuple[Tensor, ...], kernel: Kernel, dims: Mapping[str, int]) -> bool:
    """Is the reference evaluator quick at some elements?"""
    stages = [definition for definition in definitions(outputs) if not isinstance(definition, Placeholder)]
    alone = len(stages) == 1 and isinstance(stages[0], Stage) and not stages[0].itself
    return alone or kernel.cost(**dims)["flops"] <= AFFORDABLE
