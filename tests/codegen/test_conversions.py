"""Floats become the same integers whether their conversion saturates or is known to fit, and it is known to fit where it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tensorlang as tl
from tensorlang.algebra.bounds import Bounds
from tensorlang.algebra.conversions import fitting
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.ir import Cast, Nest
from tensorlang.ir.traverse import dtype_of, expressions, nodes, statements
from tests.machines import runnable
from tests.thinned import crossed

NUMBERS = [0.0, -0.0, 0.3, 0.5, 0.999, -0.3, -0.999, -1.0, 1.5, 2.5, 254.5, 255.0, 255.5, 256.0, 299.7]
FAR = [2.0**31, 2.0**31 - 128, -(2.0**31), 2.0**32, 2.0**40, -(2.0**62), 2.0**64, 3e38, -3e38, 1e-42, np.inf, -np.inf, np.nan]
VALUES = [sign * value for value in NUMBERS + FAR for sign in (1, -1)] * 2
COUNT = len(VALUES)
INTEGERS = ["uint8", "int8", "uint16", "int16", "int32", "uint32", "int64", "uint64"]

FORMS: dict[str, Callable[[Any, str], Any]] = {
    "plain": tl.cast,
    "clamped before": lambda x, to: tl.cast(tl.clamp(x, 0.0, 99.0), to),
    "clamped and rounded": lambda x, to: tl.cast(tl.round(tl.clamp(x, 0.0, 99.0)), to),
    "clamped and raised": lambda x, to: tl.cast(tl.clamp(x, 0.0, 99.0) + 0.5, to),
    "clamped from one on": lambda x, to: tl.cast(tl.clamp(x, 1.0, 99.0), to),
    "clamped below zero": lambda x, to: tl.cast(tl.clamp(x, -3.5, 99.0), to),
    "clamped after": lambda x, to: tl.clamp(tl.cast(tl.floor(x), to), tl.cast(0, to), tl.cast(99, to)),
    "clamped after from five": lambda x, to: tl.clamp(tl.cast(tl.floor(x), to), tl.cast(5, to), tl.cast(99, to)),
    "clamped after below zero": lambda x, to: tl.clamp(tl.cast(x, to), tl.cast(-5 if to.startswith("i") else 0, to), tl.cast(99, to)),
    "turned": lambda x, to: tl.maximum(tl.cast(7, to), tl.minimum(tl.cast(tl.ceil(x), to), tl.cast(99, to))),
    "no less than zero": lambda x, to: tl.cast(tl.maximum(x, 0.0), to),
    "absolute": lambda x, to: tl.cast(tl.minimum(tl.abs(x), 100.0), to),
}


def converted(form: str, to: str, dtype: str) -> tuple[tl.Tensor, tl.Tensor]:
    x = tl.placeholder((COUNT,), dtype, name="X")
    return tl.compute((COUNT,), lambda i: FORMS[form](x[i], to), name="Y"), x


@crossed(
    {"form": list(FORMS), "to": INTEGERS, "dtype": ["float32", "float64", "float16"], "isa": ["native", "x86-64-v3", "x86-64-v2"]}, count=90
)
def test_the_same_integers_as_by_the_definition(form: str, to: str, dtype: str, isa: str) -> None:
    outputs, x = converted(form, to, dtype)
    with np.errstate(over="ignore"):
        values = np.array(VALUES, dtype)
    wanted = tl.evaluate(outputs, {x: values})
    plain, lanes = tl.Schedule(outputs), tl.Schedule(outputs)
    lanes.vectorize(lanes.split("i", 16, tail="mask")[1])
    for s in (plain, lanes):
        np.testing.assert_array_equal(tl.build(s, target=runnable(isa))(values), wanted)


def conversions(nest: Nest) -> list[Cast]:
    found = [node for stmt in statements(nest.body) for expr in expressions(stmt) for node in nodes(expr)]
    return [node for node in found if isinstance(node, Cast) and node.dtype.is_integer and dtype_of(node.value).is_floating]


@pytest.mark.parametrize(
    ("form", "to", "fits"),
    [
        ("plain", "int32", False),
        ("clamped before", "uint8", True),
        ("clamped and rounded", "uint8", True),
        ("clamped and raised", "uint8", True),
        ("clamped from one on", "int32", True),
        ("clamped below zero", "int16", True),
        ("clamped below zero", "uint16", False),
        ("clamped after", "int32", True),
        ("clamped after from five", "uint8", True),
        ("clamped after below zero", "int32", False),
        ("turned", "int64", True),
        ("no less than zero", "int32", False),
        ("absolute", "uint8", True),
    ],
)
def test_what_lies_within_is_known_to_fit(form: str, to: str, fits: bool) -> None:
    nest = lower(tl.Schedule(converted(form, to, "float32")[0]).nest, target())
    assert {node.fits for node in conversions(nest)} == {fits}


def test_places_that_loops_tell_fit_and_need_no_floor() -> None:
    x = tl.placeholder((300,), name="X")
    outputs = tl.compute((600,), lambda i: x[tl.cast(tl.floor(tl.cast(i, "float32") * 0.5), "int32")], name="Y")
    s = tl.Schedule(outputs)
    s.vectorize(s.split("i", 16, tail="peel")[1])
    nest = lower(s.nest, target())
    assert {node.fits for node in conversions(nest)} == {True}
    assert "floor" not in str(tl.build(s).inspect("llvm"))
    values = np.arange(300, dtype=np.float32)
    np.testing.assert_array_equal(tl.build(s)(values), values[np.arange(600) // 2])


@settings(max_examples=200)
@given(st.floats(width=32), st.integers(0, 2**26), st.integers(0, 2**26), st.sampled_from(INTEGERS))
def test_no_clamp_that_a_float_cannot_hold_is_turned(value: float, one: int, other: int, to: str) -> None:
    low, high = sorted((one, other))
    most = int(np.iinfo(to).max)
    low, high = min(low, most), min(high, most)
    x = tl.placeholder((1,), name="x")
    y = tl.compute((1,), lambda i: tl.clamp(tl.cast(x[i], to), tl.cast(low, to), tl.cast(high, to)), name="y")
    (expr,) = y.definition.values  # type: ignore[union-attr]
    turned = fitting(expr, Bounds())
    given_value = np.array([value], np.float32)
    wanted = tl.evaluate(y, {x: given_value})
    np.testing.assert_array_equal(tl.build(y)(given_value), wanted)
    assert turned is None or high <= 1 << 24
