"""A call of torch's on its way into a graph, and the rows that most translations are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import tensorlang as tl
from tensorlang.bridges.tracked_arguments import TrackedArguments
from tensorlang.graph import Builder, Type, Value
from tensorlang.graph.ir import Extent


@dataclass(frozen=True, slots=True)
class Call:
    """A call of torch's that is translated: where to, its arguments by name, and the types of its results (None: no tensor)."""

    builder: Builder
    target: str
    arguments: TrackedArguments
    types: Sequence[Type | None]
    name: str

    def __getitem__(self, argument: str) -> Any:
        return self.arguments[argument]

    @property
    def type(self) -> Type:
        """The type of the (first) result."""
        found = self.types[0]
        assert found is not None
        return found

    def told(self, *names: str) -> Type:
        """The type of the (first) result, where the types of results say what these arguments do (all of them, where none is named)."""
        self.arguments.asked.update(names or self.arguments)
        return self.type

    def changed(self, /, **arguments: Any) -> Call:
        """The same with other values of some arguments."""
        return replace(self, arguments=self.arguments.changed(**arguments))

    def __call__(self, operator: str, *operands: Any, **attributes: Any) -> Value:
        """A node, named after the call."""
        (made,) = self.builder.node(operator, operands, attributes, self.name)
        return made

    def as_type(self, value: Any, dtype: str) -> Value:
        """A tensor or a number as an operand of a type."""
        if isinstance(value, tl.Dim):  # counted by kernels, which are told extents and no other numbers
            ones = self("expand", self.builder.scalar(1, "int64"), shape=(value,))
            value = self("sum", ones, dim=(0,), keepdim=False)
        if not isinstance(value, Value):
            return self.builder.scalar(value, dtype)
        return value if value.dtype == dtype else self.builder("to", value, dtype=dtype)

    def reshaped(self, value: Value, shape: Sequence[Extent]) -> Value:
        """A value under another shape; itself where that is its own."""
        return value if value.shape == tuple(shape) else self("reshape", value, shape=tuple(shape))

    def flat(self, value: Value) -> Value:
        """All elements of a value along one axis."""
        return self.reshaped(value, (math.prod(value.shape),))

    def expanded(self, value: Value, shape: Sequence[Extent]) -> Value:
        """A value repeated to a shape; itself where that is its own."""
        return value if value.shape == tuple(shape) else self("expand", value, shape=tuple(shape))

    def permuted(self, value: Value, dims: Sequence[int]) -> Value:
        """A value with axes in another order; itself where that is its own."""
        return value if tuple(dims) == tuple(range(len(value.shape))) else self("permute", value, dims=tuple(dims))

    def refuse(self, reason: str) -> tl.GraphError:
        """The error of a call that has no translation."""
        return tl.GraphError(f"{self.target}: {reason}")


Translation: TypeAlias = Callable[[Call], Any]


def row(operator: str, *operands: str, **attributes: str) -> Translation:
    """The canonical operator of these arguments."""

    def translation(call: Call) -> Value:
        return call(operator, *(call[name] for name in operands), **{name: call[own] for name, own in attributes.items()})

    return translation


def same(call: Call) -> Value:
    """What copies, or marks: the operand itself."""
    found: Value = call[next(iter(call.arguments))]
    return found
