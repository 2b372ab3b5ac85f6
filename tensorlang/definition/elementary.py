"""The functions of expressions: `select`, `minimum`, `exp`, ... one Python function for each row of `functions`."""

from __future__ import annotations

from functools import partial, reduce

from tensorlang import ir
from tensorlang.definition.expr import Expr, ExprLike, as_expr, binary, common, condition, unary
from tensorlang.errors import DefinitionError
from tensorlang.ir.dtype import BOOL, FLOAT32
from tensorlang.ir.functions import FUNCTIONS


def _call(name: str, *args: ExprLike) -> Expr:
    row = FUNCTIONS[name]
    operands, weak = common(f"tl.{name}", *args)
    kind = operands[0].dtype
    if weak and kind.is_integer:
        operands, kind = [_single(operand) for operand in operands], FLOAT32
    if not kind.is_floating:
        raise DefinitionError(f'tl.{name} of {operands[0]!r} ({kind}) needs floating point; write tl.cast({operands[0]!r}, "float32")')
    result = BOOL if row.gives == "bool" else kind
    return Expr(ir.Call(name, tuple(operand.node for operand in operands), result), tuple(operands), weak=weak and row.gives == "same")


def _single(operand: Expr) -> Expr:
    """A weak integer as float32."""
    node = operand.node
    return as_expr(float(node.value)) if isinstance(node, ir.Const) else Expr(ir.Cast(node, FLOAT32), (operand,))


def select(cond: object, yes: ExprLike, no: ExprLike) -> Expr:
    """`yes` where `cond`, else `no`. Only the chosen side is read, so it need only be in bounds where it is chosen."""
    test = condition(cond, "the first argument of tl.select")
    (a, b), weak = common("tl.select", yes, no)
    return Expr(ir.Select(test.node, a.node, b.node), (test, a, b), weak=weak)


def minimum(a: ExprLike, b: ExprLike, *more: ExprLike) -> Expr:
    """The least of two or more; NaN if one is NaN, as `numpy.minimum`."""
    return reduce(partial(binary, "min"), more, binary("min", a, b))


def maximum(a: ExprLike, b: ExprLike, *more: ExprLike) -> Expr:
    """The greatest of two or more; NaN if one is NaN, as `numpy.maximum`."""
    return reduce(partial(binary, "max"), more, binary("max", a, b))


def fmin(a: ExprLike, b: ExprLike) -> Expr:
    """The lesser; the other one if one is NaN, as `numpy.fmin`."""
    return binary("fmin", a, b)


def fmax(a: ExprLike, b: ExprLike) -> Expr:
    """The greater; the other one if one is NaN, as `numpy.fmax`."""
    return binary("fmax", a, b)


def clamp(x: ExprLike, lo: ExprLike, hi: ExprLike) -> Expr:
    """`minimum(maximum(x, lo), hi)`."""
    if lo is None or hi is None:
        raise DefinitionError("tl.clamp has two ends; where there is one write tl.maximum(x, lo) or tl.minimum(x, hi)")
    return minimum(maximum(x, lo), hi)


def abs(x: ExprLike) -> Expr:
    """The magnitude; the least integer wraps to itself."""
    return unary("abs", x)


def sign(x: ExprLike) -> Expr:
    """-1, 0 or 1 in x's type; NaN stays, and either zero gives 0, as `numpy.sign`."""
    value = as_expr(x)
    if value.dtype == BOOL:
        raise DefinitionError(f'tl.sign of {value!r}: there is no arithmetic on bool; write tl.cast(..., "int32")')
    if value.dtype.kind == "unsigned":
        return minimum(value, 1)
    return select(value > 0, 1, select(value < 0, -1, select(value == 0, 0, value)))


def exp(x: ExprLike) -> Expr:
    """e ** x."""
    return _call("exp", x)


def exp2(x: ExprLike) -> Expr:
    """2 ** x."""
    return _call("exp2", x)


def expm1(x: ExprLike) -> Expr:
    """e ** x - 1, accurate near 0."""
    return _call("expm1", x)


def log(x: ExprLike) -> Expr:
    """Natural logarithm; -inf at 0, NaN below."""
    return _call("log", x)


def log2(x: ExprLike) -> Expr:
    """Logarithm to base 2."""
    return _call("log2", x)


def log10(x: ExprLike) -> Expr:
    """Logarithm to base 10."""
    return _call("log10", x)


def log1p(x: ExprLike) -> Expr:
    """log(1 + x), accurate near 0."""
    return _call("log1p", x)


def sqrt(x: ExprLike) -> Expr:
    """Square root; NaN below 0."""
    return _call("sqrt", x)


def rsqrt(x: ExprLike) -> Expr:
    """1 / sqrt(x)."""
    return _call("rsqrt", x)


def sin(x: ExprLike) -> Expr:
    """Sine of radians."""
    return _call("sin", x)


def cos(x: ExprLike) -> Expr:
    """Cosine of radians."""
    return _call("cos", x)


def tan(x: ExprLike) -> Expr:
    """Tangent of radians."""
    return _call("tan", x)


def asin(x: ExprLike) -> Expr:
    """Arc sine in radians, in [-pi/2, pi/2]; NaN outside [-1, 1]."""
    return _call("asin", x)


def acos(x: ExprLike) -> Expr:
    """Arc cosine in radians, in [0, pi]; NaN outside [-1, 1]."""
    return _call("acos", x)


def atan(x: ExprLike) -> Expr:
    """Arc tangent in radians, in [-pi/2, pi/2]."""
    return _call("atan", x)


def atan2(y: ExprLike, x: ExprLike) -> Expr:
    """The angle of the point (x, y) in radians, in [-pi, pi]; signed zeros and infinities as C's atan2."""
    return _call("atan2", y, x)


def sinh(x: ExprLike) -> Expr:
    """Hyperbolic sine."""
    return _call("sinh", x)


def cosh(x: ExprLike) -> Expr:
    """Hyperbolic cosine."""
    return _call("cosh", x)


def tanh(x: ExprLike) -> Expr:
    """Hyperbolic tangent."""
    return _call("tanh", x)


def sigmoid(x: ExprLike) -> Expr:
    """1 / (1 + exp(-x))."""
    return _call("sigmoid", x)


def erf(x: ExprLike) -> Expr:
    """The error function."""
    return _call("erf", x)


def pow(x: ExprLike, y: ExprLike) -> Expr:
    """x ** y, as C's pow."""
    return _call("pow", x, y)


def floor(x: ExprLike) -> Expr:
    """The greatest integer <= x, in x's type."""
    return _call("floor", x)


def ceil(x: ExprLike) -> Expr:
    """The least integer >= x, in x's type."""
    return _call("ceil", x)


def round(x: ExprLike) -> Expr:
    """The nearest integer, halves to even, in x's type."""
    return _call("round", x)


def trunc(x: ExprLike) -> Expr:
    """x towards zero, in x's type."""
    return _call("trunc", x)


def isnan(x: ExprLike) -> Expr:
    """Is x not a number?"""
    return _call("isnan", x)


def isinf(x: ExprLike) -> Expr:
    """Is x plus or minus infinity?"""
    return _call("isinf", x)


def isfinite(x: ExprLike) -> Expr:
    """Is x neither infinite nor NaN?"""
    return _call("isfinite", x)
