"""The equations of `simplify`, one a row: what it says, the pattern of its left side, what stands for it, and whether every bit holds.

A row without `exact` is an equation of real numbers: it may round otherwise, or differ where something is NaN, infinite or a negative
zero. The bits of a NaN itself do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

import tensorlang as tl
from tensorlang.graph.builder import Rewriter
from tensorlang.graph.ir import Array, Value
from tensorlang.graph.pattern import Absent, Attr, Match, Op, Pattern, Tensor

After: TypeAlias = "Callable[[Rewriter, Match], Value | None]"


@dataclass(frozen=True, eq=False)
class Equation:
    """`after` gives what stands for the root of `before`, or None where the equation does not hold; so does another type."""

    says: str
    before: Pattern
    after: After
    exact: bool = True


x, y, z = Tensor().bind("x"), Tensor().bind("y"), Tensor().bind("z")
bias = Tensor().bind("bias") | Absent()
a, b = Tensor(constant=True).bind("a"), Tensor(constant=True).bind("b")


def _op(name: str, *args: Any, **attributes: Any) -> Pattern:
    """A node that others may read too: it stays there for them."""
    return Op(name, args=args, **attributes).shared()


def _alone(name: str, *args: Any) -> Pattern:
    """A node that nobody else reads, so that it goes."""
    return Op(name, args=args)


def _number(number: float) -> Pattern:
    return Tensor(constant=float(number))


def _same(made: Rewriter, match: Match) -> Value:
    return made[match["x"]]


def _of(operator: str, *names: str) -> After:
    """An operator of what is bound to names."""
    return lambda made, match: made(operator, *(made[match[name]] for name in names or ("x",)))


def _zero(negative: bool) -> After:
    """The other operand, where the constant zero has this sign; zeros of integers have none."""

    def after(made: Rewriter, match: Match) -> Value | None:
        held = match.array("a")
        signs = np.signbit(held) if held.dtype.kind == "f" else np.broadcast_to(negative, held.shape)
        return made[match["x"]] if held.dtype.kind in "iuf" and bool(np.all(signs == negative)) else None

    return after


def _by_reciprocal(exact: bool) -> After:
    """A product with the reciprocal of a constant; exact where that is a power of two."""

    def after(made: Rewriter, match: Match) -> Value | None:
        held = match.array("a")
        if held.dtype.kind != "f" or match["a"].dtype == "bfloat16":
            return None
        with np.errstate(all="ignore"):
            inverse = (held.dtype.type(1) / held).astype(held.dtype)
        powers = np.abs(np.frexp(held)[0]) == 0.5
        normal = np.isfinite(inverse) & (np.abs(inverse) >= np.finfo(held.dtype).tiny)
        if not np.all(normal) or (exact and not np.all(powers)):
            return None
        return made("mul", made[match["x"]], inverse)

    return after


def _combined(operator: str, fn: Callable[[Array, Array], Array]) -> After:
    """One operator with what two constants come to."""

    def after(made: Rewriter, match: Match) -> Value | None:
        with np.errstate(all="ignore"):
            held = fn(match.array("a"), match.array("b"))
        fits = match["a"].dtype != "bfloat16" and held.size == max(match.array("a").size, match.array("b").size)
        return made(operator, made[match["x"]], held.astype(match.array("a").dtype)) if fits else None

    return after


def _square_root_of(power: float) -> After:
    return _of("sqrt") if power > 0 else _of("rsqrt")


def _permuted_twice(made: Rewriter, match: Match) -> Value:
    first, second = match["first"], match["second"]
    return made("permute", made[match["x"]], dims=tuple(first[axis] for axis in second))


def _not_permuted(made: Rewriter, match: Match) -> Value | None:
    return made[match["x"]] if list(match["first"]) == sorted(match["first"]) else None


def _reshaped_in_order(made: Rewriter, match: Match) -> Value | None:
    """A permutation that moves axes of one element alone changes no order."""
    moved = [axis for axis in match["first"] if match["x"].shape[axis] != 1]
    return made("reshape", made[match["x"]], shape=match["second"]) if moved == sorted(moved) else None


def _viewed(operator: str, attribute: str) -> After:
    """The outer one of two views of a kind, of what the inner one looks at."""

    def after(made: Rewriter, match: Match) -> Value:
        return made(operator, made[match["x"]], **{attribute: match["second"]})

    return after


def _layer_of_rows(made: Rewriter, match: Match) -> Value | None:
    """A layer of all rows in one axis, of the rows as they were: what is around it joins it without views between them."""
    if match["x"].shape[-1] != match["y"].shape[-1]:
        return None
    return made("linear", made[match["x"]], made[match["y"]], made[match["bias"]] if "bias" in match else None)


def _expanded_twice(made: Rewriter, match: Match) -> Value:
    return made("expand", made[match["x"]], shape=match.root.shape)


def _cast_once(made: Rewriter, match: Match) -> Value | None:
    start, between, end = match["x"].dtype, tl.dtype(match["first"]), tl.dtype(match["second"])
    to_integer = start.is_floating and not end.is_floating and end != "bool"
    return made("to", made[match["x"]], dtype=match["second"]) if holds(between, start) and not to_integer else None


MANTISSA: Final = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
RANGE: Final = {"float16": 5, "bfloat16": 8, "float32": 8, "float64": 11}


def holds(wide: tl.DType, narrow: tl.DType) -> bool:
    """Is every value of one type one of another?"""
    if narrow in (wide, "bool"):
        return True
    if wide == "bool":
        return False
    if narrow.is_floating:
        one, other = str(narrow), str(wide)
        return other in MANTISSA and one in MANTISSA and MANTISSA[one] <= MANTISSA[other] and RANGE[one] <= RANGE[other]
    limits = np.iinfo(narrow.numpy)
    if wide.is_floating:
        return limits.bits - (limits.min < 0) <= MANTISSA[str(wide)]
    own = np.iinfo(wide.numpy)
    return bool(own.min <= limits.min and limits.max <= own.max)


EQUATIONS: Final[tuple[Equation, ...]] = (
    Equation("x * 1 = x", _op("mul", x, _number(1)), _same),
    Equation("x / 1 = x", _op("div", x, _number(1)), _same),
    Equation("x + (-0) = x", _op("add", x, _number(0) & a), _zero(negative=True)),
    Equation("x - 0 = x", _op("sub", x, _number(0) & a), _zero(negative=False)),
    Equation("x ** 1 = x", _op("pow", x, _number(1)), _same),
    Equation("x ** 2 = x * x", _op("pow", x, _number(2)), _of("square")),
    Equation("x ** -1 = 1 / x", _op("pow", x, _number(-1)), _of("reciprocal")),
    Equation("1 / x is a reciprocal", _op("div", _number(1), x), _of("reciprocal")),
    Equation("x / 2^n = x * 2^-n", _op("div", x, a), _by_reciprocal(exact=True)),
    Equation("-(-x) = x", _op("neg", _op("neg", x)), _same),
    Equation("x + (-y) = x - y", _op("add", x, _op("neg", y)), _of("sub", "x", "y")),
    Equation("x - (-y) = x + y", _op("sub", x, _op("neg", y)), _of("add", "x", "y")),
    Equation("(-x) * (-y) = x * y", _op("mul", _op("neg", x), _op("neg", y)), _of("mul", "x", "y")),
    Equation("|-x| = |x|", _op("abs", _op("neg", x)), _of("abs")),
    Equation("||x|| = |x|", _op("abs", _op("abs", x)), _of("abs")),
    Equation("(-x)^2 = x^2", _op("square", _op("neg", x)), _of("square")),
    Equation("|x|^2 = x^2", _op("square", _op("abs", x)), _of("square")),
    Equation("relu(relu(x)) = relu(x)", _op("relu", _op("relu", x)), _of("relu")),
    Equation("max(x, x) = x", _op("maximum", x, x), _same),
    Equation("min(x, x) = x", _op("minimum", x, x), _same),
    Equation("x if c else x = x", _op("where", y, x, x), _same),
    Equation("not not x = x", _op("logical_not", _op("logical_not", x)), _same),
    Equation("~~x = x", _op("bitwise_not", _op("bitwise_not", x)), _same),
    Equation("x as its own type = x", _op("to", x), _same),
    Equation("a cast through a type that holds all", _op("to", _op("to", x, dtype=Attr("first")), dtype=Attr("second")), _cast_once),
    Equation("a permutation of a permutation", _op("permute", _op("permute", x, dims=Attr("first")), dims=Attr("second")), _permuted_twice),
    Equation("a permutation of nothing", _op("permute", x, dims=Attr("first")), _not_permuted),
    Equation("a reshape of a reshape", _op("reshape", _op("reshape", x), shape=Attr("second")), _viewed("reshape", "shape")),
    Equation("a reshape of axes of one", _op("reshape", _op("permute", x, dims=Attr("first")), shape=Attr("second")), _reshaped_in_order),
    Equation("a layer between reshapes", _op("reshape", _op("linear", _op("reshape", x), y, bias)), _layer_of_rows),
    Equation("a reshape to the same", _op("reshape", x), _same),
    Equation("an expansion of an expansion", _op("expand", _op("expand", x)), _expanded_twice),
    Equation("an expansion to the same", _op("expand", x), _same),
    Equation("a slice of everything", _op("slice", x), _same),
    Equation("x + 0 = x", _op("add", x, _number(0)), _same, exact=False),
    Equation("0 - x = -x", _op("sub", _number(0), x), _of("neg"), exact=False),
    Equation("x * -1 = -x", _op("mul", x, _number(-1)), _of("neg"), exact=False),
    Equation("x / c = x * (1 / c)", _op("div", x, a), _by_reciprocal(exact=False), exact=False),
    Equation("(x * a) * b = x * (a * b)", _op("mul", _alone("mul", x, a), b), _combined("mul", np.multiply), exact=False),
    Equation("(x + a) + b = x + (a + b)", _op("add", _alone("add", x, a), b), _combined("add", np.add), exact=False),
    Equation(
        "x * z + y * z = (x + y) * z", _op("add", _alone("mul", x, z), _alone("mul", y, z)),
        lambda made, match: made("mul", made("add", made[match["x"]], made[match["y"]]), made[match["z"]]), exact=False,
    ),
    Equation(
        "x * z - y * z = (x - y) * z", _op("sub", _alone("mul", x, z), _alone("mul", y, z)),
        lambda made, match: made("mul", made("sub", made[match["x"]], made[match["y"]]), made[match["z"]]), exact=False,
    ),
    Equation("-(x - y) = y - x", _op("neg", _alone("sub", x, y)), _of("sub", "y", "x"), exact=False),
    Equation("exp(log(x)) = x", _op("exp", _op("log", x)), _same, exact=False),
    Equation("log(exp(x)) = x", _op("log", _op("exp", x)), _same, exact=False),
    Equation("sqrt(x)^2 = x", _op("square", _op("sqrt", x)), _same, exact=False),
    Equation("sqrt(x^2) = |x|", _op("sqrt", _op("square", x)), _of("abs"), exact=False),
    Equation("1 / sqrt(x) is one function", _op("reciprocal", _op("sqrt", x)), _of("rsqrt"), exact=False),
    Equation(
        "y / sqrt(x) = y * rsqrt(x)", _op("div", y, _alone("sqrt", x)),
        lambda made, match: made("mul", made[match["y"]], made("rsqrt", made[match["x"]])), exact=False,
    ),
    Equation("x ** 0.5 = sqrt(x)", _op("pow", x, _number(0.5)), _square_root_of(0.5), exact=False),
    Equation("x ** -0.5 = rsqrt(x)", _op("pow", x, _number(-0.5)), _square_root_of(-0.5), exact=False),
    Equation(
        "x ** 3 = x^2 * x", _op("pow", x, _number(3)),
        lambda made, match: made("mul", made("square", made[match["x"]]), made[match["x"]]), exact=False,
    ),
)  # fmt: skip
"""In the order in which they are tried at a node."""
