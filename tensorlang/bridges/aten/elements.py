"""Operators of elements: which type torch computes in, and numbers among the operands."""

from __future__ import annotations

from typing import Any, Final

from tensorlang.bridges.aten.call import Call, Translation
from tensorlang.graph import Value


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


def addition(operator: str) -> Translation:
    """`self + alpha * other`, or `self - alpha * other`."""

    def translation(call: Call) -> Value:
        left, right = (call.as_type(call[name], call.type.dtype) for name in ("self", "other"))
        if call.type.dtype == "bool":  # of truth values, torch's sum is whether one of them holds
            return call("logical_or", left, right)
        if call.arguments.get("alpha", 1) != 1:
            right = call.builder("mul", right, call.as_type(call["alpha"], call.type.dtype))
        return call(operator, left, right)

    return translation


def product(call: Call) -> Value:
    """`self * other`; of truth values, whether both hold."""
    made: Value = converted("logical_and" if call.type.dtype == "bool" else "mul", "self", "other")(call)
    return made


def reverse_subtraction(call: Call) -> Value:
    """`other - self`."""
    if call.arguments.get("alpha", 1) != 1:
        raise call.refuse("alpha= other than 1 has no translation")
    return call("sub", call.as_type(call["other"], call.type.dtype), call.as_type(call["self"], call.type.dtype))


def division(call: Call) -> Value:
    """`self / other`, rounded down or towards 0 where that is asked for."""
    mode = call.arguments.get("rounding_mode")
    operands = [call.as_type(call[name], call.type.dtype) for name in ("self", "other")]
    if mode is None:
        return call("div", *operands)
    if mode == "trunc" and call.type.dtype.is_floating:
        return call("trunc", call.builder("div", *operands))
    return call({"floor": "floor_divide", "trunc": "trunc_divide"}[mode], *operands)


def sign(call: Call) -> Value:
    """-1, 0 or 1; 0 of what is no number."""
    source = call["self"]
    if not call.type.dtype.is_floating:
        return call("sign", source)
    return call("where", call.builder("isnan", source), call.builder.scalar(0, source.dtype), call.builder("sign", source))


def floor_division(call: Call) -> Value:
    """`self // other`."""
    return division(call.changed(rounding_mode="floor"))


def elu(call: Call) -> Value:
    """With both scales that make `selu` of it: `scale * (x > 0 ? x : alpha * (exp(input_scale * x) - 1))`."""
    source, scale, inner = call["self"], call["scale"], call["input_scale"]
    if inner != 1:
        low = call.builder("expm1", call.builder("mul", source, call.as_type(inner, source.dtype)))
        below = call.builder("mul", low, call.as_type(call["alpha"], source.dtype))
        made = call.builder("where", call.builder("gt", source, call.builder.scalar(0, source.dtype)), source, below)
    else:
        made = call("elu", source, alpha=call["alpha"])
    return made if scale == 1 else call("mul", made, call.as_type(scale, source.dtype))


def dropped(call: Call) -> Value:
    """Dropout, which is nothing but in training."""
    source: Value = call[next(iter(call.arguments))]
    train, share = call["train"], call["p"]
    if train and share:
        raise call.refuse("train=True has no translation; export the model after model.eval()")
    return source


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
    return call.as_type(call[next(iter(call.arguments))], call.told().dtype)


def logic(operator: str) -> Translation:
    """An operator of truth: operands as bool."""

    def translation(call: Call) -> Value:
        return call(operator, *(call.as_type(call[name], "bool") for name in ("self", "other")))

    return translation
