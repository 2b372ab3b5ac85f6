"""Running a graph by the reference evaluator: what it means, value by value.

Each node is its operator's definition, evaluated by `tl.evaluate`, which shares no lowering and no code generation with kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import tensorlang as tl
from tensorlang.graph.definition import of_node
from tensorlang.graph.execution.calling import bind_inputs
from tensorlang.graph.ir import Array, Graph, dims_in


def inspect(graph: Graph, inputs: Sequence[object]) -> dict[str, Array]:
    """All values by name. Raises `CallError` for inputs that do not fit, `GraphError` for a graph that is not well formed."""
    graph.verify()
    arrays, sizes = bind_inputs(graph, inputs)
    values = dict(zip((value.name for value in graph.inputs), arrays, strict=True))
    values |= {constant.value.name: constant.array for constant in graph.constants}
    for node in graph.nodes:
        definition = of_node(node)
        feeds: dict[tl.Tensor, Array] = {
            operand: values[value.name]
            for operand, value in zip(definition.operands, node.inputs, strict=True)
            if operand is not None and value is not None
        }
        results = tl.evaluate(definition.results, feeds, None, **_own(definition.results, feeds, sizes))
        for value, array in zip(node.results, results, strict=True):
            values[value.name] = np.asarray(array)
    return values


def _own(results: Sequence[tl.Tensor], feeds: dict[tl.Tensor, Array], sizes: dict[str, int]) -> dict[str, int]:
    """The dims of a definition that none of its operands shows."""
    shown = {repr(extent) for operand in feeds for extent in operand.shape}
    return {name: sizes[name] for name in dims_in(tensor.shape for tensor in (*results, *feeds)) if name not in shown}
