"""Equations hold: every row is found, and what stands for it has the same bits, or, for rows of real numbers, the same value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tensorlang.graph import Builder, Graph, Origin, Value, passes, pattern as pm
from tensorlang.graph.passes import algebra
from tensorlang.graph.passes.equations import EQUATIONS, Equation
from tests.graph.graphs import arguments, array, random_graphs

SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-40, 3.4e38, 0.5, -2.5, 7.0, 1e-3, 123.456, -88.0], np.float32)
Made = Callable[[Builder, Value, Value, float], Value]

LEFT: dict[str, Made] = {
    "x * 1 = x": lambda b, x, y, c: b("mul", x, 1.0),
    "x / 1 = x": lambda b, x, y, c: b("div", x, 1.0),
    "x + (-0) = x": lambda b, x, y, c: b("add", x, -0.0),
    "x - 0 = x": lambda b, x, y, c: b("sub", x, 0.0),
    "x ** 1 = x": lambda b, x, y, c: b("pow", x, 1.0),
    "x ** 2 = x * x": lambda b, x, y, c: b("pow", x, 2.0),
    "x ** -1 = 1 / x": lambda b, x, y, c: b("pow", x, -1.0),
    "1 / x is a reciprocal": lambda b, x, y, c: b("div", b.scalar(1.0, "float32"), x),
    "x / 2^n = x * 2^-n": lambda b, x, y, c: b("div", x, 2.0 ** round(c)),
    "-(-x) = x": lambda b, x, y, c: b("neg", b("neg", x)),
    "x + (-y) = x - y": lambda b, x, y, c: b("add", x, b("neg", y)),
    "x - (-y) = x + y": lambda b, x, y, c: b("sub", x, b("neg", y)),
    "(-x) * (-y) = x * y": lambda b, x, y, c: b("mul", b("neg", x), b("neg", y)),
    "|-x| = |x|": lambda b, x, y, c: b("abs", b("neg", x)),
    "||x|| = |x|": lambda b, x, y, c: b("abs", b("abs", x)),
    "(-x)^2 = x^2": lambda b, x, y, c: b("square", b("neg", x)),
    "|x|^2 = x^2": lambda b, x, y, c: b("square", b("abs", x)),
    "relu(relu(x)) = relu(x)": lambda b, x, y, c: b("relu", b("relu", x)),
    "max(x, x) = x": lambda b, x, y, c: b("maximum", x, x),
    "min(x, x) = x": lambda b, x, y, c: b("minimum", x, x),
    "x if c else x = x": lambda b, x, y, c: b("where", b("gt", y, 0.0), x, x),
    "not not x = x": lambda b, x, y, c: b("logical_not", b("logical_not", b("gt", x, y))),
    "~~x = x": lambda b, x, y, c: b("bitwise_not", b("bitwise_not", b("gt", x, y))),
    "x as its own type = x": lambda b, x, y, c: b("to", x, dtype="float32"),
    "a cast through a type that holds all": lambda b, x, y, c: b("to", b("to", x, dtype="float64"), dtype="float16"),
    "a permutation of a permutation": lambda b, x, y, c: b("permute", b("permute", x, dims=(1, 2, 0)), dims=(0, 2, 1)),
    "a permutation of nothing": lambda b, x, y, c: b("permute", x, dims=(0, 1, 2)),
    "a reshape of a reshape": lambda b, x, y, c: b("reshape", b("reshape", x, shape=(4, 4)), shape=(8, 2)),
    "a reshape of axes of one": lambda b, x, y, c: b("reshape", b("permute", x, dims=(1, 0, 2)), shape=(16,)),
    "a layer between reshapes": lambda b, x, y, c: _layer(b, b("reshape", x, shape=(2, 8)), b("reshape", y, shape=(2, 8)), (1, 2, 2)),
    "a reshape to the same": lambda b, x, y, c: b("reshape", x, shape=x.shape),
    "an expansion of an expansion": lambda b, x, y, c: b("expand", b("expand", x, shape=(3, 2, 8)), shape=(2, 3, 2, 8)),
    "an expansion to the same": lambda b, x, y, c: b("expand", x, shape=x.shape),
    "a slice of everything": lambda b, x, y, c: b("slice", x, dim=1, start=0, end=x.shape[1]),
    "x + 0 = x": lambda b, x, y, c: b("add", x, 0.0),
    "0 - x = -x": lambda b, x, y, c: b("sub", b.scalar(0.0, "float32"), x),
    "x * -1 = -x": lambda b, x, y, c: b("mul", x, -1.0),
    "x / c = x * (1 / c)": lambda b, x, y, c: b("div", x, c),
    "(x * a) * b = x * (a * b)": lambda b, x, y, c: b("mul", b("mul", x, c), 3.0),
    "(x + a) + b = x + (a + b)": lambda b, x, y, c: b("add", b("add", x, c), 3.0),
    "x * z + y * z = (x + y) * z": lambda b, x, y, c: _products(b, "add", x, y, c),
    "x * z - y * z = (x - y) * z": lambda b, x, y, c: _products(b, "sub", x, y, c),
    "-(x - y) = y - x": lambda b, x, y, c: b("neg", b("sub", x, y)),
    "exp(log(x)) = x": lambda b, x, y, c: b("exp", b("log", x)),
    "log(exp(x)) = x": lambda b, x, y, c: b("log", b("exp", x)),
    "sqrt(x)^2 = x": lambda b, x, y, c: b("square", b("sqrt", x)),
    "sqrt(x^2) = |x|": lambda b, x, y, c: b("sqrt", b("square", x)),
    "1 / sqrt(x) is one function": lambda b, x, y, c: b("reciprocal", b("sqrt", x)),
    "y / sqrt(x) = y * rsqrt(x)": lambda b, x, y, c: b("div", y, b("sqrt", x)),
    "x ** 0.5 = sqrt(x)": lambda b, x, y, c: b("pow", x, 0.5),
    "x ** -0.5 = rsqrt(x)": lambda b, x, y, c: b("pow", x, -0.5),
    "x ** 3 = x^2 * x": lambda b, x, y, c: b("pow", x, 3.0),
}


def _products(b: Builder, operator: str, x: Value, y: Value, c: float) -> Value:
    z = b.scalar(c, "float32")
    return b(operator, b("mul", x, z), b("mul", y, z))


def _layer(b: Builder, rows: Value, weight: Value, shape: tuple[int, ...]) -> Value:
    return b("reshape", b("linear", rows, weight, np.float32([0.5, -2])), shape=shape)


def left_side(row: Equation, c: float = 3.7) -> Graph:
    b = Builder("row")
    shape = (1, 2, 8)
    x, y = b.input(shape, name="x"), b.input(shape, name="y")
    return b.finish(LEFT[row.says](b, x, y, c))


def alone(row: Equation) -> Callable[[Graph], Graph]:
    return lambda g: algebra.simplified(g, [row])


def test_every_row_has_its_left_side_here() -> None:
    assert [row.says for row in EQUATIONS] == list(LEFT)


bits = st.lists(st.integers(0, 2**32 - 1), min_size=8, max_size=8)


@pytest.mark.parametrize("row", [row for row in EQUATIONS if row.exact], ids=lambda row: row.says)
@given(drawn=bits, factor=st.integers(-20, 20))
@settings(max_examples=20)
def test_an_exact_row_changes_no_bit(row: Equation, drawn: list[int], factor: int) -> None:
    """Also of NaN, infinities, negative zeros and numbers below the normal ones."""
    g = left_side(row, factor)
    made = pm.assert_pass(alone(row), g, before=row.before)
    with np.errstate(all="ignore"):
        anything = np.concatenate(
            [np.array(drawn, np.uint32).view(np.float32), np.random.default_rng(factor + 20).permutation(SPECIAL)[:8]]
        )
        for x in (SPECIAL, anything):
            y = np.roll(SPECIAL, 3)
            given = [x.reshape(1, 2, 8), y.reshape(1, 2, 8)]
            (found,), (wanted,) = made.run(*given), g.run(*given)
            np.testing.assert_array_equal(found, wanted)
            if found.dtype.kind == "f":
                defined = ~np.isnan(wanted)
                np.testing.assert_array_equal(np.signbit(found)[defined], np.signbit(wanted)[defined])


@pytest.mark.parametrize("row", [row for row in EQUATIONS if not row.exact], ids=lambda row: row.says)
@given(seed=st.integers(0, 99), factor=st.floats(0.125, 10, width=32))
@settings(max_examples=10)
def test_a_row_of_real_numbers_changes_last_digits_alone(row: Equation, seed: int, factor: float) -> None:
    given = [np.random.default_rng(seed + place).random((1, 2, 8), np.float32) + np.float32(0.5) for place in (0, 7)]
    pm.assert_pass(alone(row), left_side(row, factor), before=row.before, inputs=given, rtol=1e-5)


def test_rows_of_real_numbers_are_for_who_asks_for_them() -> None:
    for row in EQUATIONS:
        if not row.exact:
            g = left_side(row)
            assert passes.simplify(g) == g or next(pm.match_all(passes.simplify(g), row.before), None) is not None


@given(g=random_graphs())
@settings(max_examples=30)
def test_simplified_graphs_have_the_same_bits_and_are_simple(g: Graph) -> None:
    made, x = passes.simplify(g), arguments(g)
    for found, wanted in zip(made.run(*x), g.run(*x), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert passes.simplify(made) is made


def test_what_a_row_leaves_is_tried_again() -> None:
    b = Builder()
    value = b.input((2, 3, 4), name="x")
    for _ in range(5):
        value = b("permute", b("mul", b("neg", b("neg", value)), 1.0), dims=(1, 2, 0))
    g = b.finish(b("permute", value, dims=(2, 0, 1)))
    made = passes.simplify(g)
    x = array(2, 3, 4)
    np.testing.assert_array_equal(made.run(x)[0], g.run(x)[0])
    assert [node.operator for node in made.nodes] == ["permute"]


def test_a_factor_that_repeats_an_operand_stays() -> None:
    b = Builder()
    g = b.finish(b("mul", b.input((1, 4)), np.ones((3, 4), "float32")))
    assert passes.simplify(g) is g


@pytest.mark.parametrize(
    ("start", "between", "end"), [("float32", "float16", "float32"), ("int64", "float64", "int64"), ("float32", "float64", "int32")]
)
def test_a_cast_that_loses_something_stays(start: str, between: str, end: str) -> None:
    b = Builder()
    g = b.finish(b("to", b("to", b.input((3,), start), dtype=between), dtype=end))
    assert passes.simplify(g) is g


def test_a_layer_of_reshaped_rows_stays_where_their_last_axis_is_another() -> None:
    """Or where its result is not reshaped to rows as they were."""
    for shape, after in (((4, 4), (2, 2, 2)), ((2, 8), (4, 1))):
        b = Builder()
        x, weight = b.input((1, 2, 8)), b.input((2, shape[-1]))
        g = b.finish(_layer(b, b("reshape", x, shape=shape), weight, after))
        assert passes.simplify(g) is g


def test_what_else_reads_an_inner_value_keeps_it() -> None:
    b = Builder()
    inner = b("neg", b.input((3,), name="x"))
    g = b.finish(b("neg", inner), inner)
    made = passes.simplify(g)
    assert [node.operator for node in made.nodes] == ["neg"] and made.outputs[0] == g.inputs[0]


def test_the_origins_of_what_was_simplified_are_kept() -> None:
    b = Builder()
    x = b.input((3,), name="x")
    b.origins = (Origin("model.py", 3),)
    first = b("neg", x)
    b.origins = (Origin("model.py", 4),)
    made = passes.simplify(b.finish(b("abs", first)))
    assert made.nodes[0].origins == (Origin("model.py", 3), Origin("model.py", 4))
