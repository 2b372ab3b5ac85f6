"""Intervals hold for every value: each row of the tables over all small operands, each expression over all points and data."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tensorlang import ir
from tensorlang.algebra.bounds import Bounds, assume, chooses, identity_loses, interval, negated, values
from tensorlang.algebra.interval import BINARY, Floats, float_binary, float_call, inside, magnitude, truncated, whole, within
from tensorlang.ir import Axis, Binary, Buffer, Cast, Compare, Const, Dim, Expr, Load, Reduce, ReduceAxis, Select, Unary
from tensorlang.ir.dtype import BOOL, FLOAT32, FLOAT64, INT32, INT64, DType
from tensorlang.language.reduction import _position, single
from tensorlang.semantics import arithmetic
from tests.draws import examples

X, N, c = Axis("x"), Dim("n", 2, 9), ir.const
INT8, UINT8 = DType("int8"), DType("uint8")
DATA = Load(Buffer("D", (c(8),), INT64), (X,))
REAL = Load(Buffer("R", (c(8),), FLOAT32), (X,))


@examples(200)
@given(st.sampled_from(list(BINARY)), st.sampled_from([INT8, UINT8]), st.data())
def test_an_operator_stays_in_its_interval(op: str, of: DType, data: st.DataObject) -> None:
    def part() -> tuple[int, int]:
        ends = st.integers(*whole(of)) | st.sampled_from([*whole(of), 0, 1, 7, 8, 9])
        low, high = sorted((data.draw(ends), data.draw(ends)))
        return low, high

    a, b = part(), part()
    left, right = (np.arange(low, high + 1).astype(of.numpy) for low, high in (a, b))
    with arithmetic.quiet():
        found = arithmetic.binary(op, left[:, None], right[None, :], of)
    low, high = within(BINARY[op](a, b, of.bits), of)
    assert low <= int(found.min())
    assert int(found.max()) <= high


@pytest.mark.parametrize(
    ("op", "a", "b", "bounds"),
    [
        ("xor", (0, 255), (1, 1), (0, 255)),
        ("xor", (-4, -1), (0, 7), (-8, -1)),
        ("and", (-128, 127), (3, 3), (0, 3)),
        ("or", (0, 8), (1, 1), (1, 15)),
        ("shr", (0, 255), (1, 1), (0, 127)),
        ("shl", (1, 1), (0, 5), (1, 32)),
        ("floordiv", (0, 20), (3, 3), (0, 6)),
        ("mod", (0, 2), (5, 9), (0, 2)),
        ("mod", (-9, 9), (4, 7), (0, 6)),
    ],
)
def test_the_interval_of_an_operator_is_tight(op: str, a: tuple[int, int], b: tuple[int, int], bounds: tuple[int, int]) -> None:
    assert BINARY[op](a, b, 8) == bounds


NUMBERS = [-math.inf, -1e30, -2.5, -1.0, -0.5, 0.0, 0.3, 1.0, 15.0, 1e20, math.inf]


@examples(150)
@given(
    st.sampled_from(["add", "sub", "mul", "div", "min", "max", "fmin", "fmax"]),
    st.sampled_from([FLOAT32, FLOAT64, DType("float16")]),
    st.data(),
)
def test_a_floating_point_operator_stays_in_its_interval(op: str, of: DType, data: st.DataObject) -> None:
    def part() -> tuple[Floats, list[float]]:
        numbers = sorted(data.draw(st.lists(st.sampled_from(NUMBERS) | st.floats(-20, 20, width=16), min_size=1, max_size=4)))
        nan = data.draw(st.booleans())
        with np.errstate(over="ignore"):
            shown = [float(np.asarray(number, of.numpy)) for number in numbers]
        return Floats(shown[0], shown[-1], nan), [*shown, *([math.nan] if nan else [])]

    (a, left), (b, right) = part(), part()
    found = float_binary(op, a, b, of)
    with arithmetic.quiet():
        results = [
            float(arithmetic.binary(op, np.asarray(x, of.numpy), np.asarray(y, of.numpy), of)) for x, y in itertools.product(left, right)
        ]
    assert all(found.nan if math.isnan(result) else found.low <= result <= found.high for result in results)


def test_a_cast_from_floating_point_saturates_and_makes_nan_zero() -> None:
    assert truncated(Floats(), INT8) == (-128, 127)
    assert truncated(Floats(3.5, 15.99, nan=False), INT32) == (3, 15)
    assert truncated(Floats(3.5, 15.99, nan=True), INT32) == (0, 15)
    assert truncated(Floats(-7.5, math.inf, nan=False), UINT8) == (0, 255)
    assert float_call("ceil", Floats(0.5, 2.5, nan=False)) == Floats(1.0, 3.0, nan=False)
    assert float_call("exp", Floats(0.5, 2.5, nan=False)) == Floats()


def clamped(low: float, high: float) -> Expr:
    return Binary("min", Binary("max", REAL, Const(low, FLOAT32)), Const(high, FLOAT32))


def reduced(name: str, value: Expr, where: Expr | None = None, size: Expr | None = None) -> Expr:
    axes = (ReduceAxis("k", c(0), size or c(8)),)
    if name == "argmax":
        return Reduce(_position("argmax", "gt", FLOAT32), (REAL, Axis("k")), axes, where, 1)
    op = {"sum": "add", "any": "or"}.get(name, name)
    of = BOOL if name == "any" else INT64
    identity = {"sum": 0, "any": False, "max": INT64.lowest, "min": INT64.highest}[name]
    return Reduce(single(name, op, identity, of), (value,), axes, where)


@pytest.mark.parametrize(
    ("expr", "bounds"),
    [
        (N, (2, 9)),
        (Cast(DATA, UINT8), (0, 255)),
        (Cast(Binary("mod", DATA, c(100)), INT8), (0, 99)),
        (Cast(clamped(0.0, 15.0), INT64), (0, 15)),
        (Cast(Binary("mul", clamped(0.0, 1.0), Const(15.0, FLOAT32)), INT64), (0, 15)),
        (Cast(Compare("lt", REAL, Const(0.0, FLOAT32)), INT64), (0, 1)),
        (Select(Compare("gt", DATA, c(3)), c(3), Select(Compare("lt", DATA, c(0)), c(0), DATA)), (0, 3)),
        (Select(Compare("ge", N, c(2)), c(5), c(99)), (5, 5)),
        (Select(Compare("ge", REAL, Const(0.0, FLOAT32)), Cast(clamped(-9.0, 4.0), INT64), c(1)), (0, 4)),
        (Unary("not", Binary("mod", DATA, c(8))), (-8, -1)),
        (Unary("abs", Binary("sub", Binary("mod", DATA, c(8)), c(5))), (0, 5)),
        (Unary("abs", DATA), (INT64.lowest, INT64.highest)),
        (Binary("xor", DATA, DATA), (0, 0)),
        (Binary("floordiv", DATA, DATA), (0, 1)),
        (reduced("argmax", X), (0, 7)),
        (reduced("argmax", X, Compare("gt", REAL, Const(0.0, FLOAT32))), (-1, 7)),
        (reduced("argmax", X, size=N), (0, 8)),
        (reduced("argmax", X, size=Dim("m")), (-1, (1 << 48) - 1)),
        (reduced("max", Binary("mod", DATA, c(5))), (0, 4)),
        (reduced("sum", Binary("mod", DATA, c(5)), size=N), (0, 36)),
        (reduced("any", Compare("lt", DATA, c(3))), (0, 1)),
    ],
)
def test_what_an_expression_can_be(expr: Expr, bounds: tuple[int, int]) -> None:
    assert values(expr) == bounds


def test_a_comparison_bounds_both_sides_and_whole_expressions() -> None:
    shifted = Binary("add", DATA, c(1))
    known = assume({}, (Compare("le", c(1), DATA), Binary("and", Compare("lt", shifted, c(16)), Compare("lt", X, DATA))))
    assert known[DATA] == (1, INT64.highest)
    assert known[shifted] == (INT64.lowest, 15), "the sum may have wrapped"
    assert Bounds({DATA: (1, 20)}).under((Compare("lt", shifted, c(16)),)).values(shifted) == (2, 15)
    assert assume({}, (negated(Binary("or", Compare("lt", DATA, c(0)), Compare("gt", DATA, c(7)))),))[DATA] == (0, 7)


def test_a_comparison_that_holds_is_between_numbers() -> None:
    at = Cast(REAL, INT64)
    holds = (Compare("ge", REAL, Const(2.0, FLOAT32)), Compare("lt", REAL, Const(16.0, FLOAT32)))
    assert Bounds().under(holds).values(at) == (2, 15)
    fails = tuple(
        Unary("not", condition) for condition in (Compare("lt", REAL, Const(2.0, FLOAT32)), Compare("ge", REAL, Const(16.0, FLOAT32)))
    )
    assert Bounds().under(fails).values(at) == (0, 15), "NaN fails every comparison"


def test_sums_that_may_wrap_are_no_integers() -> None:
    assert interval(Binary("sub", Binary("add", DATA, c(1)), c(1))) is None
    assert interval(Binary("sub", Binary("add", DATA, c(1)), c(1)), {DATA: (0, 5)}) == (0, 5)
    product = Binary("mul", Dim("n"), Dim("m"))
    assert interval(product) is None
    assert Bounds(exact=frozenset([product])).interval(product) == (0, 1 << 48), "an extent does not wrap"


def test_an_identity_shows_in_an_empty_domain_alone() -> None:
    position, largest = _position("argmin", "lt", INT32), single("max", "max", INT64.lowest, INT64)
    assert chooses(position, 1)
    assert not chooses(single("sum", "add", 0, INT64), 0)
    assert identity_loses(position, 1, (0, 7))
    assert not identity_loses(position, 1, (-3, 7)), "a negative position is taken for none"
    assert identity_loses(largest, 0, (-3, 7))
    assert inside(magnitude((-3, 2)), (0, 3))
