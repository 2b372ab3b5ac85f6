"""The table from ONNX's operators to the canonical ones, as of opset 13 and later.

row("relu")                            the canonical operator of all operands
row("gelu", approximate="approximate") with attributes by ONNX's names
a function of a `Call`                 where more is to be said
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np

import tensorlang as tl
from tensorlang.graph import Builder, Value

_FAR: Final = 1 << 31
"""What exporters write for the end of an axis is at least this."""


@dataclass(frozen=True, slots=True)
class Call:
    """A node that is translated: its operands, its attributes, what its first result is called, how many results it has."""

    builder: Builder
    target: str
    operands: Sequence[Value | None]
    attributes: Mapping[str, Any]
    name: str
    results: int

    def __getitem__(self, place: int) -> Value:
        """An operand that has to be there."""
        found = self.operand(place)
        if found is None:
            raise tl.GraphError(f"operand {place} is missing")
        return found

    def operand(self, place: int) -> Value | None:
        """An operand, None where it is left out."""
        return self.operands[place] if place < len(self.operands) else None

    def get(self, attribute: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(attribute, default)

    def numbers(self, place: int) -> tuple[int, ...] | None:
        """The elements of an operand that has to be known, None where it is left out."""
        found = self.operand(place)
        if found is None:
            return None
        array = self.builder.array(found)
        if array is None:
            raise tl.GraphError(f"operand {place} ({found}) has to be constant: shapes and axes that a model computes have no translation")
        return tuple(int(number) for number in array.reshape(-1))

    def __call__(self, operator: str, *operands: Any, **attributes: Any) -> Value:
        """A node, named as the model names its result."""
        (made,) = self.builder.node(operator, operands, attributes, self.name)
        return made

    def reshaped(self, value: Value, shape: Sequence[Any]) -> Value:
        """A value under another shape; itself where that is its own."""
        return value if value.shape == tuple(shape) else self("reshape", value, shape=tuple(shape))


Translation: TypeAlias = Callable[[Call], Any]


def row(operator: str, **attributes: str) -> Translation:
    """The canonical operator of all operands, with attributes by ONNX's names where these are given."""

    def translation(call: Call) -> Value:
        return call(operator, *call.operands, **{name: call.attributes[own] for name, own in attributes.items() if own in call.attributes})

    return translation


def folded(operator: str) -> Translation:
    """An operator of two, of any number of operands."""
    return lambda call: reduce(lambda left, right: call(operator, left, right), (call[place] for place in range(len(call.operands))))


def floating(operator: str) -> Translation:
    """An operator whose meaning for integers is another one than ours."""

    def translation(call: Call) -> Value:
        if not call[0].dtype.is_floating:
            raise tl.GraphError(f"{call.target} of {call[0].dtype} has no translation")
        return call(operator, *call.operands)

    return translation


def clip(call: Call) -> Value:
    """Bounds are operands, either of which may be left out."""
    value = call[0]
    value = value if call.operand(1) is None else call("maximum", value, call[1])
    return value if call.operand(2) is None else call("minimum", value, call[2])


def hard_sigmoid(call: Call) -> Value:
    """`clamp(alpha x + beta, 0, 1)`."""
    line = call("add", call("mul", call[0], call.get("alpha", 0.2)), call.get("beta", 0.5))
    return call("clamp", line, min=0.0, max=1.0)


def cast(call: Call) -> Value:
    """Another type; the operand itself where that is its own."""
    dtype = call.get("to") or str(call[1].dtype)
    return call[0] if call[0].dtype == dtype else call("to", call[0], dtype=dtype)


def dropout(call: Call) -> Value:
    """Nothing, unless a model trains."""
    training = call.numbers(2)
    if training and training[0]:
        raise tl.GraphError("training_mode has no translation")
    return call[0]


def reshape(call: Call) -> Value:
    """0 keeps an extent, -1 is what is left."""
    wanted = call.numbers(1) or ()
    keeps = not call.get("allowzero", 0)
    shape = [call[0].shape[axis] if extent == 0 and keeps else extent for axis, extent in enumerate(wanted)]
    return call("reshape", call[0], shape=shape)


