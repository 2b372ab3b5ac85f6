"""What a caller asks of the evaluator (`evaluate`): outputs on given operands, whole or some elements of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, overload

import numpy as np

from tensorlang.definition.tensor import (
    Tensor,
    as_outputs,
    definitions,
    operands,
)
from tensorlang.errors import CallError
from tensorlang.semantics import arithmetic
from tensorlang.semantics.arithmetic import Array
from tensorlang.semantics.binding import bind_dims, collect, shape_of
from tensorlang.semantics.evaluate import ReferenceEvaluator

LARGE: Final = 1 << 22
"""Steps beyond which a stage is evaluated only where it is read, if only some elements of the outputs are asked for."""


@overload
def evaluate(outputs: Tensor, feeds: Mapping[Tensor, object], at: Sequence[Any] | None = None, **dims: int) -> Array: ...


@overload
def evaluate(
    outputs: tuple[Tensor, ...] | list[Tensor], feeds: Mapping[Tensor, object], at: Sequence[Any] | None = None, **dims: int
) -> tuple[Array, ...]: ...


def evaluate(outputs: object, feeds: Mapping[Tensor, object], at: Sequence[Any] | None = None, **dims: int) -> Array | tuple[Array, ...]:
    """What the outputs mean: an array, or a tuple of arrays where the outputs are given as a tuple.

    `feeds` maps placeholders to arrays; `dims` gives the extents that no operand fixes. `at=[(3, 5), ...]` evaluates only those
    elements of each output, as arrays with one axis.
    Raises `CallError` for a missing or unfitting operand, for a point outside an output, and for what does not fit memory.
    """
    evaluation = Evaluation(as_outputs(outputs), feeds, **dims)
    try:
        results = evaluation.whole() if at is None else evaluation.at([at] * len(evaluation.outputs))
    except MemoryError:
        names = ", ".join(map(repr, evaluation.outputs))
        raise CallError(f"{names} does not fit memory, with 8 bytes for each element and index; evaluate some elements, at=[...]") from None
    return results if isinstance(outputs, (tuple, list)) else results[0]


class Evaluation:
    """Outputs on given operands, evaluated whole, or some elements at a time, each time from what is known already.

    Raises `CallError` for a missing or unfitting operand.
    """

    def __init__(self, outputs: tuple[Tensor, ...], feeds: Mapping[Tensor, object], /, **dims: int) -> None:
        self.outputs = outputs
        self._order = definitions(outputs)
        arrays = collect(self._order, feeds)
        self._evaluator = ReferenceEvaluator(
            bind_dims(self._order, arrays, dims), {(definition, 0): array for definition, array in arrays.items()}
        )
        self._begun = False

    def whole(self) -> tuple[Array, ...]:
        """Every output, as a new array."""
        with arithmetic.quiet():
            for definition in self._order:
                self._evaluator.materialise(definition)
            return tuple(np.array(self._evaluator.arrays[tensor.definition, tensor.component], order="C") for tensor in self.outputs)

    def at(self, points: Sequence[Sequence[Any]]) -> tuple[Array, ...]:
        """The elements of each output at its points, as arrays with one axis. Raises `CallError` for a point outside an output."""
        evaluator = self._evaluator
        with arithmetic.quiet():
            if not self._begun:
                self._begun = True
                read = {operand.definition for definition in self._order for operand in operands(definition)}
                for definition in self._order:
                    if definition in read and evaluator.steps(definition) <= LARGE:
                        evaluator.materialise(definition)
            places = [_points(tensor, shape_of(tensor, evaluator.dims), at) for tensor, at in zip(self.outputs, points, strict=True)]
            chosen = zip(self.outputs, places, points, strict=True)
            return tuple(evaluator.elements(tensor, index, len(at)) for tensor, index, at in chosen)


def _points(tensor: Tensor, shape: tuple[int, ...], at: Sequence[Any]) -> tuple[Array, ...]:
    if not isinstance(at, Sequence):
        raise CallError(f"at= of {tensor!r} is a list of points, as in at=[(3, 5)], and not {at!r:.60}")
    for point in at:
        good = isinstance(point, (tuple, list)) and len(point) == len(shape) and all(isinstance(n, (int, np.integer)) for n in point)
        if not good or any(not 0 <= entry < size for entry, size in zip(point, shape, strict=True)):
            raise CallError(f"at= of {tensor!r}: {point!r} is not an index of shape {shape}")
    return tuple(np.array([point[axis] for point in at], np.int64) for axis in range(len(shape)))
