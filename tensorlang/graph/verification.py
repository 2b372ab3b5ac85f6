"""What holds of every graph: the verifier, which runs where a graph is made and after every pass.

names        every value is defined once, and is spelled as an identifier
order        a node reads what was defined before it, so there is no cycle
operators    they are in the table, with their attributes in the one spelling
types        results have the types that the operator gives them; constants are what they say; a dim has one pair of bounds
"""

from __future__ import annotations

import tensorlang as tl
from tensorlang.graph.definition import of_node
from tensorlang.graph.ir import Graph, Node, Type, Value
from tensorlang.graph.operators import find


def verify(graph: Graph) -> None:
    """Raises `GraphError` for a graph in which one of these does not hold, naming the node and its origin."""
    defined: dict[str, Value] = {}

    def define(value: Value, what: str) -> None:
        if not value.name.isidentifier():
            raise tl.GraphError(f"{what}: {value.name!r:.60} cannot name a value; use letters, digits and _")
        if value.name in defined:
            raise tl.GraphError(f"{what}: {value.name} is defined twice, before as {defined[value.name]}")
        defined[value.name] = value

    for value in graph.inputs:
        define(value, "an input")
    for constant in graph.constants:
        define(constant.value, "a constant")
        if Type.of(constant.array) != constant.value.type:
            raise tl.GraphError(f"the constant {constant.value} holds an array of type {Type.of(constant.array)}")
    later = {value.name for node in graph.nodes for value in node.results}
    for node in graph.nodes:
        for value in node.read:
            if defined.get(value.name) != value:
                raise tl.GraphError(f"{node.label} reads {value}, which is {_why(value, defined, later)}")
        _verify_node(node)
        for value in node.results:
            define(value, node.label)
    for value in graph.outputs:
        if defined.get(value.name) != value:
            raise tl.GraphError(f"the output {value} is {_why(value, defined, set())}")
    _verify_dims(graph)


def _why(value: Value, defined: dict[str, Value], later: set[str]) -> str:
    if value.name in defined:
        return f"defined as {defined[value.name]}"
    return "defined by itself or later: the graph has a cycle or is out of order" if value.name in later else "not defined"


def _verify_node(node: Node) -> None:
    definition = of_node(node)
    types = [None if value is None else value.type for value in node.inputs]
    spelled = find(node.operator).spelled(dict(node.attributes), types)
    if repr(spelled) != repr(node.attributes):
        raise tl.GraphError(f"{node.label}: its attributes are spelled {dict(node.attributes)}, and not {dict(spelled)}; use a Builder")
    found = tuple(value.type for value in node.results)
    if found != definition.types:
        wanted = ", ".join(map(str, definition.types))
        raise tl.GraphError(f"{node.label}: its results are said to be {', '.join(map(str, found))}, but the operator gives {wanted}")


def _verify_dims(graph: Graph) -> None:
    bounds: dict[str, tuple[int, int]] = {}
    for value in graph.values.values():
        for extent in value.shape:
            for name, pair in extent.dims.items() if isinstance(extent, tl.Dim) else ():
                if bounds.setdefault(name, pair) != pair:
                    raise tl.GraphError(f"{value}: the dim {name} is from {pair[0]} to {pair[1]} here, and elsewhere {bounds[name]}")
    for name in bounds:
        if name not in {repr(dim) for dim in graph.dims}:
            raise tl.GraphError(f"the dim {name} is no extent of an input, so that a call would not tell it")