def flatten(call: Call) -> Value:
    """Two axes: those before `axis`, and the others."""
    shape, axis = call[0].shape, call.get("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    return call.reshaped(call[0], (math.prod(shape[:axis]), math.prod(shape[axis:])))


def transpose(call: Call) -> Value:
    """Axes in another order; from the last to the first unless one is given."""
    return call("permute", call[0], dims=call.get("perm") or tuple(reversed(range(len(call[0].shape)))))


def squeeze(call: Call) -> Value:
    """Without axes of extent 1."""
    shape, axes = call[0].shape, call.numbers(1)
    gone = {axis % len(shape) for axis in axes} if axes is not None else {axis for axis, extent in enumerate(shape) if extent == 1}
    return call.reshaped(call[0], [extent for axis, extent in enumerate(shape) if axis not in gone])


def unsqueeze(call: Call) -> Value:
    """With new axes of extent 1, at places of the result."""
    axes = call.numbers(1) or ()
    rank, old = len(call[0].shape) + len(axes), iter(call[0].shape)
    new = {axis % rank for axis in axes}
    return call.reshaped(call[0], [1 if axis in new else next(old) for axis in range(rank)])


def expand(call: Call) -> Value:
    """Repeated; an extent of 1 keeps the operand's."""
    wanted, own = call.numbers(1) or (), call[0].shape
    rank = max(len(wanted), len(own))
    pairs = zip((1,) * (rank - len(own)) + own, (1,) * (rank - len(wanted)) + wanted, strict=True)
    return call("expand", call[0], shape=[one if other == 1 else other for one, other in pairs])


def part(call: Call, value: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
    """Elements of an axis, counted as Python counts them."""
    axis, extent = axis % len(value.shape), value.shape[axis]
    if isinstance(extent, int):
        first, last, _ = slice(start, end, step).indices(extent)
        last = max(first, last)
    elif start >= 0 and end >= _FAR:
        first, last = start, extent  # type: ignore[assignment]  # the end of an axis may be a dim
    else:
        raise tl.GraphError(f"elements {start} to {end} of an axis of {extent} elements have no translation")
    return value if (first, last, step) == (0, extent, 1) else call("slice", value, dim=axis, start=first, end=last, step=step)


def cut(call: Call) -> Value:
    """Starts and ends are operands, for these axes, by these steps."""
    starts, ends = call.numbers(1) or (), call.numbers(2) or ()
    axes, steps = call.numbers(3) or tuple(range(len(starts))), call.numbers(4) or (1,) * len(starts)
    if min(steps, default=1) < 1:
        raise tl.GraphError("steps of less than 1 have no translation")
    value = call[0]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        value = part(call, value, axis, start, end, step)
    return value


def split(call: Call) -> tuple[Value, ...]:
    """Pieces of an axis: of these sizes, or as many as there are results."""
    axis, value = call.get("axis", 0), call[0]
    extent = value.shape[axis]
    if not isinstance(extent, int):
        raise tl.GraphError(f"pieces of an axis of {extent} elements have no translation")
    share = -(-extent // call.results)
    sizes = call.numbers(1) or [min(share, extent - share * place) for place in range(call.results)]
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    return tuple(part(call, value, axis, start, start + size) for start, size in zip(starts, sizes, strict=True))


def gather(call: Call) -> Value:
    """Elements of an axis, named by an index of any shape, whose axes stand in its place."""
    value, index, axis = call[0], call[1], call.get("axis", 0) % len(call[0].shape)
    shape = (*value.shape[:axis], *index.shape, *value.shape[axis + 1 :])
    flat = call.reshaped(index, (math.prod(index.shape),))
    return call.reshaped(call("index_select", value, flat, dim=axis), shape)


def shape(call: Call) -> Value:
    """The extents, which have to be numbers."""
    extents = call[0].shape[slice(call.get("start", 0), call.get("end"))]
    if any(not isinstance(extent, int) for extent in extents):
        raise tl.GraphError(f"the extents of {call[0]} as numbers have no translation")
    return call.builder.constant(np.array(extents, np.int64), call.name)


def constant(call: Call) -> Value:
    """A tensor, a number or several, written down in the node."""
    for kind, dtype in (("value", None), ("value_float", "f4"), ("value_floats", "f4"), ("value_int", "i8"), ("value_ints", "i8")):
        if kind in call.attributes:
            return call.builder.constant(np.asarray(call.attributes[kind], dtype), call.name)
    raise tl.GraphError("a constant that is no tensor of numbers has no translation")


def filled(call: Call) -> Value:
    """One number, repeated."""
    number = np.asarray(call.get("value", np.zeros(1, np.float32))).reshape(())
    return call("expand", call.builder.constant(number), shape=call.numbers(0) or ())


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


def _same_sides(call: Call, axes: int) -> tuple[int, ...]:
    """The padding of each axis, which has to be the same on both sides."""
    pads = call.get("pads", (0,) * (2 * axes))
    if call.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or pads[:axes] != pads[axes:] or call.get("ceil_mode", 0):
        raise tl.GraphError("auto_pad, ceil_mode, and padding that differs between sides have no translation")
    return tuple(pads[:axes])


def convolution(call: Call) -> Value:
    """Along one axis or two."""
    axes = len(call[0].shape) - 2
    if axes not in (1, 2):
        raise tl.GraphError(f"a convolution along {axes} axes has no translation")
    windows = {
        "stride": call.get("strides", (1,) * axes),
        "padding": _same_sides(call, axes),
        "dilation": call.get("dilations", (1,) * axes),
    }
    options = windows if axes == 2 else {name: value[0] for name, value in windows.items()}
    return call(f"conv{axes}d", *call.operands, groups=call.get("group", 1), **options)


def batch_norm(call: Call) -> Value:
    """For inference; operands stand in another order."""
    if call.get("training_mode", 0):
        raise tl.GraphError("training_mode has no translation")
    return call("batch_norm", call[0], call[3], call[4], call[1], call[2], eps=call.get("epsilon", 1e-5))


def layer_norm(call: Call) -> Value:
    """Over the axes from `axis` on."""
    over = call[0].shape[call.get("axis", -1) :]
    return call("layer_norm", call[0], call[1], call.operand(2), normalized_shape=over, eps=call.get("epsilon", 1e-5))


def max_pool(call: Call) -> Value:
    """Windows of maxima."""
    options = {"stride": call.get("strides", (1, 1)), "padding": _same_sides(call, 2), "dilation": call.get("dilations", (1, 1))}
    return call("max_pool2d", call[0], kernel_size=call.get("kernel_shape"), **options)


def avg_pool(call: Call) -> Value:
    """Windows of means."""
    if set(call.get("dilations", (1, 1))) != {1}:
        raise tl.GraphError("dilations have no translation")
    options = {"stride": call.get("strides", (1, 1)), "padding": _same_sides(call, 2)}
    return call(
        "avg_pool2d", call[0], kernel_size=call.get("kernel_shape"), count_include_pad=bool(call.get("count_include_pad", 0)), **options
    )


def reduction(operator: str) -> Translation:
    """Over axes that are an operand, or, in older opsets, an attribute; none are all, or none where that is said."""

    def translation(call: Call) -> Value:
        axes = call.numbers(1) or call.get("axes") or ()
        if not axes and call.get("noop_with_empty_axes", 0):
            return call[0]
        options = {"dtype": str(call[0].dtype)} if operator in ("sum", "prod") else {}
        return call(operator, call[0], dim=axes, keepdim=bool(call.get("keepdims", 1)), **options)

    return translation


def extremum(operator: str) -> Translation:
    """The place of the first of equals."""

    def translation(call: Call) -> Value:
        if call.get("select_last_index", 0):
            raise tl.GraphError("select_last_index has no translation")
        return call(operator, call[0], dim=call.get("axis", 0), keepdim=bool(call.get("keepdims", 1)))

    return translation


_SAME_NAME: Final = (
    "Relu", "Tanh", "Sigmoid", "Exp", "Log", "Sqrt", "Abs", "Neg", "Floor", "Ceil", "Round", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos",
    "Atan", "Sinh", "Cosh", "Reciprocal", "Sign", "Softsign", "Softplus", "Mish", "IsNaN", "HardSwish", "Add", "Sub", "Mul", "Where",
    "MatMul",
)  # fmt: skip
_OTHER_NAME: Final = {
    "Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge", "And": "logical_and", "Or": "logical_or",
    "Xor": "logical_xor", "Not": "logical_not",
}  # fmt: skip

TRANSLATIONS: Final[Mapping[str, Translation]] = {
    **{name: row(name.lower()) for name in _SAME_NAME},
    **{name: row(own) for name, own in _OTHER_NAME.items()},
    "Gelu": row("gelu", approximate="approximate"), "Elu": row("elu", alpha="alpha"),
    "LeakyRelu": row("leaky_relu", negative_slope="alpha"),
    "Div": floating("div"), "Pow": floating("pow"), "Max": folded("maximum"), "Min": folded("minimum"), "Clip": clip,
    "HardSigmoid": hard_sigmoid, "Identity": lambda call: call[0], "Dropout": dropout, "Cast": cast, "CastLike": cast,
    "Reshape": reshape, "Flatten": flatten, "Transpose": transpose, "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Expand": expand,
    "Slice": cut, "Split": split, "Gather": gather, "Concat": row("cat", dim="axis"), "Shape": shape, "Constant": constant,
    "ConstantOfShape": filled, "Gemm": gemm, "Conv": convolution, "BatchNormalization": batch_norm, "LayerNormalization": layer_norm,
    "Softmax": lambda call: call("softmax", call[0], dim=call.get("axis", -1)),
    "LogSoftmax": lambda call: call("log_softmax", call[0], dim=call.get("axis", -1)),
    "MaxPool": max_pool, "AveragePool": avg_pool,
    "GlobalAveragePool": lambda call: call("mean", call[0], dim=tuple(range(2, len(call[0].shape))), keepdim=True),
    "ReduceSum": reduction("sum"), "ReduceMean": reduction("mean"), "ReduceMax": reduction("amax"), "ReduceMin": reduction("amin"),
    "ReduceProd": reduction("prod"), "ArgMax": extremum("argmax"), "ArgMin": extremum("argmin"),
}  # fmt: skip
"""By ONNX's names."""
