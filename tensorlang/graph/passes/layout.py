"""`sink_permutes`: permutations go down through the graph, until they meet another one, or somebody who needs the order of axes.

    neg(permute(x)) = permute(neg(x))       add(permute(x), permute(y)) = permute(add(x, y))       permute(permute(x)) = permute(x)
    softmax(permute(x), dim) = permute(softmax(x, dim'))        the same for reductions, `cat`, and layers over axes that stay last

A value is kept as another one and the permutation that is still to be done. It is done where a node cannot take it: a view, which costs
nothing where kernels take operands as they lie, and products, convolutions and pointwise loops do. So of a model that is written with
channels last around convolutions with channels first, the permutations at its beginning and its end are left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from tensorlang.graph.arguments import of_graph
from tensorlang.graph.builder import Rewriter
from tensorlang.graph.ir import Attribute, Graph, Node, Origin, Value
from tensorlang.graph.operators.pointwise import OPERATORS
from tensorlang.graph.passes.cleaning import dead_code

Dims: TypeAlias = tuple[int, ...]

POINTWISE: Final = frozenset(operator.name for operator in OPERATORS)
REDUCTIONS: Final = frozenset({"sum", "mean", "prod", "amax", "amin", "any", "all", "var"})


@of_graph
def sink_permutes(graph: Graph) -> Graph:
    """The graph in which permutations are done as late as can be; the graph itself where there is none."""
    if "permute" not in graph.by_operator:
        return graph
    made = _Sinking(graph)
    for node in graph.nodes:
        made.sink(node)
    return dead_code(made.finish())


class _Sinking(Rewriter):
    """A graph made from another one; `_below` has values that are another one of the new graph, permuted."""

    def __init__(self, source: Graph) -> None:
        super().__init__(source)
        self._below: dict[str, tuple[Value, Dims]] = {}
        self._done: set[str] = set()

    def __getitem__(self, value: Value) -> Value:
        """What became of a value of the source, permuted now if it was not."""
        if value.name in self._below and value.name not in self._done:
            below, dims = self._below[value.name]
            before, self.origins = self.origins, self._origins_of(value)
            self.become(value, self("permute", below, dims=dims))
            self.origins = before
            self._done.add(value.name)
        return super().__getitem__(value)

    def sink(self, node: Node) -> None:
        """Add a node, of values before their permutation if it can be done afterwards."""
        self.origins = node.origins
        if node.operator == "permute":
            below, dims = self._found(node.read[0])
            self._wait(node.results[0], below, tuple(dims[axis] for axis in _dims(node["dims"])))
            return
        for way in WAYS:
            if len(node.results) == 1 and way(self, node):
                return
        self.copy(node)

    def _origins_of(self, value: Value) -> tuple[Origin, ...]:
        node = self.source.producer(value)
        return () if node is None else node.origins

    def _found(self, value: Value) -> tuple[Value, Dims]:
        """A value of the new graph, and the permutation of it that a value of the source is."""
        return self._below.get(value.name) or (self[value], tuple(range(len(value.shape))))

    def _wait(self, value: Value, below: Value, dims: Dims) -> None:
        if list(dims) == sorted(dims):
            self.become(value, below)
        else:
            self._below[value.name] = below, dims

    def _add(self, node: Node, operands: tuple[Value | None, ...], dims: Dims, **changed: Attribute) -> bool:
        """The node on other operands, its result to be permuted."""
        (below,) = self.node(node.operator, operands, {**dict(node.attributes), **changed})
        self._wait(node.results[0], below, dims)
        return True

    # What permutations go through ---------------------------------------------------------------------------------------------

    def pointwise(self, node: Node) -> bool:
        """All operands of full size are permuted alike; others are constants, or repeated along axes, and are permuted back."""
        if node.operator not in POINTWISE:
            return False
        result = node.results[0]
        waiting = [self._below[value.name] for value in node.read if value.name in self._below and value.shape == result.shape]
        if not waiting:
            return False
        dims = waiting[0][1]
        operands = [None if value is None else self._before(value, result, dims) for value in node.inputs]
        fit = [operand is not None for operand, value in zip(operands, node.inputs, strict=True) if value is not None]
        return all(fit) and self._add(node, tuple(operands), dims)

    def _before(self, value: Value, result: Value, dims: Dims) -> Value | None:
        """What is, permuted, a value, spread beside a result; None where that would be another permutation of as many elements."""
        if not value.shape:
            return self[value]
        if self._below.get(value.name, (None, None))[1] == dims:
            return self._below[value.name][0]
        if value.shape == result.shape and self.source.constant(value) is None:
            return None
        missing = len(result.shape) - len(value.shape)
        wide = self[value] if not missing else self("reshape", self[value], shape=(1,) * missing + value.shape)
        return self("permute", wide, dims=tuple(dims.index(axis) for axis in range(len(dims))))

    def along(self, node: Node) -> bool:
        """Softmax and its like: the axis is another one before."""
        if node.operator not in ("softmax", "log_softmax") or node.read[0].name not in self._below:
            return False
        below, dims = self._below[node.read[0].name]
        return self._add(node, (below,), dims, dim=dims[_axis(node["dim"])])

    def reduction(self, node: Node) -> bool:
        """Reductions of other axes; where they go, the rest is permuted as it was."""
        if node.operator not in REDUCTIONS or node.read[0].name not in self._below:
            return False
        below, dims = self._below[node.read[0].name]
        over = tuple(dims[axis] for axis in _dims(node["dim"]))
        left = list(dims) if node["keepdim"] else [axis for axis in dims if axis not in over]
        return self._add(node, (below,), tuple(sorted(left).index(axis) for axis in left), dim=tuple(sorted(over)))

    def beside(self, node: Node) -> bool:
        """`cat` of tensors that are all permuted alike."""
        several = [self._below.get(value.name) for value in node.read]
        known = [one for one in several if one is not None]
        if node.operator != "cat" or not known or len(known) < len(several) or len({dims for _, dims in known}) > 1:
            return False
        dims = known[0][1]
        return self._add(node, tuple(below for below, _ in known), dims, dim=dims[_axis(node["dim"])])

    def last(self, node: Node) -> bool:
        """Layers over the last axes, where these stay last: `linear`, norms."""
        first = node.inputs[0] if node.inputs else None
        if node.operator not in ("linear", "layer_norm", "rms_norm") or first is None or first.name not in self._below:
            return False
        below, dims = self._below[first.name]
        shape = dict(node.attributes).get("normalized_shape")
        rank, count = len(dims), len(shape) if isinstance(shape, tuple) else 1
        if dims[rank - count :] != tuple(range(rank - count, rank)):
            return False
        return self._add(node, (below, *(None if value is None else self[value] for value in node.inputs[1:])), dims)


WAYS: Final[tuple[Callable[[_Sinking, Node], bool], ...]] = (
    _Sinking.pointwise,
    _Sinking.along,
    _Sinking.reduction,
    _Sinking.beside,
    _Sinking.last,
)


def _dims(value: Attribute) -> Dims:
    return tuple(one for one in value if isinstance(one, int)) if isinstance(value, tuple) else ()


def _axis(value: Attribute) -> int:
    assert isinstance(value, int)
    return value
