"""Rows of the table: operators of elements."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx.call import Call, Translation, folded, row
from tensorlang.graph import Value


def divide(call: Call) -> Value:
    """Integers are divided towards 0."""
    return call("div" if call[0].dtype.is_floating else "trunc_divide", call[0], call[1])


def power(call: Call) -> Value:
    """The result has the type of the base; powers of integers are computed in float64."""
    base, exponent = call[0], call[1]
    if base.dtype.is_floating:
        return call("pow", base, call.cast(exponent, base.dtype))
    made = call("pow", call.cast(base, "float64"), call.cast(exponent, "float64"))
    return call.cast(made if exponent.dtype.is_floating else call("round", made), base.dtype)


def modulo(call: Call) -> Value:
    """The sign of the divisor, or, `fmod`, of the dividend."""
    return call("fmod" if call.get("fmod", 0) else "remainder", call[0], call[1])


def shift(call: Call) -> Value:
    """To the left or the right."""
    return call("bitwise_left_shift" if call.needed("direction") == "LEFT" else "bitwise_right_shift", call[0], call[1])


def clip(call: Call) -> Value:
    """Bounds are operands, in older opsets attributes; either may be left out."""
    value = call[0]
    low = call.operand(1) if call.operand(1) is not None or call.opset >= 11 else call.get("min")
    high = call.operand(2) if call.operand(2) is not None or call.opset >= 11 else call.get("max")
    value = value if low is None else call("maximum", value, low)
    return value if high is None else call("minimum", value, high)


def hard_sigmoid(call: Call) -> Value:
    """`clamp(alpha x + beta, 0, 1)`."""
    line = call("add", call("mul", call[0], call.get("alpha", 0.2)), call.get("beta", 0.5))
    return call("clamp", line, min=0.0, max=1.0)


def prelu(call: Call) -> Value:
    """A slope for negative elements, repeated as NumPy does."""
    zero = call.builder.scalar(0, str(call[0].dtype))
    return call("where", call("lt", call[0], zero), call("mul", call[0], call[1]), call[0])


def gelu(call: Call) -> Value:
    """By erf or by tanh; the functions of float64 too."""
    return call("gelu", call[0], approximate=call.get("approximate", "none"))


def dropout(call: Call) -> Value | tuple[Value, Value]:
    """Nothing, unless a model trains; the mask is true everywhere."""
    training = call.numbers(2) if call.opset >= 12 else None
    ratio = call.array(1) if training and training[0] and call.opset >= 12 else None
    if training and training[0] and (ratio is None or float(ratio.reshape(())) != 0.0):
        raise tl.GraphError("training_mode with a ratio drops elements by chance, and has no translation")
    if call.results == 1:
        return call[0]
    return call[0], call("expand", call.builder.constant(np.array(True)), shape=call[0].shape)


def is_infinite(call: Call) -> Value:
    """Of either sign, unless one is left out."""
    value, low, high = call[0], call.get("detect_negative", 1), call.get("detect_positive", 1)
    infinite = call("isinf", value)
    if low and high:
        return infinite
    zero = call.builder.scalar(0, str(value.dtype))
    sided = call("gt" if high else "lt", value, zero)
    return call("logical_and", infinite, sided if low or high else call.builder.constant(np.array(False)))


def mean(call: Call) -> Value:
    """Of any number of operands."""
    total = reduce(lambda left, right: call("add", left, right), (call[place] for place in range(len(call.operands))))
    return call("div", total, float(len(call.operands)))


def comparison(operator: str) -> Translation:
    """Of two tensors of one type; truth values are compared as numbers."""

    def translation(call: Call) -> Value:
        left, right = call[0], call[1]
        if left.dtype == "bool" and operator not in ("eq", "ne"):
            left, right = call.cast(left, "uint8"), call.cast(right, "uint8")
        return call(operator, left, right)

    return translation


def shrink(call: Call) -> Value:
    """Towards 0 by a bias; 0 up to a threshold."""
    value, bias, edge = call[0], call.get("bias", 0.0), call.get("lambd", 0.5)
    dtype = str(value.dtype)

    def number(one: float) -> Value:
        return call.builder.scalar(one, dtype)

    above = call("where", call("gt", value, number(edge)), call("sub", value, number(bias)), number(0))
    return call("where", call("lt", value, number(-edge)), call("add", value, number(bias)), above)


def swish(call: Call) -> Value:
    """`x * sigmoid(alpha * x)`."""
    alpha = call.get("alpha", 1.0)
    return call("silu", call[0]) if alpha == 1 else call("mul", call[0], call("sigmoid", call("mul", call[0], alpha)))


def binarizer(call: Call) -> Value:
    """1 above the threshold, else 0."""
    above = call("gt", call[0], call.builder.scalar(call.get("threshold", 0.0), str(call[0].dtype)))
    return call.cast(above, call[0].dtype)


def celu(call: Call) -> Value:
    """`elu` by a scale of the operand."""
    alpha = call.get("alpha", 1.0)
    return call("mul", call("elu", call("div", call[0], alpha), alpha=1.0), alpha) if alpha != 1 else call("elu", call[0])


_SAME_NAME: Final = (
    "Relu", "Tanh", "Sigmoid", "Exp", "Log", "Sqrt", "Abs", "Neg", "Floor", "Ceil", "Round", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos",
    "Atan", "Sinh", "Cosh", "Reciprocal", "Sign", "Softsign", "Softplus", "Mish", "IsNaN", "HardSwish", "Add", "Sub", "Mul", "Where",
    "MatMul", "Acosh", "Asinh", "Atanh",
)  # fmt: skip
_OTHER_NAME: Final = {
    "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor", "Not": "logical_not", "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor", "BitwiseNot": "bitwise_not",
}  # fmt: skip
_COMPARISONS: Final = {"Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge"}

ROWS: Final[Mapping[str, Translation]] = {
    **{name: row(name.lower()) for name in _SAME_NAME},
    **{name: row(own) for name, own in _OTHER_NAME.items()},
    **{name: comparison(own) for name, own in _COMPARISONS.items()},
    "Gelu": gelu, "Elu": row("elu", alpha="alpha"), "Celu": celu, "LeakyRelu": row("leaky_relu", negative_slope="alpha"),
    "Div": divide, "Pow": power, "Mod": modulo, "BitShift": shift,
    "Max": folded("maximum"), "Min": folded("minimum"), "Sum": folded("add"), "Mean": mean, "Clip": clip,
    "HardSigmoid": hard_sigmoid, "PRelu": prelu, "Identity": lambda call: call.operands[0], "Dropout": dropout,
    "Shrink": shrink, "Swish": swish, "IsInf": is_infinite, "ai.onnx.ml.Binarizer": binarizer,
}  # fmt: skip
"""By ONNX's names, those of other domains with the domain."""
