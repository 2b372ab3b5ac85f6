"""Rows of the table: attention, where it is the operator that kernels are tuned for; all else is what ONNX's function says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import tensorlang as tl
from tensorlang.bridges.onnx.call import Call, Translation
from tensorlang.graph import Value


def attention(call: Call) -> Value:
    """Queries, keys and values of as many heads, without a cache, and with a mask that is added and the same for all."""
    if call.results > 1 or any(call.operand(place) is not None for place in range(4, len(call.operands))) or call.get("softcap", 0.0):
        raise tl.GraphError("attention with a cache, lengths, softcap or several results is read by ONNX's function")
    query, key, value = (_heads(call, place, "q_num_heads" if place == 0 else "kv_num_heads") for place in range(3))
    mask = call.operand(3)
    kinds = {one.dtype for one in (query, key, value)}
    if query.shape[1] != key.shape[1] or kinds - {"float32", "float64"} or len(kinds) > 1:
        raise tl.GraphError("attention of fewer heads of keys, or of half precision, is read by ONNX's function")
    if mask is not None and (mask.shape != (query.shape[2], key.shape[2]) or mask.dtype != query.dtype or call.get("is_causal", 0)):
        raise tl.GraphError("a mask of truth values, or one for each head, is read by ONNX's function")
    if max(call.get("left_window_size", -1), call.get("right_window_size", -1)) >= 0:
        raise tl.GraphError("attention in a window is read by ONNX's function")
    options = {"is_causal": bool(call.get("is_causal", 0)), "scale": call.get("scale")}
    made = call("scaled_dot_product_attention", query, key, value, mask, **options)
    if len(call[0].shape) == 4:
        return made
    turned = call.permuted(made, (0, 2, 1, 3))
    return call.reshaped(turned, (*turned.shape[:2], turned.shape[2] * turned.shape[3]))


def _heads(call: Call, place: int, attribute: str) -> Value:
    """An operand with an axis for heads, (N, heads, length, channels)."""
    value = call[place]
    if len(value.shape) == 4:
        return value
    rows, length, wide = value.shape
    heads = call.needed(attribute)
    if not isinstance(wide, int) or heads < 1 or wide % heads:
        raise tl.GraphError(f"{wide} channels do not fall into {heads} heads")
    return call.permuted(call.reshaped(value, (rows, length, heads, wide // heads)), (0, 2, 1, 3))


ROWS: Final[Mapping[str, Translation]] = {"Attention": attention}
"""By ONNX's names."""
