"""The named functions of expressions (`Call`), as a table: arity, which types they take, what they give.

The meaning of each row is in `semantics.arithmetic` (NumPy), its machine code in `codegen/emission/math`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Function:
    """A row: operands (all of one type), the kinds they may have, and the type of the result."""

    name: str
    arity: int
    takes: Literal["floating", "number"]
    gives: Literal["same", "bool"]
    meaning: str


FUNCTIONS = {
    row.name: row
    for row in (
        Function("exp", 1, "floating", "same", "e ** x"),
        Function("exp2", 1, "floating", "same", "2 ** x"),
        Function("expm1", 1, "floating", "same", "e ** x - 1, accurate near 0"),
        Function("log", 1, "floating", "same", "natural logarithm; NaN below 0"),
        Function("log2", 1, "floating", "same", "logarithm to base 2"),
        Function("log10", 1, "floating", "same", "logarithm to base 10"),
        Function("log1p", 1, "floating", "same", "log(1 + x), accurate near 0"),
        Function("sqrt", 1, "floating", "same", "square root; NaN below 0"),
        Function("rsqrt", 1, "floating", "same", "1 / sqrt(x)"),
        Function("sin", 1, "floating", "same", "sine of radians"),
        Function("cos", 1, "floating", "same", "cosine of radians"),
        Function("tan", 1, "floating", "same", "tangent of radians"),
        Function("asin", 1, "floating", "same", "arc sine; NaN outside [-1, 1]"),
        Function("acos", 1, "floating", "same", "arc cosine; NaN outside [-1, 1]"),
        Function("atan", 1, "floating", "same", "arc tangent"),
        Function("atan2", 2, "floating", "same", "the angle of a point, y before x"),
        Function("sinh", 1, "floating", "same", "hyperbolic sine"),
        Function("cosh", 1, "floating", "same", "hyperbolic cosine"),
        Function("tanh", 1, "floating", "same", "hyperbolic tangent"),
        Function("sigmoid", 1, "floating", "same", "1 / (1 + exp(-x))"),
        Function("erf", 1, "floating", "same", "error function"),
        Function("pow", 2, "floating", "same", "x ** y, as C's pow"),
        Function("floor", 1, "floating", "same", "greatest integer <= x"),
        Function("ceil", 1, "floating", "same", "least integer >= x"),
        Function("round", 1, "floating", "same", "nearest integer, halves to even"),
        Function("trunc", 1, "floating", "same", "towards zero"),
        Function("isnan", 1, "floating", "bool", "is it not a number"),
        Function("isinf", 1, "floating", "bool", "is it plus or minus infinity"),
        Function("isfinite", 1, "floating", "bool", "is it neither infinite nor NaN"),
    )
}
