"""`reducer`: a new associative, commutative combination, of one value or of several (Welford's variance, online softmax).

The combination is written over expressions, or tuples of them, and becomes data: what it gives over two states. Its laws are tried on
small values when it is first used with a type, since every schedule of a reduction relies on them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from tensorlang import ir
from tensorlang.dtype import DType
from tensorlang.errors import DefinitionError
from tensorlang.expr import Expr, as_expr, common, convert
from tensorlang.extent import checked_name
from tensorlang.reduction import Axes, reduce_over
from tensorlang.traverse import dtype_of

TRIALS: Final = 96
SAMPLES: Final = (1, 2, 3, 5)
TOLERANCE: Final = {"float16": 3e-2, "bfloat16": 2e-1, "float32": 1e-3, "float64": 1e-6}


class CustomReducer:
    """A reducer made by `tl.reducer`: `r(values, axis=k, where=cond)` is an expression, or a tuple of them where it has components."""

    __slots__ = ("_combine", "_identities", "_made", "_several", "name")

    def __init__(self, combine: Callable[[Any, Any], Any], identity: object, name: str) -> None:
        self.name = checked_name(name, "a reducer")
        self._combine = combine
        self._several = isinstance(identity, (tuple, list))
        self._identities = tuple(as_expr(part) for part in (identity if isinstance(identity, (tuple, list)) else (identity,)))
        self._made: dict[tuple[DType, ...], ir.Reducer] = {}
        if not self._identities or not all(isinstance(part.node, ir.Const) for part in self._identities):
            raise DefinitionError(f"the identity of reducer {name} must be a number or a tuple of numbers, not {identity!r:.60}")

    def __call__(self, values: object, axis: Axes, where: object = None) -> Any:
        """The combination of `values` over reduction axes, where `where` holds. Raises `DefinitionError` where a law does not hold."""
        parts = tuple(values) if self._several and isinstance(values, (tuple, list)) else (values,)
        if len(parts) != len(self._identities):
            raise DefinitionError(f"reducer {self.name} takes {len(self._identities)} values, not {len(parts)}")
        operands = []
        for part, identity in zip(parts, self._identities, strict=True):
            (value, _), _ = common(f"reducer {self.name}", part, identity)
            if not identity.weak and value.dtype != identity.dtype:
                raise DefinitionError(
                    f"reducer {self.name} has states of {identity.dtype} and is given {value!r} ({value.dtype}); use tl.cast"
                )
            operands.append(value)
        reducer = self._over(tuple(operand.dtype for operand in operands))
        results = tuple(reduce_over(reducer, tuple(operands), axis, where, component) for component in range(len(operands)))
        return results if self._several else results[0]

    def __repr__(self) -> str:
        return f"tl.reducer({self.name})"

    def _over(self, types: tuple[DType, ...]) -> ir.Reducer:
        if types not in self._made:
            made = self._written(types)
            check_laws(made)
            self._made[types] = made
        return self._made[types]

    def _written(self, types: tuple[DType, ...]) -> ir.Reducer:
        def side(letter: str) -> Any:
            params = tuple(Expr(ir.Param(f"{letter}{n}", of)) for n, of in enumerate(types))
            return params if self._several else params[0]

        found = self._combine(side("a"), side("b"))
        parts = tuple(as_expr(part) for part in (found if isinstance(found, (tuple, list)) else (found,)))
        if len(parts) != len(types):
            raise DefinitionError(f"reducer {self.name} combines states of {len(types)} parts into {len(parts)}")
        results = []
        for part, of in zip(parts, types, strict=True):
            result = convert(part, of) if part.weak else part
            if result.dtype != of:
                raise DefinitionError(f'reducer {self.name} combines two {of} into {result!r} ({result.dtype}); write tl.cast(..., "{of}")')
            results.append(result.node)
        starts = [convert(part, of).node for part, of in zip(self._identities, types, strict=True)]
        return ir.Reducer(self.name, tuple(start for start in starts if isinstance(start, ir.Const)), tuple(results))


def reducer(combine: Callable[[Any, Any], Any], identity: object, name: str) -> CustomReducer:
    """A reducer from `combine(a, b)` over expressions, or over tuples of them where `identity` is a tuple.

    A number in `identity` takes the type of the values, `tl.cast(0, "int32")` fixes it. `combine` has to be associative and commutative,
    with the identity neutral on both sides, itself included. Raises `DefinitionError` for an identity that is no number; what it refuses
    of `combine`, it refuses when the reducer is first used with a type.
    """
    if not callable(combine):
        raise DefinitionError(f"combine of reducer {name} must be a function of two states, not {combine!r:.60}")
    return CustomReducer(combine, identity, name)


@cache
def check_laws(reducer: ir.Reducer) -> None:
    """Raise `DefinitionError`, with an example, where a reducer breaks its laws on small values."""
    types = tuple(identity.dtype for identity in reducer.identities)
    values = list(itertools.islice(itertools.product(*(_samples(of) for of in types)), 4**4))
    rng = np.random.default_rng(len(values))
    a, b, c = (_states(types, [values[n] for n in rng.integers(0, len(values), TRIALS)]) for _ in range(3))
    start = tuple(np.full(TRIALS, identity.value, identity.dtype.numpy) for identity in reducer.identities)
    start_alone = tuple(part[:1] for part in start)

    def law(what: str, left: tuple[Any, ...], right: tuple[Any, ...], *given: tuple[Any, ...]) -> None:
        for x, y, of in zip(left, right, types, strict=True):
            bad = np.flatnonzero(~_close(x, y, of))
            if bad.size:
                example = ", ".join(f"{letter} = {_spelled(part, bad[0])}" for letter, part in zip("abc", given, strict=False))
                raise DefinitionError(
                    f"reducer {reducer.name}: {what} fails at {example}: {_spelled(left, bad[0])} against {_spelled(right, bad[0])}; "
                    "a reduction may run in any order, so use tl.recurrence or tl.scan for one that has an order"
                )

    law("combine(identity, identity) == identity", _combined(reducer, start_alone, start_alone), start_alone, start_alone)
    law("combine(identity, a) == a", _combined(reducer, start, a), a, a)
    law("combine(a, identity) == a", _combined(reducer, a, start), a, a)
    law("combine(a, b) == combine(b, a)", _combined(reducer, a, b), _combined(reducer, b, a), a, b)
    left, right = _combined(reducer, _combined(reducer, a, b), c), _combined(reducer, a, _combined(reducer, b, c))
    law("combine(combine(a, b), c) == combine(a, combine(b, c))", left, right, a, b, c)


def _samples(of: DType) -> tuple[Any, ...]:
    return (False, True) if of == "bool" else SAMPLES


def _states(types: tuple[DType, ...], samples: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(np.array([sample[n] for sample in samples]).astype(of.numpy) for n, of in enumerate(types))


def _combined(reducer: ir.Reducer, left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    from tensorlang.interpret import combine  # noqa: PLC0415 - the meaning reads definitions

    return tuple(
        np.broadcast_to(part, left[0].shape).astype(dtype_of(result).numpy)
        for part, result in zip(combine(reducer, left, right), reducer.results, strict=True)
    )


def _close(x: Any, y: Any, of: DType) -> Any:
    if not of.is_floating:
        return x == y
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    return np.isclose(wide_x, wide_y, rtol=TOLERANCE[of], atol=TOLERANCE[of], equal_nan=True)


def _spelled(state: tuple[Any, ...], at: int) -> str:
    parts = ", ".join(str(part[at]) for part in state)
    return f"({parts})" if len(state) > 1 else parts
