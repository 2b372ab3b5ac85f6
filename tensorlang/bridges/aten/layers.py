"""Layers: products, attention, norms, images at other sizes.

A product with a transposed matrix is a linear layer, and the transposition is undone: that is what `addmm` and `mm` of torch's core are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensorlang.bridges.aten.call import Call, Translation, row
from tensorlang.bridges.aten.training import attention_scores, logarithms
from tensorlang.graph import Value


def addmm(call: Call) -> Value:
    """`self + mat1 @ mat2`: a linear layer, whose weight is `mat2` transposed; a permutation of it before is undone."""
    if call["beta"] != 1 or call["alpha"] != 1 or len(call["self"].shape) != 1:
        made: Value = scaled_sum(row("matmul", "mat1", "mat2"))(call)
        return made
    return call("linear", call["mat1"], transposed(call, call["mat2"]), call["self"])


def scaled_sum(product: Translation) -> Translation:
    """`beta * self + alpha * product`: `addmv`, `addbmm`."""

    def translation(call: Call) -> Value:
        factors = [(call["self"], call["beta"]), (product(call), call["alpha"])]
        scaled = [one if factor == 1 else call.builder("mul", one, call.as_type(factor, one.dtype)) for one, factor in factors]
        if call["beta"] == 0 and scaled[1].type == call.types[0]:  # then `self` is not looked at, whatever it holds
            return scaled[1]
        return call("add", *scaled)

    return translation


def summed_products(call: Call) -> Value:
    """Products of matrices, added up."""
    return call.builder("sum", call.builder("matmul", call["batch1"], call["batch2"]), dim=0)


def mm(call: Call) -> Value:
    """A product; of a transposed matrix, a linear layer."""
    known = call.builder.maker(call["mat2"])
    if known is not None and known.operator == "permute":
        return call("linear", call["self"], transposed(call, call["mat2"]))
    return call("matmul", call["self"], call["mat2"])


def transposed(call: Call, matrix: Value) -> Value:
    """A matrix with its axes changed: what it was made of, if it was made by that."""
    maker = call.builder.maker(matrix)
    if maker is not None and maker.operator == "permute" and len(matrix.shape) == 2 and maker["dims"] == (1, 0):
        return maker.read[0]
    return call.builder("permute", matrix, dims=(1, 0))


def attention(call: Call) -> Value:
    """Scaled dot-product attention; a mask of more than two axes, by its parts. A query whose mask leaves nothing gives 0."""
    query, key, value, mask = (call[name] for name in ("query", "key", "value", "attn_mask"))
    if call["dropout_p"]:
        raise call.refuse("dropout_p= has no translation")
    if call.arguments.get("enable_gqa"):
        key, value = (_shared(call, one, query.shape[-3]) for one in (key, value))
    lead = query.shape[:-2]
    if (mask is None or len(mask.shape) == 2) and key.shape[:-2] == lead == value.shape[:-2]:
        options = {"is_causal": call["is_causal"], "scale": call["scale"]}
        if mask is None:
            return call("scaled_dot_product_attention", query, key, value, **options)
        made = call.builder("scaled_dot_product_attention", query, key, value, mask, **options)
        return _where_any(call, mask if mask.dtype == "bool" else _above(call, mask), made)
    if call["is_causal"]:
        raise call.refuse("is_causal= with a mask has no translation")
    scores = attention_scores(call, query, key, mask, causal=False, scale=call["scale"])
    made = call("matmul", call.builder("softmax", scores, dim=-1), value)
    return made if mask is None else _where_any(call, _above(call, scores), made)


def safe_softmax(call: Call) -> Value:
    """`softmax` whose rows of nothing but -inf are 0."""
    source, dim = call.as_type(call["self"], call.type.dtype), call["dim"]
    return _where_any(call, _above(call, source), call.builder("softmax", source, dim=dim), dim)


def _where_any(call: Call, mask: Value, made: Value, dim: int = -1) -> Value:
    """What was made, and 0 where an axis of a mask leaves nothing."""
    return call("where", call.builder("any", mask, dim=dim, keepdim=True), made, call.builder.scalar(0, made.dtype))


def _above(call: Call, scores: Value) -> Value:
    """Where scores are more than -inf, or no numbers."""
    return call.builder("ne", scores, call.builder.scalar(-math.inf, scores.dtype))


def _shared(call: Call, heads: Value, count: Any) -> Value:
    """Heads that several queries, one after the other, share: repeated to as many."""
    *lead, own, rows, columns = heads.shape
    if own == count:
        return heads
    apart = call.builder("reshape", heads, shape=(*lead, own, 1, rows, columns))
    return call.builder(
        "reshape", call.builder("expand", apart, shape=(*lead, own, count // own, rows, columns)), shape=(*lead, count, rows, columns)
    )


def fused_attention(call: Call) -> Any:
    """As torch's core has it on a CPU: besides the logarithms of sums of exponentials, of which gradients are made."""
    mask, scale = call.arguments.get("attn_mask"), call.arguments.get("scale")
    made = attention(replace(call.changed(attn_mask=mask, scale=scale), types=call.types[:1]))
    scores = attention_scores(call, call["query"], call["key"], mask, call["is_causal"], scale)
    return made, logarithms(call, scores)


