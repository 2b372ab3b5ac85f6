"""The table from torch's operators to the canonical ones: a row for each, by the names of torch's schema.

    row("linear", "input", "weight", "bias")          operands by name; attributes as keyword="name in the schema"
    converted("mul", "self", "other")                 the same, in the type of the result
    a function of a `Call`                            where more is to be said: in the other files of this folder

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
    dropped,
    elu,
    floor_division,
    hardtanh,
    logic,
    masked_fill,
    power,
    product,
    reverse_subtraction,
    sign,
    to,
    where,
)
from tensorlang.bridges.aten.formulas import copysign, distance, erfc, hypot, ldexp, of_what_is_a_number, rounded
from tensorlang.bridges.aten.layers import (
    addmm,
    attention,
    batch_norm,
    fused_attention,
    group_norm,
    layer_norm,
    mm,
    safe_softmax,
    scaled_sum,
    summed_products,
    upsample,
)
from tensorlang.bridges.aten.moving import (
    arange,
    cat,
    copied,
    expand,
    filled,
    moved,
    padded,
    part,
    parts,
    permuted,
    repeat,
    reshape,
    reversed_axes,
    select,
    stack,
    transpose,
    turned,
    unbind,
)
from tensorlang.bridges.aten.places import bucket, diagonal, indexed, rolled, sampled, sliding
from tensorlang.bridges.aten.reductions import (
    both_ends,
    distances,
    extremum,
    largest,
    largest_few,
    median,
    ranked,
    reduction,
    running,
    sorted_along,
    variance,
    variance_and_mean,
    vector_norm,
)
from tensorlang.bridges.aten.training import attention_gradients, batch_statistics, convolution_gradients, trained_batch_norm
from tensorlang.bridges.aten.windows import (
    adaptive_max,
    adaptive_mean,
    avg_pool,
    convolution,
    max_pool,
    plain_convolution,
    pooling,
    transposed_convolution,
)
from tensorlang.bridges.aten.writes import added_rows, bags, copied_rows, put, reduced, scattered, selected, written

__all__ = ["TRANSLATIONS", "Call", "Translation"]

_UNARY: Final = (
    "abs", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "hardsigmoid", "hardswish", "isnan", "log", "log10", "log1p",
    "log2", "mish", "neg", "reciprocal", "relu", "relu6", "rsqrt", "sigmoid", "silu", "sin", "sinh", "sqrt", "tan", "tanh",
    "trunc", "acos", "asin", "atan", "acosh", "asinh", "atanh", "isinf", "square",
)  # fmt: skip
_SAME: Final = (
    "clone",
    "contiguous",
    "detach",
    "detach_",
    "alias",
    "lift_fresh_copy",
    "lift_fresh",
    "positive",
)
_SHAPED: Final = (
    "view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_copy", "squeeze_copy", "unsqueeze_copy",
    "view_as", "reshape_as", "ravel", "atleast_1d", "atleast_2d", "atleast_3d",
)  # fmt: skip
_BITS: Final = ("bitwise_and", "bitwise_or", "bitwise_xor")
_LOGIC: Final = ("logical_and", "logical_or", "logical_xor")


TRANSLATIONS: Final[Mapping[str, Translation]] = {
    f"aten.{name}": translation
    for name, translation in {
        **{name: (converted if name not in ("isnan", "isinf", "relu", "neg", "abs") else row)(name, "self") for name in _UNARY},
        **dict.fromkeys(_SAME, same),
        **dict.fromkeys(_SHAPED, reshape),
        **{name: compared(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
        **{name: converted(name, "self", "other") for name in ("maximum", "minimum", "remainder", "fmod", "atan2", *_BITS)},
        **{name: logic(name) for name in _LOGIC},
        **{name: reduction(name) for name in ("sum", "mean", "prod", "amax", "amin", "any", "all")},
        "bitwise_not": row("bitwise_not", "self"), "logical_not": lambda call: call("logical_not", call.as_type(call["self"], "bool")),
        "add": addition("add"), "mul": product, "sub": addition("sub"), "rsub": reverse_subtraction, "div": division, "pow": power,
        "where": where, "masked_fill": masked_fill, "clamp": clamp, "clamp_min": clamp, "clamp_max": clamp, "hardtanh": hardtanh,
        "gelu": row("gelu", "self", approximate="approximate"), "leaky_relu": row("leaky_relu", "self", negative_slope="negative_slope"),
        "fmax": of_what_is_a_number("maximum"), "fmin": of_what_is_a_number("minimum"), "copysign": copysign, "hypot": hypot,
        "erfc": erfc, "special_erfc": erfc, "ldexp": ldexp, "round": rounded, "dist": distance,
        "elu": elu, "sign": sign, "floor_divide": floor_division, **dict.fromkeys(("dropout", "feature_dropout", "alpha_dropout"), dropped),
        **dict.fromkeys(("bitwise_left_shift", "__lshift__"), converted("bitwise_left_shift", "self", "other")),
        **dict.fromkeys(("bitwise_right_shift", "__rshift__"), converted("bitwise_right_shift", "self", "other")),
        "softplus": row("softplus", "self", beta="beta", threshold="threshold"),
        "prelu": row("prelu", "self", "weight"), "_prelu_kernel": row("prelu", "self", "weight"),
        "to": to, "_to_copy": to, "type_as": to, "float": to,
        "permute": lambda call: permuted(call, call["dims"]), "t": reversed_axes, "numpy_T": reversed_axes, "mT": turned,
        **dict.fromkeys(("transpose", "swapaxes", "swapdims"), transpose), "movedim": moved, "moveaxis": moved, "copy": copied,
        "expand": expand, "expand_as": expand, "broadcast_to": expand, "repeat": repeat,
        "slice": lambda call: part(call, call["self"], call["dim"], call["start"], call["end"], call["step"]),
        "narrow": lambda call: part(call, call["self"], call["dim"], call["start"], call["start"] + call["length"]),
        "select": select, **dict.fromkeys(("split", "split_with_sizes", "chunk", "tensor_split"), parts),
        "unbind": unbind, "stack": stack, "cat": cat,
        "flip": row("flip", "self", dims="dims"), "roll": rolled, "diagonal": diagonal, "unfold": sliding,
        **{name: converted(name, "self", dim="dim") for name in ("cumsum", "cumprod", "logcumsumexp")},
        "cummax": running("cummax"), "cummin": running("cummin"), "topk": largest_few, "sort": sorted_along, "median": median,
        "kthvalue": ranked, "max": largest("amax", "argmax", "maximum"), "min": largest("amin", "argmin", "minimum"), "aminmax": both_ends,
        "linalg_vector_norm": vector_norm, "_cdist_forward": distances,
        "bucketize": bucket("boundaries", "self"), "searchsorted": bucket("sorted_sequence", "self"),
        "scatter": scattered(), "scatter_add": scattered("add"), "scatter_reduce": reduced, "index_add": added_rows,
        "index_copy": copied_rows, **dict.fromkeys(("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"), sampled),
        "index_put": put, "_unsafe_index_put": put, "_unsafe_index": indexed,
        "slice_scatter": written, "select_scatter": selected, "_embedding_bag_forward_only": bags,
        "embedding": row("embedding", "indices", "weight"), "gather": row("gather", "self", "index", dim="dim"),
        "index": indexed, "index_select": row("index_select", "self", "index", dim="dim"),
        "full": filled(0), **dict.fromkeys(("empty", "empty_like", "new_empty", "empty_strided", "empty_permuted"), filled(0)),
        "full_like": filled(0), "zeros": filled(0), "zeros_like": filled(0), "ones": filled(1), "ones_like": filled(1),
        "scalar_tensor": filled(0), "new_zeros": filled(0), "new_ones": filled(1), "new_full": filled(0), "arange": arange,
        "linear": row("linear", "input", "weight", "bias"), "addmm": addmm,
        "mm": mm, "addmv": scaled_sum(row("matmul", "mat", "vec")), "addbmm": scaled_sum(summed_products),
        "bmm": row("matmul", "self", "mat2"),
        "matmul": row("matmul", "self", "other"), "scaled_dot_product_attention": attention,
        "_scaled_dot_product_flash_attention_for_cpu": fused_attention,
        "_scaled_dot_product_flash_attention_for_cpu_backward": attention_gradients, "convolution_backward": convolution_gradients,
        "_native_batch_norm_legit_functional": trained_batch_norm,
        "convolution": convolution, "conv1d": plain_convolution, "conv2d": plain_convolution, "conv3d": plain_convolution,
        **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), transposed_convolution),
        "_native_batch_norm_legit": batch_statistics,
        "batch_norm": batch_norm, "_native_batch_norm_legit_no_training": batch_norm,
        "layer_norm": layer_norm, "native_layer_norm": layer_norm, "group_norm": group_norm, "native_group_norm": group_norm,
        "rms_norm": row("rms_norm", "input", "weight", normalized_shape="normalized_shape", eps="eps"),
        "softmax": row("softmax", "self", dim="dim"), "_softmax": row("softmax", "self", dim="dim"),
        "_safe_softmax": safe_softmax,
        "log_softmax": row("log_softmax", "self", dim="dim"), "_log_softmax": row("log_softmax", "self", dim="dim"),
        **{f"max_pool{axes}d{places}": pooling(max_pool, axes) for axes in (1, 2, 3) for places in ("", "_with_indices")},
        **{f"avg_pool{axes}d": pooling(avg_pool, axes) for axes in (1, 2, 3)},
        **{f"{hidden}adaptive_avg_pool{axes}d": pooling(adaptive_mean, axes) for axes in (1, 2, 3) for hidden in ("", "_")},
        **{f"adaptive_max_pool{axes}d": pooling(adaptive_max, axes) for axes in (1, 2, 3)},
        "var": variance, "var_mean": variance_and_mean, "argmax": extremum("argmax"), "argmin": extremum("argmin"),
        "pad": padded, "constant_pad_nd": padded,
        "upsample_nearest2d": upsample("nearest"), "upsample_bilinear2d": upsample("bilinear"),
        "upsample_nearest1d": upsample("nearest"), "upsample_linear1d": upsample("bilinear"),
    }.items()
}  # fmt: skip
"""By the name of torch's packet of overloads."""
