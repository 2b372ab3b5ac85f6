"""What can be asked of one value, one shape, one attribute, and how patterns for operands are laid beside operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tensorlang.graph.ir import Array, Attribute, Extent, Graph, Node, Value
from tensorlang.graph.operator import Operator, Types
from tensorlang.graph.pattern.patterns import Args, Attr, Pattern, Shape, Tensor
from tensorlang.graph.pattern.state import State, same


def tensor_fits(graph: Graph, pattern: Tensor, value: Value, state: State) -> State | None:
    """The state in which a value is what a pattern asks for, None where it is not."""
    types = (pattern.dtype,) if isinstance(pattern.dtype, str) else pattern.dtype
    if types is not None and value.dtype not in types:
        return None
    if pattern.users is not None and len(graph.users(value)) + graph.is_output(value) != pattern.users:
        return None
    if pattern.constant is not None and not _constant(pattern.constant, graph.constant(value)):
        return None
    return state if pattern.shape is None else _shape_fits(pattern.shape, value.shape, state)


def _constant(wanted: bool | float, held: Array | None) -> bool:
    if isinstance(wanted, bool):
        return wanted is (held is not None)
    if held is None or (held.size and held.flat[0] != wanted):
        return False
    return bool(np.all(held == wanted))


def _shape_fits(wanted: Shape, shape: Sequence[Extent], state: State) -> State | None:
    if ... in wanted:
        gap = wanted.index(...)
        missing = len(shape) - len(wanted) + 1
        if missing < 0:
            return None
        wanted = (*wanted[:gap], *[None] * missing, *wanted[gap + 1 :])
    if len(wanted) != len(shape):
        return None
    found: State | None = state
    for entry, extent in zip(wanted, shape, strict=True):
        if found is not None and isinstance(entry, str):
            found = found.knowing(("extent", entry), extent)
        elif entry is not None and entry != extent:
            return None
    return found


def attribute_fits(operator: Operator, node: Node, label: str, wanted: Any, state: State) -> State | None:
    """The state in which an attribute of a node is what a pattern asks for; values are spelled as the operator spells its own."""
    if label not in operator.attributes:
        return None
    value, types = node[label], [None if one is None else one.type for one in node.inputs]
    match wanted:
        case Attr(name=name, where=where):
            return state.knowing(name, value) if where is None or where(value) else None
        case set() | frozenset():
            return state if any(same(value, _spelled(operator, label, entry, types)) for entry in wanted) else None
        case _ if callable(wanted):
            return state if wanted(value) else None
        case _:
            return state if same(value, _spelled(operator, label, wanted, types)) else None


def _spelled(operator: Operator, label: str, wanted: Any, types: Types) -> Attribute:
    try:
        return operator.spelling(label, wanted, types)
    except Exception:  # noqa: BLE001 - what this operator cannot spell is no value of it
        return None


def arrangements(args: Args, node: Node, operator: Operator) -> Iterator[list[tuple[Pattern, Value | None, int]]]:
    """Patterns beside the operands that they are for, with places: in order, and for a commutative operator with the first two swapped."""
    places = list(range(max(len(node.inputs), len(args) - args.count(...))))
    orders = [places, [1, 0, *places[2:]]] if operator.commutative and len(node.inputs) == 2 else [places]
    for order in orders:
        operands = [(node.inputs[place] if place < len(node.inputs) else None, place) for place in order]
        if ... in args:
            gap = args.index(...)
            behind = len(args) - gap - 1
            pairs = [*zip(args[:gap], operands, strict=False), *zip(args[gap + 1 :], operands[len(operands) - behind :], strict=False)]
        elif len(args) < len(operands) and any(one is not None for one, _ in operands[len(args) :]):
            continue
        else:
            pairs = list(zip(args, operands, strict=False))
        yield [(arg, one, place) for arg, (one, place) in pairs if isinstance(arg, Pattern)]
