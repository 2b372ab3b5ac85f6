"""Rows of the table: products and norms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import tensorlang as tl
from tensorlang.bridges.onnx.call import Call, Translation
from tensorlang.graph import Value


def gemm(call: Call) -> Value:
    """`alpha A B + beta C`, factors transposed or not: a linear layer where C is a bias for each column."""
    left = call("permute", call[0], dims=(1, 0)) if call.get("transA") else call[0]
    bias, alpha, beta = call.operand(2), call.get("alpha", 1.0), call.get("beta", 1.0)
    weight = call[1] if call.get("transB") else call("permute", call[1], dims=(1, 0))
    if alpha == beta == 1 and (bias is None or bias.shape == weight.shape[:1]):
        return call("linear", left, weight, bias)
    product = call("linear", left, weight)
    product = product if alpha == 1 else call("mul", product, alpha)
    return product if bias is None else call("add", product, bias if beta == 1 else call("mul", bias, beta))


def einsum(call: Call) -> Value:
    """Products of tensors by Einstein's notation; axes of one letter that differ are repeated first."""
    terms = call.needed("equation").replace(" ", "").partition("->")[0].split(",")
    values = [call[place] for place in range(len(call.operands))]
    if len(terms) != len(values):
        raise tl.GraphError(f"the equation has {len(terms)} operands, not {len(values)}")
    named = [(value.shape, dict(_letters(term, len(value.shape)))) for term, value in zip(terms, values, strict=True)]
    extents: dict[object, Any] = {}
    for shape, letters in named:
        for axis, letter in letters.items():
            extents[letter] = shape[axis] if extents.get(letter, 1) == 1 else extents[letter]
    wide = [
        call("expand", value, shape=[extents[letters[axis]] for axis in range(len(shape))])
        if any(shape[axis] != extents[letter] for axis, letter in letters.items())
        else value
        for value, (shape, letters) in zip(values, named, strict=True)
    ]
    return call.cast(call("einsum", *wide, equation=call.needed("equation")), values[0].dtype)


def _letters(term: str, rank: int) -> list[tuple[int, object]]:
    """What each axis of an operand is called; those of "..." are counted from the back."""
    before, dots, after = term.partition("...")
    count = rank - len(before) - len(after)
    if count < 0 or (count and not dots):
        raise tl.GraphError(f"{term!r:.60} does not name the axes of an operand of {rank}")
    return list(enumerate([*before, *range(-count, 0), *after]))


def batch_norm(call: Call) -> Value | tuple[Value, ...]:
    """For inference, or, `training_mode`, by the statistics of the operand; other statistics than the operand's are cast to its type."""
    value, eps = call[0], call.get("epsilon", 1e-5)
    if not call.get("spatial", 1):
        raise tl.GraphError("statistics of each place have no translation; spatial is 1")
    scale, bias, mean, var = (call[place] for place in range(1, 5))
    if not call.get("training_mode", 0):
        kept = (call.cast(one, value.dtype) for one in (mean, var, scale, bias))
        return call("batch_norm", value, *kept, eps=eps)
    over = (0, *range(2, len(value.shape)))
    seen = call("mean", value, dim=over), call("var", value, dim=over, correction=0)
    momentum = call.get("momentum", 0.9)
    running = tuple(
        call("add", call("mul", old, momentum), call("mul", new, 1.0 - momentum)) for old, new in zip((mean, var), seen, strict=True)
    )
    return (call("batch_norm", value, *seen, scale, bias, eps=eps), *running)


def layer_norm(call: Call) -> Value:
    """Over the axes from `axis` on, where the weight has their shape and nobody asks for statistics; else ONNX's function is read."""
    axis = call.axis(-1)
    over = call[0].shape[axis:]
    if call.results > 1 or call[1].shape != over or (call.operand(2) is not None and call[2].shape != over):
        raise tl.GraphError("statistics, and weights of another shape than the axes, have no translation")
    return call("layer_norm", call[0], call[1], call.operand(2), normalized_shape=over, eps=call.get("epsilon", 1e-5))


