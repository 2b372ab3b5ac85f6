"""Operators on single values: what `arithmetic` says of arrays, said again for the interpreter that runs nests one statement at a time.

Integers are Python's, wrapped to their width after each operation; bools are Python's; floating values are NumPy scalars. Everything
that follows from an operator and a type is decided when a closure is made, since it is made once and called for every iteration.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from tensorlang.errors import InternalError
from tensorlang.ir.dtype import DType
from tensorlang.ir.integers import ARITHMETIC
from tensorlang.semantics import arithmetic

Thunk: TypeAlias = Callable[[], Any]

_FLOATING: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "min": np.minimum,
    "max": np.maximum,
    "fmin": np.fmin,
    "fmax": np.fmax,
}
_UNARY: Final[dict[str, Callable[[Any], Any]]] = {"neg": operator.neg, "abs": abs, "not": operator.invert}


def scalar(value: Any, dtype: DType) -> Any:
    """A NumPy scalar as what expressions compute with."""
    if dtype.is_floating:
        return value
    return bool(value) if dtype.kind == "bool" else int(value)


def wrapper(of: DType) -> Callable[[int], Any]:
    """The function that wraps an integer to the width of a type."""
    if of.kind == "bool":
        return bool
    least, most, mask = int(of.lowest), int(of.highest), (1 << of.bits) - 1
    return lambda value: value if least <= value <= most else ((value - least) & mask) + least


def caster(source: DType, target: DType) -> Callable[[Any], Any]:
    """The function that converts a value of type `source` to a `target`."""
    kind = target.numpy.type
    if source.is_floating and target.is_floating:
        return (lambda value: kind(np.float32(value))) if target in arithmetic.HALF else kind
    if source.is_floating or target.is_floating:
        return lambda value: scalar(np.asarray(arithmetic.cast(np.asarray(value, source.numpy), source, target))[()], target)
    if target.kind == "bool":
        return lambda value: value != 0
    wrap = wrapper(target)
    return lambda value: wrap(int(value))


def unary(op: str, inner: Thunk, of: DType) -> Thunk:
    """A closure over that of the operand, which gives `op inner`."""
    plain = _UNARY[op]
    if of.is_floating:
        return lambda: plain(inner())
    if of.kind == "bool":
        return lambda: not inner()
    wrap = wrapper(of)
    return lambda: wrap(plain(inner()))


def integer(op: str, of: DType) -> Callable[[int, int], int]:
    """The function that computes `a op b` of integers, not yet wrapped."""
    if op not in ARITHMETIC:
        raise InternalError(f"{op} has no meaning on {of}")
    return ARITHMETIC[op]


def operation(op: str, of: DType) -> Callable[[Any, Any], Any]:
    """The function that computes `a op b` of values of a type."""
    if of in arithmetic.HALF:  # computed in float32 and rounded
        wide, kind = _FLOATING[op], of.numpy.type
        return lambda a, b: kind(wide(np.float32(a), np.float32(b)))
    if of.is_floating:
        return _FLOATING[op]
    plain, wrap = integer(op, of), wrapper(of)
    return lambda a, b: wrap(plain(a, b))


def binary(op: str, left: Thunk, right: Thunk, of: DType) -> Thunk:
    """A closure over those of the operands, which gives `left op right`."""
    if of.is_integer:  # by far the most frequent: an index, which seldom leaves its type
        plain, wrap, least, most = integer(op, of), wrapper(of), int(of.lowest), int(of.highest)

        def whole() -> Any:
            value = plain(left(), right())
            return value if least <= value <= most else wrap(value)

        return whole
    act = operation(op, of)
    return lambda: act(left(), right())
