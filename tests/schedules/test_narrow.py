"""`narrow` changes no value: whatever integers are computed from, also at the ends of what they can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tensorlang as tl
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.directives.narrow import Narrow
from tests.schedules.programs import check, refused

EXTENT = 40
TYPES = ("int8", "uint8", "int16", "uint16", "int32")


def sobel(rows: int = 9, columns: int = 21) -> Tensor:
    """The differences of grey values that are made of bytes, all in `int32`."""
    image = tl.placeholder((rows + 1, columns + 1, 3), "uint8", name="I")

    def grey(i: Any, j: Any) -> Any:
        return sum(tl.cast(image[i, j, c], "int32") * part for c, part in enumerate((77, 150, 29))) >> 8

    g = tl.compute((rows + 1, columns + 1), grey, name="g")
    result: Tensor = tl.compute(
        (rows, columns),
        lambda i, j: tl.cast(tl.minimum(tl.abs(g[i, j + 1] - g[i, j]) + tl.abs(g[i + 1, j] - g[i, j]), 255), "uint8"),
        name="E",
    )
    return result


def test_an_intermediate_is_stored_in_fewer_bits_and_its_readers_follow() -> None:
    s = tl.Schedule(sobel())
    s.narrow("g")
    assert "g: int16[10, 22]" in str(s)
    assert "uint16(I[i, j, 0]) * 77" in str(s)
    check(s)
    s.narrow("E")
    assert "int32" not in str(s)
    check(s)


def test_the_default_computes_bytes_in_words() -> None:
    """A definition that says `int32` is computed like one that was written in 16 bits by hand, in half of the vectors."""
    text = tl.build(sobel(90, 640), target="x86-64-v3").inspect("asm")
    assert "vpabsw" in text
    assert "vpabsd" not in text


@st.composite
def expressions(draw: st.DrawFn, reads: list[Any], of: str, depth: int = 4) -> Any:
    """An integer expression of a type over reads of smaller ones and literals."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        if draw(st.integers(0, 3)) == 0:
            return tl.cast(draw(st.integers(-300, 300)) if of != "uint32" else draw(st.integers(0, 300)), of)
        return tl.cast(draw(st.sampled_from(reads)), of)
    left = draw(expressions(reads, of, depth - 1))
    kind = draw(
        st.sampled_from(("add", "sub", "mul", "min", "max", "abs", "neg", "shr", "shl", "div", "mod", "and", "xor", "select", "byte"))
    )
    match kind:
        case "abs":
            return abs(left) if of != "uint32" else left
        case "neg":
            return -left
        case "shr":
            return left >> draw(st.integers(0, 20))
        case "shl":
            return left << draw(st.integers(0, 9))
        case "div":
            return left // draw(st.integers(1, 300))
        case "mod":
            return left % draw(st.integers(1, 300))
        case "byte":
            return tl.cast(tl.cast(left, draw(st.sampled_from(("uint8", "int8", "int16", "uint16")))), of)
    right = draw(expressions(reads, of, depth - 1))
    match kind:
        case "select":
            cond = draw(expressions(reads, of, 1)) < draw(expressions(reads, of, 1))
            return tl.select(cond, left, right)
        case "min" | "max":
            return (tl.minimum if kind == "min" else tl.maximum)(left, right)
        case _:
            return {"add": left + right, "sub": left - right, "mul": left * right, "and": left & right, "xor": left ^ right}[kind]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_whatever_is_computed_stays_the_same(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    tensors = [tl.placeholder((EXTENT + 1,), dtype, name=f"X{place}") for place, dtype in enumerate(types)]
    of = data.draw(st.sampled_from(("int32", "int64", "uint32")))
    to = data.draw(st.sampled_from(("uint8", "int16", "int32", "float32")))
    h = tl.compute((EXTENT + 1,), lambda i: data.draw(expressions([x[i] for x in tensors], of)), name="h")
    out = tl.compute((EXTENT,), lambda i: tl.cast(data.draw(expressions([h[i], h[i + 1], tensors[0][i]], of)), to), name="out")
    s = tl.Schedule(out, inputs=tensors)
    taken = [stage for stage in ("h", "out") if s.attempt(Narrow(stage))]
    s.vectorize(s.split("out.i", 16, "mask")[1])
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    given_arrays = {}
    for tensor, dtype in zip(tensors, types, strict=True):
        ends = np.iinfo(dtype)
        array = rng.integers(ends.min, ends.max, EXTENT + 1, dtype=dtype, endpoint=True)
        array[:4] = ends.min, ends.max, ends.max, ends.min
        given_arrays[tensor] = array
    wanted = tl.evaluate(out, given_arrays)
    np.testing.assert_array_equal(tl.build(s)(*[given_arrays[tensor] for tensor in tensors]), wanted, str((taken, str(s))))


def test_what_leaves_sixteen_bits_on_the_way_does_not() -> None:
    x = tl.placeholder((8,), "uint16", name="X")
    mean = tl.compute((7,), lambda i: tl.cast((tl.cast(x[i], "int32") + tl.cast(x[i + 1], "int32")) // 2, "uint16"), name="mean")
    refused(tl.Schedule(mean), "TL-S301", "nothing of 'mean' is held by fewer bits: mean has values from 0 to 65535", "narrow", "mean")


def test_a_recurrence_may_reach_anything() -> None:
    x = tl.placeholder((9,), "uint8", name="X")
    y = tl.recurrence((9,), lambda i, y: tl.cast(x[i], "int32") + y[i - 1], name="y")
    s = tl.Schedule(tl.compute((9,), lambda i: y[i] + 1, name="Z"))
    refused(s, "TL-S301", "nothing of 'y' is held by fewer bits", "narrow", "y")


def test_a_recurrence_that_is_cut_off_is_stored_in_fewer_bits() -> None:
    x = tl.placeholder((30,), "uint8", name="X")
    y = tl.recurrence((30,), lambda i, y: tl.minimum(tl.maximum(tl.cast(x[i], "int32") * 2 - y[i - 1], 0), 999), name="y")
    s = tl.Schedule(tl.compute((30,), lambda i: y[i] * 3, name="Z"))
    s.narrow("y")
    assert "y: int16[30]" in str(s)
    check(s)


def test_sums_stay_as_they_are() -> None:
    x, k = tl.placeholder((4, 9), "uint8", name="X"), tl.reduce_axis(9, name="k")
    total = tl.compute((4,), lambda i: tl.sum(tl.cast(x[i, k], "int32"), axis=k), name="S")
    refused(tl.Schedule(total), "TL-S301", "sums stay as they are", "narrow", "S")


def test_floats_are_not_narrowed() -> None:
    x = tl.placeholder((4,), name="X")
    refused(tl.Schedule(tl.compute((4,), lambda i: x[i] + 1, name="Y")), "TL-S301", "nothing of 'Y' is held by fewer bits", "narrow", "Y")


@pytest.mark.parametrize("first", ["split", "narrow"])
def test_it_may_come_before_or_after_others(first: str) -> None:
    s = tl.Schedule(sobel())
    for step in ("narrow", "split") if first == "narrow" else ("split", "narrow"):
        if step == "split":
            outer, _ = s.split("E.i", 4)
            s.compute_at("g", outer)
            s.vectorize(s.split("E.j", 8, "mask")[1])
        else:
            s.narrow("g")
            s.narrow("E")
    assert "g: int16[5, 22]" in str(s)
    check(s)


def test_an_axis_that_is_another_loop_in_another_version_may_be_anything() -> None:
    """Whole tiles of 8 have literal ends, and the rest has not."""
    n = tl.dim("n")
    x = tl.placeholder((n,), "uint8", name="X")
    s = tl.Schedule(tl.compute((n,), lambda i: tl.cast(x[i], "int32") * tl.cast(i % 128, "int32") + tl.cast(i, "int32"), name="Y"))
    s.split("i", 8)
    s.specialize("n == 96")
    s.attempt(Narrow("Y"))
    for size in (96, 100_000):
        given_array = np.random.default_rng(0).integers(0, 255, size, "uint8")
        i = np.arange(size)
        np.testing.assert_array_equal(tl.build(s)(given_array), given_array.astype("int32") * (i % 128).astype("int32") + i.astype("int32"))
