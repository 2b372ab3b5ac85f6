"""What can be computed before any call: `fold_constants`.

Nodes are evaluated one by one as the reference evaluator does, so what is folded is what would have been computed; a view is looked at.
Only results that are still read are kept. A result that is larger than all its operands (a table of zeros, a mask) stays a node: written
down it would cost memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

import tensorlang as tl
from tensorlang.graph.builder import Rewriter
from tensorlang.graph.definition import at_sizes, of_node
from tensorlang.graph.ir import Array, Graph, Node
from tensorlang.graph.operators import find
from tensorlang.graph.passes.cleaning import dead_code
from tensorlang.graph.strided import Strided, in_order

SMALL: Final = 1 << 16
"""Bytes up to which a result is folded though it is larger than its operands."""


def fold_constants(graph: Graph) -> Graph:
    """The graph in which nodes that read constants alone are constants."""
    return fold_nodes(graph, lambda _: True)


def fold_nodes(graph: Graph, wanted: Callable[[Node], bool]) -> Graph:
    """The graph in which those nodes that read constants alone, and are wanted, are constants."""
    made = Rewriter(graph)
    arrays: dict[str, Array] = {constant.value.name: constant.array for constant in graph.constants}
    for node in graph.nodes:
        operands = made.operands(node)
        known = [arrays.get(value.name) for value in operands if value is not None]
        held = [array for array in known if array is not None]
        if not wanted(node) or len(held) < len(known) or not worth(node, held):
            made.copy(node)
            continue
        for value, array in zip(
            node.results, evaluated(node, [None if one is None else arrays[one.name] for one in operands]), strict=True
        ):
            constant = made.constant(array, value.name)
            arrays[constant.name] = array
            made.become(value, constant)
    return dead_code(made.finish())


def worth(node: Node, operands: list[Array]) -> bool:
    """Are the results of a node for arrays known now, and not much larger than these?"""
    if not all(value.type.static for value in node.results):
        return False
    size = sum(int(np.prod([int(str(extent)) for extent in value.shape])) * value.dtype.bytes for value in node.results)
    return size <= max(SMALL, sum(array.nbytes for array in operands))


def evaluated(node: Node, operands: list[Array | None]) -> tuple[Array, ...]:
    """The results of a node for arrays."""
    view = find(node.operator).view
    first = operands[0] if operands else None
    if view is not None and first is not None:
        seen = view(Strided.contiguous(first.shape), **at_sizes(node.attributes, {}))
        if seen is not None:
            return (in_order(seen.of(in_order(first))),)
    definition = of_node(node)
    feeds = {
        operand: array for operand, array in zip(definition.operands, operands, strict=True) if operand is not None and array is not None
    }
    return tuple(np.asarray(array) for array in tl.evaluate(definition.results, feeds))
