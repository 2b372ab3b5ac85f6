"""What a model in training needs besides: statistics of batches, and the gradients that torch has as operators of their own.

All other gradients torch takes apart into operators of the forward direction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.bridges.aten.call import Call
from tensorlang.bridges.aten.windows import spread
from tensorlang.graph import Value


def batch_statistics(call: Call) -> tuple[Value, Value, Value]:
    """By the statistics of the batch, and these: what `instance_norm` is made of."""
    if not call["training"] or call.arguments.get("running_mean") is not None:
        raise call.refuse("training=False, and statistics that are written to, have no translation")
    return _by_statistics(call)[:3]


def _by_statistics(call: Call) -> tuple[Value, Value, Value, Value]:
    b, source = call.builder, call["input"]
    axes = (0, *range(2, len(source.shape)))
    mean, var = b("mean", source, dim=axes), b("var", source, dim=axes, correction=0)
    root = b("rsqrt", _plus(call, var, call["eps"]))
    return call("batch_norm", source, mean, var, call["weight"], call["bias"], eps=call["eps"]), mean, root, var


def trained_batch_norm(call: Call) -> tuple[Value, ...]:
    """By the statistics of the batch; besides these, and what the running ones become."""
    if not call["training"]:
        raise call.refuse("training=False has no translation")
    b, source = call.builder, call["input"]
    count = math.prod(source.shape[axis] for axis in (0, *range(2, len(source.shape))))
    if not isinstance(count, int) or count < 2:
        raise call.refuse("a batch of a size that is known only at a call, or of one element, has no translation")
    made, mean, root, var = _by_statistics(call)
    share = call["momentum"]
    running = [
        b("add", _times(call, old, 1 - share), _times(call, new, share))
        for old, new in ((call["running_mean"], mean), (call["running_var"], _times(call, var, count / (count - 1))))
    ]
    return made, mean, root, *running


def _plus(call: Call, value: Value, number: float) -> Value:
    return call.builder("add", value, call.builder.scalar(number, value.dtype))


def _times(call: Call, value: Value, number: float) -> Value:
    return call.builder("mul", value, call.builder.scalar(number, value.dtype))


def convolution_gradients(call: Call) -> tuple[Value | None, ...]:
    """Of the input, a transposed convolution; of the weight, one of channels as batches; of the bias, a sum."""
    grad, source, weight = call["grad_output"], call["input"], call["weight"]
    if len(source.shape) != 4 or call["transposed"] or any(call["output_padding"]) or call["groups"] != 1:
        raise call.refuse("gradients of convolutions that have groups, are transposed or not of images have no translation")
    options = [spread(call[name], 2) for name in ("stride", "padding", "dilation")]
    wanted = call["output_mask"]
    return (
        _of_input(call, grad, source, weight, *options) if wanted[0] else None,
        _of_weight(call, grad, source, weight, *options) if wanted[1] else None,
        call.builder("sum", grad, dim=(0, 2, 3)) if wanted[2] else None,
    )


def _of_input(call: Call, grad: Value, source: Value, weight: Value, stride: Any, padding: Any, dilation: Any) -> Value:
    """The image has rows after the last window where the stride does not divide what is left: `output_padding`."""
    reached = [
        (extent - 1) * step - 2 * width + spread * (size - 1) + 1
        for extent, step, width, spread, size in zip(grad.shape[2:], stride, padding, dilation, weight.shape[2:], strict=True)
    ]
    rest = tuple(extent - end for extent, end in zip(source.shape[2:], reached, strict=True))
    options = {"stride": stride, "padding": padding, "output_padding": rest, "dilation": dilation}
    return call.builder("conv_transpose2d", grad, weight, **options)


def _of_weight(call: Call, grad: Value, source: Value, weight: Value, stride: Any, padding: Any, dilation: Any) -> Value:
    """`sum_n input[n, c] * grad[n, o]`: a convolution of (C, N, H, W) by (O, N, Y, X), stride and dilation having changed places."""
    b, turned = call.builder, (1, 0, 2, 3)
    made = b(
        "conv2d", b("permute", source, dims=turned), b("permute", grad, dims=turned), stride=dilation, padding=padding, dilation=stride
    )  # fmt: skip
    for axis in (2, 3):  # rows after the last window
        if made.shape[axis] != weight.shape[axis]:
            made = b("slice", made, dim=axis, start=0, end=weight.shape[axis])
    return b("permute", made, dims=turned)


def _factor(query: Value, scale: float | None) -> float:
    channels = query.shape[-1]
    if scale is not None:
        return scale
    if not isinstance(channels, int):
        raise tl.GraphError("attention of channels whose number is known only at a call has no translation without scale=")
    return 1 / math.sqrt(channels)


def attention_scores(call: Call, query: Value, key: Value, mask: Value | None, causal: bool, scale: float | None) -> Value:
    """`query @ key^T * scale + mask`: (..., L, S)."""
    b, last = call.builder, len(key.shape)
    factor = _factor(query, scale)
    turned = b("permute", key, dims=(*range(last - 2), last - 1, last - 2))
    scores = _times(call, b("matmul", query, turned), factor)
    if causal:
        rows, columns = scores.shape[-2:]
        if not isinstance(rows, int) or not isinstance(columns, int):
            raise call.refuse("is_causal= of sizes that are known only at a call has no translation")
        mask = b.constant(np.tri(rows, columns, dtype=np.bool_), "causal")
    if mask is None:
        return scores
    if mask.dtype == "bool":
        return b("where", mask, scores, b.scalar(-math.inf, query.dtype))
    return b("add", scores, mask)


def logarithms(call: Call, scores: Value) -> Value:
    """`log(sum(exp(scores)))` of the rows, by their largest: (..., L)."""
    b = call.builder
    most = b("amax", scores, dim=-1, keepdim=True)
    total = b("sum", b("exp", b("sub", scores, most)), dim=-1, keepdim=True)
    return call.reshaped(b("add", b("log", total), most), scores.shape[:-1])


def attention_gradients(call: Call) -> tuple[Value, Value, Value]:
    """Of query, key and value: the probabilities again, from the logarithms, and the gradient of a softmax (Dao et al. 2022, alg. 4)."""
    if call["dropout_p"]:
        raise call.refuse("dropout_p= has no translation")
    b, scale = call.builder, call.arguments.get("scale")
    names = ("grad_out", "query", "key", "value", "out", "logsumexp")
    grad, query, key, value, out, logs = (call[name] for name in names)
    factor = _factor(query, scale)
    scores = attention_scores(call, query, key, call.arguments.get("attn_mask"), call["is_causal"], scale)
    column = (*query.shape[:-1], 1)
    chances = b("exp", b("sub", scores, call.reshaped(logs, column)))
    rows = b("sum", b("mul", grad, out), dim=-1, keepdim=True)
    turn = (*range(len(query.shape) - 2), len(query.shape) - 1, len(query.shape) - 2)
    change = b("sub", b("matmul", grad, b("permute", value, dims=turn)), rows)
    inner = _times(call, b("mul", chances, change), factor)
    return (
        b("matmul", inner, key),
        b("matmul", b("permute", inner, dims=turn), query),
        b("matmul", b("permute", chances, dims=turn), grad),
    )
