"""Which nodes are one kernel: a node with the pointwise ones through which its result goes.

A node that reads a value at the place of each of its own elements can compute on that value where it is made. It does, where nobody else
wants the value: a sum, a product or a window then has its bias, scale, residual and activation inside, and chains of pointwise nodes are
one loop. At most one node of a group is not pointwise. Views are in no group: they move nothing.

Nothing that reads the result of a group can come before it, since what is inside is read inside alone: groups in the order of their last
nodes are in the order in which they can run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tensorlang as tl
from tensorlang.graph.definition import applied, of_node
from tensorlang.graph.ir import Graph, Node, Value
from tensorlang.graph.operators import find


@dataclass(frozen=True)
class Group:
    """Nodes that are one kernel, in order; what the last one gives is the result of all."""

    graph: Graph
    nodes: tuple[Node, ...]
    pointwise: bool

    @property
    def results(self) -> tuple[Value, ...]:
        """What it gives."""
        return self.nodes[-1].results

    @cached_property
    def inputs(self) -> tuple[Value, ...]:
        """What it reads, in order of first reading; numbers are written into the code."""
        inside = {value.name for node in self.nodes for value in node.results}
        read = {value.name: value for node in self.nodes for value in node.read if value.name not in inside}
        return tuple(value for value in read.values() if not self._is_number(value))

    def _is_number(self, value: Value) -> bool:
        return not value.shape and self.graph.constant(value) is not None

    def weights(self) -> tuple[Value, ...]:
        """Constants of at least two axes that a node reads which is not pointwise: what is worth packing."""
        heavy = [value.name for node in self.nodes if of_node(node).access.kind != "pointwise" for value in node.read]
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
        return " + ".join(node.operator for node in self.nodes)


def _number(graph: Graph, value: Value) -> tl.Tensor:
    array = graph.constant(value)
    assert array is not None
    number: Any = array.astype("float32" if value.dtype == "bfloat16" else array.dtype)[()]
    made: tl.Tensor = tl.compute((), lambda: tl.cast(number, value.dtype), name=value.name)
    return made


def groups(graph: Graph) -> list[Group]:
    """The nodes that compute, as groups, in an order in which they can run. Raises `GraphError`."""
    found: dict[str, Group] = {}  # by the name of the first result
    for node in graph.nodes:
        if find(node.operator).view is not None:
            continue
        definition = of_node(node)
        own = definition.access.kind == "pointwise"
        joined = _joined(graph, node, definition.pointwise_in, found) if own else []
        for group in joined:
            del found[group.results[0].name]
        nodes = (*(one for group in joined for one in group.nodes), node)
        found[node.results[0].name] = Group(graph, nodes, all((own, *(group.pointwise for group in joined))))
    return list(found.values())


def _joined(graph: Graph, node: Node, places: frozenset[int], found: dict[str, Group]) -> Sequence[Group]:
    """The groups whose result a pointwise node alone reads, each element at its place; of those that are not pointwise, the first."""
    made: dict[str, Group] = {}
    for place in sorted(places):
        value = node.inputs[place]
        group = found.get(value.name) if value is not None else None
        if value is None or group is None or len(group.results) > 1 or graph.is_output(value) or graph.users(value) != (node,):
            continue
        if group.pointwise or all(other.pointwise for other in made.values()):
            made[value.name] = group
    return [group for group in found.values() if group in made.values()]
