"""Nodes that nobody needs: `dead_code`, `common_subexpressions`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from tensorlang.graph.arguments import of_graph
from tensorlang.graph.builder import Rewriter
from tensorlang.graph.ir import Constant, Graph, Node, Origin, Value
from tensorlang.system import mapped

SAMPLE: Final = 64
"""Elements by which constants are told apart before all of their bits are read."""


@of_graph
def dead_code(graph: Graph) -> Graph:
    """The graph without nodes and constants that reach no output. Its inputs stay: they are what a call passes."""
    read = {value.name for value in (*graph.outputs, *(value for node in graph.live for value in node.read))}
    constants = tuple(constant for constant in graph.constants if constant.value.name in read)
    if len(graph.live) == len(graph.nodes) and len(constants) == len(graph.constants):
        return graph
    return Graph(graph.inputs, constants, graph.live, graph.outputs, graph.name).verify()


@of_graph
def common_subexpressions(graph: Graph) -> Graph:
    """The graph in which what is computed twice from the same is computed once; equal constants are one.

    Nodes that stand for several have the origins of all. A node is a function of its operands and attributes, so equal ones give the same.
    """
    stands: dict[str, Value] = {constant.value.name: first for constant, first in _equal(graph.constants)}
    first: dict[Hashable, Node] = {}
    origins: dict[str, tuple[Origin, ...]] = {}
    for node in graph.nodes:
        read = tuple(None if value is None else stands.get(value.name, value).name for value in node.inputs)
        kept = first.setdefault((node.operator, read, repr(node.attributes)), node)
        name = kept.results[0].name
        origins[name] = tuple(dict.fromkeys((*origins.get(name, ()), *node.origins)))
        stands |= {old.name: new for old, new in zip(node.results, kept.results, strict=True)}
    made = Rewriter(graph)
    for constant in graph.constants:
        made.become(constant.value, stands[constant.value.name])
    for node in graph.nodes:
        name = node.results[0].name
        if stands[name].name == name:
            names = [value.name for value in node.results]
            made.replace(node, *made.node(node.operator, made.operands(node), dict(node.attributes), names, origins[name]))
        else:
            made.replace(node, *(made[stands[value.name]] for value in node.results))
    return dead_code(made.finish())


def _equal(constants: tuple[Constant, ...]) -> list[tuple[Constant, Value]]:
    """Constants, each with the first one that has its type and bits; all bits are read only of those that a few do not tell apart."""
    alike: dict[Hashable, list[Constant]] = {}
    for constant in constants:
        alike.setdefault((constant.value.type, _sample(constant)), []).append(constant)
    first: dict[Hashable, Value] = {}
    pairs = {
        constant.value.name: first.setdefault((key, constant.digest if len(several) > 1 else ""), constant.value)
        for key, several in alike.items()
        for constant in several
    }
    return [(constant, pairs[constant.value.name]) for constant in constants]


def _sample(constant: Constant) -> bytes:
    flat = constant.array.flat
    found = flat[:: max(1, len(flat) // SAMPLE)].tobytes() if constant.array.size else b""
    mapped.give_back(constant.array)
    return found
