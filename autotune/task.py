"""What is tuned: a program of fixed shape, with what a worker needs to rebuild it and a log to recognise it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from tensorlang.autotune.log.fixed_operands import constant_names, constant_places, with_fixed
from tensorlang.autotune.measurement.arrays import Array, Spec
from tensorlang.definition.extent import beyond, dims_in, limits
from tensorlang.definition.naming import tensor_names
from tensorlang.definition.tensor import (
    Definition,
    Placeholder,
    Scan,
    Scatter,
    Stage,
    State,
    Tensor,
    as_outputs,
    components,
    definitions,
    expressions,
)
from tensorlang.errors import TuningError, did_you_mean
from tensorlang.ir import Reduce, ReduceAxis
from tensorlang.ir.integers import known_value
from tensorlang.ir.traverse import walk

UNKNOWN_LENGTH: Final = 4096
"""Assumed of a reduction whose bounds vary."""

NO_DIMS: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Task:
    """A program, its canonical form, and the identities that logs are searched by.

    `fingerprint` names the program up to the names in it, `family` also up to its `extents`; `reduction` bounds the number of terms
    that one element of a result sums, for the tolerance of the check. `shape` are its extents by the names that its user gave them,
    `constants` the places of operands that stay fixed, by first use; `program` names it together with these.
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
    dims: dict[str, int] = field(default_factory=dict)
    shape: dict[str, int] = field(default_factory=dict)
    constants: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        outputs: object,
        op: str | None = None,
        dims: Mapping[str, int] | None = None,
        shape: Mapping[str, int] | None = None,
        constants: object = (),
    ) -> Task:
        """The task of computing these outputs; `op` names it in logs (default: the first output's name).

        `dims` are the values at which extents known only at run time are measured, `constants` the names of operands that stay fixed (or
        their places, as a record has them); both are part of the task's identity in a log. Raises `TuningError` where one of them is
        missing, unknown, no extent or no operand, `DefinitionError` for what is no program.
        """
        from tensorlang.serialization import canonical  # noqa: PLC0415 - tests of the search need no compiler

        tensors = as_outputs(outputs)
        values = _values(tensors, {} if dims is None else dims)
        return cls(
            tensors,
            op or tensors[0].name or "operator",
            canonical.describe(tensors),
            canonical.fingerprint(tensors),
            canonical.family(tensors),
            tuple(canonical.extents(tensors)),
            *specs(tensors, values),
            longest_reduction(tensors, values),
            values,
            dict(shape or {}),
            constant_places(tensors, constants),
        )

    @property
    def program(self) -> str:
        """What records are looked up by: the program, and which operands stay fixed."""
        return with_fixed(self.fingerprint, self.constants)

    @property
    def constant_names(self) -> frozenset[str]:
        """The operands that stay fixed, by their names in a nest."""
        return constant_names(self.outputs, self.constants)

    @property
    def fixed_inputs(self) -> tuple[int, ...]:
        """The places of the operands that stay fixed among `inputs`."""
        names = tensor_names(definitions(self.outputs))
        wanted = self.constant_names
        return tuple(place for place, tensor in enumerate(placeholders(self.outputs)) if names[tensor.definition] in wanted)

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
            **({"dims": self.dims} if self.dims else {}),
            **({"shape": self.shape} if self.shape else {}),
            **({"constants": list(self.constants)} if self.constants else {}),
        }


def placeholders(outputs: tuple[Tensor, ...]) -> list[Tensor]:
    """The arguments of a program, in the order in which they were created."""
    return [Tensor(definition) for definition in definitions(outputs) if isinstance(definition, Placeholder)]


def bound_array(placeholder: Tensor) -> Array | None:
    """The array that `tl.buffer` bound to an argument; None where a call gives one."""
    definition = placeholder.definition
    return definition.array if isinstance(definition, Placeholder) else None


def bound_arrays(outputs: tuple[Tensor, ...]) -> dict[int, Array]:
    """The arrays that are bound, by the place of their arguments."""
    found = enumerate(map(bound_array, placeholders(outputs)))
    return {place: array for place, array in found if array is not None}


def specs(outputs: tuple[Tensor, ...], dims: Mapping[str, int] = NO_DIMS) -> tuple[tuple[Spec, ...], tuple[Spec, ...]]:
    """Shapes and types of arguments and results, the dims having these values. Raises `TuningError` for an extent without a value."""
    arguments, results = ([_spec(tensor, dims) for tensor in tensors] for tensors in (placeholders(outputs), outputs))
    return tuple(arguments), tuple(results)


def _spec(tensor: Tensor, dims: Mapping[str, int]) -> Spec:
    sizes = [known_value(node, dims) for node in tensor.extents]
    for entry, size in zip(tensor.shape, sizes, strict=True):
        if size is None or size < 0:
            raise TuningError(f"{tensor!r}: the extent {entry} has no value; say at which one to measure, as in dims={{'n': 1024}}")
    return Spec(tuple(size for size in sizes if size is not None), tensor.dtype)


def _values(outputs: tuple[Tensor, ...], dims: Mapping[str, int]) -> dict[str, int]:
    """The dims of a program with their values. Raises `TuningError` unless these are exactly the ones that are given."""
    shapes = [node for definition in definitions(outputs) for place in range(components(definition))
              for node in Tensor(definition, place).extents]  # fmt: skip
    dims_of = dims_in(shapes)
    known = sorted(dims_of)
    for name, value in dims.items():
        if name not in known:
            raise TuningError(f"there is no extent {name!r} to measure at{did_you_mean(str(name), known)}; the program has {known}")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise TuningError(f"the extent {name} must be a whole number from 1, not {value!r}")
        if wrong := beyond(name, value, limits(dims_of.values())):
            raise TuningError(wrong)
    if missing := [name for name in known if name not in dims]:
        example = ", ".join(f"{name!r}: 1024" for name in missing)
        raise TuningError(f"{', '.join(missing)} is known only at run time; say at which extent to measure, as in dims={{{example}}}")
    return {name: dims[name] for name in known}


def longest_reduction(outputs: tuple[Tensor, ...], dims: Mapping[str, int] = NO_DIMS) -> int:
    """A bound on the terms summed into one element: the longest reduction of each stage, added up along the program.

    A scan adds up its step as often as that runs, a recurrence along each of its axes.
    """
    return 1 + _terms(definitions(outputs), dims)


def _terms(program: tuple[Definition, ...], dims: Mapping[str, int]) -> int:
    total = 0
    for definition in program:
        reductions = (node for value in expressions(definition) for node in walk(value) if isinstance(node, Reduce))
        terms = max((_length(reduction.axes, dims) for reduction in reductions), default=0)
        match definition:
            case Scan(axis=axis, body=body):
                terms = _length((axis,), dims) * (1 + _terms(body, dims))
            case Scatter(axes=axes):
                terms = _length(axes, dims) * max(1, terms)
            case Stage(shape=shape, itself=itself) if itself:
                steps = sum(UNKNOWN_LENGTH if (size := known_value(extent, dims)) is None else size for extent in shape)
                terms = steps * max(1, terms)
            case Stage() | Placeholder() | State():
                pass
        total += terms
    return total


def _length(axes: tuple[ReduceAxis, ...], dims: Mapping[str, int]) -> int:
    return math.prod(
        UNKNOWN_LENGTH if (lo := known_value(axis.lo, dims)) is None or (hi := known_value(axis.hi, dims)) is None else max(hi - lo, 0)
        for axis in axes
    )
