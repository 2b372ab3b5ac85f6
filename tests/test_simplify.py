"""Each row of the rules holds for all small integers, prints as its equation says, and leaves wrapping arithmetic alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tensorlang import ir
from tensorlang.algebra import rules
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Buffer, Cast, Compare, Const, Dim, Expr, Load, Select, Unary
from tensorlang.ir.dtype import BOOL, FLOAT32, INT64
from tensorlang.ir.printer import text
from tensorlang.ir.traverse import axes_of, dtype_of, walk
from tensorlang.semantics import arithmetic
from tensorlang.semantics.nest_interpreter import run_nest
from tests.draws import examples

X, Y, c = Axis("x"), Axis("y"), ir.const
SMALL = range(-5, 6)


def op(name: str, left: Expr, right: Expr | int) -> Expr:
    return Binary(name, left, c(right) if isinstance(right, int) else right)


def times(factor: int, expr: Expr) -> Expr:
    return op("mul", c(factor), expr)


def values(expr: Expr, points: list[tuple[int, int]]) -> list[Any]:
    """The value at each point (x, y), by the interpreter of nests."""
    out = Buffer("out", (c(len(points)),), dtype_of(expr), "argument")
    table = Buffer("points", (c(len(points)), c(2)), INT64, "argument")
    known = {"x": Load(table, (Axis("at"), c(0))), "y": Load(table, (Axis("at"), c(1)))}
    body = ir.For("at", c(0), c(len(points)), ir.Store("out", (out,), (Axis("at"),), (_with(expr, known),)))
    result = np.zeros(len(points), dtype_of(expr).numpy)
    run_nest(ir.Nest("points", (table,), (out,), (), body), {"points": np.array(points, np.int64).reshape(-1, 2), "out": result}, {})
    return list(result)


def _with(expr: Expr, known: dict[str, Load]) -> Expr:
    from tensorlang.ir.traverse import substitute

    return substitute(expr, dict(known))


CONDITION = Compare("lt", X, Y)
# row, expression, what it becomes
ROWS: list[tuple[Any, Expr, str]] = [
    (rules.sum_of_terms, op("add", op("sub", X, Y), op("add", Y, X)), "2 * x"),
    (rules.sum_of_terms, op("sub", times(3, op("add", X, 2)), op("mul", X, 2)), "x + 6"),
    (rules.sum_of_terms, op("sub", X, X), "0"),
    (rules.sum_of_terms, Unary("neg", op("sub", X, Y)), "y - x"),
    (rules.sum_of_terms, op("sub", c(3), X), "-x + 3"),
    (rules.sum_of_terms, op("add", c(2), c(3)), "5"),
    (rules.floor_of_multiple, op("floordiv", op("add", times(4, X), 3), 4), "x"),
    (rules.floor_of_multiple, op("floordiv", op("add", times(6, X), Y), 3), "2 * x + y // 3"),
    (rules.floor_of_multiple, op("floordiv", op("sub", X, 5), 3), "(x + 1) // 3 - 2"),
    (rules.floor_of_multiple, op("floordiv", X, 1), "x"),
    (rules.floor_of_multiple, op("floordiv", c(-7), 2), "-4"),
    (rules.quotient_of_shift, op("shr", X, 5), "x // 32"),
    (rules.quotient_of_shift, op("and", op("add", times(4, X), Y), 3), "y % 4"),
    (rules.quotient_of_shift, op("and", X, 5), "x & 5"),
    (rules.remainder_of_multiple, op("mod", op("add", times(4, X), 3), 4), "3"),
    (rules.remainder_of_multiple, op("mod", op("add", times(6, X), Y), 3), "y % 3"),
    (rules.remainder_of_multiple, op("mod", X, 1), "0"),
    (rules.remainder_of_multiple, op("mod", c(-7), 2), "1"),
    (rules.extremum_of_shifted, op("min", op("add", X, 3), op("add", X, 1)), "x + 1"),
    (rules.extremum_of_shifted, op("max", op("add", X, 3), op("add", X, 1)), "x + 3"),
    (rules.extremum_of_shifted, op("max", X, X), "x"),
    (rules.clamped_to_one, op("min", op("max", X, 2), 2), "2"),
    (rules.clamped_to_one, op("max", op("min", X, 1), 2), "2"),
    (rules.decided_comparison, Compare("lt", op("add", X, 1), op("add", X, 2)), "True"),
    (rules.decided_comparison, Compare("ge", X, op("add", X, 1)), "False"),
    (rules.decided_comparison, Compare("eq", X, X), "True"),
    (rules.decided_comparison, Compare("ne", c(1), c(2)), "True"),
    (rules.decided_logic, Binary("and", rules.TRUE, CONDITION), "x < y"),
    (rules.decided_logic, Binary("and", CONDITION, rules.FALSE), "False"),
    (rules.decided_logic, Binary("or", rules.TRUE, CONDITION), "True"),
    (rules.decided_logic, Binary("or", CONDITION, rules.FALSE), "x < y"),
    (rules.decided_logic, Binary("and", CONDITION, CONDITION), "x < y"),
    (rules.decided_logic, Unary("not", rules.TRUE), "False"),
    (rules.decided_choice, Select(rules.TRUE, X, Y), "x"),
    (rules.decided_choice, Select(rules.FALSE, X, Y), "y"),
    (rules.decided_choice, Select(CONDITION, X, X), "x"),
    (rules.vacuous_cast, Cast(X, INT64), "x"),
]


@pytest.mark.parametrize(("row", "expr", "printed"), ROWS)
def test_a_row_gives_what_its_equation_says(row: Any, expr: Expr, printed: str) -> None:
    assert row in rules.RULES
    assert text(simplify(expr)) == printed
    points = list(itertools.product(SMALL, SMALL))
    assert values(expr, points) == values(simplify(expr), points)


def test_every_row_is_tested() -> None:
    assert {row for row, _, _ in ROWS} == set(rules.RULES)


@pytest.mark.parametrize("row", rules.RULES)
def test_a_row_changes_no_node_of_a_kind_that_it_is_not_about(row: Any) -> None:
    others = [node for _, expr, _ in ROWS for node in walk(expr) if rules.kind_of(node) not in rules.RULES[row]]
    assert others
    assert not [node for node in others if row(node) is not None]


LEAVES = st.sampled_from([X, Y]) | st.integers(-6, 6).map(c)


def trees(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    arithmetic = st.builds(Binary, st.sampled_from(["add", "sub", "mul", "min", "max", "floordiv", "mod"]), inner, inner)
    comparison = st.builds(Compare, st.sampled_from(ir.COMPARE), inner, inner)
    condition = (
        comparison
        | st.builds(Binary, st.sampled_from(["and", "or"]), comparison, comparison)
        | st.builds(Unary, st.just("not"), comparison)
    )
    return arithmetic | st.builds(Unary, st.just("neg"), inner) | st.builds(Select, condition, inner, inner)


EXPRESSIONS = st.recursive(LEAVES, trees, max_leaves=10)


@examples(120)
@given(EXPRESSIONS)
def test_simplified_expressions_have_the_same_values(expr: Expr) -> None:
    some = (-5, -2, -1, 0, 1, 3, 4)
    points = list(itertools.product(some, some))
    assert values(expr, points) == values(simplify(expr), points)


@examples(80)
@given(EXPRESSIONS)
def test_simplification_reaches_its_normal_form_at_once(expr: Expr) -> None:
    once = simplify(expr)
    assert simplify(once) == once
    assert axes_of(once) <= axes_of(expr)


EXTREMES = np.array([np.iinfo("i8").min, np.iinfo("i8").max, -1, 0, 1, 2**62, -(2**62)], np.int64)
DATA = Load(Buffer("D", (c(len(EXTREMES)),), INT64, "argument"), (X,))
EXTREME_TREES = st.recursive(st.just(DATA) | st.integers(-(2**63), 2**63 - 1).map(c) | st.integers(-3, 3).map(c), trees, max_leaves=7)


@examples(120)
@given(EXTREME_TREES)
def test_arithmetic_on_data_keeps_wrapping(expr: Expr) -> None:
    """`2 * x // 2` is not x, and `x + 1 > x` is not true, where x is the greatest integer."""
    out = Buffer("out", (c(len(EXTREMES)),), INT64, "argument")
    found = []
    for value in (expr, simplify(expr)):
        result = np.zeros(len(EXTREMES), np.int64)
        assert isinstance(DATA.buffer, Buffer)
        nest = ir.Nest("data", (DATA.buffer,), (out,), (), ir.For("x", c(0), c(len(EXTREMES)), ir.Store("out", (out,), (X,), (value,))))
        run_nest(nest, {"D": EXTREMES, "out": result}, {})
        found.append(result)
    np.testing.assert_array_equal(found[0], found[1])


def test_a_power_of_two_that_wraps_is_no_multiple() -> None:
    """`4 * (1 << 62) // 4` is 0."""
    expr = op("floordiv", times(4, op("shl", c(1), X)), 4)
    points = [(x, 0) for x in (0, 5, 60, 61, 62, 63)]
    assert values(simplify(expr), points) == values(expr, points)


def test_products_of_dims_count_as_indices() -> None:
    n, m = Dim("n"), Dim("m")
    assert text(simplify(op("floordiv", times(4, op("mul", n, m)), 4))) == "n * m"


def test_floating_point_is_left_alone() -> None:
    zero = Const(0.0, FLOAT32)
    value = Load(Buffer("F", (), FLOAT32), ())
    for expr in (Binary("add", value, zero), Binary("mul", value, zero), Binary("sub", value, value), Compare("eq", value, value)):
        assert simplify(expr) == expr
    with arithmetic.quiet():
        assert not arithmetic.compare("eq", np.float32(np.nan), np.float32(np.nan), FLOAT32)


def test_a_decided_condition_is_a_literal_of_bool() -> None:
    assert simplify(Compare("le", X, X)) == Const(True, BOOL)


def test_what_is_kept_of_an_expression_is_not_told_of_one_that_only_looks_like_it() -> None:
    narrow, wide = Dim("n", 0, 7), Dim("n", 0, 1 << 40)
    assert narrow == wide
    for dim in (narrow, wide):
        found = simplify(op("add", op("sub", dim, X), X))
        assert isinstance(found, Dim)
        assert found.most == dim.most
    zeros = [simplify(Select(Compare("lt", X, X), Const(1.0, FLOAT32), Const(zero, FLOAT32))) for zero in (0.0, -0.0)]
    assert [text(zero) for zero in zeros] == ["0.0", "-0.0"]
    assert simplify(Compare("eq", c(1), c(1))) != simplify(op("floordiv", c(1), 1))


def test_an_expression_that_is_simple_is_itself_however_often_it_is_asked_for() -> None:
    for _ in range(2):
        simple = op("add", times(3, X), Y)
        assert simplify(simple) is simple
    assert simplify(op("add", X, X)) is simplify(op("add", X, X))
