"""What is tuned: a program of fixed shape, with what a worker needs to rebuild it and a log to recognise it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from tensorlang.autotune.arrays import Spec
from tensorlang.errors import TuningError
from tensorlang.ir import Const, Reduce, ReduceAxis
from tensorlang.tensor import (
    Definition,
    Placeholder,
    Scan,
    Scatter,
    Stage,
    State,
    Tensor,
    as_outputs,
    definitions,
    expressions,
)
from tensorlang.traverse import walk

UNKNOWN_LENGTH: Final = 4096
"""Assumed of a reduction whose bounds vary."""


@dataclass(frozen=True, slots=True)
class Task:
    """A program, its canonical form, and the identities that logs are searched by.

    `fingerprint` names the program up to the names in it, `family` also up to its `extents`; `reduction` bounds the number of terms
    that one element of a result sums, for the tolerance of the check.
    """

    outputs: tuple[Tensor, ...]
    op: str
    definition: dict[str, Any]
    fingerprint: str
    family: str
    extents: tuple[int, ...]
    inputs: tuple[Spec, ...]
    results: tuple[Spec, ...]
    reduction: int

    @classmethod
    def of(cls, outputs: object, op: str | None = None) -> Task:
        """The task of computing these outputs; `op` names it in logs (default: the first output's name).

        Raises `TuningError` where an extent is known only at run time, `DefinitionError` for what is no program.
        """
        from tensorlang import canonical  # noqa: PLC0415 - tests of the search need no compiler

        tensors = as_outputs(outputs)
        return cls(
            tensors,
            op or tensors[0].name or "operator",
            canonical.describe(tensors),
            canonical.fingerprint(tensors),
            canonical.family(tensors),
            tuple(canonical.extents(tensors)),
            *specs(tensors),
            longest_reduction(tensors),
        )

    @property
    def dtype(self) -> str:
        """The type of the first result."""
        return str(self.results[0].dtype)

    def to_json(self) -> dict[str, Any]:
        """What a record says of its task."""
        return {
            "op": self.op,
            "fingerprint": self.fingerprint,
            "family": self.family,
            "extents": list(self.extents),
            "dtype": self.dtype,
            "definition": self.definition,
        }


def placeholders(outputs: tuple[Tensor, ...]) -> list[Tensor]:
    """The arguments of a program, in the order in which they were created."""
    return [Tensor(definition) for definition in definitions(outputs) if isinstance(definition, Placeholder)]


def specs(outputs: tuple[Tensor, ...]) -> tuple[tuple[Spec, ...], tuple[Spec, ...]]:
    """Shapes and types of arguments and results. Raises `TuningError` for an extent that is not a number."""
    return tuple(map(_spec, placeholders(outputs))), tuple(map(_spec, outputs))


def _spec(tensor: Tensor) -> Spec:
    for entry in tensor.shape:
        if not isinstance(entry, int):
            raise TuningError(f"{tensor!r} has the run-time extent {entry}; tune it at a number, as {entry} = 1024, in the definition")
    return Spec(tuple(entry for entry in tensor.shape if isinstance(entry, int)), tensor.dtype)


def longest_reduction(outputs: tuple[Tensor, ...]) -> int:
    """A bound on the terms summed into one element: the longest reduction of each stage, added up along the program.

    A scan adds up its step as often as that runs, a recurrence along each of its axes.
    """
    return 1 + _terms(definitions(outputs))


def _terms(program: tuple[Definition, ...]) -> int:
    total = 0
    for definition in program:
        reductions = (node for value in expressions(definition) for node in walk(value) if isinstance(node, Reduce))
        terms = max((_length(reduction.axes) for reduction in reductions), default=0)
        match definition:
            case Scan(axis=axis, body=body):
                terms = _length((axis,)) * (1 + _terms(body))
            case Scatter(axes=axes):
                terms = _length(axes) * max(1, terms)
            case Stage(shape=shape, itself=itself) if itself is not None:
                steps = sum(int(extent.value) if isinstance(extent, Const) else UNKNOWN_LENGTH for extent in shape)
                terms = steps * max(1, terms)
            case Stage() | Placeholder() | State():
                pass
        total += terms
    return total


def _length(axes: tuple[ReduceAxis, ...]) -> int:
    return math.prod(
        max(int(axis.hi.value) - int(axis.lo.value), 0) if isinstance(axis.lo, Const) and isinstance(axis.hi, Const) else UNKNOWN_LENGTH
        for axis in axes
    )
