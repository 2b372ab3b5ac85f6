"""`find` answers "is there a point" exactly where arithmetic is affine, safely where data decides, and in bounded time."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tensorlang import ir
from tensorlang.algebra import polyhedra
from tensorlang.algebra.bounds import interval
from tensorlang.algebra.polyhedra import find, uncovered
from tensorlang.ir import Axis, Binary, Buffer, Call, Cast, Compare, Const, Dim, Expr, Load, Select, Unary
from tensorlang.ir.dtype import BOOL, FLOAT32, FLOAT64, INT32, INT64, DType
from tests.draws import examples
from tests.work import work

X, Y, N, c = Axis("x"), Axis("y"), Dim("n"), ir.const
DATA = Load(Buffer("D", (N,), INT64), (X,))
NARROW = Load(Buffer("B", (N,), DType("int8")), (X,))
FLAG = Load(Buffer("F", (N,), BOOL), (X,))


def op(name: str, left: Expr, right: Expr | int) -> Expr:
    return Binary(name, left, c(right) if isinstance(right, int) else right)


def test(relation: str, left: Expr, right: Expr | int) -> Expr:
    return Compare(relation, left, c(right) if isinstance(right, int) else right)


test.__test__ = False  # type: ignore[attr-defined]
PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
}


def value(expr: Expr, point: dict[Expr, int]) -> Any:
    """The value of an expression of axes at a point."""
    match expr:
        case Const(literal, _):
            return literal
        case Axis() | Dim():
            return point.get(expr, 0)
        case Binary(name, left, right) | Compare(name, left, right):
            return PYTHON[name](value(left, point), value(right, point))
        case Unary("not", inner):
            return not value(inner, point)
        case Unary(_, inner):
            return -value(inner, point)
        case Select(cond, yes, no):
            return value(yes if value(cond, point) else no, point)
        case Cast(inner, _):
            return value(inner, point)
        case _:
            raise AssertionError(expr)


BOX = [test("ge", axis, -4) for axis in (X, Y)] + [test("le", axis, 4) for axis in (X, Y)]
POINTS: list[dict[Expr, int]] = [{X: x, Y: y} for x, y in itertools.product(range(-4, 5), repeat=2)]
ATOMS = st.sampled_from([X, Y]) | st.integers(-5, 5).map(c)


def affine(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    by = st.integers(1, 4).map(c)
    return (
        st.builds(Binary, st.sampled_from(["add", "sub", "min", "max"]), inner, inner)
        | st.builds(Binary, st.sampled_from(["floordiv", "mod"]), inner, by)
        | st.builds(Binary, st.just("mul"), st.integers(-3, 3).map(c), inner)
        | st.builds(Unary, st.just("neg"), inner)
        | st.builds(Select, st.builds(Compare, st.sampled_from(ir.COMPARE), ATOMS, ATOMS), inner, inner)
    )


INTEGERS = st.recursive(ATOMS, affine, max_leaves=5)
NUMBERS = st.sampled_from([INT64, FLOAT32, FLOAT64])
ATOMIC = st.builds(
    lambda op, left, right, of: Compare(op, *(side if of == INT64 else Cast(side, of) for side in (left, right))),
    st.sampled_from(ir.COMPARE),
    INTEGERS,
    INTEGERS,
    NUMBERS,
)
CONDITIONS = st.recursive(
    ATOMIC,
    lambda inner: st.builds(Binary, st.sampled_from(["and", "or"]), inner, inner) | st.builds(Unary, st.just("not"), inner),
    max_leaves=4,
)


@examples(150)
@given(CONDITIONS)
def test_a_point_is_found_just_where_there_is_one(condition: Expr) -> None:
    found = find(*BOX, condition)
    if found is None:
        assert not any(value(condition, point) for point in POINTS)
    else:
        assert value(condition, found)
        assert all(value(bound, found) for bound in BOX)


def test_dims_are_at_least_zero() -> None:
    assert find(test("lt", N, 0)) is None
    assert find(test("lt", X, N), test("ge", X, 0), test("ge", X, op("add", N, 0))) is None
    found = find(test("le", c(0), X), test("lt", X, N), test("ge", op("add", X, 1), N))
    assert found is not None
    assert found[N] == found[X] + 1


def test_equal_loads_are_equal_unknowns() -> None:
    assert find(test("lt", DATA, 8), test("ge", DATA, 8)) is None
    other = Load(DATA.buffer, (Y,))
    assert find(test("lt", DATA, 8), test("ge", other, 8)) is not None


def test_a_condition_that_data_decides_is_true_or_false() -> None:
    assert find(FLAG, Unary("not", FLAG)) is None
    assert find(Unary("not", FLAG)) is not None


def test_an_unknown_lies_in_the_range_of_its_type() -> None:
    wide = Cast(NARROW, INT64)
    assert find(test("gt", wide, 127)) is None
    assert find(test("gt", wide, 126)) is not None


def test_a_narrowing_cast_is_no_identity() -> None:
    """It is one just where the value fits."""
    large = Compare("ge", Cast(Cast(DATA, INT32), INT64), c(8))
    assert find(test("lt", DATA, 8), large) is not None
    assert find(test("lt", DATA, 8), test("ge", DATA, 0), large) is None


def test_integers_compare_as_numbers_where_these_hold_them() -> None:
    number = Cast(NARROW, FLOAT32)
    assert find(Compare("gt", number, Const(127.0, FLOAT32))) is None
    assert find(Compare("lt", number, Cast(NARROW, FLOAT32))) is None
    assert find(Compare("ge", number, Const(5.0, FLOAT32)), test("lt", Cast(NARROW, INT64), 5)) is None
    assert find(Compare("ge", number, Const(5.5, FLOAT32)), test("le", Cast(NARROW, INT64), 5)) is None
    assert find(Compare("ge", number, Const(5.5, FLOAT32)), test("le", Cast(NARROW, INT64), 6)) is not None
    assert find(Compare("lt", number, Const(-5.5, FLOAT32)), test("ge", Cast(NARROW, INT64), -5)) is None
    assert find(Compare("gt", Const(-5.5, FLOAT32), number), test("ge", Cast(NARROW, INT64), -5)) is None
    assert find(Compare("eq", number, Const(5.5, FLOAT32))) is None
    assert find(Compare("le", number, Const(float("nan"), FLOAT32))) is not None  # not decided
    near, far = (Cast(op("add", DATA, by), FLOAT32) for by in (0, 1))
    small = test("ge", DATA, 0), test("le", DATA, 2**24 - 1)
    assert find(Compare("eq", near, far), *small) is None
    assert find(Compare("eq", near, far), test("ge", DATA, 0), test("le", DATA, 2**24)) is not None  # 2**24 + 1 is rounded to 2**24


def test_a_choice_compares_as_what_is_chosen() -> None:
    """A constant that stands for what is outside decides where nothing is read."""
    data = Load(Buffer("G", (N,), FLOAT32), (X,))
    chosen, other = Select(test("lt", X, 2), data, Const(0.0, FLOAT32)), Select(test("lt", X, 3), data, Load(data.buffer, (Y,)))
    below = Const(-1.5, FLOAT32)
    assert find(Compare("le", chosen, below), test("ge", X, 2)) is None
    assert find(Compare("ge", below, chosen), test("ge", X, 2)) is None
    assert find(Compare("le", chosen, below), test("lt", X, 2)) is not None
    assert find(Unary("not", Compare("gt", chosen, below)), test("ge", X, 2)) is None
    assert find(Compare("lt", other, other)) is None and find(Compare("lt", other, Select(FLAG, other.no, other.yes))) is not None


def test_an_integer_is_a_number() -> None:
    assert find(Call("isnan", (Cast(DATA, FLOAT32),), BOOL)) is None
    assert find(Call("isnan", (Load(Buffer("G", (N,), FLOAT32), (X,)),), BOOL)) is not None


def test_only_what_may_be_no_number_differs_from_itself() -> None:
    data = Load(Buffer("G", (N,), FLOAT32), (X,))
    assert find(Compare("ne", data, data)) is not None
    assert find(Compare("eq", data, data)) is not None
    number = Cast(DATA, FLOAT32)
    assert find(Compare("ne", number, number)) is None
    assert find(Unary("not", Compare("le", number, number))) is None


def test_arithmetic_on_data_may_wrap() -> None:
    """The greatest integer plus one is the least, so `x + 1 > x` is not to be taken for granted."""
    assert find(test("le", op("add", DATA, 1), DATA)) is not None
    assert find(test("le", op("add", X, 1), X)) is None


def test_a_clamped_index_stays_inside() -> None:
    clamped = op("min", op("max", DATA, 0), 7)
    assert find(Binary("or", test("lt", clamped, 0), test("gt", clamped, 7))) is None
    assert find(test("eq", clamped, 7)) is not None


def test_a_product_of_axes_is_an_unknown() -> None:
    product = op("mul", X, Y)
    assert find(test("eq", product, 7), test("ne", product, 7)) is None
    assert find(test("eq", product, 7), test("eq", X, 2)) is not None
    assert find(test("eq", product, 7), test("eq", X, 0)) is None


@pytest.mark.parametrize("factor", [1 << 14, 1 << 20, 1 << 40, 12_345_678_901])
def test_a_large_coefficient_is_exact_where_the_axis_is_bounded(factor: int) -> None:
    """Elements `factor` apart are different elements; of an axis without bounds the product could wrap, so nothing is known."""
    a, b = op("mul", c(factor), X), op("mul", c(factor), Y)
    bounded = [test("ge", axis, 0) for axis in (X, Y)] + [test("lt", axis, 1000) for axis in (X, Y)]
    assert find(*bounded, test("lt", X, Y), test("eq", a, b)) is None
    assert find(*bounded, test("lt", X, Y), test("eq", op("add", a, factor), b)) is not None
    assert find(test("lt", X, Y), test("eq", op("mul", c(1 << 60), X), op("mul", c(1 << 60), Y))) is not None


@pytest.mark.parametrize(
    ("expr", "bounds"),
    [
        (c(5), (5, 5)),
        (op("mod", DATA, 7), (0, 6)),
        (op("floordiv", op("mod", DATA, 64), 8), (0, 7)),
        (op("min", op("max", DATA, -2), 3), (-2, 3)),
        (op("mul", op("mod", X, 3), op("mod", Y, 4)), (0, 6)),
        (Unary("neg", op("mod", X, 3)), (-2, 0)),
        (Cast(NARROW, INT64), (-128, 127)),
        (Select(FLAG, c(2), c(9)), (2, 9)),
        (op("add", DATA, 1), None),
        (op("mul", op("mul", X, Y), op("mul", X, Y)), None),
        (op("floordiv", DATA, X), (INT64.lowest, INT64.highest)),
    ],
)
def test_an_interval_holds_for_all_data_or_is_unknown(expr: Expr, bounds: Any) -> None:
    assert interval(expr) == bounds


def test_a_question_that_is_too_large_is_given_up_soon() -> None:
    """Forty inequalities between forty-one products are a million million cases: the answer is "perhaps", of a point nothing is known."""
    conditions = [test("ne", op("mul", X, op("add", Y, n)), op("mul", X, op("add", Y, n + 1))) for n in range(40)]
    found, few = list[object](), [*conditions[:10], test("gt", X, Y)]
    find(*few)  # the first question of a process imports isl
    assert work(lambda: found.append(find(*conditions, test("gt", X, Y)))) < 4.2 * work(lambda: find(*few))
    assert found == [{}]
    assert find(test("gt", X, Y), test("gt", Y, X)) is None


def test_conditions_that_share_nothing_are_asked_apart() -> None:
    """Together they are a million million cases, each by itself two; one that cannot hold decides, however many can."""
    apart = [test("ne", Axis(f"a{n}"), n) for n in range(40)]
    point = find(*apart)
    assert point is not None
    assert all(point[Axis(f"a{n}")] != n for n in range(40))
    assert find(*apart, test("gt", X, Y), test("gt", Y, X)) is None
    assert find(*apart, test("eq", op("mul", X, 2), op("add", op("mul", Y, 2), 1))) is None


@pytest.mark.parametrize("of", ["int64", "float32", "bfloat16", "bool"])
def test_nothing_is_below_itself(of: str) -> None:
    """Not even NaN, which is not at most itself either."""
    value = Load(Buffer("V", (N,), DType(of)), (X,))
    assert find(Compare("lt", value, value)) is None
    assert find(Compare("gt", value, value)) is None
    assert find(Unary("not", Compare("lt", value, value))) is not None
    if value.buffer.dtype.is_floating:
        assert find(Unary("not", Compare("le", value, value))) is not None


@pytest.mark.parametrize(
    ("relation", "left", "right", "of", "holds"),
    [
        ("le", 2.0, 0.5, "float64", False),
        ("lt", 0.5, 2.0, "float32", True),
        ("lt", 1.0, 1.001, "bfloat16", False),  # one number in this type
        ("eq", 1.0, 1.001, "bfloat16", True),
        ("eq", float("nan"), float("nan"), "float64", False),
        ("ne", float("nan"), float("nan"), "float32", True),
        ("ge", float("nan"), 1.0, "float16", False),
    ],
)
def test_literals_of_floating_types_compare_as_their_type_rounds_them(
    relation: str, left: float, right: float, of: str, holds: bool
) -> None:
    asked = Compare(relation, Const(left, DType(of)), Const(right, DType(of)))
    assert (find(asked) is not None) == holds
    assert (find(Unary("not", asked)) is not None) != holds


def test_loads_of_one_element_are_equal_however_its_index_is_spelled() -> None:
    """A clamp that changes nothing within what is known is none; one that may change something is."""
    p, data = Axis("p"), Buffer("A", (c(7),), DType("int16"))
    clamped = Load(data, (Binary("min", Binary("max", Binary("sub", p, c(0)), c(0)), c(6)),))
    plain, known = Load(data, (p,)), [Compare("ge", p, c(0)), Compare("lt", p, c(7))]
    assert find(*known, Compare("lt", plain, clamped)) is None
    assert find(known[0], Compare("lt", plain, clamped)) is not None
    nested = [Load(data, (Cast(part, INT64),)) for part in (plain, clamped)]
    assert find(*known, Compare("ne", *nested)) is None
    point = find(*known, Compare("eq", clamped, Const(3, DType("int16"))), Compare("eq", p, c(2)))
    assert point == {clamped: 3, p: 2}


HELD = Compare("lt", X, Binary("mul", N, Dim("m")))


def test_what_is_asked_in_both_need_not_be_decided() -> None:
    """A product of unknowns bounds both sides: where it holds of the one, it holds of the other."""
    asked = [Compare("le", c(0), X), HELD]
    assert uncovered(asked, ([HELD], [(X, X)])) is None
    assert uncovered(asked, ([Compare("lt", Y, HELD.right)], [(X, Y)])) == {}
    assert uncovered(asked, ([HELD, Compare("le", c(1), X)], [(X, X)])) == {}, "0 is left out, where there is one"


def test_an_axis_of_a_fact_that_cannot_be_decided_is_the_same_one_in_an_image() -> None:
    assert uncovered([HELD], ([HELD, Compare("le", c(1), X)], [(c(0), c(0))])) == {}


def test_a_point_that_took_all_operations_to_find_is_still_read() -> None:
    """Somewhere between too few operations for an answer and enough there are as many as the search takes, and none to read its point."""
    facts = [Compare("le", c(3), X), Compare("lt", X, c(50)), Compare("eq", Binary("mod", X, c(7)), Y), Compare("lt", c(4), Y)]
    context = polyhedra._context()
    found = set()
    try:
        for operations in range(1, 4000, 3):
            context.set_max_operations(operations)
            polyhedra._point_of.cache_clear()
            point = find(*facts)
            assert point == {} or (point is not None and point[X] % 7 == point[Y] > 4)
            found.add(point == {})
    finally:
        context.set_max_operations(polyhedra.MAX_OPERATIONS)
    assert found == {True, False}


def test_questions_of_other_threads_do_not_count() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(polyhedra._context).result() is not polyhedra._context()
