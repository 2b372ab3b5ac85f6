"""The meaning of definitions were floats rounded otherwise: which elements of a result hang on the last digit of a float.

A schedule may contract, reassociate and approximate, so floats differ by some roundings from the evaluator's. That is little until it is
cut: a cast to an integer, a comparison, the place of a greatest element make a whole step of it, and no tolerance tells such a step
from a fault. Here every float operation is off by a few roundings, up or down: where the result then changes, rounding explains it.

What is exact stays as it is: sums of whole numbers, products by powers of two, choices, casts. So nothing is said to hang on rounding
that no rounding reaches. Draws come in pairs of opposite signs, of which one pushes a float over the edge that it is near.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tensorlang.definition.tensor import Itself, Tensor
from tensorlang.ir import Binary, Call, Expr, Load, Reducer
from tensorlang.ir.dtype import EPSILON, FLOAT32, FLOAT64, DType
from tensorlang.ir.traverse import dtype_of
from tensorlang.semantics import arithmetic
from tensorlang.semantics.arithmetic import HALF, Array
from tensorlang.semantics.binding import shape_of
from tensorlang.semantics.environment import Environment, plain
from tensorlang.semantics.evaluate import ReferenceEvaluator
from tensorlang.semantics.evaluation import Evaluation

ULPS: Final = 4.0
"""Roundings by which an operation is off: more than contraction and approximations differ by, so that one of a pair goes over the edge."""
HALF_ULPS: Final = 1.0
"""The same in half precision, of which kernels round each operation as the evaluator does: sums in another order are what differs."""
_ROUNDED: Final = ("add", "sub", "mul", "div")
_EXACT: Final = ("floor", "ceil", "round", "trunc")
_POOL_BITS: Final = 16
_GOLDEN: Final = 0x9E3779B97F4A7C15
"""2 ** 64 over the golden ratio: a product with it spreads numbers over its first bits (Knuth, volume 3, 6.4)."""


class RoundedEvaluation(Evaluation):
    """Outputs on given operands, each float operation rounded otherwise: up or down by `seed`, all of them the other way by `sign` = -1."""

    def __init__(self, outputs: tuple[Tensor, ...], feeds: Mapping[Tensor, object], seed: int, sign: int, /, **dims: int) -> None:
        super().__init__(outputs, feeds, **dims)
        self._evaluator = _Rounded(self._evaluator.dims, self._evaluator.arrays, seed, sign)


class _Rounded(ReferenceEvaluator):
    """Which way an operation is off follows from its operands, as in a kernel: what is computed twice, or a tie of equals, stays equal."""

    def __init__(self, dims: dict[str, int], arrays: dict[Any, Array], seed: int, sign: int) -> None:
        super().__init__(dims, arrays)
        self.signs = np.random.default_rng(seed).choice((-1.0, 1.0), 1 << _POOL_BITS) * sign

    def value(self, expr: Expr, scope: Environment) -> Array:
        match expr:
            case Binary(op, left, right) if op in _ROUNDED and (of := dtype_of(left)).is_floating:
                a, b = self.value(left, scope), self.value(right, scope)
                found, exact = arithmetic.binary(op, a, b, of), arithmetic.binary(op, _wide(a, of), _wide(b, of), FLOAT64)
                return self._off(np.asarray(found), of, exact, exact, HALF_ULPS if of in HALF else ULPS)
            case Call(function, args, dtype) if dtype.is_floating and function not in _EXACT:
                given = tuple([self.value(arg, scope) for arg in args])
                found, wide = np.asarray(arithmetic.call(function, given, dtype_of(args[0]), dtype)), [_wide(arg, dtype) for arg in given]
                exact = np.sqrt(wide[0]) if function == "sqrt" else None
                return self._off(found, dtype, exact, sum(wide[1:], wide[0]), HALF_ULPS if dtype in HALF else ULPS)
            case Load(Itself() as itself, index):
                past = self.past[itself]
                return np.asarray(past[_inside(tuple([self.value(part, scope) for part in index]), past.shape)])
            case _:
                return super().value(expr, scope)

    def _load(self, tensor: Tensor, index: tuple[Array, ...], active: Array | None) -> Array:
        """An index that was cut from a float may leave the tensor, as no float of a kernel makes it."""
        shape = shape_of(tensor, self.dims)
        return super()._load(tensor, index if 0 in shape else _inside(index, shape), active)

    def _combine(self, reducer: Reducer, state: tuple[Array, ...], values: list[Array], active: Array | None) -> tuple[Array, ...]:
        found = super()._combine(reducer, state, values, active)
        op, of = plain(reducer), reducer.identities[0].dtype
        if op not in ("add", "mul") or not of.is_floating:
            return found
        terms = values[0] if active is None else np.where(active, values[0], arithmetic.neutral(op, of))
        exact = arithmetic.fold(op, _wide(state[0], of), _wide(terms, of))
        return (self._off(found[0], of, exact, exact, max(ULPS, math.sqrt(len(terms)))),)

    def _off(self, found: Array, of: DType, exact: Array | None, operands: Array, ulps: float) -> Array:
        """`found` off by so many roundings where it is not `exact`, up or down by what stands for its operands."""
        wide = _wide(found, of)
        bits = np.atleast_1d(np.asarray(operands, np.float64)).view(np.uint64) * np.uint64(_GOLDEN)
        signs = self.signs[bits >> np.uint64(64 - _POOL_BITS)].reshape(np.shape(operands))
        moved = (wide * (1 + ulps * EPSILON[of] * signs)).astype(found.dtype)
        return moved if exact is None else np.where(wide == exact, found, moved)


def _wide(value: Array, of: DType) -> Array:
    """In a type in which an operation on values of type `of` shows whether it was rounded."""
    if of in HALF:
        return value.astype(np.float32)
    return value.astype(np.float64 if of == FLOAT32 else np.longdouble)


def _inside(index: tuple[Array, ...], shape: tuple[int, ...]) -> tuple[Array, ...]:
    return tuple(np.clip(part, 0, size - 1) for part, size in zip(index, shape, strict=True))
