"""Indices that a model holds are inside of what they index.

A kernel reads and writes inside its arrays whatever indices data give: one that is outside means the first or the last element. A model
whose own indices are outside is a mistake, which torch and ONNX refuse, and so does an import.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy.typing as npt

import tensorlang as tl
from tensorlang.graph.arguments import of_graph
from tensorlang.graph.ir import Graph, Node, Value
from tensorlang.graph.passes.folding import evaluated

Array = npt.NDArray[Any]

MOST: Final = 1 << 20
"""Elements of indices that are looked at: beyond that they are found out by longer work than an import should take."""


class _Indexed(NamedTuple):
    """Which operand an operator indexes and by which, whether negative indices count from the back, and the axes that tuples name."""

    source: int
    by: int
    from_the_back: bool
    axes: Callable[[Node], Iterator[int]] | None = None


def _tuples(node: Node) -> Iterator[int]:
    first = _number(node, "batch_dims")
    depth = 0 if node.inputs[1] is None else node.inputs[1].shape[-1]
    if isinstance(depth, int):
        yield from range(first, first + depth)


def _number(node: Node, name: str) -> int:
    found = dict(node.attributes).get(name, 0)
    return found if isinstance(found, int) else 0


_OPERATORS: Final = {
    "gather": _Indexed(0, 1, from_the_back=False),
    "embedding": _Indexed(1, 0, from_the_back=False),
    "index_select": _Indexed(0, 1, from_the_back=True),
    "scatter": _Indexed(0, 1, from_the_back=True),
    "gather_nd": _Indexed(0, 1, from_the_back=True, axes=_tuples),
    "scatter_nd": _Indexed(0, 1, from_the_back=True, axes=_tuples),
    "scatter_prod": _Indexed(0, 1, from_the_back=True, axes=_tuples),
}


@of_graph
def with_indices_inside(graph: Graph) -> Graph:
    """The graph. Raises `GraphError` that names the node and the index, where one that the model holds is outside."""
    held = _Held(graph)
    for node in graph.nodes:
        told = _OPERATORS.get(node.operator)
        if told is None:
            continue
        source, index = node.inputs[told.source], node.inputs[told.by]
        array = None if index is None else held.array(index)
        if source is None or array is None or not array.size:
            continue
        if told.axes is not None:
            for number, axis in enumerate(told.axes(node)):
                _require(node, array[..., number], source, axis, told)
        else:
            axis = 0 if node.operator == "embedding" else _number(node, "dim") % len(source.shape)
            _require(node, array, source, axis, told)
    return graph


def _require(node: Node, index: Array, source: Value, axis: int, told: _Indexed) -> None:
    extent = source.shape[axis]
    if not isinstance(extent, int):
        return
    outside = index[(index < (-extent if told.from_the_back else 0)) | (index >= extent)]
    if outside.size:
        inside = f"0 to {extent - 1}" + (f", or -{extent} to -1 from the back" if told.from_the_back else "")
        raise tl.GraphError(f"{node.label}: the index {outside.flat[0]} that the model holds is outside axis {axis} of {source}: {inside}")


class _Held:
    """The arrays of values that follow from what a graph holds."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._made = {value.name: node for node in graph.nodes for value in node.results}
        self._known: dict[str, Array | None] = {}

    def array(self, value: Value) -> Array | None:
        """None where an input decides, or it is large."""
        if value.name not in self._known:
            self._known[value.name] = self._found(value)
        return self._known[value.name]

    def _found(self, value: Value) -> Array | None:
        extents = [extent for extent in value.shape if isinstance(extent, int)]
        if len(extents) < len(value.shape) or math.prod(extents) > MOST:
            return None
        held = self._graph.constant(value)
        node = self._made.get(value.name)
        if held is not None or node is None or not node.read:
            return held
        operands = [None if operand is None else self.array(operand) for operand in node.inputs]
        if any(operand is not None and array is None for operand, array in zip(node.inputs, operands, strict=True)):
            return None
        return dict(zip((result.name for result in node.results), evaluated(node, operands), strict=True))[value.name]
