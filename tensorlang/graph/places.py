"""Where each value of a graph lies: in memory of its own, or in that of another value, of which it is a view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorlang.graph.definition import at_sizes, shape_at
from tensorlang.graph.ir import Graph, Value
from tensorlang.graph.operators import find
from tensorlang.graph.strided import Strided


@dataclass(frozen=True, slots=True)
class Place:
    """The value whose memory it is, by name, and how the elements lie there."""

    memory: str
    lying: Strided


def places(graph: Graph, sizes: Mapping[str, int]) -> dict[str, Place]:
    """The places of all values, where dims have these sizes.

    A view that cannot be seen where its operand lies has memory of its own, to which it is copied.
    """
    found: dict[str, Place] = {}

    def own(value: Value) -> Place:
        return Place(value.name, Strided.contiguous(shape_at(value, sizes)))

    for value in (*graph.inputs, *(constant.value for constant in graph.constants)):
        found[value.name] = own(value)
    for node in graph.nodes:
        view = find(node.operator).view
        for value in node.results:
            source = found[node.read[0].name] if view is not None else own(value)
            seen = None if view is None else view(source.lying, **at_sizes(node.attributes, sizes))
            found[value.name] = own(value) if seen is None else Place(source.memory, seen)
    return found


def copied_views(graph: Graph) -> frozenset[str]:
    """The results of views that cannot be seen where their operands lie, by name; with dims that is known at a call alone."""
    if graph.dims:
        return frozenset()
    found = places(graph, {})
    views = (node.results[0].name for node in graph.nodes if find(node.operator).view is not None)
    return frozenset(name for name in views if found[name].memory == name)
