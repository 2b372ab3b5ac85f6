"""`fold_batch_norm`: a layer whose result is normalised by constants takes the factors into its weight.

    batch_norm(linear(x, W, b)) = linear(x, W s, (b - mean) s + beta)      s = gamma / sqrt(var + eps), one for each output channel

The same for convolutions, transposed and grouped ones. As W is constant, so is all of this: it is written as nodes, which are folded.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tensorlang.graph.arguments import of_graph
from tensorlang.graph.builder import Rewriter
from tensorlang.graph.ir import Graph, Value
from tensorlang.graph.passes.folding import fold_nodes
from tensorlang.graph.pattern import Match, match_all

LAYERS = ("linear", "conv1d", "conv2d", "conv_transpose2d")


def normalised_layer(pm: ModuleType) -> Any:
    """A layer of constant weight, and the batch norm that alone reads it."""
    constant = [pm.Tensor(constant=True) for _ in range(4)]
    bias, gamma, beta = (pm.Tensor(constant=True).bind(name) | pm.Absent() for name in ("bias", "gamma", "beta"))
    linear = pm.Op("linear", args=(pm.Tensor().bind("x"), constant[0].bind("weight"), bias)) & pm.Tensor(shape=(None, None))
    convolution = pm.Op(LAYERS[1:], args=(pm.Tensor().bind("x"), constant[1].bind("weight"), bias))
    layer = (linear | convolution).bind("layer")
    return pm.Op("batch_norm", args=(layer, constant[2].bind("mean"), constant[3].bind("var"), gamma, beta), eps=pm.Attr("eps"))


@of_graph
def fold_batch_norm(graph: Graph) -> Graph:
    """The graph in which no layer of constant weight is followed by a batch norm of constants."""
    matches = {match.root.name: match for match in match_all(graph, normalised_layer)}
    if not matches:
        return graph
    made = Rewriter(graph)
    for node in graph.nodes:
        match = matches.get(node.results[0].name)
        if match is None:
            made.copy(node)
        else:
            made.replace(node, _folded(made, match))
    finished = made.finish()
    new = {name for name in finished.values if name not in graph.values}
    return fold_nodes(finished, lambda node: node.results[0].name in new)


def _folded(made: Rewriter, match: Match) -> Value:
    """The layer with factor and offset inside."""
    layer = match.node("layer")
    made.origins = (*layer.origins, *made.source.producer(match.root).origins)  # type: ignore[union-attr]  # a node makes it

    def own(name: str) -> Value | None:
        return made[match[name]] if name in match else None

    weight, mean, gamma, beta, bias = made[match["weight"]], made[match["mean"]], own("gamma"), own("beta"), own("bias")
    scale = made("rsqrt", made("add", made[match["var"]], match["eps"]))
    scale = scale if gamma is None else made("mul", scale, gamma)
    offset = made("neg", mean) if bias is None else made("sub", bias, mean)
    offset = made("mul", offset, scale)
    offset = offset if beta is None else made("add", offset, beta)
    attributes = dict(layer.attributes)
    folded = made("mul", weight, _per_output(made, layer.operator, weight, scale, attributes.get("groups", 1)))
    (result,) = made.node(layer.operator, (made[match["x"]], folded, offset), attributes, f"{layer.results[0].name}_folded")
    return result


def _per_output(made: Rewriter, operator: str, weight: Value, scale: Value, groups: Any) -> Value:
    """The factors of output channels beside the weight, which has them in axis 0, or, transposed, in groups in axis 1."""
    spatial = (1,) * (len(weight.shape) - 2)
    if operator != "conv_transpose2d":
        return made("reshape", scale, shape=(weight.shape[0], 1, *spatial))
    share, inputs = weight.shape[1], weight.shape[0]
    rows = made("reshape", scale, shape=(groups, 1, share, *spatial))
    spread = made("expand", rows, shape=(groups, inputs // groups, share, *spatial))
    return made("reshape", spread, shape=(inputs, share, *spatial))
