"""A graph as what is done, one after the other: kernels, and views of values that are there.

Which nodes are one kernel is decided in `tensorlang.graph.fusion`. A view stands here where somebody outside of the kernel that makes its
operand reads it; inside it is part of the program.
"""

from __future__ import annotations

from typing import TypeAlias

from tensorlang.graph.fusion.clusters import Clusters
from tensorlang.graph.fusion.deciding import decided
from tensorlang.graph.fusion.group import Group
from tensorlang.graph.ir import Graph, Node, Value

Part: TypeAlias = "Group | Node"

__all__ = ["Group", "Part", "groups", "parts"]


def groups(graph: Graph, target: str = "native") -> list[Group]:
    """The nodes that compute, as groups, in an order in which they can run. Raises `GraphError`, and `BuildError` for a target."""
    found = decided(graph, target)
    return [found.group(part) for part in found.ordered()]


def parts(graph: Graph, target: str = "native") -> list[Part]:
    """Groups, and the views of their results, of inputs and of constants that somebody reads, in an order in which they can run."""
    found = decided(graph, target)
    kernels = [found.group(part) for part in found.ordered()]
    seen = _seen(found, kernels)
    order: list[Part] = []
    for value in (*graph.inputs, *(constant.value for constant in graph.constants)):
        order += seen.get(value.name, [])
    for group in kernels:
        order.append(group)
        order += [view for value in group.results for view in seen.get(value.name, [])]
    return order


def _seen(found: Clusters, kernels: list[Group]) -> dict[str, list[Node]]:
    """The views that groups and the caller read, with those that they are views of; by the name of the value whose memory it is."""
    graph = found.graph
    wanted: set[str] = set()

    def want(value: Value) -> None:
        node = graph.producer(value)
        while node is not None and found.transparent(node) and node.results[0].name not in wanted:
            wanted.add(node.results[0].name)
            node = graph.producer(node.read[0])

    for value in (*(value for group in kernels for value in group.inputs), *graph.outputs):
        want(value)
    seen: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if node.results[0].name in wanted:
            seen.setdefault(found.source(node.results[0]).name, []).append(node)
    return seen
