"""Functions that torch has a name for, and graphs a formula: as accurate as torch's own, special values included."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

from tensorlang.bridges.aten.call import Call, Translation
from tensorlang.bridges.aten.reductions import vector_norm
from tensorlang.graph import Value


def of_what_is_a_number(operator: str) -> Translation:
    """`fmax` and `fmin`: an extremum of two, and the other one where one of them is no number."""

    def translation(call: Call) -> Value:
        x, y = (call.as_type(call[name], call.type.dtype) for name in ("self", "other"))
        if not call.type.dtype.is_floating:
            return call(operator, x, y)
        b = call.builder
        return call("where", b("isnan", x), y, b("where", b("isnan", y), x, b(operator, x, y)))

    return translation


def copysign(call: Call) -> Value:
    """The size of one and the sign of the other, that of -0.0 included, which the reciprocal tells; no number counts as positive."""
    dtype, b = call.type.dtype, call.builder
    size, y = b("abs", call.as_type(call["self"], dtype)), call.as_type(call["other"], dtype)
    zero = b.scalar(0, dtype)
    below = b("logical_or", b("lt", y, zero), b("lt", b("reciprocal", y), zero))
    return call("where", below, b("neg", size), size)


def hypot(call: Call) -> Value:
    """`sqrt(x*x + y*y)` by the larger of both, whose square may be too large; infinite where one is, whatever the other is."""
    dtype, b = call.type.dtype, call.builder
    x, y = (b("abs", call.as_type(call[name], dtype)) for name in ("self", "other"))
    large, small = b("maximum", x, y), b("minimum", x, y)
    share = b("div", small, large)
    made = b("mul", large, b("sqrt", b("add", b("square", share), b.scalar(1, dtype))))
    made = b("where", b("eq", large, b.scalar(0, dtype)), large, made)
    infinite = b("logical_or", b("isinf", x), b("isinf", y))
    return call("where", infinite, b.scalar(math.inf, dtype), made)


_ERFC: Final = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277,
)  # fmt: skip
"""Numerical Recipes in C, 2nd edition, section 6.2: `erfc(x) = t * exp(-x*x + p(t))` with `t = 1 / (1 + x/2)`, relatively to 1.2e-7."""


def erfc(call: Call) -> Value:
    """`1 - erf(x)`, of which the tail keeps its digits. Raises `GraphError` for float64, whose digits the series does not have."""
    dtype, b = call.type.dtype, call.builder
    if dtype == "float64":
        raise call.refuse("of float64 has no translation; 1 - torch.erf(x) has one, and few digits where x is large")
    x = call.as_type(call["self"], "float64")
    number = partial(b.scalar, dtype="float64")
    size = b("abs", x)
    t = b("reciprocal", b("add", b("mul", size, number(0.5)), number(1)))
    series: Any = number(_ERFC[-1])
    for factor in reversed(_ERFC[:-1]):
        series = b("add", b("mul", series, t), number(factor))
    tail = b("mul", t, b("exp", b("sub", series, b("square", size))))
    return call.as_type(b("where", b("lt", x, number(0)), b("sub", number(2), tail), tail), dtype)


def ldexp(call: Call) -> Value:
    """`self * 2**other`."""
    dtype, b = call.type.dtype, call.builder
    return call("mul", call.as_type(call["self"], dtype), b("exp2", call.as_type(call["other"], dtype)))


def rounded(call: Call) -> Value:
    """The nearest number of as many decimals, as torch has it: scaled, rounded and scaled back."""
    decimals, x, b = call.arguments.get("decimals", 0), call["self"], call.builder
    if not decimals or not call.type.dtype.is_floating:
        return call("round", x)
    scale = b.scalar(10.0 ** abs(decimals), call.type.dtype)
    before, after = ("mul", "div") if decimals > 0 else ("div", "mul")
    return call(after, b("round", b(before, x, scale)), scale)


def distance(call: Call) -> Value:
    """`dist`: the norm of all differences."""
    x, y = (call.as_type(call[name], call.type.dtype) for name in ("self", "other"))
    return vector_norm(call.changed(self=call.builder("sub", x, y), ord=call["p"], dim=None, keepdim=False))
