"""A program that reads other tensors in the places of some of its own: the same definitions, made again where that changes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from tensorlang import ir
from tensorlang.definition.tensor import (
    Definition,
    Placeholder,
    Scan,
    Scatter,
    Stage,
    State,
    Tensor,
    components,
    definitions,
    operands,
    serial,
)
from tensorlang.errors import DefinitionError
from tensorlang.ir.traverse import rewrite

Places: TypeAlias = dict[tuple[int, int], Tensor]
"""What stands in the place of a tensor, by the identity of its definition and its component."""

Index: TypeAlias = tuple[ir.Expr, ...]
Moves: TypeAlias = Mapping[int, Callable[[Index], Index]]
"""Where an element of a replaced tensor is in what replaces it, by the identity of the definition; elsewhere it keeps its place."""

_NONE: Final[Moves] = {}


def replaced(outputs: tuple[Tensor, ...], places: Places, moves: Moves = _NONE) -> tuple[Tensor, ...]:
    """The program reading other tensors of the same types in the places of some.

    Raises `DefinitionError` where a tensor whose elements move is taken whole: what a scan or a scatter starts from.
    """
    for definition in definitions(outputs):
        _moved(definition, places, moves)
    return tuple(_now(tensor, places) for tensor in outputs)


def _now(tensor: Tensor, places: Places) -> Tensor:
    return places.get((id(tensor.definition), tensor.component), tensor)


def _moved(definition: Definition, places: Places, moves: Moves) -> None:
    """Note what becomes of a definition, the operands of which were seen before."""
    if all(_now(tensor, places) is tensor for tensor in operands(definition)):
        return
    made: Definition
    count = components(definition)

    def read(node: ir.Expr) -> ir.Expr:
        if not isinstance(node, ir.Load) or not isinstance(node.buffer, Tensor):
            return node
        move = moves.get(id(node.buffer.definition))
        return ir.Load(_now(node.buffer, places), node.index if move is None else move(node.index))

    def moved(expr: ir.Expr) -> ir.Expr:
        return rewrite(expr, read)

    taken: tuple[Tensor, ...] = (definition.init,) if isinstance(definition, Scatter) else ()
    if isinstance(definition, Scan):
        taken = (*definition.init, *definition.following)
    for tensor in taken:
        if id(tensor.definition) in moves:
            raise DefinitionError(f"{tensor!r} is what a scan or a scatter starts from, and has to lie in C order")
    match definition:
        case Stage(values=values):
            made = replace(definition, values=tuple(map(moved, values)), order=serial())
        case Scatter(init=init, axes=axes, index=index, value=value, where=where):
            made = replace(
                definition,
                init=_now(init, places),
                axes=tuple(ir.ReduceAxis(axis.name, moved(axis.lo), moved(axis.hi)) for axis in axes),
                index=tuple(map(moved, index)),
                value=moved(value),
                where=None if where is None else moved(where),
                order=serial(),
            )
        case Scan(init=init, following=following, body=body):
            for part in body:
                _moved(part, places, moves)
            parts = tuple(_now(Tensor(part), places).definition for part in body)
            ends = tuple(_now(tensor, places) for tensor in following)
            made = replace(definition, init=tuple(_now(tensor, places) for tensor in init), following=ends, body=parts, order=serial())
        case Placeholder() | State():
            return
    for component in range(count):
        places[id(definition), component] = Tensor(made, component)
