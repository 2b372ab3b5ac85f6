"""`winograd`: convolutions of 3 x 3 in Winograd's way, one by one where that is estimated faster (`graph.operators.winograd`).

It is taken up by images whose channels are last, as `channels_last` leaves them, and weights that are constants: these are 16/9 as large
afterwards. Each result is a sum of other terms, so that its last digits differ.
"""

from __future__ import annotations

import math
from typing import Final

import tensorlang as tl
from tensorlang import kernels
from tensorlang.graph.arguments import of_graph
from tensorlang.graph.builder import Rewriter
from tensorlang.graph.definition import Definition, defined, of_node
from tensorlang.graph.ir import Attributes, Graph, Node, Type
from tensorlang.graph.operators import find
from tensorlang.graph.operators.winograd import PLACES, TAPS
from tensorlang.graph.passes.folding import fold_nodes

LAYER: Final = "conv2d_channels_last"
WORTH: Final = 0.9
"""The share of the time of a layer that Winograd's way may take: results are rounded otherwise, and weights take more memory."""
DTYPES: Final = ("float32", "float64")
"""Narrower numbers have no digits to lose."""


@of_graph
def winograd(graph: Graph, target: str = "native") -> Graph:
    """The graph with convolutions in Winograd's way where that is estimated faster on a target. Raises `BuildError` for an unknown one."""
    _ = tl.target(target)
    chosen = {node.results[0].name for node in graph.nodes if _fits(graph, node) and _gains(node, target)}
    if not chosen:
        return graph
    made = Rewriter(graph)
    for node in graph.nodes:
        if node.results[0].name in chosen:
            made.origins = node.origins
            image, weight, *bias = made.operands(node)
            turned = made("winograd_weight", weight)
            made.replace(node, made("conv2d_winograd", image, turned, *bias, padding=node["padding"]))
            made.origins = ()
        else:
            made.copy(node)
    return fold_nodes(made.finish(), lambda node: node.operator == "winograd_weight")


def _fits(graph: Graph, node: Node) -> bool:
    """Is it a convolution with constant weights of 3 x 3, one apart, of extents that are numbers?"""
    if node.operator != LAYER or node["groups"] != 1 or node["stride"] != (1, 1) or node["dilation"] != (1, 1):
        return False
    constant = all(graph.constant(value) is not None for value in node.read[1:])
    static = all(value.type.static for value in (*node.read, *node.results))
    return constant and static and node.read[1].shape[:2] == (TAPS, TAPS) and str(node.results[0].dtype) in DTYPES


def _gains(node: Node, target: str) -> bool:
    image, weight, *bias = (None if value is None else value.type for value in node.inputs)
    assert weight is not None
    turned = Type((PLACES, PLACES, *weight.shape[2:]), weight.dtype)
    attributes: Attributes = (("padding", node["padding"]),)
    return _seconds(defined(find("conv2d_winograd"), (image, turned, *bias), attributes), target) < WORTH * _seconds(of_node(node), target)


def _seconds(layer: Definition, target: str) -> float:
    """What a layer takes by itself, its weights packed; infinity where there is no estimate."""
    fixed = tuple(operand.name for operand in layer.operands[1:] if operand is not None and operand.name is not None)
    try:
        return kernels.estimate(layer.results, target, constants=fixed).seconds
    except tl.TensorlangError:
        return math.inf
