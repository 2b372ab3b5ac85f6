"""Rows of the table: reductions over axes, and sums along one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import tensorlang as tl
from tensorlang.bridges.onnx.call import Call, Translation
from tensorlang.graph import Value


def axes_of(call: Call) -> tuple[int, ...]:
    """The axes of a reduction: an operand, or, in older opsets, an attribute; all of them where none are named and that is meant."""
    axes = call.numbers(1, "axes") or ()
    rank = len(call[0].shape)
    if not axes and not call.get("noop_with_empty_axes", 0):
        return tuple(range(rank))
    return tuple(call.place(axis, rank) for axis in axes)


def reduced(call: Call, operator: str, value: Value, axes: tuple[int, ...]) -> Value:
    """A canonical reduction of a value; itself over no axes."""
    if not axes:
        return value
    options = {"dtype": str(value.dtype)} if operator in ("sum", "prod") else {}
    return call(operator, value, dim=axes, keepdim=bool(call.get("keepdims", 1)), **options)


def reduction(operator: str) -> Translation:
    """Of numbers; extrema of truth values are `any` and `all`."""

    def translation(call: Call) -> Value:
        axes, value = axes_of(call), call[0]
        if value.dtype == "bool":
            return reduced(call, {"amax": "any", "amin": "all"}.get(operator, operator), value, axes)
        if operator == "mean" and not value.dtype.is_floating:
            return call.cast(call("mean", value, dim=axes, keepdim=bool(call.get("keepdims", 1)), dtype="float64"), value.dtype)
        return reduced(call, operator, value, axes)

    return translation


def norm(power: int) -> Translation:
    """Sums of absolute values, or the root of a sum of squares."""

    def translation(call: Call) -> Value:
        total = reduced(call, "sum", call("abs" if power == 1 else "square", call[0]), axes_of(call))
        if power == 1:
            return total
        wide = total if total.dtype.is_floating else call.cast(total, "float64")
        return call.cast(call("sqrt", wide), call[0].dtype)

    return translation


def log_sum(call: Call) -> Value:
    """The logarithm of a sum."""
    return call("log", reduced(call, "sum", call[0], axes_of(call)))


def log_sum_exp(call: Call) -> Value:
    """The logarithm of a sum of exponentials, which are taken of distances from the largest element."""
    axes, value = axes_of(call), call[0]
    if not axes or 0 in [value.shape[axis] for axis in axes]:
        return call("log", reduced(call, "sum", call("exp", value), axes))
    return call("logsumexp", value, dim=axes, keepdim=bool(call.get("keepdims", 1)))


def sum_square(call: Call) -> Value:
    """A sum of squares."""
    return reduced(call, "sum", call("square", call[0]), axes_of(call))


def extremum(operator: str) -> Translation:
    """The place of the first of equals, or of the last."""

    def translation(call: Call) -> Value:
        axis, keep = call.axis(), bool(call.get("keepdims", 1))
        if not call.get("select_last_index", 0):
            return call(operator, call[0], dim=axis, keepdim=keep)
        last = call.extents(call[0])[axis] - 1
        found = call(operator, call("flip", call[0], dims=(axis,)), dim=axis, keepdim=keep)
        return call("sub", call.builder.scalar(last, str(found.dtype)), found)

    return translation


def cumulative(operator: str) -> Translation:
    """Up to each place, or before it; from either end."""

    def translation(call: Call) -> Value:
        value = call[0]
        axis = call.place(call.number(1, 0), len(value.shape))
        turned = call("flip", value, dims=(axis,)) if call.get("reverse", 0) else value
        found = call(operator, turned, dim=axis)
        if call.get("exclusive", 0):
            widths = tuple((1, 0) if place == axis else (0, 0) for place in range(len(value.shape)))
            padded = call(
                "pad",
                found,
                pad=widths,
                value=(0.0 if operator == "cumsum" else 1.0) if value.dtype.is_floating else int(operator == "cumprod"),
            )
            found = call("slice", padded, dim=axis, start=0, end=value.shape[axis])
        return call("flip", found, dims=(axis,)) if call.get("reverse", 0) else found

    return translation


def largest(call: Call) -> tuple[Value, ...]:
    """The largest or smallest elements of an axis, and where they are."""
    k = call.number(1, 0, "k")
    axis = call.axis(-1)
    extent = call[0].shape[axis]
    if k < 0 or (isinstance(extent, int) and k > extent):
        raise tl.GraphError(f"{k} elements of an axis of {extent}")
    attributes = {"k": k, "dim": axis, "largest": bool(call.get("largest", 1))}
    return call.builder.node("topk", (call[0],), attributes, call.outputs if all(call.outputs) else call.name)


def hardmax(call: Call) -> Value:
    """1 at the first of the largest elements of an axis; in older opsets of all axes from `axis` on."""
    value = call[0]
    axis = call.axis(-1 if call.opset >= 13 else 1)
    shape = value.shape
    if call.opset < 13:
        value = flattened(call, axis)
        axis = 1
    places = call("argmax", value, dim=axis, keepdim=False)
    hot = call("one_hot", places, num_classes=call.extents(value)[axis], dim=axis)
    return call.reshaped(call.cast(hot, value.dtype), shape)


def flattened(call: Call, axis: int) -> Value:
    """The operand as a matrix: axes before `axis`, and the others."""
    shape = call[0].shape
    return call.reshaped(call[0], (math.prod(shape[:axis]), math.prod(shape[axis:])))


def along(operator: str) -> Translation:
    """`softmax` and `log_softmax`: along an axis, in older opsets over all axes from `axis` on."""

    def translation(call: Call) -> Value:
        if call.opset >= 13:
            return call(operator, call[0], dim=call.axis(-1))
        return call.reshaped(call(operator, flattened(call, call.axis(1)), dim=1), call[0].shape)

    return translation


ROWS: Final[Mapping[str, Translation]] = {
    "ReduceSum": reduction("sum"), "ReduceMean": reduction("mean"), "ReduceMax": reduction("amax"), "ReduceMin": reduction("amin"),
    "ReduceProd": reduction("prod"), "ReduceL1": norm(1), "ReduceL2": norm(2), "ReduceLogSum": log_sum, "ReduceLogSumExp": log_sum_exp,
    "ReduceSumSquare": sum_square, "ArgMax": extremum("argmax"), "ArgMin": extremum("argmin"), "CumSum": cumulative("cumsum"),
    "CumProd": cumulative("cumprod"), "TopK": largest, "Hardmax": hardmax, "Softmax": along("softmax"), "LogSoftmax": along("log_softmax"),
}  # fmt: skip
"""By ONNX's names."""
