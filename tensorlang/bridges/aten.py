"""The table from torch's operators to the canonical ones: a row for each, by the names of torch's schema.

    row("linear", "input", "weight", "bias")          operands by name; attributes as keyword="name in the schema"
    a function of a `Call`                            where more is to be said

What torch spells in several ways comes to one: views by the shape of their result, `addmm` and `mm` as linear layers, products with one
matrix transposed without moving it. A number is an operand without axes, of the type that torch computes in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

import tensorlang as tl
from tensorlang.graph.builder import Builder
from tensorlang.graph.ir import Extent, Type, Value


@dataclass(frozen=True, slots=True)
class Call:
    """A call of torch's that is translated: where to, its arguments by name, and the types of its results (None: no tensor)."""

    builder: Builder
    target: str
    arguments: Mapping[str, Any]
    types: Sequence[Type | None]
    name: str

    def __getitem__(self, argument: str) -> Any:
        return self.arguments[argument]

    @property
    def type(self) -> Type:
        """The type of the (first) result."""
        found = self.types[0]
        assert found is not None
        return found

    def __call__(self, operator: str, *operands: Any, **attributes: Any) -> Value:
        """A node, named after the call."""
        (made,) = self.builder.node(operator, operands, attributes, self.name)
        return made

    def as_type(self, value: Any, dtype: str) -> Value:
        """A tensor or a number as an operand of a type."""
        if not isinstance(value, Value):
            return self.builder.scalar(value, dtype)
        return value if value.dtype == dtype else self.builder("to", value, dtype=dtype)

    def reshaped(self, value: Value, shape: Sequence[Extent]) -> Value:
        """A value under another shape; itself where that is its own."""
        return value if value.shape == tuple(shape) else self("reshape", value, shape=tuple(shape))

    def refuse(self, reason: str) -> tl.GraphError:
        """The error of a call that has no translation."""
        return tl.GraphError(f"{self.target}: {reason}")


Translation: TypeAlias = Callable[[Call], Any]


def row(operator: str, *operands: str, **attributes: str) -> Translation:
    """The canonical operator of these arguments."""

    def translation(call: Call) -> Value:
        return call(operator, *(call[name] for name in operands), **{name: call[own] for name, own in attributes.items()})

    return translation


def converted(operator: str, *operands: str, **attributes: str) -> Translation:
    """The same, of operands in the type of the result: torch's integers become floating point."""

    def translation(call: Call) -> Value:
        given = [call.as_type(call[name], call.type.dtype) for name in operands]
        return call(operator, *given, **{name: call[own] for name, own in attributes.items()})

    return translation


def compared(operator: str) -> Translation:
    """A comparison: operands in the type that both come to."""

    def translation(call: Call) -> Value:
        left, right = call["self"], call["other"]
        dtype = common(left, right)
        return call(operator, call.as_type(left, dtype), call.as_type(right, dtype))

    return translation


_ORDER: Final = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def common(*operands: Any) -> str:
    """The type that torch compares these in: tensors count by type, numbers by kind."""
    tensors = [str(one.dtype) for one in operands if isinstance(one, Value) and one.shape] or [
        str(one.dtype) for one in operands if isinstance(one, Value)
    ]
    most = max(tensors, key=_ORDER.index)
    if any(isinstance(one, float) for one in operands) and not most.startswith(("float", "bfloat")):
        return "float32"
    return "int64" if most == "bool" and any(isinstance(one, int) and not isinstance(one, bool) for one in operands) else most


def same(call: Call) -> Value:
    """What copies, or marks: the operand itself."""
    found: Value = call[next(iter(call.arguments))]
    return found


def reshape(call: Call) -> Value:
    """All that torch calls by the shape that it has in the end: view, flatten, squeeze, unsqueeze, ..."""
    return call.reshaped(call["self"], call.type.shape)


def repeat(call: Call) -> Value:
    """Tiles: new axes that are expanded, then joined."""
    source: Value = call["self"]
    times = call["repeats"]
    shape = (1,) * (len(times) - len(source.shape)) + source.shape
    between = tuple(extent for size in shape for extent in (1, size))
    spread = tuple(extent for count, size in zip(times, shape, strict=True) for extent in (count, size))
    return call.reshaped(call("expand", call.reshaped(source, between), shape=spread), call.type.shape)


