"""Scatters in lanes: what they write and where is computed together, and written in turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl

COMBINED = {"add": np.add, "min": np.minimum, "max": np.maximum}
ELEMENTS, PLACES = 1003, 37


def scattered(reduce: str, dtype: str, *, where: bool) -> tl.Tensor:
    """Twice X at the places that are three times `at`, where Y is positive."""
    x, y = tl.placeholder((ELEMENTS,), dtype, name="X"), tl.placeholder((ELEMENTS,), name="Y")
    at, r = tl.placeholder((ELEMENTS,), "int32", name="at"), tl.reduce_axis(ELEMENTS, name="r")
    first = tl.placeholder((PLACES,), dtype, name="first")
    return tl.scatter(
        first,
        (r,),
        lambda r: tl.clamp(3 * at[r], 0, PLACES - 1),
        lambda r: tl.cast(x[r] + x[r], dtype),
        reduce=reduce,
        where=(lambda r: y[r] > 0) if where else None,
        name="found",
    )


def wanted(x: Any, y: Any, at: Any, first: Any, reduce: str, *, where: bool) -> Any:
    found, places = first.copy(), np.clip(3 * at, 0, PLACES - 1)
    for r in range(ELEMENTS):
        if not where or y[r] > 0:
            new = x[r] + x[r]
            found[places[r]] = new if reduce == "set" else COMBINED[reduce](found[places[r]], new)
    return found


@pytest.mark.parametrize("where", [False, True])
@pytest.mark.parametrize("lanes", [2, 8, 48])
@pytest.mark.parametrize("dtype", ["int8", "int32", "float16", "float32", "float64"])
@pytest.mark.parametrize("reduce", ["add", "min", "max", "set"])
def test_lanes_that_meet_are_written_in_their_order(reduce: str, dtype: str, lanes: int, *, where: bool) -> None:
    draw = np.random.default_rng(lanes)
    x, first = (draw.integers(-30, 30, size).astype(dtype) for size in (ELEMENTS, PLACES))
    y = draw.standard_normal(ELEMENTS).astype("float32")
    s = tl.Schedule(scattered(reduce, dtype, where=where))
    s.vectorize(s.split("found.r", lanes, tail="mask" if lanes == 8 else "peel")[1])
    kernel = tl.build(s)
    for most in (1, 4, 40):
        at = draw.integers(0, most, ELEMENTS).astype("int32")
        operands = {"X": x, "Y": y, "at": at, "first": first}
        found = kernel(**{name: value for name, value in operands.items() if where or name != "Y"})
        assert np.array_equal(found, wanted(x, y, at, first, reduce, where=where))


def test_lanes_that_are_off_change_nothing_whatever_would_be_combined() -> None:
    """Not even a zero or a sign of one, which adding nothing would."""
    s = tl.Schedule(scattered("add", "float32", where=True))
    s.vectorize(s.split("found.r", 16)[1])
    at, first = np.zeros(ELEMENTS, "int32"), np.full(PLACES, -0.0, "float32")
    found = tl.build(s)(X=np.full(ELEMENTS, np.nan, "float32"), Y=np.full(ELEMENTS, -1, "float32"), at=at, first=first)
    assert np.array_equal(found, first) and np.signbit(found).all()


def test_loops_inside_keep_plain_stores_from_lanes() -> None:
    """The last value is that of the last iteration, and lanes take all turns of a loop inside together."""
    x, at = tl.placeholder((16, 4), "int32", name="X"), tl.placeholder((16, 4), "int32", name="at")
    first = tl.placeholder((9,), "int32", name="first")
    axes = tl.reduce_axis(16, name="i"), tl.reduce_axis(4, name="j")
    for reduce in ("set", "add"):
        made = tl.scatter(first, axes, lambda i, j: tl.clamp(at[i, j], 0, 8), lambda i, j: x[i, j], reduce=reduce, name="found")
        assert bool(tl.Schedule(made).can("vectorize", "found.i")) == (reduce == "add")


def summed(places: int, *, signed: bool = False) -> Any:
    """What a table that nobody else sees holds of X * Y where Y is positive, and of ones; each of its elements by the others."""
    x, y = tl.placeholder((ELEMENTS,), name="X"), tl.placeholder((ELEMENTS,), name="Y")
    at, r = tl.placeholder((ELEMENTS,), "int32", name="at"), tl.reduce_axis(ELEMENTS, name="r")

    def table(name: str, what: Any, dtype: str) -> Any:
        base = tl.compute((places,), lambda _: tl.cast(-0.0 if signed else 0, dtype), name=f"{name}0")
        return tl.scatter(base, (r,), lambda r: tl.clamp(at[r], 0, places - 1), what, where=lambda r: y[r] > 0, name=name)

    products = table("products", lambda r: x[r] * y[r], "float32")
    if signed:
        return tl.compute((places,), lambda i: 1 / products[i], name="result")
    ones = table("ones", lambda _: tl.cast(1, "int32"), "int32")
    return tl.compute((places,), lambda i: products[i] + 1000 * tl.cast(ones[i], "float32"), name="result")


@pytest.mark.parametrize("lanes", [2, 8, 48])
@pytest.mark.parametrize("places", [2, 3, PLACES])
@pytest.mark.parametrize("joined", [False, True])
def test_lanes_that_are_off_add_nothing_to_tables_of_our_own(places: int, lanes: int, *, joined: bool) -> None:
    draw = np.random.default_rng(lanes)
    x, y = (draw.integers(-9, 9, ELEMENTS).astype("float32") for _ in range(2))
    x[y <= 0] = np.nan
    at = draw.integers(-3, places + 3, ELEMENTS).astype("int32")
    s = tl.Schedule(summed(places))
    if joined:
        s.join_reductions("products", "ones")
    for stage in ("ones",) if joined else ("ones", "products"):
        s.vectorize(s.split(s.loops(stage)[0], lanes, tail="mask" if lanes == 8 else "peel")[1])
    expected = np.zeros(places, "float32")
    np.add.at(expected, np.clip(at, 0, places - 1)[y > 0], (x * y + 1000)[y > 0])
    np.testing.assert_array_equal(tl.build(s)(X=x, Y=y, at=at), expected)


def test_what_adds_nothing_leaves_a_zero_its_sign() -> None:
    s = tl.Schedule(summed(PLACES, signed=True))
    s.vectorize(s.split("products.r", 16)[1])
    none = np.full(ELEMENTS, np.nan, "float32")
    assert (tl.build(s)(X=none, Y=-np.ones(ELEMENTS, "float32"), at=np.zeros(ELEMENTS, "int32")) == -np.inf).all()


@pytest.mark.parametrize("tables", [False, True])
def test_lanes_that_write_several_tables_fetch_one_number_each(*, tables: bool) -> None:
    s = tl.Schedule(summed(PLACES))
    s.join_reductions("products", "ones")
    inner = s.split("ones.r", 8)[1]
    if tables:
        s.rfactor(inner)
        s.reorder("ones_rf.r_o", "ones_rf.r_i")
    s.vectorize("ones_rf.r_i" if tables else inner)
    code = tl.build(s).inspect("llvm")
    assert code.count(" = alloca <8 x i32>") == 1 and " x ptr>" not in code
