"""Rows of the table: conversions, and what is computed with quantised numbers: `(q - zero_point) * scale`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx.call import Call, Coded, Held, Translation
from tensorlang.bridges.onnx.narrow import decoded, encoded, is_narrow
from tensorlang.bridges.onnx.windows import convolved
from tensorlang.graph import Value


def cast(call: Call) -> Held:
    """Another type; the operand itself where that is its own."""
    source = call.operands[0]
    if call.target == "CastLike":
        like = call.operands[1]
        wanted: Any = like.dtype if isinstance(like, Coded) else call[1].dtype.numpy
    else:
        wanted = call.needed("to")
    if isinstance(source, Coded):
        if wanted == source.dtype:
            return source
        if not is_narrow(wanted):
            return decoded(call, source, tl.dtype(wanted))
    if not is_narrow(wanted):
        return call.cast(call[0], tl.dtype(np.dtype(wanted)))
    value = decoded(call, source, "float32") if isinstance(source, Coded) else call[0]
    return encoded(call, value, wanted, saturate=bool(call.get("saturate", 1)), mode=call.get("round_mode", "up"))


def bit_cast(call: Call) -> Held:
    """The same bits as another type: of integers of one width."""
    wanted = np.dtype(call.needed("to"))
    source = call[0].dtype.numpy
    if wanted == source:
        return call[0]
    if is_narrow(wanted) or source.itemsize != wanted.itemsize or source.kind not in "iub" or wanted.kind not in "iu":
        raise tl.GraphError(f"the bits of {source} as {wanted} have no translation; those of integers of one width have")
    return call.cast(call[0], tl.dtype(wanted))


def _plain(call: Call, place: int) -> Value | None:
    """An operand as numbers that are computed with: codes are decoded."""
    found = call.operands[place] if place < len(call.operands) else None
    return decoded(call, found, "float32") if isinstance(found, Coded) else call.operand(place)


def _spread(call: Call, value: Value, like: Value) -> Value:
    """A scale or a zero point beside a tensor: one, one for each place of an axis, or one for each block along it."""
    rank, said, size = len(like.shape), call.get("axis", 1), call.get("block_size", 0)
    if value.shape in ((), (1,)):
        return call.reshaped(value, ())
    axis = call.place(said, rank)
    if len(value.shape) == 1 and rank > 1:
        return call.reshaped(value, [-1 if place == axis else 1 for place in range(rank)])
    if value.shape == like.shape or len(value.shape) != rank:
        return value
    shape = call.extents(value)
    extent = call.extents(like)[axis]
    block = size or -(-extent // shape[axis])
    apart = call.reshaped(value, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    wide = call("expand", apart, shape=(*shape[: axis + 1], block, *shape[axis + 1 :]))
    whole = call.reshaped(wide, (*shape[:axis], shape[axis] * block, *shape[axis + 1 :]))
    return whole if shape[axis] * block == extent else call("slice", whole, dim=axis, start=0, end=extent)


def quantize(call: Call) -> Held:
    """`saturate(round(x / scale) + zero_point)`, in the type of the zero point."""
    value, zero = call[0], call.operands[2] if len(call.operands) > 2 else None
    wanted: Any = zero.dtype if isinstance(zero, Coded) else zero.dtype.numpy if isinstance(zero, Value) else call.get("output_dtype")
    wanted = np.dtype(np.uint8) if wanted is None else np.dtype(wanted)
    kind = call[1].dtype if call.get("precision", 0) == 0 else tl.dtype("float32")
    scale = _spread(call, call.cast(call[1], kind), value)
    return quantized(call, call.cast(value, scale.dtype), scale, None if zero is None else _spread_zero(call, 2, value), wanted)


def _spread_zero(call: Call, place: int, like: Value) -> Value | None:
    found = _plain(call, place)
    return None if found is None else _spread(call, found, like)


def quantized(call: Call, value: Value, scale: Value, zero: Value | None, wanted: Any) -> Held:
    """Numbers as a type, by a scale and a zero point that fit them."""
    if not value.dtype.is_floating:
        value = call.cast(value, "float32")
    off = call("div", value, call.cast(scale, value.dtype))
    if is_narrow(wanted) and "float" in wanted.name:
        return encoded(call, off, wanted, saturate=bool(call.get("saturate", 1)))
    whole = call("round", call.cast(off, "float32"))
    if zero is not None:
        whole = call("add", whole, call.cast(zero, "float32"))
    low, high = _limits(wanted)
    bounded = call("clamp", whole, min=float(low), max=float(high))
    return encoded(call, bounded, wanted) if is_narrow(wanted) else call.cast(bounded, tl.dtype(wanted))


def _limits(wanted: Any) -> tuple[int, int]:
    if is_narrow(wanted):
        bits = int(wanted.name[-1])
        return (0, (1 << bits) - 1) if wanted.name.startswith("u") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if np.dtype(wanted).kind not in "iu":
        raise tl.GraphError(f"numbers are quantised to integers or float8, not to {wanted}")
    info = np.iinfo(wanted)
    return int(info.min), int(info.max)


def dequantize(call: Call) -> Value:
    """`(q - zero_point) * scale`, in the type of the scale."""
    value = _plain(call, 0) or call[0]
    scale = _spread(call, call[1], value)
    zero = _spread_zero(call, 2, value)
    dtype = tl.dtype(np.dtype(call.get("output_dtype") or scale.dtype.numpy))
    off = dequantized(call, value, zero)
    return call.cast(call("mul", call.cast(off, "float32"), call.cast(scale, "float32")), dtype)


def dequantized(call: Call, value: Value, zero: Value | None) -> Value:
    """`q - zero_point`, of integers in int32."""
    if value.dtype.is_floating:
        return value if zero is None else call("sub", value, call.cast(zero, value.dtype))
    wide = call.cast(value, "int32")
    return wide if zero is None else call("sub", wide, call.cast(zero, "int32"))


def _rows(call: Call, zero: Value | None, value: Value) -> Value | None:
    """A zero point for each row of a matrix, beside it."""
    if zero is None or len(zero.shape) != 1 or zero.shape == (1,) or len(value.shape) == 1:
        return None if zero is None else call.reshaped(zero, ()) if zero.shape == (1,) else zero
    return call.reshaped(zero, (zero.shape[0], 1))


def matmul_integer(call: Call) -> Value:
    """A product of integers in int32."""
    left = dequantized(call, call[0], _rows(call, call.operand(2), call[0]))
    return call("matmul", left, dequantized(call, call[1], call.operand(3)))


def conv_integer(call: Call) -> Value:
    """A convolution of integers in int32."""
    weight = call[1]
    zero = call.operand(3)
    if zero is not None and zero.shape not in ((), (1,)):
        zero = call.reshaped(zero, (-1, *(1 for _ in weight.shape[1:])))
    left = dequantized(call, call[0], None if call.operand(2) is None else call.reshaped(call[2], ()))
    return convolved(call, left, dequantized(call, weight, zero), None)


def _scales(call: Call, *values: Value) -> Value:
    product = call.cast(values[0], "float32")
    for value in values[1:]:
        product = call("mul", product, call.cast(value, "float32"))
    return product


def qlinear_matmul(call: Call) -> Held:
    """A product of quantised matrices, quantised again."""
    left = dequantized(call, call[0], _rows(call, call[2], call[0]))
    product = call("matmul", left, dequantized(call, call[3], call[5]))
    left_scale = _rows(call, call[1], call[0]) or call[1]
    real = call("mul", call.cast(product, "float32"), _scales(call, left_scale, call[4]))
    scale, zero = _rows(call, call[6], real) or call[6], _rows(call, call[7], real)
    return quantized(call, real, scale, zero, call[7].dtype.numpy)


def qlinear_conv(call: Call) -> Held:
    """A convolution of quantised images, quantised again."""
    weight = call[3]
    column = (1, -1, *(1 for _ in weight.shape[2:]))

    def spread(value: Value, shape: tuple[int, ...]) -> Value:
        return call.reshaped(value, () if value.shape in ((), (1,)) else shape)

    left = dequantized(call, call[0], call.reshaped(call[2], ()))
    right = dequantized(call, weight, spread(call[5], (-1, *(1 for _ in weight.shape[1:]))))
    product = convolved(call, left, right, None)
    bias = call.operand(8)
    if bias is not None:
        product = call("add", product, call.reshaped(bias, column))
    real = call("mul", call.cast(product, "float32"), _scales(call, call.reshaped(call[1], ()), spread(call[4], column)))
    return quantized(call, real, call.reshaped(call[6], ()), call.reshaped(call[7], ()), call[7].dtype.numpy)


ROWS: Final[Mapping[str, Translation]] = {
    "Cast": cast, "CastLike": cast, "BitCast": bit_cast, "QuantizeLinear": quantize, "DequantizeLinear": dequantize,
    "MatMulInteger": matmul_integer, "ConvInteger": conv_integer, "QLinearMatMul": qlinear_matmul, "QLinearConv": qlinear_conv,
}  # fmt: skip
"""By ONNX's names."""