def expand(call: Call) -> Value:
    """Repeated to the shape of the result."""
    source: Value = call["self"]
    return source if source.type == call.type else call("expand", source, shape=call.type.shape)


def permuted(call: Call, dims: Sequence[int]) -> Value:
    """Axes in another order."""
    return call("permute", call["self"], dims=tuple(dims))


def transpose(call: Call) -> Value:
    """Two axes that change places."""
    order = list(range(len(call.type.shape)))
    one, other = call["dim0"], call["dim1"]
    order[one], order[other] = order[other], order[one]
    return permuted(call, order)


def part(call: Call, source: Value, dim: int, start: Any, end: Any, step: int = 1) -> Value:
    """Elements of an axis, counted as Python counts them."""
    axis = dim % len(source.shape)
    extent = source.shape[axis]

    def at(place: Any, missing: Any) -> Any:
        if place is None:
            return missing
        if isinstance(place, int) and place < 0:
            place = place + extent
        if isinstance(place, int) and isinstance(extent, int):
            return min(max(place, 0), extent)
        return extent if isinstance(place, int) and place >= 1 << 48 else place

    first, last = at(start, 0), at(end, extent)
    if first == 0 and last == extent and step == 1:
        return source
    return call("slice", source, dim=axis, start=first, end=max(first, last) if isinstance(last, int) else last, step=step)


def select(call: Call) -> Value:
    """One element of an axis, which goes."""
    source, dim, index = call["self"], call["dim"], call["index"]
    place = index + source.shape[dim] if isinstance(index, int) and index < 0 else index
    return call.reshaped(part(call, source, dim, place, place + 1), call.type.shape)


def parts(call: Call) -> tuple[Value, ...]:
    """Pieces of an axis, one after the other: split, chunk."""
    dim, made, start = call["dim"] % len(call["self"].shape), [], 0
    for kind in call.types:
        assert kind is not None
        made.append(part(call, call["self"], dim, start, start + kind.shape[dim]))
        start += kind.shape[dim]  # type: ignore[operator]  # torch gives lists of known length
    return tuple(made)


def unbind(call: Call) -> tuple[Value, ...]:
    """Each element of an axis, which goes."""
    return tuple(
        call.reshaped(part(call, call["self"], call["dim"], place, place + 1), kind.shape)
        for place, kind in enumerate(call.types)
        if kind is not None
    )


def stack(call: Call) -> Value:
    """Tensors along a new axis."""
    dim = call["dim"] % len(call.type.shape)
    shape = (*call.type.shape[:dim], 1, *call.type.shape[dim + 1 :])
    return call("cat", *(call.reshaped(one, shape) for one in call["tensors"]), dim=dim)


def cat(call: Call) -> Value:
    """Tensors one after the other; torch leaves out empty vectors."""
    tensors = [one for one in call["tensors"] if one.shape != (0,)]
    return call("cat", *(call.as_type(one, call.type.dtype) for one in tensors), dim=call["dim"] % len(call.type.shape))


def addition(operator: str) -> Translation:
    """`self + alpha * other`, or `self - alpha * other`."""

    def translation(call: Call) -> Value:
        left, right = (call.as_type(call[name], call.type.dtype) for name in ("self", "other"))
        if call.arguments.get("alpha", 1) != 1:
            right = call.builder("mul", right, call.as_type(call["alpha"], call.type.dtype))
        return call(operator, left, right)

    return translation


def reverse_subtraction(call: Call) -> Value:
    """`other - self`."""
    if call.arguments.get("alpha", 1) != 1:
        raise call.refuse("alpha= other than 1 has no translation")
    return call("sub", call.as_type(call["other"], call.type.dtype), call.as_type(call["self"], call.type.dtype))


def division(call: Call) -> Value:
    """`self / other`, rounded down where that is asked for."""
    mode = call.arguments.get("rounding_mode")
    if mode not in (None, "floor"):
        raise call.refuse(f"rounding_mode={mode!r} has no translation")
    operands = [call.as_type(call[name], call.type.dtype) for name in ("self", "other")]
    if mode is None:
        return call("div", *operands)
    return call("floor", call.builder("div", *operands)) if call.type.dtype.is_floating else call("floor_divide", *operands)