def batch_norm(call: Call) -> Any:
    """For inference; torch's core form gives statistics besides."""
    if call.arguments.get("training"):
        raise call.refuse("batch_norm in training has no translation; export the model after model.eval()")
    made = call("batch_norm", call["input"], call["running_mean"], call["running_var"], call["weight"], call["bias"], eps=call["eps"])
    return (made, None, None) if len(call.types) > 1 else made


def layer_norm(call: Call) -> Any:
    """Over the last axes; torch's core form gives statistics besides, which gradients are made of."""
    source, sizes = call["input"], call["normalized_shape"]
    made = call("layer_norm", source, call["weight"], call["bias"], normalized_shape=sizes, eps=call["eps"])
    if len(call.types) == 1:
        return made
    axes = tuple(range(len(source.shape) - len(sizes), len(source.shape)))
    spread = call.builder("var", source, dim=axes, correction=0, keepdim=True)
    root = call.builder("rsqrt", call.builder("add", spread, call.builder.scalar(call["eps"], source.dtype)))
    return made, call.builder("mean", source, dim=axes, keepdim=True), root


def group_norm(call: Call) -> Any:
    """Over groups of channels; torch's core form gives statistics besides."""
    groups = call.arguments.get("num_groups", call.arguments.get("group"))
    made = call("group_norm", call["input"], call["weight"], call["bias"], num_groups=groups, eps=call["eps"])
    return (made, None, None) if len(call.types) > 1 else made


def upsample(mode: str) -> Translation:
    """An image, or a line of one, at the size of the result. Factors that do not come to that size say where elements lie all the same."""

    def translation(call: Call) -> Value:
        source = call["input"] if "input" in call.arguments else call["self"]
        size, axes, said = call.told().shape[2:], len(source.shape) - 2, dict(call.arguments)
        factors = said.get("scale_factors") or [said.get(name) for name in (("scales_h", "scales_w") if axes == 2 else ("scales",))]
        centred = not said.get("align_corners", False)
        if centred and not all(map(_comes_to, source.shape[2:], factors, size)):
            return _resampled(call, source, factors, mode)
        options = {"align_corners": not centred} if mode == "bilinear" else {}
        if axes == 2:
            return call("interpolate", source, size=size, mode=mode, **options)
        image = call.reshaped(source, (*source.shape[:2], 1, *source.shape[2:]))
        return call.reshaped(call("interpolate", image, size=(1, *size), mode=mode, **options), call.type.shape)

    return translation


def _comes_to(extent: Any, factor: float | None, wanted: Any) -> bool:
    whole = factor is not None and factor == int(factor)
    return factor is None or bool(extent * (int(factor) if whole else factor) == wanted)


def _resampled(call: Call, source: Value, factors: Sequence[float], mode: str) -> Value:
    """By tables of places and weights: place `p` of the result lies at `(p + 1/2) / factor - 1/2`, the nearest element at `p / factor`."""
    for axis, (factor, extent, count) in enumerate(zip(factors, source.shape[2:], call.type.shape[2:], strict=True), start=2):
        if not isinstance(extent, int) or not isinstance(count, int):
            raise call.refuse(f"scale_factor={factor} of sizes that are known only at a call has no translation")
        places = np.arange(count)
        spots = places / factor if mode == "nearest" else np.maximum((places + 0.5) / factor - 0.5, 0)
        first = np.minimum(np.floor(spots).astype(np.int64), extent - 1)
        if mode == "nearest":
            source = call("index_select", source, call.builder.constant(first), dim=axis)
            continue
        share = np.minimum(spots - first, 1)
        table = np.stack([first, np.minimum(first + 1, extent - 1)], 1)
        weight = np.stack([1 - share, share], 1).astype(source.dtype.numpy)
        source = call("resample", source, call.builder.constant(table), call.builder.constant(weight), dim=axis)
    return source
