"""Which outputs follow from a cut of floats: where rounding may show as a whole step.

A cut is a cast of a float to an integer or bool, a comparison of floats, a function that gives whole numbers, or a reduction that
compares floats, as that for the place of the greatest element does. What follows from none is held to the reference exactly.
"""

from __future__ import annotations

from typing import Final

from tensorlang.definition.tensor import Definition, Scan, State, Tensor, definitions, expressions, operands
from tensorlang.ir import Binary, Call, Cast, Compare, Expr, Reduce
from tensorlang.ir.traverse import dtype_of, nodes

_WHOLE: Final = ("floor", "ceil", "round", "trunc", "isnan", "isinf", "isfinite")


def follow_a_cut(outputs: tuple[Tensor, ...]) -> tuple[bool, ...]:
    """Of each output: does it follow from a cut of floats?"""
    found: dict[int, bool] = {}
    for definition in definitions(outputs):
        found[id(definition)] = _is_cut(definition) or any(found.get(id(read.definition), False) for read in operands(definition))
    return tuple(found[id(tensor.definition)] for tensor in outputs)


def _is_cut(definition: Definition) -> bool:
    if isinstance(definition, Scan):
        return any(_is_cut(part) for part in definition.body if not isinstance(part, State))
    return any(map(_cuts, nodes(*expressions(definition))))


def _cuts(node: Expr) -> bool:
    match node:
        case Cast(value, dtype):
            return dtype_of(value).is_floating and not dtype.is_floating
        case Compare(_, left, _):
            return dtype_of(left).is_floating
        case Call(function, _, _):
            return function in _WHOLE
        case Binary(op, left, _):
            return op in ("floordiv", "mod") and dtype_of(left).is_floating
        case Reduce(reducer):
            return any(map(_cuts, nodes(*reducer.results)))
        case _:
            return False
