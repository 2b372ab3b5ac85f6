"""Rows of the table: products and norms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

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
    """Products of tensors by Einstein's notation, two at a time, as views, `matmul` and sums."""
    inputs, _, output = call.needed("equation").replace(" ", "").partition("->")
    terms = inputs.split(",")
    values = [call[place] for place in range(len(call.operands))]
    if len(terms) != len(values):
        raise tl.GraphError(f"the equation has {len(terms)} operands, not {len(values)}")
    letters = iter(letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in inputs)
    most = max(len(value.shape) - len(term.replace("...", "")) for term, value in zip(terms, values, strict=True))
    around = "".join(next(letters) for _ in range(max(0, most)))
    spelled = []
    for term, value in zip(terms, values, strict=True):
        count = len(value.shape) - len(term.replace("...", ""))
        spelled.append(term.replace("...", around[len(around) - count :]))
        if len(spelled[-1]) != len(value.shape):
            raise tl.GraphError(f"{term} does not name the axes of {value}")
    if "->" not in call.needed("equation"):
        named = "".join(term.replace("...", "") for term in terms)
        output = around + "".join(sorted(letter for letter in set(named) if named.count(letter) == 1))
    wanted = output.replace("...", around)
    extents: dict[str, Any] = {}
    for term, value in zip(spelled, values, strict=True):
        for letter, extent in zip(term, value.shape, strict=True):
            extents[letter] = extent if extents.get(letter, 1) == 1 else extents[letter]
    everything = "".join(dict.fromkeys("".join([wanted, *spelled])))
    spread = [_spread(call, value, term, everything) for term, value in zip(spelled, values, strict=True)]
    product = spread[0]
    for other in spread[1:]:
        product = call("mul", product, other)
    product = call("expand", product, shape=[extents[letter] for letter in everything])
    over = tuple(range(len(wanted), len(everything)))
    return call("sum", product, dim=over, dtype=str(product.dtype)) if over else product


def _spread(call: Call, value: Value, term: str, everything: str) -> Value:
    """A tensor with an axis for each letter, in their order; a letter that stands twice is a diagonal."""
    while len(set(term)) < len(term):
        letter = next(letter for letter in term if term.count(letter) > 1)
        first, second = (place for place, one in enumerate(term) if one == letter)
        rest = [place for place in range(len(term)) if place not in (first, second)]
        moved = call.permuted(value, (first, second, *rest))
        (extent, _, *shape), count = call.extents(moved), len(term) - 2
        flat = call.reshaped(moved, (extent * extent, *shape))
        value = call("index_select", flat, call.builder.constant(np.arange(extent) * (extent + 1)), dim=0)
        term = letter + "".join(term[place] for place in rest)
        assert len(value.shape) == count + 1
    value = call.permuted(value, [term.index(letter) for letter in everything if letter in term])
    extents = iter(value.shape)
    return call.reshaped(value, [next(extents) if letter in term else 1 for letter in everything])


def batch_norm(call: Call) -> Value | tuple[Value, ...]:
    """For inference, or, `training_mode`, by the statistics of the operand; other statistics than the operand's are cast to its type."""
    value, eps = call[0], call.get("epsilon", 1e-5)
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
    "RMSNormalization": rms_norm, "InstanceNormalization": instance_norm, "LpNormalization": lp_norm, "LRN": local_response,
    "Det": determinant,
}  # fmt: skip
"""By ONNX's names."""
