"""Hypothesis generators of small definitions that mean something: every index is in range by construction.

`programs()` gives outputs with operands for them. Data are small multiples of one half, so that short sums and products of floating
point are exact and results can be compared to the last bit, whatever the order of evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import tensorlang as tl
from tensorlang.definition.tensor import Tensor, definitions
from tensorlang.ops.arguments import define

NUMBERS = ("float32", "float64", "int32", "int64", "uint8", "int8", "float16")
EXTENTS = st.integers(1, 6)
Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Program:
    """Outputs, and an array for every placeholder that they reach."""

    outputs: tuple[Tensor, ...]
    feeds: dict[Tensor, Any]


@dataclass(frozen=True)
class Scope:
    """What an expression may use: tensors, and axes with their exclusive upper bounds."""

    tensors: Sequence[Tensor]
    axes: tuple[tuple[Any, int], ...]


def data(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Small values of a type: halves for floating point, -4 to 4 for integers, 0 to 8 without a sign."""
    rng = np.random.default_rng(seed)
    whole = rng.integers(0 if dtype.startswith("u") else -4, 9 if dtype.startswith("u") else 5, shape)
    return (whole / 2 if dtype.startswith("float") else whole).astype(dtype)


def index(draw: Draw, extent: int, axes: tuple[tuple[Any, int], ...]) -> Any:
    """An index expression in `range(extent)`."""
    whole = [axis for axis, size in axes if size <= extent]
    choice = draw(st.sampled_from(("axis", "axis", "shifted", "reversed", "clamped", "wrapped", "literal")))
    if choice == "literal" or not axes:
        return draw(st.integers(0, extent - 1))
    axis, size = draw(st.sampled_from(axes))
    match choice:
        case "clamped":
            return tl.clamp(axis * draw(st.integers(-2, 2)) + draw(st.integers(-3, 3)), 0, extent - 1)
        case "wrapped":
            return (axis + draw(st.integers(0, 3))) % extent
        case "shifted" if size <= extent:
            return axis + draw(st.integers(0, extent - size))
        case "reversed" if size <= extent:
            return extent - 1 - axis
        case _:
            return draw(st.sampled_from(whole)) if whole else axis % extent


def read(draw: Draw, scope: Scope, dtype: str) -> Any:
    """An element of some tensor, as a value of type `dtype`; at times only where a condition keeps it in range."""
    tensor = draw(st.sampled_from(scope.tensors))
    at = [index(draw, int(extent), scope.axes) for extent in tensor.shape]
    if scope.axes and at and draw(st.integers(0, 3)) == 0:
        axis, _ = draw(st.sampled_from(scope.axes))
        position, offset = draw(st.integers(0, len(at) - 1)), draw(st.integers(-2, 2))
        at[position] = axis + offset
        inside = (at[position] >= 0) & (at[position] < int(tensor.shape[position]))
        return tl.select(inside, tl.cast(tensor[tuple(at)], dtype), tl.cast(draw(st.integers(0, 3)), dtype))
    return tl.cast(tensor[tuple(at)], dtype)


def expression(draw: Draw, scope: Scope, dtype: str, depth: int) -> Any:
    """A value of type `dtype`."""
    floating = dtype.startswith("float")
    operators = ["add", "sub", "mul", "minimum", "maximum", "select", "abs", "read", "read", "axis", "literal"]
    operators += [] if floating else ["floordiv", "mod", "and", "xor", "shift"]
    kind = draw(st.sampled_from(operators)) if depth else draw(st.sampled_from(("read", "axis", "literal")))
    if kind == "axis" and scope.axes:
        return tl.cast(draw(st.sampled_from(scope.axes))[0], dtype)
    if kind == "literal" or (kind in ("read", "axis") and not scope.tensors):
        return tl.cast(draw(st.integers(0, 3)), dtype)
    if kind in ("read", "axis"):
        return read(draw, scope, dtype)
    a = expression(draw, scope, dtype, depth - 1)
    if kind == "abs":
        return tl.abs(a)
    b = expression(draw, scope, dtype, depth - 1)
    match kind:
        case "select":
            return tl.select(a < b, b, expression(draw, scope, dtype, depth - 1))
        case "minimum" | "maximum":
            return getattr(tl, kind)(a, b)
        case "shift":
            return a << (b & 3) if draw(st.booleans()) else a >> (b & 3)
        case _:
            return {
                "add": lambda: a + b,
                "sub": lambda: a - b,
                "mul": lambda: a * b,
                "floordiv": lambda: a // b,
                "mod": lambda: a % b,
                "and": lambda: a & b,
                "xor": lambda: a ^ b,
            }[kind]()


def reduction(draw: Draw, scope: Scope, dtype: str) -> Any:
    """A reduction over one or two axes, at times under a condition, in a type that depends on the reducer."""
    sizes = draw(st.lists(EXTENTS, min_size=1, max_size=2))
    starts = [draw(st.sampled_from((0, 0, 1))) for _ in sizes]
    axes = tuple(tl.reduce_axis((start, start + size), name="kl"[n]) for n, (start, size) in enumerate(zip(starts, sizes, strict=True)))
    inner = Scope(scope.tensors, (*scope.axes, *((axis, start + size) for axis, start, size in zip(axes, starts, sizes, strict=True))))
    value = expression(draw, inner, dtype, 1)
    where = axes[0] <= draw(st.sampled_from(inner.axes))[0] + 1 if draw(st.integers(0, 3)) == 0 else None
    reducer = draw(st.sampled_from(("sum", "sum", "max", "min", "argmax", "argmin", "any", "all")))
    if reducer in ("any", "all"):
        value = value > expression(draw, inner, dtype, 0)
    return getattr(tl, reducer)(value, axis=axes, where=where)


@st.composite
def programs(draw: Draw, dtypes: Sequence[str] = NUMBERS, most_stages: int = 3) -> Program:
    """One to `most_stages` stages over one or two operands; the last stage is an output, at times another one too."""
    feeds: dict[Tensor, Any] = {}
    for n in range(draw(st.integers(1, 2))):
        shape, dtype = tuple(draw(st.lists(EXTENTS, min_size=1, max_size=3))), draw(st.sampled_from(dtypes))
        feeds[tl.placeholder(shape, dtype, name="AB"[n])] = data(shape, dtype, draw(st.integers(0, 1 << 16)))
    tensors = list(feeds)
    stages = draw(st.integers(1, most_stages))
    for n in range(stages):
        shape, dtype = tuple(draw(st.lists(EXTENTS, min_size=0, max_size=3))), draw(st.sampled_from(dtypes))

        def body(axes: tuple[Any, ...], shape: tuple[int, ...] = shape, dtype: str = dtype) -> Any:
            scope = Scope(tuple(tensors), tuple(zip(axes, shape, strict=True)))
            match draw(st.sampled_from(("map", "reduce", "mixed"))):
                case "map":
                    return expression(draw, scope, dtype, 2)
                case "reduce":
                    return reduction(draw, scope, dtype)
                case _:
                    return tl.cast(reduction(draw, scope, dtype), dtype) + expression(draw, scope, dtype, 1)

        tensors.append(define(shape, "ijm"[: len(shape)], body, "STU"[n]))
    made = tensors[len(feeds) :]
    outputs = (made[0], made[-1]) if len(made) > 1 and draw(st.booleans()) else (made[-1],)
    return Program(outputs, {tensor: array for tensor, array in feeds.items() if reaches(outputs, tensor)})


def reaches(outputs: tuple[Tensor, ...], operand: Tensor) -> bool:
    """Do the outputs depend on an operand?"""
    return operand.definition in definitions(outputs)
