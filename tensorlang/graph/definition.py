"""A node as a definition: its operator's function on placeholders of the types of its operands.

Types, the evaluator, kernels and what may be fused all ask for it, and a model has a few dozen different nodes, so it is made once for
operator, types and attributes. Equal types are equal by what they say, as in a `kernels.Spec`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import tensorlang as tl
from tensorlang import kernels
from tensorlang.graph.ir import Attributes, Node, Type, Value
from tensorlang.graph.operator import Operator
from tensorlang.graph.operators import find
from tensorlang.system.object_cache import ObjectCache

KEPT: Final = 1024
"""Definitions that are kept: those of a few models."""


@dataclass(frozen=True, eq=False)
class Definition:
    """Placeholders, None for an operand that is left out, and what the operator makes of them."""

    operands: tuple[tl.Tensor | None, ...]
    results: tuple[tl.Tensor, ...]
    access: kernels.Access

    @property
    def types(self) -> tuple[Type, ...]:
        """Those of the results."""
        return tuple(map(Type.of, self.results))

    @property
    def pointwise_in(self) -> frozenset[int]:
        """The operands that are read at the place of each result alone, if that is all that is read of any."""
        if self.access.kind != "pointwise" or len(self.access.stages) != 1:
            return frozenset()
        same = {read.tensor for read in self.access.stages[0].reads if read.relation == "same"}
        return frozenset(place for place, operand in enumerate(self.operands) if operand is not None and operand.name in same)


_kept: Final[ObjectCache[Definition]] = ObjectCache(KEPT)
_of_nodes: Final[ObjectCache[Definition]] = ObjectCache(KEPT)
"""The same by attributes as nodes have them, which are spelled but for a node that somebody wrote by hand: to spell takes longer."""


def defined(operator: Operator, types: Sequence[Type | None], attributes: Attributes) -> Definition:
    """The definition of an operator at types, attributes spelled. Raises `DefinitionError` where it does not take them."""
    return _kept.get(_key(operator, types, attributes), lambda: _defined(operator, types, attributes))


def _key(operator: Operator, types: Sequence[Type | None], attributes: Attributes) -> Hashable:
    return operator.function, tuple(types), repr(attributes), tuple(None if one is None or one.static else one.bounds for one in types)


def _defined(operator: Operator, types: Sequence[Type | None], attributes: Attributes) -> Definition:
    operands = tuple(None if one is None else tl.placeholder(one.shape, one.dtype, name=name) for name, one in _named(operator, types))
    results = operator(operands, dict(attributes))
    for result in results:
        if not isinstance(result, tl.Tensor):
            raise tl.DefinitionError(f"the function of {operator.name} returns {result!r:.60}, which is no tensor")
    return Definition(operands, results, kernels.access(results))


def _named(operator: Operator, types: Sequence[Type | None]) -> Iterator[tuple[str, Type | None]]:
    several = [operand for operand in operator.operands if operand.several]
    names = [operand.name for operand in operator.operands]
    if several:
        names = [f"{several[0].name}{place}" for place in range(len(types))]
    return zip(names, types, strict=True)


def of_node(node: Node) -> Definition:
    """The definition of a node. Raises `GraphError`, which names the node and its origin."""
    operator = find(node.operator)
    types = tuple(None if value is None else value.type for value in node.inputs)
    try:
        return _of_nodes.get(_key(operator, types, node.attributes), lambda: _spelled(operator, types, node.attributes))
    except tl.DefinitionError as error:
        raise tl.GraphError(f"{node.label}: {error}") from None


def _spelled(operator: Operator, types: Sequence[Type | None], attributes: Attributes) -> Definition:
    return defined(operator, types, operator.spelled(dict(attributes), types))


def applied(node: Node, operands: Sequence[tl.Tensor | None]) -> tuple[tl.Tensor, ...]:
    """The results of a node for tensors that may be computed: how nodes become one definition. Raises `GraphError`."""
    try:
        return find(node.operator)(operands, dict(node.attributes))
    except tl.DefinitionError as error:
        raise tl.GraphError(f"{node.label}: {error}") from None


def at_sizes(attributes: Attributes, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Attributes where dims have these sizes."""
    return {name: _at(value, sizes) for name, value in attributes}


def shape_at(value: Value, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The extents of a value where dims have these sizes."""
    return tuple(extent.at(**sizes) if isinstance(extent, tl.Dim) else extent for extent in value.shape)


def _at(value: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(value, tuple):
        return tuple(_at(entry, sizes) for entry in value)
    return value.at(**sizes) if isinstance(value, tl.Dim) else value