def power(call: Call) -> Value:
    """`self ** exponent`; squares are products."""
    base, exponent = call["self"], call["exponent"]
    if not isinstance(exponent, Value) and exponent == 2:
        return call("square", call.as_type(base, call.type.dtype))
    return call("pow", call.as_type(base, call.type.dtype), call.as_type(exponent, call.type.dtype))


def where(call: Call) -> Value:
    """Of two, by a condition."""
    return call("where", call["condition"], *(call.as_type(call[name], call.type.dtype) for name in ("self", "other")))


def masked_fill(call: Call) -> Value:
    """A value where a mask holds."""
    return call("where", call["mask"], call.as_type(call["value"], call.type.dtype), call["self"])


def clamp(call: Call) -> Value:
    """Between two numbers, or from one on; between tensors by minimum and maximum."""
    low, high = call.arguments.get("min"), call.arguments.get("max")
    source = call.as_type(call["self"], call.type.dtype)
    if not isinstance(low, Value) and not isinstance(high, Value):
        return call("clamp", source, min=low, max=high)
    source = source if low is None else call("maximum", source, call.as_type(low, call.type.dtype))
    return source if high is None else call("minimum", source, call.as_type(high, call.type.dtype))


def hardtanh(call: Call) -> Value:
    """`clamp`, under another name."""
    return call("clamp", call["self"], min=call["min_val"], max=call["max_val"])


def to(call: Call) -> Value:
    """Another type; the operand itself where that is its own."""
    return call.as_type(call[next(iter(call.arguments))], call.type.dtype)


def filled(number: Any) -> Translation:
    """A tensor of one number: a number, repeated."""

    def translation(call: Call) -> Value:
        value = call.arguments.get("fill_value", call.arguments.get("s", number))
        scalar = call.as_type(value, call.type.dtype)
        return call("expand", scalar, shape=call.type.shape) if call.type.shape else scalar

    return translation


def arange(call: Call) -> Value:
    """Numbers one after the other, where their number is known."""
    if not call.type.static:
        raise call.refuse("a range whose length is known only at a call has no translation")
    numbers = np.arange(call.arguments.get("start", 0), call["end"], call.arguments.get("step", 1))
    return call.builder.constant(numbers.astype(call.type.dtype.numpy), call.name)


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
    b, last = call.builder, len(key.shape)
    factor = call["scale"] if call["scale"] is not None else 1 / math.sqrt(query.shape[-1])
    turned = b("permute", key, dims=(*range(last - 2), last - 1, last - 2))
    scores = b("mul", b("matmul", query, turned), b.scalar(factor, query.dtype))
    if mask is not None and mask.dtype == "bool":
        scores = b("where", mask, scores, b.scalar(-math.inf, query.dtype))
    elif mask is not None:
        scores = b("add", scores, mask)
    return call("matmul", b("softmax", scores, dim=-1), value)


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
    """Over the last axes; torch's core form gives statistics besides."""
    made = call("layer_norm", call["input"], call["weight"], call["bias"], normalized_shape=call["normalized_shape"], eps=call["eps"])
    return (made, None, None) if len(call.types) > 1 else made


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
        dims = dims if dims is None or isinstance(dims, tuple) else (dims,)
        source = call.as_type(call["self"], "bool") if operator in ("any", "all") else call["self"]
        return call(operator, source, dim=dims, keepdim=call.arguments.get("keepdim", False), **options)

    return translation


def variance(call: Call) -> Value:
    """`correction` is 1 unless it is given; torch's older form says whether it is."""
    correction = call.arguments.get("correction", 1 if call.arguments.get("unbiased", True) else 0)
    options = {"correction": 1 if correction is None else correction, "keepdim": call.arguments.get("keepdim", False)}
    return call("var", call["self"], dim=call.arguments.get("dim"), **options)


def extremum(operator: str) -> Translation:
    """The place of an extremum; along all axes, of the flat tensor."""

    def translation(call: Call) -> Value:
        source, dim = call["self"], call["dim"]
        if dim is None:
            source, dim = call.reshaped(source, (math.prod(source.shape),)), 0
        return call.reshaped(call(operator, source, dim=dim, keepdim=call["keepdim"]), call.type.shape)

    return translation


