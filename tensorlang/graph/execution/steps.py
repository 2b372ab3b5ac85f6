"""What a compiled graph does, one after the other: kernels on values, and views of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tensorlang import kernels
from tensorlang.graph.execution.grouping import Group
from tensorlang.graph.execution.places import Place
from tensorlang.graph.ir import Array, Node, Value
from tensorlang.graph.strided import in_order


class Step(Protocol):
    """Adds values to those that are there."""

    def run(self, values: dict[str, Array], places: Mapping[str, Place], sizes: Mapping[str, int], /) -> None:
        """Add the results."""


@dataclass(frozen=True, slots=True)
class KernelStep:
    """A kernel on values; `dims` are those that no operand shows."""

    group: Group
    kernel: kernels.ServedKernel
    operands: tuple[Value, ...]
    dims: tuple[str, ...]

    def run(self, values: dict[str, Array], _: Mapping[str, Place], sizes: Mapping[str, int]) -> None:
        """Call the kernel."""
        made = self.kernel(*[values[value.name] for value in self.operands], **{name: sizes[name] for name in self.dims})
        results = self.group.results
        values.update(zip((value.name for value in results), made if len(results) > 1 else (made,), strict=True))

    def __str__(self) -> str:
        results = ", ".join(value.name for value in self.group.results)
        return f"{results} = {self.group} ({', '.join(value.name for value in self.operands)})"


@dataclass(frozen=True, slots=True)
class ViewStep:
    """Another way to look at a value; a copy where its elements do not lie so that they can be seen in this way."""

    node: Node

    def run(self, values: dict[str, Array], places: Mapping[str, Place], _: Mapping[str, int]) -> None:
        """Look at the memory of the operand."""
        result, source = self.node.results[0].name, self.node.read[0].name
        place = places[result]
        if place.memory == result:
            values[result] = in_order(values[source]).reshape(place.lying.shape)
        else:
            values[result] = place.lying.of(values[place.memory])

    def __str__(self) -> str:
        return f"{self.node.results[0].name} = {self.node.operator}, a view ({self.node.read[0].name})"
