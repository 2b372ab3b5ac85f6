"""A node that is translated (`Call`), and the forms that most rows of the table have.

row("relu")                            the canonical operator of all operands
row("gelu", approximate="approximate") with attributes by ONNX's names
folded("maximum")                      an operator of two, of any number of operands
a function of a `Call`                 where more is to be said
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

import tensorlang as tl
from tensorlang.graph import Builder, Value


@dataclass(frozen=True, slots=True)
class Coded:
    """A tensor of an element type that tensorlang lacks: its codes in uint8, and the type as NumPy has it."""

    value: Value
    dtype: Any


@dataclass(frozen=True, slots=True)
class Extents:
    """A shape, or a part of it, of which an extent is a dim: a vector of integers, or a scalar."""

    entries: tuple[Any, ...]
    scalar: bool


Held: TypeAlias = "Value | Coded | Extents | list[Any] | None"
"""What a name of a model stands for while it is read: a tensor, a sequence of them, or None for an optional that is empty."""


class ValueNeededError(tl.GraphError):
    """The elements of a value decide shapes; `inputs` of the model, if these alone make it, may be given beforehand."""

    def __init__(self, message: str, value: Value | None = None, inputs: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.value = value
        self.inputs = inputs


class Inline(Protocol):
    """Reads a graph inside a node: results for operands, the names around it being known there."""

    def __call__(self, body: Any, operands: Sequence[Held]) -> list[Held]:
        """The outputs of the body."""


@dataclass(frozen=True, slots=True)
class Call:
    """A node that is translated: operands, attributes (with the defaults of its opset), the names of its results."""

    builder: Builder
    target: str
    opset: int
    operands: Sequence[Held]
    attributes: Mapping[str, Any]
    outputs: tuple[str, ...]
    inline: Inline

    @property
    def name(self) -> str:
        """What the model calls the first result."""
        return next((name for name in self.outputs if name), self.target)

    @property
    def results(self) -> int:
        """How many results the node has, left-out ones among others included."""
        return len(self.outputs)

    def __getitem__(self, place: int) -> Value:
        """An operand that has to be there."""
        found = self.operand(place)
        if found is None:
            raise tl.GraphError(f"operand {place} is missing")
        return found

    def operand(self, place: int) -> Value | None:
        """A tensor among the operands, None where it is left out."""
        found = self.operands[place] if place < len(self.operands) else None
        if isinstance(found, list):
            raise tl.GraphError(f"operand {place} is a sequence, and a tensor is needed")
        if isinstance(found, Extents):
            raise tl.GraphError(f"operand {place} is a shape with a dim, {found.entries}, and is no tensor")
        if isinstance(found, Coded):
            raise tl.GraphError(
                f"operand {place} is of type {found.dtype}, which only conversions take; Cast gives one that is computed with"
            )
        return found

    def sequence(self, place: int) -> list[Value]:
        """A sequence among the operands."""
        found = self.operands[place] if place < len(self.operands) else None
        if not isinstance(found, list):
            raise tl.GraphError(f"operand {place} is no sequence")
        return found

    def get(self, attribute: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(attribute, default)

    def needed(self, attribute: str) -> Any:
        """An attribute that has to be there."""
        if attribute not in self.attributes:
            raise tl.GraphError(f"the attribute {attribute!r} is missing")
        return self.attributes[attribute]

    def array(self, place: int) -> np.ndarray[Any, Any] | None:
        """The elements of an operand that has to be known, None where it is left out."""
        found = self.operand(place)
        return None if found is None else self.known(found, f"operand {place}")

    def known(self, value: Value, what: str) -> np.ndarray[Any, Any]:
        """The elements of a value that has to be known."""
        array = self.builder.array(value)
        if array is None:
            raise ValueNeededError(
                f"{what} ({value}) has to be constant: shapes, axes and conditions that a model computes have no translation", value
            )
        return array

    def numbers(self, place: int, attribute: str | None = None) -> tuple[Any, ...] | None:
        """Integers, or dims, that are an operand, or in older opsets an attribute; None where they are left out."""
        found = self.operands[place] if place < len(self.operands) else None
        if isinstance(found, Extents):
            return found.entries
        array = self.array(place)
        if array is not None:
            return tuple(int(number) for number in array.reshape(-1))
        said = self.get(attribute) if attribute is not None else None
        return None if said is None else tuple(said) if isinstance(said, tuple) else (said,)

    def number(self, place: int, default: int, attribute: str | None = None) -> int:
        """One integer that is an operand, or in older opsets an attribute."""
        found = self.numbers(place, attribute)
        if found is not None and len(found) != 1:
            raise tl.GraphError(f"operand {place} has {len(found)} elements, and one is needed")
        if found is not None and not isinstance(found[0], int):
            raise tl.GraphError(f"operand {place} is {found[0]}, which is known at a call, and has no translation")
        return default if found is None else found[0]

    def axis(self, default: int = 0, value: Value | None = None) -> int:
        """The attribute `axis`, counted from the front."""
        return self.place(self.get("axis", default), len((value or self[0]).shape))

    @staticmethod
    def place(axis: int, rank: int) -> int:
        """An axis counted from the front."""
        if not -rank <= axis < rank:
            raise tl.GraphError(f"axis {axis} is none of {rank} axes")
        return axis % rank

    def extents(self, value: Value) -> tuple[int, ...]:
        """The extents of a value, which have to be numbers."""
        numbers = tuple(extent for extent in value.shape if isinstance(extent, int))
        if len(numbers) < len(value.shape):
            raise tl.GraphError(f"the extents of {value} as numbers have no translation")
        return numbers

    def constant(self, array: object) -> Value:
        """An array that is known."""
        return self.builder.constant(array, self.name)

    def __call__(self, operator: str, *operands: Any, **attributes: Any) -> Value:
        """A node of one result, named as the model names its first one."""
        (made,) = self.builder.node(operator, operands, attributes, self.name)
        return made

    def reshaped(self, value: Value, shape: Sequence[Any]) -> Value:
        """A value under another shape; itself where that is its own."""
        return value if value.shape == tuple(shape) else self("reshape", value, shape=tuple(shape))

    def permuted(self, value: Value, dims: Sequence[int]) -> Value:
        """A value with axes in another order; itself where that is its own."""
        return value if tuple(dims) == tuple(range(len(value.shape))) else self("permute", value, dims=tuple(dims))

    def cast(self, value: Value, dtype: object) -> Value:
        """A value as another type; itself where that is its own."""
        return value if value.dtype == str(dtype) else self("to", value, dtype=str(dtype))


Translation: TypeAlias = Callable[[Call], Any]
"""From a node to its results: a `Held`, or a tuple of them."""


def row(operator: str, **attributes: str) -> Translation:
    """The canonical operator of all operands, with attributes by ONNX's names where these are given."""

    def translation(call: Call) -> Value:
        return call(operator, *call.operands, **{name: call.attributes[own] for name, own in attributes.items() if own in call.attributes})

    return translation