def padded(call: Call) -> Value:
    """Elements around: torch counts axes from the last one, and may cut some off."""
    widths, rank = call["pad"], len(call["self"].shape)
    mode, value = call.arguments.get("mode", "constant"), call.arguments.get("value") or 0.0
    if any(width < 0 for width in widths) or mode not in ("constant", "reflect", "replicate", "circular"):
        raise call.refuse("negative widths have no translation")
    pairs = [(widths[place], widths[place + 1]) for place in range(0, len(widths), 2)]
    amounts = (*((0, 0),) * (rank - len(pairs)), *reversed(pairs))
    kind = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    return call("pad", call["self"], pad=amounts, mode=kind, value=float(value))


def upsample(mode: str) -> Translation:
    """The image at the size of the result."""

    def translation(call: Call) -> Value:
        options = {"align_corners": call["align_corners"]} if mode == "bilinear" else {}
        return call("interpolate", call["input"], size=call.type.shape[-2:], mode=mode, **options)

    return translation


_UNARY: Final = (
    "abs", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "hardsigmoid", "hardswish", "isnan", "log", "log10", "log1p", "log2",
    "mish", "neg", "reciprocal", "relu", "relu6", "round", "rsqrt", "sigmoid", "sign", "silu", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
    "acos", "asin", "atan", "isinf", "square",
)  # fmt: skip
_SAME: Final = ("clone", "contiguous", "detach", "detach_", "alias", "lift_fresh_copy", "lift_fresh", "dropout", "feature_dropout", "positive")
_SHAPED: Final = (
    "view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_copy", "squeeze_copy", "unsqueeze_copy",
)  # fmt: skip
_BITS: Final = ("bitwise_and", "bitwise_or", "bitwise_xor")
_LOGIC: Final = ("logical_and", "logical_or", "logical_xor")


def _logic(operator: str) -> Translation:
    def translation(call: Call) -> Value:
        return call(operator, *(call.as_type(call[name], "bool") for name in ("self", "other")))

    return translation


TRANSLATIONS: Final[Mapping[str, Translation]] = {
    f"aten.{name}": translation
    for name, translation in {
        **{name: (converted if name not in ("isnan", "isinf", "relu", "neg", "abs", "sign") else row)(name, "self") for name in _UNARY},
        **dict.fromkeys(_SAME, same),
        **dict.fromkeys(_SHAPED, reshape),
        **{name: compared(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
        **{name: converted(name, "self", "other") for name in ("mul", "maximum", "minimum", "remainder", "floor_divide", *_BITS)},
        **{name: _logic(name) for name in _LOGIC},
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
        "index_select": row("index_select", "self", "index", dim="dim"),
        "full": filled(0), "full_like": filled(0), "zeros": filled(0), "zeros_like": filled(0), "ones": filled(1), "ones_like": filled(1),
        "scalar_tensor": filled(0), "new_zeros": filled(0), "new_ones": filled(1), "new_full": filled(0), "arange": arange,
        "linear": row("linear", "input", "weight", "bias"), "addmm": addmm, "mm": mm, "bmm": row("matmul", "self", "mat2"),
        "matmul": row("matmul", "self", "other"), "scaled_dot_product_attention": attention,
        "convolution": convolution, "conv1d": plain_convolution, "conv2d": plain_convolution, "conv_transpose2d": transposed_convolution,
        "batch_norm": batch_norm, "_native_batch_norm_legit_no_training": batch_norm,
        "layer_norm": layer_norm, "native_layer_norm": layer_norm, "group_norm": group_norm, "native_group_norm": group_norm,
        "rms_norm": row("rms_norm", "input", "weight", normalized_shape="normalized_shape", eps="eps"),
        "softmax": row("softmax", "self", dim="dim"), "_softmax": row("softmax", "self", dim="dim"),
        "log_softmax": row("log_softmax", "self", dim="dim"), "_log_softmax": row("log_softmax", "self", dim="dim"),
        "max_pool2d": max_pool, "max_pool2d_with_indices": max_pool, "avg_pool2d": avg_pool,
        "adaptive_avg_pool2d": adaptive_pool, "_adaptive_avg_pool2d": adaptive_pool,
        "var": variance, "argmax": extremum("argmax"), "argmin": extremum("argmin"),
        "pad": padded, "constant_pad_nd": padded,
        "upsample_nearest2d": upsample("nearest"), "upsample_bilinear2d": upsample("bilinear"),
    }.items()
}  # fmt: skip
"""By the name of torch's packet of overloads."""
