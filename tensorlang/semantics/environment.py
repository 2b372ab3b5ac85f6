"""Where the evaluator evaluates an expression: lanes, of which some count, and what a reduction may do with them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tensorlang.algebra.ranges import is_fixed
from tensorlang.errors import InternalError
from tensorlang.ir import Binary, Const, Param, ReduceAxis, Reducer, Select
from tensorlang.ir.traverse import dtype_of, walk
from tensorlang.semantics import arithmetic
from tensorlang.semantics.arithmetic import HALF, Array


@dataclass(frozen=True, slots=True)
class Environment:
    """Where an expression is evaluated: the values of axes and parameters over `shape`, and the lanes that count."""

    shape: tuple[int, ...]
    axes: dict[str, Array]
    active: Array | None = None
    params: dict[str, Array] = field(default_factory=dict)

    def where(self, cond: Array) -> Environment:
        """The lanes in which `cond` holds too."""
        return replace(self, active=cond if self.active is None else self.active & cond)


def is_plain(axis: ReduceAxis) -> bool:
    """Does an axis have the same range everywhere?"""
    return is_fixed(axis.lo) and is_fixed(axis.hi)


def clipped_index(index: tuple[Array, ...], shape: tuple[int, ...], active: Array | None, what: str) -> tuple[Array, ...]:
    """An index that is inside in the lanes that count; where a lane is masked, any index will do."""
    found = []
    for part, size in zip(index, shape, strict=True):
        outside = (part < 0) | (part >= size)
        if outside.any():
            if active is None or (outside & active).any():
                raise InternalError(f"a checked definition reads {what} outside its shape {shape}")
            part = np.where(outside, 0, part)  # noqa: PLW2901 - the lane is masked
        found.append(part)
    return tuple(found)


def with_leading_axis(value: Array, shape: tuple[int, ...]) -> Array:
    """`value`, which may lack axes or have them of length 1, as an array whose first axis has the length of `shape`'s."""
    full = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
    return np.broadcast_to(full, (shape[0], *full.shape[1:]))


def is_exact(reducer: Reducer) -> bool:
    """Is a reducer made of choices and integers alone, so that the order of an associative combination cannot show?"""
    return all(
        not dtype_of(node).is_floating
        or isinstance(node, (Const, Param, Select))
        or (isinstance(node, Binary) and node.op in arithmetic.ASSOCIATIVE)
        for result in reducer.results
        for node in walk(result)
    )


def plain(reducer: Reducer) -> str | None:
    """The operation of a reducer that is `a0 op b0` and not in half precision."""
    match reducer.results:
        case (Binary(op, Param("a0", dtype), Param("b0", _)),) if dtype not in HALF:
            return op
        case _:
            return None