def folded(operator: str) -> Translation:
    """An operator of two, of any number of operands."""
    return lambda call: reduce(lambda left, right: call(operator, left, right), (call[place] for place in range(len(call.operands))))


FAR: Final = 1 << 31
"""What exporters write for the end of an axis is at least this."""


def part(call: Call, value: Value, axis: int, start: Any, end: Any, step: int = 1) -> Value:
    """Elements of an axis, counted as Python counts them."""
    axis = call.place(axis, len(value.shape))
    extent = value.shape[axis]
    if step == 0:
        raise tl.GraphError(f"a step of 0 along axis {axis} of {value} names no elements; it is another number")
    if isinstance(start, tl.Dim) or isinstance(end, tl.Dim):
        if start == 0 and end == extent and step == 1:
            return value
        return call("slice", value, dim=axis, start=start, end=extent if isinstance(end, int) and end >= FAR else end, step=step)
    if step < 1:
        if not isinstance(extent, int):
            raise tl.GraphError(f"an axis of {extent} elements has no translation backwards")
        found = range(extent)[max(start, -extent - 1) : (None if end < -extent else end) : step]
        if not found:
            return call("slice", value, dim=axis, start=0, end=0)
        lowest, highest = found[-1], found[0]
        forward = call("slice", value, dim=axis, start=lowest, end=highest + 1, step=-step)
        return call("flip", forward, dims=(axis,))
    if isinstance(extent, int):
        first, last, _ = slice(start, end, step).indices(extent)
        last = max(first, last)
    elif start >= 0 and end >= FAR:
        first, last = start, extent  # type: ignore[assignment]  # the end of an axis may be a dim
    else:
        raise tl.GraphError(f"elements {start} to {end} of an axis of {extent} elements have no translation")
    return value if (first, last, step) == (0, extent, 1) else call("slice", value, dim=axis, start=first, end=last, step=step)
