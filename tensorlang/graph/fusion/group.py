"""A part of a graph as one program.

define()    the composition of its nodes: placeholders for what it reads, tensors for what it gives
inputs      what it reads from outside, numbers left out: they are written into the code
results     what it makes that is read outside: several, where an inner value has users elsewhere
weights()   the constants that are worth packing
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorlang as tl
from tensorlang.graph.definition import applied, of_node
from tensorlang.graph.ir import Graph, Node, Value
from tensorlang.graph.operators import find
from tensorlang.system.lazy import cached_property


@dataclass(frozen=True)
class Group:
    """Nodes that are one kernel, in the order of the graph, and which of their values are read outside."""

    graph: Graph
    nodes: tuple[Node, ...]
    results: tuple[Value, ...]

    @cached_property
    def inputs(self) -> tuple[Value, ...]:
        """What it reads, in order of first reading; numbers are written into the code."""
        inside = {value.name for node in self.nodes for value in node.results}
        read = {value.name: value for node in self.nodes for value in node.read if value.name not in inside}
        return tuple(value for value in read.values() if not self._is_number(value))

    @cached_property
    def pointwise(self) -> bool:
        """Is all of it pointwise?"""
        return all(of_node(node).access.kind == "pointwise" for node in self.nodes)

    def _is_number(self, value: Value) -> bool:
        return not value.shape and self.graph.constant(value) is not None

    def weights(self) -> tuple[Value, ...]:
        """Constants of at least two axes that a node reads which is not pointwise: what is worth packing."""
        heavy = {value.name for node in self.nodes if of_node(node).access.kind != "pointwise" for value in node.read}
        return tuple(
            value for value in self.inputs if value.name in heavy and len(value.shape) > 1 and self.graph.constant(value) is not None
        )

    def define(self) -> tuple[tuple[tl.Tensor, ...], tuple[tl.Tensor, ...]]:
        """Placeholders for what it reads, and its results as tensors. Raises `GraphError`."""
        placeholders = tuple(tl.placeholder(value.shape, value.dtype, name=value.name) for value in self.inputs)
        made: dict[str, tl.Tensor] = dict(zip((value.name for value in self.inputs), placeholders, strict=True))
        for node in self.nodes:
            for value in node.read:
                if value.name not in made:
                    made[value.name] = _number(self.graph, value)
            results = applied(node, [None if value is None else made[value.name] for value in node.inputs])
            made |= zip((value.name for value in node.results), results, strict=True)
        return placeholders, tuple(made[value.name] for value in self.results)

    def __str__(self) -> str:
        names = [node.operator for node in self.nodes if find(node.operator).view is None]
        return " + ".join(names or [node.operator for node in self.nodes])


def _number(graph: Graph, value: Value) -> tl.Tensor:
    array = graph.constant(value)
    assert array is not None
    number: Any = array.astype("float32" if value.dtype == "bfloat16" else array.dtype)[()]
    made: tl.Tensor = tl.compute((), lambda: tl.cast(number, value.dtype), name=value.name)
    return made
