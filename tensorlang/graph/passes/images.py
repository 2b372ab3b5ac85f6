"""`channels_last`: the layers of images with channels last, if that is estimated faster for all of them together.

Which order of axes a convolution is faster in depends on its shape and the machine, and changing the order between two layers costs a pass
over the image; so all layers of a graph have one. Weights are constants and are turned beforehand. Permutations around layers sink
(`sink_permutes`), and what is left of them, at the beginning and the end, is counted too.
"""

from __future__ import annotations

from typing import Final

from tensorlang.graph.arguments import of_graph
from tensorlang.graph.builder import Rewriter
from tensorlang.graph.fusion.group import Group
from tensorlang.graph.fusion.weighing import seconds
from tensorlang.graph.ir import Graph, Node, Value
from tensorlang.graph.passes.folding import fold_nodes
from tensorlang.graph.passes.layout import sink_permutes

LAYERS: Final = ("conv2d", "max_pool2d", "avg_pool2d")
SUFFIX: Final = "_channels_last"
LAST: Final = (0, 2, 3, 1)
FIRST: Final = (0, 3, 1, 2)
WEIGHT: Final = (2, 3, 1, 0)


@of_graph
def channels_last(graph: Graph, target: str = "native") -> Graph:
    """The graph with convolutions and pooling of NHWC images where that is estimated faster on a target, else the graph itself.

    Only layers with constant weights and extents that are numbers are turned. Raises `BuildError` for an unknown target.
    """
    if not any(node.operator == "conv2d" and _turns(graph, node) for node in graph.nodes):
        return graph
    made = Rewriter(graph)
    for node in graph.nodes:
        if _turns(graph, node):
            _turn(made, node)
        else:
            made.copy(node)
    turned = made.finish()
    new = set(turned.values) - set(graph.values)
    turned = sink_permutes(fold_nodes(turned, lambda node: node.results[0].name in new))
    return turned if _cost(turned, target) < _cost(graph, target) else graph


def _turns(graph: Graph, node: Node) -> bool:
    if node.operator not in LAYERS or not all(value.type.static for value in (*node.read, *node.results)):
        return False
    return node.operator != "conv2d" or all(graph.constant(value) is not None for value in node.read[1:])


def _turn(made: Rewriter, node: Node) -> None:
    """A layer between two permutations."""
    made.origins = node.origins
    image, *others = made.operands(node)
    assert image is not None
    operands: list[Value | None] = [made("permute", image, dims=LAST), *others]
    if node.operator == "conv2d" and others[0] is not None:
        operands[1] = made("permute", others[0], dims=WEIGHT)
    (result,) = made.node(f"{node.operator}{SUFFIX}", operands, dict(node.attributes))
    made.replace(node, made("permute", result, dims=FIRST))
    made.origins = ()


def _cost(graph: Graph, target: str) -> float:
    """Seconds of the layers of images, and of the permutations that are left."""
    counted = {*LAYERS, *(f"{name}{SUFFIX}" for name in LAYERS), "permute"}
    return sum(seconds(Group(graph, (node,), node.results), target) for node in graph.nodes if node.operator in counted)