def rms_norm(call: Call) -> Value:
    """As `layer_norm`."""
    over = call[0].shape[call.axis(-1) :]
    if call[1].shape != over or call[1].dtype != call[0].dtype:
        raise tl.GraphError("weights of another shape than the axes have no translation")
    return call("rms_norm", call[0], call[1], normalized_shape=over, eps=call.get("epsilon", 1e-5))


def instance_norm(call: Call) -> Value:
    """Each channel of each image by itself."""
    channels = call[0].shape[1]
    if not isinstance(channels, int):
        raise tl.GraphError(f"{channels} channels have no translation")
    return call("group_norm", call[0], call[1], call[2], num_groups=channels, eps=call.get("epsilon", 1e-5))


def group_norm(call: Call) -> Value:
    """With a weight for each channel, as since opset 21."""
    value = call[0]
    if call.opset < 21 or {one.dtype for one in (value, call[1], call[2])} != {value.dtype}:
        raise tl.GraphError("a weight for each group, or of another type, is read by ONNX's function")
    return call("group_norm", value, call[1], call[2], num_groups=call.needed("num_groups"), eps=call.get("epsilon", 1e-5))


def lp_norm(call: Call) -> Value:
    """Divided by a norm along an axis; 0 where that is 0."""
    axis, value = call.axis(-1), call[0]
    if call.get("p", 2) == 1:
        length = call("sum", call("abs", value), dim=axis, keepdim=True)
    else:
        length = call("sqrt", call("sum", call("square", value), dim=axis, keepdim=True))
    zero = call.builder.scalar(0, str(value.dtype))
    safe = call("where", call("eq", length, zero), call.builder.scalar(1, str(value.dtype)), length)
    return call("div", value, safe)


def local_response(call: Call) -> Value:
    """Divided by a power of the sum of squares of neighbouring channels."""
    size, value = call.needed("size"), call[0]
    (n, c, *spatial) = call.extents(value)
    flat = call.reshaped(call("square", value), (n, 1, c, math.prod(spatial)))
    padding = (((size - 1) // 2, size - 1 - (size - 1) // 2), (0, 0))
    mean = call("avg_pool", flat, kernel_size=(size, 1), stride=(1, 1), padding=padding, count_include_pad=True)
    scaled = call("add", call("mul", call.reshaped(mean, value.shape), call.get("alpha", 1e-4)), call.get("bias", 1.0))
    return call("div", value, call("pow", scaled, call.get("beta", 0.75)))


def determinant(call: Call) -> Value:
    """By minors: of small matrices."""
    *lead, rows, columns = call.extents(call[0])
    if rows != columns or not 1 <= rows <= 4:
        raise tl.GraphError(f"the determinant of {rows} by {columns} elements has no translation; up to 4 by 4 has")

    def entry(row: int, column: int) -> Value:
        part = call("slice", call("slice", call[0], dim=-2, start=row, end=row + 1), dim=-1, start=column, end=column + 1)
        return call.reshaped(part, lead)

    def minor(row: int, kept: tuple[int, ...]) -> Value:
        total: Value | None = None
        for sign, column in enumerate(kept):
            rest = tuple(one for one in kept if one != column)
            term = call("mul", entry(row, column), minor(row + 1, rest)) if rest else entry(row, column)
            total = term if total is None else call("sub" if sign % 2 else "add", total, term)
        assert total is not None
        return total

    return minor(0, tuple(range(rows)))


ROWS: Final[Mapping[str, Translation]] = {
    "Gemm": gemm, "Einsum": einsum, "BatchNormalization": batch_norm, "LayerNormalization": layer_norm,
    "RMSNormalization": rms_norm, "InstanceNormalization": instance_norm,
    "GroupNormalization": group_norm, "LpNormalization": lp_norm, "LRN": local_response,
    "Det": determinant,
}  # fmt: skip
"""By ONNX's names."""
