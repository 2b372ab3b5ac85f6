"""Nodes that nobody needs: `dead_code`, `common_subexpressions`."""

from __future__ import annotations

from collections.abc import Hashable

from tensorlang.graph.builder import Rewriter
from tensorlang.graph.ir import Graph, Node, Value


def dead_code(graph: Graph) -> Graph:
    """The graph without nodes and constants that reach no output. Its inputs stay: they are what a call passes."""
    live = {value.name for value in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(value.name in live for value in node.results):
            kept.append(node)
            live.update(value.name for value in node.read)
    constants = tuple(constant for constant in graph.constants if constant.value.name in live)
    return Graph(graph.inputs, constants, tuple(reversed(kept)), graph.outputs, graph.name).verify()


def common_subexpressions(graph: Graph) -> Graph:
    """The graph in which what is computed twice from the same is computed once; equal constants are one."""
    made = Rewriter(graph)
    constants: dict[Hashable, Value] = {}
    for constant in graph.constants:
        made.become(constant.value, constants.setdefault((constant.digest, constant.value.type), constant.value))
    first: dict[Hashable, tuple[Value, ...]] = {}
    for node in graph.nodes:
        read = tuple(None if value is None else value.name for value in made.operands(node))
        key = (node.operator, read, repr(node.attributes))
        if key in first:
            made.replace(node, *first[key])
        else:
            made.copy(node)
            first[key] = tuple(made[value] for value in node.results)
    return dead_code(made.finish())
