"""`reducer`: a new associative, commutative combination, of one value or of several (Welford's variance, online softmax).

The combination is written over expressions, or tuples of them, and becomes data: what it gives over two states. Its laws are tried
when it is first used with a type, since every schedule of a reduction relies on them: on small positive values, and on zero, negative,
large and mixed ones. A component that is given as a number (the 1 of a count) is tried as that number, and as what it combines to.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from tensorlang import ir
from tensorlang.definition.expr import Expr, as_expr, common, convert
from tensorlang.definition.extent import checked_name
from tensorlang.errors import DefinitionError
from tensorlang.ir.dtype import DType
from tensorlang.ir.traverse import dtype_of
from tensorlang.language.reduction import Axes, reduce_over

TRIALS: Final = 96
SMALL: Final = (1, 2, 3, 5)
LARGE: Final = {"float16": 100.0, "bfloat16": 1e4, "float32": 1e4, "float64": 1e6}
TOLERANCE: Final = {"float16": 3e-2, "bfloat16": 2e-1, "float32": 1e-3, "float64": 1e-6}


class CustomReducer:
    """A reducer made by `tl.reducer`: `r(values, axis=k, where=cond)` is an expression, or a tuple of them where it has components."""

    __slots__ = ("_combine", "_identities", "_made", "_samples", "_several", "name")

    def __init__(self, combine: Callable[[Any, Any], Any], identity: object, name: str, samples: object = None) -> None:
        self.name = checked_name(name, "a reducer")
        self._combine = combine
        self._several = isinstance(identity, (tuple, list))
        self._identities = tuple(as_expr(part) for part in (identity if isinstance(identity, (tuple, list)) else (identity,)))
        self._made: dict[tuple[DType, ...], ir.Reducer] = {}
        if not self._identities or not all(isinstance(part.node, ir.Const) for part in self._identities):
            raise DefinitionError(f"the identity of reducer {name} must be a number or a tuple of numbers, not {identity!r:.60}")
        self._samples = _given(samples, len(self._identities), several=self._several, name=name)

    def __call__(self, values: object, axis: Axes, where: object = None) -> Any:
        """The combination of `values` over reduction axes, where `where` holds. Raises `DefinitionError` where a law does not hold."""
        parts = tuple(values) if self._several and isinstance(values, (tuple, list)) else (values,)
        if len(parts) != len(self._identities):
            raise DefinitionError(f"reducer {self.name} takes {len(self._identities)} values, not {len(parts)}")
        operands: list[Expr] = []
        for part, identity in zip(parts, self._identities, strict=True):
            (value, _), _ = common(f"reducer {self.name}", part, identity)
            if not identity.weak and value.dtype != identity.dtype:
                raise DefinitionError(
                    f"reducer {self.name} has states of {identity.dtype} and is given {value!r} ({value.dtype}); use tl.cast"
                )
            operands.append(Expr(value.node, (value,), weak=as_expr(part).weak and identity.weak))
        operands = _in_type_of_others(operands)
        reducer = self._over(tuple(operand.dtype for operand in operands))
        fixed = ((float(operand.node.value),) if isinstance(operand.node, ir.Const) else None for operand in operands)
        check_laws(reducer, tuple(given or constant for given, constant in zip(self._samples, fixed, strict=True)))
        results = tuple(reduce_over(reducer, tuple(operands), axis, where, component) for component in range(len(operands)))
        return results if self._several else results[0]

    def __repr__(self) -> str:
        return f"tl.reducer({self.name})"

    def _over(self, types: tuple[DType, ...]) -> ir.Reducer:
        if types not in self._made:
            self._made[types] = self._written(types)
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


def _in_type_of_others(operands: list[Expr]) -> list[Expr]:
    """The operands, of which plain numbers take the widest type that the others of their kind have; whole ones, else, that of the reals."""
    strong = [operand.dtype for operand in operands if not operand.weak]
    found = []
    for operand in operands:
        own = operand.dtype
        same = [of for of in strong if of.kind == own.kind]
        others = same or [of for of in strong if of.is_floating and own.is_integer]
        found.append(convert(operand, max(others, key=lambda of: of.bits)) if operand.weak and others else operand)
    return found


def reducer(combine: Callable[[Any, Any], Any], identity: object, name: str, samples: object = None) -> CustomReducer:
    """A reducer from `combine(a, b)` over expressions, or over tuples of them where `identity` is a tuple.

    A number in `identity` takes the type of the values, `tl.cast(0, "int32")` fixes it; where the value is a number too (the 1 of a count),
    it takes that of the other components, beside unsigned ones `int64`. `combine` has to be associative and commutative, with the identity
    neutral on both sides, itself included. Where only some values of a type occur (a weight is never negative),
    `samples` are those to try: numbers, or for a tuple one entry for each component, None meaning any. Raises `DefinitionError` for an
    identity that is no number; what it refuses of `combine`, it refuses when the reducer is first used with a type, with the states
    that show it.
    """
    if not callable(combine):
        raise DefinitionError(f"combine of reducer {name} must be a function of two states, not {combine!r:.60}")
    with contextlib.suppress(ValueError):  # a function that does not tell
        try:
            inspect.signature(combine).bind(None, None)
        except TypeError as error:
            raise DefinitionError(f"combine of reducer {name} must take two states, as in lambda a, b: a + b: {error}") from None
    return CustomReducer(combine, identity, name, samples)


def _given(samples: object, parts: int, *, several: bool, name: str) -> tuple[tuple[float, ...] | None, ...]:
    """The samples of each component. Raises `DefinitionError` for anything but numbers."""
    if samples is None:
        return (None,) * parts
    entries = tuple(samples) if several and isinstance(samples, Sequence) else (samples,)
    good = len(entries) == parts and all(
        entry is None
        or (isinstance(entry, Sequence) and entry and all(isinstance(value, (int, float)) and np.isfinite(value) for value in entry))
        for entry in entries
    )
    if not good:
        what = f"{parts} lists of numbers (None for any)" if several else "a list of numbers"
        raise DefinitionError(f"samples of reducer {name} must be {what}, not {samples!r:.60}")
    return tuple(None if entry is None else tuple(entry) for entry in entries)


@cache
def check_laws(reducer: ir.Reducer, samples: tuple[tuple[float, ...] | None, ...]) -> None:
    """Raise `DefinitionError`, with the states that show it, where a reducer breaks its laws; `samples` are the values that occur."""
    types = tuple(identity.dtype for identity in reducer.identities)
    positive = [found or _small(of) for found, of in zip(samples, types, strict=True)]
    mixed = [found or _mixed(of) for found, of in zip(samples, types, strict=True)]
    _check(reducer, types, _drawn(types, positive), strict=True)
    _check(reducer, types, _reached(reducer, _drawn(types, mixed)), strict=False)


def _check(reducer: ir.Reducer, types: tuple[DType, ...], drawn: Sequence[tuple[Any, ...]], *, strict: bool) -> None:
    """Try the laws on states. Where these are not `strict`, a state that no longer is a number shows nothing."""
    a, b, c = drawn
    start = tuple(np.full(TRIALS, identity.value, identity.dtype.numpy) for identity in reducer.identities)

    def law(
        what: str, left: tuple[Any, ...], right: tuple[Any, ...], given: Sequence[tuple[Any, ...]], between: Sequence[Any] = ()
    ) -> None:
        scale = _scale([*given, left, right, *between]) if not strict else np.ones(TRIALS)
        for x, y, of in zip(left, right, types, strict=True):
            bad = np.flatnonzero(~_close(x, y, of, scale) & np.isfinite(scale))
            if bad.size:
                example = ", ".join(f"{letter} = {_state_text(part, bad[0])}" for letter, part in zip("abc", given, strict=False))
                raise DefinitionError(
                    f"reducer {reducer.name}: {what} fails at {example}: {_state_text(left, bad[0])} against {_state_text(right, bad[0])}; "
                    "a reduction may run in any order, so use tl.recurrence or tl.scan for one that has an order, "
                    "or name the values that occur with samples=, of which every component may have each beside all of the others"
                )

    law("combine(identity, identity) == identity", _combined(reducer, start, start), start, [start])
    law("combine(identity, a) == a", _combined(reducer, start, a), a, [a])
    law("combine(a, identity) == a", _combined(reducer, a, start), a, [a])
    ab, bc = _combined(reducer, a, b), _combined(reducer, b, c)
    law("combine(a, b) == combine(b, a)", ab, _combined(reducer, b, a), [a, b])
    left, right = _combined(reducer, ab, c), _combined(reducer, a, bc)
    law("combine(combine(a, b), c) == combine(a, combine(b, c))", left, right, [a, b, c], [ab, bc])


def _small(of: DType) -> tuple[float, ...]:
    return (False, True) if of == "bool" else SMALL


def _mixed(of: DType) -> tuple[float, ...]:
    """Zero, small values of both signs, and large ones: the ends of an integer type, and as far as a product of three goes otherwise."""
    if of == "bool":
        return (False, True)
    if of.is_floating:
        return (0.0, 1.0, 2.0, 5.0, 0.5, -1.0, -2.5, -3.0, LARGE[of], -LARGE[of])
    lowest, highest = int(of.lowest), int(of.highest)
    return tuple(dict.fromkeys((0, 1, 2, 5, *((-1, -3, -7, lowest) if lowest else (highest - 1, highest // 2 + 1)), highest)))


def _drawn(types: tuple[DType, ...], samples: Sequence[tuple[float, ...]]) -> list[tuple[Any, ...]]:
    """Three lists of states."""
    values = list(itertools.islice(itertools.product(*samples), 10**4))
    rng = np.random.default_rng(len(values))
    picked = [[values[n] for n in rng.integers(0, len(values), TRIALS)] for _ in range(3)]
    return [tuple(np.array([state[n] for state in states], of.numpy) for n, of in enumerate(types)) for states in picked]


def _reached(reducer: ir.Reducer, drawn: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The states, every other one combined with another, as in the middle of a reduction."""
    found = []
    for one, other in zip(drawn, (*drawn[1:], drawn[0]), strict=True):
        both = _combined(reducer, one, tuple(np.roll(part, 1) for part in other))
        found.append(tuple(np.where(np.arange(TRIALS) % 2 == 0, x, y) for x, y in zip(one, both, strict=True)))
    return found


def _combined(reducer: ir.Reducer, left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    from tensorlang.semantics.evaluate import combine  # noqa: PLC0415 - the meaning reads definitions

    with np.errstate(all="ignore"):
        return tuple(
            np.broadcast_to(part, left[0].shape).astype(dtype_of(result).numpy)
            for part, result in zip(combine(reducer, left, right), reducer.results, strict=True)
        )


def _scale(states: Sequence[tuple[Any, ...]]) -> Any:
    """The largest magnitude among states, to which roundings are relative; not a number where one of them is none."""
    found = np.ones(TRIALS)
    for state in states:
        for part in state:
            if part.dtype.kind not in "biu":
                found = np.maximum(found, np.abs(part.astype(np.float64)))
    return found


def _close(x: Any, y: Any, of: DType, scale: Any) -> Any:
    if not of.is_floating:
        return x == y
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(wide_x - wide_y) <= TOLERANCE[of] * (scale + np.abs(wide_y))
    return near | (wide_x == wide_y) | (np.isnan(wide_x) & np.isnan(wide_y))


def _state_text(state: tuple[Any, ...], at: int) -> str:
    parts = ", ".join(str(part[at]) for part in state)
    return f"({parts})" if len(state) > 1 else parts
