"""`separate` changes no value: windows share what they have in common, and factors leave the sums that do not move them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.ir import Const
from tensorlang.ir.mentions import allocations
from tensorlang.schedules.directives.separate import Separate
from tensorlang.schedules.strategies import choose
from tests.schedules.programs import refused

IMAGE = (23, 29)
FORMS = ["resized", "sum", "greatest", "squares", "clamped", "where", "padded", "strided", "turned", "weighted", "enlarged", "shears"]


def window(form: str, most: int = 3, image: tuple[int, int] = IMAGE, dtype: str = "float32") -> Tensor:
    """A reduction over windows of an image, said in one of several ways."""
    h, w = image
    x, a, b = tl.placeholder(image, dtype, name="X"), tl.reduce_axis(most, name="a"), tl.reduce_axis(most, name="b")
    f, inner = tl.placeholder((most,), dtype, name="F"), (h - most + 1, w - most + 1)

    def clamped(i: Any, j: Any) -> Any:
        return x[tl.clamp(i + a - 1, 0, h - 1), tl.clamp(j + b - 1, 0, w - 1)]

    def resized(i: Any, j: Any) -> Any:
        y, x_ = tl.cast(i, "float32") * 0.71 - 0.2, tl.cast(j, "float32") * 0.73 - 0.3
        row, column = tl.cast(tl.floor(y), "int32") - 1 + a, tl.cast(tl.floor(x_), "int32") - 1 + b
        weights = tl.abs(y - tl.cast(row, "float32")) * tl.abs(x_ - tl.cast(column, "float32"))
        return x[tl.clamp(row, 0, h - 1), tl.clamp(column, 0, w - 1)] * tl.cast(weights, dtype)

    def inside(i: Any, j: Any) -> Any:
        return (i + a >= 1) & (i + a < h + 1) & (j + b >= 1) & (j + b < w + 1)

    forms: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
        "sum": (inner, lambda i, j: tl.sum(x[i + a, j + b], axis=(a, b))),
        "greatest": (inner, lambda i, j: tl.max(x[i + a, j + b], axis=(a, b))),
        "squares": (inner, lambda i, j: tl.sum(x[i + a, j + b] * x[i + a, j + b], axis=(a, b))),
        "clamped": (image, lambda i, j: tl.sum(clamped(i, j), axis=(a, b))),
        "where": (image, lambda i, j: tl.max(x[i + a - 1, j + b - 1], axis=(a, b), where=inside(i, j))),
        "padded": (image, lambda i, j: tl.sum(tl.select(inside(i, j), x[i + a - 1, j + b - 1], 0), axis=(a, b))),
        "strided": ((7, 9), lambda i, j: tl.sum(x[2 * i + a, 3 * j + b], axis=(a, b))),
        "turned": (inner, lambda i, j: tl.sum(x[i + most - 1 - a, j + b], axis=(a, b))),
        "weighted": (inner, lambda i, j: tl.sum(f[a] * f[b] * x[i + a, j + b], axis=(a, b))),
        "enlarged": ((2 * h - 4, 3 * w - 6), lambda i, j: tl.sum(f[a] * f[b] * x[i // 2 + a, j // 3 + b], axis=(a, b))),
        "resized": ((31, 40), lambda i, j: tl.sum(resized(i, j), axis=(a, b))),
        "shears": (inner, lambda i, j: tl.sum(x[i + a, j + b] * f[a], axis=(a, b), where=a <= b)),
    }
    extents, value = forms[form]
    result: Tensor = tl.compute(extents, value, name="Y")
    return result


def given(outputs: Any) -> list[Any]:
    """Data for the arguments of a definition."""
    rng = np.random.default_rng(0)
    made = []
    for buffer in tl.Schedule(outputs).nest.inputs:
        shape = [int(extent.value) for extent in buffer.shape]
        floating = buffer.dtype.is_floating
        made.append((rng.random(shape) if floating else rng.integers(0, 100, shape)).astype(str(buffer.dtype)))
    return made


def same(s: tl.Schedule) -> None:
    data = given(s.outputs)
    np.testing.assert_allclose(tl.build(s)(*data), tl.build(tl.Schedule(s.outputs))(*data), rtol=2e-5)


@pytest.mark.parametrize("loop", ["a", "b"])
@pytest.mark.parametrize("form", FORMS)
def test_windows_in_steps_combine_what_they_did(form: str, loop: str) -> None:
    s = tl.Schedule(window(form))
    s.separate("Y", loop)
    assert "Y_inner" in s.stages()
    same(s)


def test_windows_share_their_rows() -> None:
    s = tl.Schedule(window("sum"))
    s.separate("Y", "b")
    assert "Y_inner: float32[23, 27]" in str(s)
    assert "Y[i, j] += Y_inner[i + a, j]" in str(s)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float64"])
@pytest.mark.parametrize("form", ["sum", "greatest", "padded"])
def test_every_type_wraps_as_it_did(form: str, dtype: str) -> None:
    s = tl.Schedule(window(form, dtype=dtype))
    s.separate("Y", "a")
    same(s)


def test_a_long_window_is_taken_in_parts() -> None:
    x, k = tl.placeholder((100,), name="X"), tl.reduce_axis(24, name="k")
    s = tl.Schedule(tl.compute((77,), lambda i: tl.sum(x[i + k], axis=k), name="Y"))
    s.split("k", 4)
    s.separate("Y", "k_i")
    assert "Y[i] += Y_inner[i + 4 * k_o]" in str(s)
    same(s)


def test_a_window_whose_parts_are_cut_keeps_what_it_combined() -> None:
    x, k = tl.placeholder((100,), name="X"), tl.reduce_axis(23, name="k")
    s = tl.Schedule(tl.compute((78,), lambda i: tl.sum(x[i + k], axis=k), name="Y"))
    s.split("k", 4)
    s.separate("Y", "k_i")
    same(s)


@pytest.mark.parametrize("loops", [("k",), ("l",), ("k", "l")])
def test_a_product_of_three_matrices_is_two_products(loops: tuple[str, ...]) -> None:
    a, b, c = tl.placeholder((5, 6), name="A"), tl.placeholder((6, 7), name="B"), tl.placeholder((7, 8), name="C")
    k, m = tl.reduce_axis(6, name="k"), tl.reduce_axis(7, name="l")
    d = tl.compute((5, 8), lambda i, j: tl.sum(a[i, k] * b[k, m] * c[m, j], axis=(k, m)), name="D")
    s = tl.Schedule(d)
    s.separate("D", *loops)
    data = given(d)
    np.testing.assert_allclose(tl.build(s)(*data), data[0] @ data[1] @ data[2], rtol=2e-5)


def test_a_factor_that_exists_under_a_condition_alone_is_read_under_it() -> None:
    x, f, a, b = tl.placeholder((9, 9), name="X"), tl.placeholder((5,), name="F"), tl.reduce_axis(3, name="a"), tl.reduce_axis(3, name="b")
    y = tl.compute((7, 7), lambda i, j: tl.sum(f[i + a] * x[i + a, j + b], axis=(a, b), where=i + a < 5), name="Y")
    s = tl.Schedule(y)
    s.separate("Y", "b")
    same(s)


def test_any_size_is_proved_as_dims_are() -> None:
    n, m = tl.dim("n"), tl.dim("m")
    x, a, b = tl.placeholder((n + 2, m + 2), name="X"), tl.reduce_axis(3, name="a"), tl.reduce_axis(3, name="b")
    y = tl.compute((n, m), lambda i, j: tl.sum(x[i + a, j + b], axis=(a, b)), name="Y")
    s = tl.Schedule(y)
    s.separate("Y", "a")
    for h, w in ((5, 8), (1, 1), (0, 4), (4, 0)):
        data = np.random.default_rng(0).random((h + 2, w + 2), np.float32)
        wanted = sum(data[p : p + h, q : q + w] for p in range(3) for q in range(3))
        np.testing.assert_allclose(tl.build(s)(data), wanted, rtol=1e-5)


def test_states_of_several_components_are_combined_in_steps() -> None:
    x, a, b = tl.placeholder((9, 12), name="X"), tl.reduce_axis(3, name="a"), tl.reduce_axis(4, name="b")
    least = tl.compute((7, 9), lambda i, j: tl.argmin(x[i + a, j + b], axis=(a, b)), name="Y")
    s = tl.Schedule(least)
    stage = next(name for name in s.stages() if any(loop.endswith(".b") for loop in s.loops(name)))
    s.separate(stage, "b")
    data = given(least)
    np.testing.assert_array_equal(tl.build(s)(*data), tl.build(tl.Schedule(least))(*data))


def test_a_repeated_step_is_written_as_it_is_called() -> None:
    s = tl.Schedule(window("sum"))
    s.separate("Y", "b")
    assert "s.separate('Y', 'Y.b')" in repr(s)
    assert tl.Schedule.from_json(s.outputs, s.to_json()).directives == s.directives


@pytest.mark.parametrize(("outputs", "stage", "loops", "code", "said"), [
    (lambda: window("sum"), "Y", ("i",), "TL-S304", "'i' moves its element"),
    (lambda: window("sum"), "Y", (), "TL-S304", "no sum of integers that 'Y' writes out"),
    (lambda: tl.compute((4,), lambda q: tl.placeholder((4,), name="A")[q], name="B"), "B", ("q",), "TL-S304", "combines nothing"),
])  # fmt: skip
def test_a_refusal_says_what_is_missing(outputs: Any, stage: str, loops: tuple[str, ...], code: str, said: str) -> None:
    refused(tl.Schedule(outputs()), code, said, "separate", stage, *loops)


@pytest.mark.parametrize(("before", "loop", "code", "said"), [
    (("unroll", "b"), "a", "TL-S107", "is already unroll; separate before"),
    (("skew", "b", "a"), "a", "TL-S104", "depend on 'a'; name both"),
    (("skew", "j", "i"), "b", "TL-S204", "depends on other loops"),
])  # fmt: skip
def test_what_is_scheduled_already_is_separated_before(before: tuple[str, ...], loop: str, code: str, said: str) -> None:
    s = tl.Schedule(window("sum"))
    getattr(s, before[0])(*before[1:])
    refused(s, code, said, "separate", "Y", loop)


def test_a_sum_inside_a_recurrence_is_separated_in_its_step() -> None:
    k, p = tl.reduce_axis(8, name="k"), tl.placeholder((8,), name="P")
    s = tl.Schedule(tl.recurrence((8,), lambda q, own: p[q] * 0.1 + tl.sum(own[k] * p[q], axis=k, where=k < q), name="R"))
    stage = next(name for name in s.stages() if any(loop.endswith(".k") for loop in s.loops(name)))
    s.separate(stage, "k")
    same(s)


@pytest.mark.parametrize(
    ("form", "most", "steps"), [("sum", 9, 1), ("greatest", 15, 3), ("clamped", 5, 1), ("sum", 2, 0), ("shears", 9, 0)]
)
def test_the_default_separates_wide_windows(form: str, most: int, steps: int) -> None:
    strategy = choose(window(form, most, (200, 240)), target("znver3"), 1)
    s = strategy.schedule(strategy.default)
    assert sum(isinstance(step, Separate) for step in s.directives) == steps
    same(s)


def test_the_knob_has_both_ways() -> None:
    strategy = choose(window("sum", 9, (60, 80)), target("znver3"), 1)
    assert strategy.space.knobs[0].name == "reductions"
    for value in ("whole", "in_steps"):
        for point in strategy.space.fix("reductions", value).sample(np.random.default_rng(0), 3):
            same(strategy.schedule(point))


def test_lanes_follow_clamped_rows_and_not_a_short_window() -> None:
    x, f = tl.placeholder(IMAGE, name="X"), tl.placeholder((5, 5), name="F")
    a, b = tl.reduce_axis(5, name="a"), tl.reduce_axis(5, name="b")
    h, w = IMAGE

    def value(i: Any, j: Any) -> Any:
        return tl.sum(f[a, b] * x[tl.clamp(i + a - 2, 0, h - 1), tl.clamp(j + b - 2, 0, w - 1)], axis=(a, b))

    strategy = choose(tl.compute(IMAGE, value, name="Y"), target("znver3"), 1)
    s = strategy.schedule(strategy.default)
    assert any(loop.startswith("Y.j") for loop in s.loops("Y")) and "s.vectorize('Y.j_i')" in repr(s)
    same(s)


@pytest.mark.parametrize(("dtype", "masked", "leaves"), [
    ("float32", False, True), ("float32", True, False), ("int32", True, True),
])  # fmt: skip
def test_a_factor_leaves_a_sum_where_it_meets_a_number(dtype: str, masked: bool, leaves: bool) -> None:
    x, f, a, b = (
        tl.placeholder((9, 9), dtype, name="X"),
        tl.placeholder((3,), dtype, name="F"),
        tl.reduce_axis(3, name="a"),
        tl.reduce_axis(3),
    )
    where = {"where": x[0, b] > x[0, 0]} if masked else {}
    y = tl.compute((7, 7), lambda i, j: tl.sum(f[a] * x[i + a, j + b], axis=(a, b), **where), name="Y")
    s = tl.Schedule(y)
    s.separate("Y", s.loops("Y")[-1])
    assert ("F[a] * Y_inner[i + a, j]" in str(s)) == leaves
    if masked and not leaves:  # nothing is taken of infinity
        data = np.ones((9, 9), dtype), np.full(3, np.inf, dtype)
        np.testing.assert_array_equal(tl.build(s)(*data), np.zeros((7, 7)))


def test_rows_of_an_enlarged_image_are_summed_once() -> None:
    s = tl.Schedule(window("enlarged"))
    s.separate("Y", "b")
    assert "Y_inner: float32[23, 27]" in str(s)
    assert "Y[i, j] += F[a] * Y_inner[i // 2 + a, j // 3]" in str(s)
    same(s)


def bilinear(rows: int, columns: int, image: tuple[int, int] = (240, 320)) -> Tensor:
    """An image of another size, each pixel of four: weights of rows and of columns, at places that floats tell."""
    h, w = image
    x, a, b = tl.placeholder(image, name="X"), tl.reduce_axis(2, name="a"), tl.reduce_axis(2, name="b")

    def taken(at: Any, size: int, most: int, tap: Any) -> tuple[Any, Any]:
        place = tl.cast(at, "float32") * (most / size)
        first = tl.floor(place)
        far = tl.abs(place - first - tl.cast(tap, "float32"))
        return tl.clamp(tl.cast(first, "int32") + tap, 0, most - 1), 1 - far

    def pixel(i: Any, j: Any) -> Any:
        (row, high), (column, wide) = taken(i, rows, h, a), taken(j, columns, w, b)
        return tl.sum(x[row, column] * high * wide, axis=(a, b))

    result: Tensor = tl.compute((rows, columns), pixel, name="Y")
    return result


def _bilinear(x: Any, rows: int, columns: int) -> Any:
    def taken(size: int, most: int) -> tuple[Any, Any]:
        place = np.arange(size, dtype=np.float32) * np.float32(most / size)
        first = np.floor(place)
        return first.astype(int), place - first

    (i, up), (j, across) = taken(rows, x.shape[0]), taken(columns, x.shape[1])
    mixed = x[i] * (1 - up)[:, None] + x[np.minimum(i + 1, x.shape[0] - 1)] * up[:, None]
    return mixed[:, j] * (1 - across) + mixed[:, np.minimum(j + 1, x.shape[1] - 1)] * across


@pytest.mark.parametrize("size", [(240, 320), (300, 1000), (50, 61), (1, 1)])
def test_an_image_of_another_size_is_numpys(size: tuple[int, int]) -> None:
    x = np.random.default_rng(0).random((240, 320), dtype=np.float32)
    outputs = bilinear(*size)
    want = _bilinear(x, *size)
    s = tl.Schedule(outputs)
    s.separate("Y", "Y.a")
    for built in (tl.build(outputs), tl.build(s)):
        np.testing.assert_allclose(built(x), want, rtol=1e-4, atol=1e-4)


def test_rows_of_a_resized_image_are_mixed_once_for_all_columns_that_are_read() -> None:
    s = tl.Schedule(bilinear(300, 1000))
    s.separate("Y", "Y.a")
    (mixed,) = (buffer for buffer in allocations(s.nest.body) if buffer.name == "Y_inner")
    assert [int(extent.value) for extent in mixed.shape if isinstance(extent, Const)] == [300, 320]


def test_places_that_a_condition_alone_keeps_inside_are_read_under_it() -> None:
    x, a, b = tl.placeholder((20, 30), name="X"), tl.reduce_axis(3, name="a"), tl.reduce_axis(3, name="b")

    def pixel(i: Any, j: Any) -> Any:
        column = tl.cast(tl.floor(tl.cast(j, "float32") * 0.7), "int32") - 1 + b
        return tl.sum(x[tl.clamp(i + a - 1, 0, 19), column], axis=(a, b), where=(column >= 0) & (column < 30))

    outputs = tl.compute((20, 45), pixel, name="Y")
    s = tl.Schedule(outputs)
    s.separate("Y", "Y.a")
    values = np.random.default_rng(0).random((20, 30), dtype=np.float32)
    rows, columns = (
        np.clip(np.arange(20)[:, None] + np.arange(-1, 2), 0, 19),
        np.floor(np.arange(45, dtype=np.float32) * np.float32(0.7)).astype(int),
    )
    padded = np.pad(values, ((0, 0), (1, 3)))
    want = sum(padded[rows].sum(axis=1)[:, columns + tap] for tap in range(3))
    for built in (tl.build(outputs), tl.build(s)):
        np.testing.assert_allclose(built(values), want, rtol=1e-4)
