"""Layers: products, convolutions, attention, norms, pooling, reductions.

A product with a transposed matrix is a linear layer, and the transposition is undone: that is what `addmm` and `mm` of torch's core are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensorlang.bridges.aten.call import Call, Translation
from tensorlang.bridges.aten.training import attention_scores, logarithms
from tensorlang.graph import Value


def addmm(call: Call) -> Value:
    """`self + mat1 @ mat2`: a linear layer, whose weight is `mat2` transposed; a permutation of it before is undone."""
    if call["beta"] != 1 or call["alpha"] != 1 or len(call["self"].shape) != 1:
        product = call.builder("matmul", call["mat1"], call["mat2"])
        factors = [(call["self"], call["beta"]), (product, call["alpha"])]
        scaled = [one if factor == 1 else call.builder("mul", one, call.as_type(factor, one.dtype)) for one, factor in factors]
        return call("add", *scaled)
    return call("linear", call["mat1"], transposed(call, call["mat2"]), call["self"])


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
    """Scaled dot-product attention; a mask of more than two axes, by its parts."""
    query, key, value, mask = (call[name] for name in ("query", "key", "value", "attn_mask"))
    if call["dropout_p"] or call.arguments.get("enable_gqa"):
        raise call.refuse("dropout_p= and enable_gqa= have no translation")
    lead = query.shape[:-2]
    if (mask is None or len(mask.shape) == 2) and key.shape[:-2] == lead == value.shape[:-2]:
        options = {"is_causal": call["is_causal"], "scale": call["scale"]}
        return call("scaled_dot_product_attention", query, key, value, mask, **options)
    if call["is_causal"]:
        raise call.refuse("is_causal= with a mask has no translation")
    scores = attention_scores(call, query, key, mask, causal=False, scale=call["scale"])
    return call("matmul", call.builder("softmax", scores, dim=-1), value)


def fused_attention(call: Call) -> Any:
    """As torch's core has it on a CPU: besides the logarithms of sums of exponentials, of which gradients are made."""
    known = {"attn_mask": None, "scale": None} | dict(call.arguments)
    made = attention(Call(call.builder, call.target, known, call.types[:1], call.name))
    scores = attention_scores(call, call["query"], call["key"], known["attn_mask"], call["is_causal"], known["scale"])
    return made, logarithms(call, scores)


def convolution(call: Call) -> Value:
    """A convolution of one or two axes, transposed or not."""
    axes = len(call["input"].shape) - 2
    options = {name: tuple(call[name]) for name in ("stride", "padding", "dilation")} | {"groups": call["groups"]}
    operands = call["input"], call["weight"], call["bias"]
    if axes == 2:
        if not call.arguments.get("transposed"):
            return call("conv2d", *operands, **options)
        return call("conv_transpose2d", *operands, output_padding=tuple(call["output_padding"]), **options)
    if axes == 1 and not call.arguments.get("transposed"):
        return call("conv1d", *operands, **{name: value[0] if isinstance(value, tuple) else value for name, value in options.items()})
    raise call.refuse(f"a convolution along {axes} axes{' that is transposed' * bool(call.arguments.get('transposed'))} has no translation")


