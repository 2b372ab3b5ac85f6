"""Graphs of operators: imported from a model, rewritten, run.

    ir           what a graph is: values, nodes, constants, origins
    operators    the table of canonical operators, each a function of tensorlang tensors
    builder      how graphs are made; printing and parsing, graphs as text
    fusion       which nodes are one kernel
    execution    two ways to run one: the reference evaluator, kernels of the library
    pattern      which part of a graph is meant, where it is, why not
    passes       plain functions from graph to graph

It stands above the kernel library and uses public names of what is below alone. What knows a foreign format is a bridge.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorlang.graph import passes, pattern
from tensorlang.graph.builder import Builder, Rewriter
from tensorlang.graph.execution.compiled import CompiledGraph
from tensorlang.graph.execution.tuning import TunedKernel
from tensorlang.graph.ir import Constant, Graph, Node, Origin, Type, Value
from tensorlang.graph.operator import Axes, Axis, Operator, Pair, Sizes
from tensorlang.graph.operators import find as operator, known as operators, register
from tensorlang.graph.parsing import from_let
from tensorlang.graph.strided import Strided

__all__ = [
    "Axes",
    "Axis",
    "Builder",
    "CompiledGraph",
    "Constant",
    "Graph",
    "Node",
    "Operator",
    "Origin",
    "Pair",
    "Rewriter",
    "Sizes",
    "Strided",
    "TunedKernel",
    "Type",
    "Value",
    "from_let",
    "from_onnx",
    "from_torch",
    "operator",
    "operators",
    "passes",
    "pattern",
    "register",
]


def from_onnx(model: Any, values: Mapping[str, object] | None = None, *, partial: bool = False) -> Graph:
    """The graph of an `onnx.ModelProto` of opset 7 or later: initializers are constants, what is said about shapes is computed.

    `values` are inputs that are known: they become constants, so that they may be shapes and axes. Raises `GraphError` for an operator that
    has no translation, naming the node and the nearest supported one; with `partial=True` for all of them at once.
    """
    from tensorlang.bridges.onnx.importing import graph_of  # noqa: PLC0415 - as below

    return graph_of(model, values, partial=partial)


def from_torch(program: Any) -> Graph:
    """The graph of a `torch.export.ExportedProgram`: parameters and buffers are constants, dims have their ranges.

    Raises `GraphError` for an operator that has no translation, naming the node, its origin and the nearest supported one.
    """
    from tensorlang.bridges.torch_export import graph_of  # noqa: PLC0415 - the front door stands here, the way is a bridge

    return graph_of(program)
