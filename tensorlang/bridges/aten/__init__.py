"""The table from torch's operators to the canonical ones: a row for each, by the names of torch's schema.

    row("linear", "input", "weight", "bias")          operands by name; attributes as keyword="name in the schema"
    converted("mul", "self", "other")                 the same, in the type of the result
    a function of a `Call`                            where more is to be said: `elements`, `moving`, `layers`, `training`

What torch spells in several ways comes to one: views by the shape of their result, `addmm` and `mm` as linear layers, products with one
matrix transposed without moving it. A number is an operand without axes, of the type that torch computes in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorlang.bridges.aten.call import Call, Translation, row, same
from tensorlang.bridges.aten.elements import (
    addition,
    clamp,
    compared,
    converted,
    division,
    hardtanh,
    logic,
    masked_fill,
    power,
    reverse_subtraction,
    to,
    where,
)
from tensorlang.bridges.aten.layers import (
    adaptive_pool,
    addmm,
    attention,
    avg_pool,
    batch_norm,
    convolution,
    extremum,
    fused_attention,
    group_norm,
    layer_norm,
    max_pool,
    mm,
    plain_convolution,
    reduction,
    transposed_convolution,
    upsample,
    variance,
    variance_and_mean,
)
from tensorlang.bridges.aten.moving import (
    arange,
    cat,
    expand,
    filled,
    indexed,
    padded,
    part,
    parts,
    permuted,
    repeat,
    reshape,
    select,
    stack,
    transpose,
    unbind,
)
from tensorlang.bridges.aten.training import attention_gradients, convolution_gradients, trained_batch_norm

__all__ = ["TRANSLATIONS", "Call", "Translation"]

_UNARY: Final = (
    "abs", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "hardsigmoid", "hardswish", "isnan", "log", "log10", "log1p",
    "log2", "mish", "neg", "reciprocal", "relu", "relu6", "round", "rsqrt", "sigmoid", "sign", "silu", "sin", "sinh", "sqrt", "tan", "tanh",
    "trunc", "acos", "asin", "atan", "isinf", "square",
)  # fmt: skip
_SAME: Final = (
    "clone",
    "contiguous",
    "detach",
    "detach_",
    "alias",
    "lift_fresh_copy",
    "lift_fresh",
    "dropout",
    "feature_dropout",
    "positive",
)
_SHAPED: Final = (
    "view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_copy", "squeeze_copy", "unsqueeze_copy",
)  # fmt: skip
_BITS: Final = ("bitwise_and", "bitwise_or", "bitwise_xor")
_LOGIC: Final = ("logical_and", "logical_or", "logical_xor")


TRANSLATIONS: Final[Mapping[str, Translation]] = {
    f"aten.{name}": translation
    for name, translation in {
        **{name: (converted if name not in ("isnan", "isinf", "relu", "neg", "abs", "sign") else row)(name, "self") for name in _UNARY},
        **dict.fromkeys(_SAME, same),
        **dict.fromkeys(_SHAPED, reshape),
        **{name: compared(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
        **{name: converted(name, "self", "other") for name in ("mul", "maximum", "minimum", "remainder", "floor_divide", *_BITS)},
        **{name: logic(name) for name in _LOGIC},
        **{name: reduction(name) for name in ("sum", "mean", "prod", "amax", "amin", "any", "all")},
        "bitwise_not": row("bitwise_not", "self"), "logical_not": lambda call: call("logical_not", call.as_type(call["self"], "bool")),
        "add": addition("add"), "sub": addition("sub"), "rsub": reverse_subtraction, "div": division, "pow": power,
        "where": where, "masked_fill": masked_fill, "clamp": clamp, "clamp_min": clamp, "clamp_max": clamp, "hardtanh": hardtanh,
        "gelu": row("gelu", "self", approximate="approximate"), "leaky_relu": row("leaky_relu", "self", negative_slope="negative_slope"),
        "elu": row("elu", "self", alpha="alpha"), "softplus": row("softplus", "self", beta="beta", threshold="threshold"),
        "prelu": row("prelu", "self", "weight"), "_prelu_kernel": row("prelu", "self", "weight"),
        "to": to, "_to_copy": to, "type_as": to, "float": to,
        "permute": lambda call: permuted(call, call["dims"]), "transpose": transpose, "t": lambda call: permuted(call, (1, 0)),
        "expand": expand, "expand_as": expand, "broadcast_to": expand, "repeat": repeat,
        "slice": lambda call: part(call, call["self"], call["dim"], call["start"], call["end"], call["step"]),
        "narrow": lambda call: part(call, call["self"], call["dim"], call["start"], call["start"] + call["length"]),
        "select": select, "split": parts, "split_with_sizes": parts, "chunk": parts, "unbind": unbind, "stack": stack, "cat": cat,
        "flip": row("flip", "self", dims="dims"), "cumsum": converted("cumsum", "self", dim="dim"),
        "embedding": row("embedding", "indices", "weight"), "gather": row("gather", "self", "index", dim="dim"),
        "index": indexed, "index_select": row("index_select", "self", "index", dim="dim"),
        "full": filled(0), "full_like": filled(0), "zeros": filled(0), "zeros_like": filled(0), "ones": filled(1), "ones_like": filled(1),
        "scalar_tensor": filled(0), "new_zeros": filled(0), "new_ones": filled(1), "new_full": filled(0), "arange": arange,
        "linear": row("linear", "input", "weight", "bias"), "addmm": addmm, "mm": mm, "bmm": row("matmul", "self", "mat2"),
        "matmul": row("matmul", "self", "other"), "scaled_dot_product_attention": attention,
        "_scaled_dot_product_flash_attention_for_cpu": fused_attention,
        "_scaled_dot_product_flash_attention_for_cpu_backward": attention_gradients, "convolution_backward": convolution_gradients,
        "_native_batch_norm_legit_functional": trained_batch_norm,
        "convolution": convolution, "conv1d": plain_convolution, "conv2d": plain_convolution, "conv_transpose2d": transposed_convolution,
        "batch_norm": batch_norm, "_native_batch_norm_legit_no_training": batch_norm,
        "layer_norm": layer_norm, "native_layer_norm": layer_norm, "group_norm": group_norm, "native_group_norm": group_norm,
        "rms_norm": row("rms_norm", "input", "weight", normalized_shape="normalized_shape", eps="eps"),
        "softmax": row("softmax", "self", dim="dim"), "_softmax": row("softmax", "self", dim="dim"),
        "log_softmax": row("log_softmax", "self", dim="dim"), "_log_softmax": row("log_softmax", "self", dim="dim"),
        "max_pool2d": max_pool, "max_pool2d_with_indices": max_pool, "avg_pool2d": avg_pool,
        "adaptive_avg_pool2d": adaptive_pool, "_adaptive_avg_pool2d": adaptive_pool,
        "var": variance, "var_mean": variance_and_mean, "argmax": extremum("argmax"), "argmin": extremum("argmin"),
        "pad": padded, "constant_pad_nd": padded,
        "upsample_nearest2d": upsample("nearest"), "upsample_bilinear2d": upsample("bilinear"),
    }.items()
}  # fmt: skip
"""By the name of torch's packet of overloads."""