def plain_convolution(call: Call) -> Value:
    """The same, with padding by name too."""
    padding, axes = call["padding"], len(call["input"].shape) - 2
    if padding == "same":
        spans = [dilation * (size - 1) for dilation, size in zip(call["dilation"], call["weight"].shape[2:], strict=True)]
        if any(span % 2 for span in spans):
            raise call.refuse("padding='same' that is not the same on both sides has no translation")
        padding = tuple(span // 2 for span in spans)
    widths = (0,) * axes if padding == "valid" else tuple(padding)
    spread = {
        name: tuple(call[name]) * (axes if len(call[name]) == 1 else 1) for name in ("stride", "dilation")
    } | {"padding": widths * (axes if len(widths) == 1 else 1)}  # fmt: skip
    arguments = {**call.arguments, **spread, "transposed": False}
    return convolution(Call(call.builder, call.target, arguments, call.types, call.name))


def transposed_convolution(call: Call) -> Value:
    """The gradient of a convolution as an operator."""
    return convolution(Call(call.builder, call.target, {**call.arguments, "transposed": True}, call.types, call.name))


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


def max_pool(call: Call) -> Any:
    """Windows of maxima, without their places."""
    if call["ceil_mode"]:
        raise call.refuse("ceil_mode= has no translation")
    size = call["kernel_size"]
    options = {name: _spread(call[name]) for name in ("padding", "dilation")}
    made = call("max_pool2d", call["self"], kernel_size=_spread(size), stride=_spread(call["stride"] or size), **options)
    return (made, None) if len(call.types) > 1 else made


def avg_pool(call: Call) -> Value:
    """Windows of means."""
    if call["ceil_mode"] or call["divisor_override"] is not None:
        raise call.refuse("ceil_mode= and divisor_override= have no translation")
    size = call["kernel_size"]
    options = {"padding": _spread(call["padding"]), "count_include_pad": call["count_include_pad"]}
    return call("avg_pool2d", call["self"], kernel_size=_spread(size), stride=_spread(call["stride"] or size), **options)


def _spread(entries: Sequence[int]) -> tuple[int, ...]:
    return tuple(entries) * (2 if len(entries) == 1 else 1)


def adaptive_pool(call: Call) -> Value:
    """Means of windows that share the image evenly; one window is the mean of all."""
    source, size = call["self"], _spread(call["output_size"])
    if size == (1, 1):
        return call("mean", source, dim=(-2, -1), keepdim=True)
    image = source.shape[-2:]
    if any(not isinstance(extent, int) or extent % count for extent, count in zip(image, size, strict=True)):
        raise call.refuse(f"windows that do not share {image} evenly among {size} have no translation")
    window = tuple(extent // count for extent, count in zip(image, size, strict=True))
    return call("avg_pool2d", source, kernel_size=window, stride=window)


def reduction(operator: str) -> Translation:
    """A reduction over the axes that are named, or all."""

    def translation(call: Call) -> Value:
        dims = call.arguments.get("dim")
        options = {"dtype": str(call.type.dtype)} if operator in ("sum", "prod", "mean") and call["self"].dtype != call.type.dtype else {}
        if dims is not None:  # in one order: torch's two spellings differ in it
            dims = tuple(sorted(dim % max(len(call["self"].shape), 1) for dim in (dims if isinstance(dims, tuple) else (dims,))))
        source = call.as_type(call["self"], "bool") if operator in ("any", "all") else call["self"]
        return call(operator, source, dim=dims, keepdim=call.arguments.get("keepdim", False), **options)

    return translation


def variance(call: Call) -> Value:
    """`correction` is 1 unless it is given; torch's older form says whether it is."""
    correction = call.arguments.get("correction", 1 if call.arguments.get("unbiased", True) else 0)
    options = {"correction": 1 if correction is None else correction, "keepdim": call.arguments.get("keepdim", False)}
    return call("var", call["self"], dim=call.arguments.get("dim"), **options)


def variance_and_mean(call: Call) -> tuple[Value, Value]:
    """Both."""
    return variance(call), call("mean", call["self"], dim=call["dim"], keepdim=call.arguments.get("keepdim", False))


def extremum(operator: str) -> Translation:
    """The place of an extremum; along all axes, of the flat tensor."""

    def translation(call: Call) -> Value:
        source, dim = call["self"], call["dim"]
        if dim is None:
            source, dim = call.reshaped(source, (math.prod(source.shape),)), 0
        return call.reshaped(call(operator, source, dim=dim, keepdim=call["keepdim"]), call.type.shape)

    return translation


def upsample(mode: str) -> Translation:
    """The image at the size of the result."""

    def translation(call: Call) -> Value:
        options = {"align_corners": call["align_corners"]} if mode == "bilinear" else {}
        return call("interpolate", call["input"], size=call.type.shape[-2:], mode=mode, **options)

    return translation
