"""Operators whose places data tells, against NumPy: scatters, gathers of tuples, one-hot, the largest elements, sampling."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special

import tensorlang as tl
from tensorlang import graph
from tests.graph.graphs import array, positive, run, run_all
from tests.thinned import few

X = array(3, 4)
I = np.array([[5, -7, 0, 3], [2, 2, -1, 9], [8, 1, 6, -4]])
TESTED = {
    "gather_nd", "scatter_nd", "scatter", "scatter_prod", "one_hot", "topk", "resample", "reverse_sequence", "tril", "triu", "grid_sample",
    "bucketize", "deform_conv2d", "einsum",
    "cumprod", "cummax", "cummin", "logcumsumexp", "logsumexp", "atan2", "acosh", "asinh", "atanh", "fmod", "trunc_divide",
    "bitwise_left_shift", "bitwise_right_shift",
}  # fmt: skip


@pytest.mark.parametrize(("name", "function"), [("acosh", np.arccosh), ("asinh", np.arcsinh), ("atanh", np.arctanh)])
def test_inverse_hyperbolic_functions(name: str, function: np.ufunc) -> None:
    operand = positive(3, 4) + 1 if name == "acosh" else np.tanh(X)
    np.testing.assert_allclose(run(name, operand), function(operand), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_inverse_of_sinh_is_exact_where_squares_are_not(dtype: str) -> None:
    operand = np.array([np.inf, -np.inf, np.finfo(dtype).max, -1e19, 1e8, 9000, -8000, 2e-8, 0], dtype)
    np.testing.assert_allclose(run("asinh", operand), np.arcsinh(operand), rtol=1e-6)


def test_angles_of_two_numbers() -> None:
    left, right = np.array([1, -1, 0, 0, 2, -0.0], "f4"), np.array([1, -1, -1, 0, 0, -1], "f4")
    np.testing.assert_allclose(run("atan2", left, right), np.arctan2(left, right), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_remainders_have_the_sign_of_one_side(dtype: str) -> None:
    left, right = np.array([7, -7, 7, -7, 0, 5], dtype), np.array([3, 3, -3, -3, 2, 5], dtype)
    np.testing.assert_allclose(run("remainder", left, right), np.mod(left, right))
    np.testing.assert_allclose(run("fmod", left, right), np.fmod(left, right))


def test_remainders_by_infinity_are_numpys() -> None:
    left, right = np.array([-3, 3, -1, 1, 0], "f4"), np.array([np.inf, np.inf, -np.inf, -np.inf, np.inf], "f4")
    np.testing.assert_array_equal(run("remainder", left, right), np.mod(left, right))
    np.testing.assert_array_equal(run("fmod", left, right), np.fmod(left, right))
    np.testing.assert_array_equal(run("floor_divide", left, right), np.floor_divide(left, right))


@given(
    st.lists(st.floats(-(2.0**20), 2.0**20, width=32), min_size=1, max_size=5),
    st.floats(2.0**-8, 100, width=32), st.sampled_from([1, -1]),
)  # fmt: skip
@settings(max_examples=20)
def test_no_quotient_is_rounded_to_the_next_integer(left: list[float], size: float, sign: int) -> None:
    over, under = np.array([1, -1, size, 3 * size, *left], "f4"), np.array([0.1, 0.1, *[size] * (len(left) + 2)], "f4") * sign
    for name, function in {"fmod": np.fmod, "remainder": np.remainder, "floor_divide": np.floor_divide}.items():
        np.testing.assert_array_equal(run(name, over, under), function(over, under))


def test_integers_are_divided_towards_zero_and_shifted() -> None:
    np.testing.assert_array_equal(run("trunc_divide", I, np.full((3, 4), -3)), np.trunc(I / -3).astype(int))
    small = np.abs(I).astype("uint8")
    for name, function in (("bitwise_left_shift", np.left_shift), ("bitwise_right_shift", np.right_shift)):
        np.testing.assert_array_equal(run(name, small, np.array(2, "uint8")), function(small, np.uint8(2)))


def test_products_up_to_each_place_and_logarithms_of_sums() -> None:
    np.testing.assert_allclose(run("cumprod", X, dim=1), np.cumprod(X, 1), rtol=1e-5)
    np.testing.assert_array_equal(run("cummax", X, dim=0), np.maximum.accumulate(X, 0))
    np.testing.assert_array_equal(run("cummin", I, dim=1), np.minimum.accumulate(I, 1))
    np.testing.assert_allclose(run("logcumsumexp", X * 100, dim=1), np.logaddexp.accumulate(X * 100, 1), rtol=1e-5)
    assert run("logcumsumexp", np.array([-np.inf, -np.inf, 0], "f4"), dim=0).tolist() == [-np.inf, -np.inf, 0]
    for dim, keepdim in (((0,), True), ((0, 1), False)):
        np.testing.assert_allclose(
            run("logsumexp", X * 100, dim=dim, keepdim=keepdim), special.logsumexp(X * 100, dim, keepdims=keepdim), rtol=1e-5
        )
    assert run("logsumexp", np.array([-np.inf, -np.inf], "f4")) == -np.inf and run("logsumexp", np.array([np.inf, 0], "f4")) == np.inf


@pytest.mark.parametrize("equation", ["ij,jk->ik", "i...,...i->...", "...ij,...jk->...ik", "ii->i", "ij", "...i,j...->...ij"])
def test_sums_of_products_by_an_equation(equation: str) -> None:
    shapes: dict[str, list[tuple[int, ...]]] = {
        "ij,jk->ik": [(2, 3), (3, 4)], "i...,...i->...": [(3, 2), (2, 3)], "...ij,...jk->...ik": [(5, 2, 3), (5, 3, 4)], "ii->i": [(3, 3)],
        "ij": [(2, 3)], "...i,j...->...ij": [(4, 2), (3, 4)],
    }  # fmt: skip
    operands = [array(*shape, seed=place) for place, shape in enumerate(shapes[equation])]
    np.testing.assert_allclose(run("einsum", *operands, equation=equation), np.einsum(equation, *operands), rtol=1e-5, atol=1e-5)


def test_gathers_of_tuples() -> None:
    x = array(2, 3, 4)
    index = np.array([[0, 2], [-1, 1]])
    np.testing.assert_array_equal(run("gather_nd", x, index), x[index[:, 0], index[:, 1]])
    inner = np.array([[2], [0]])
    np.testing.assert_array_equal(run("gather_nd", x, inner, batch_dims=1), np.stack([x[0, 2], x[1, 0]]))


COMBINED = {"add": np.add, "max": np.maximum, "min": np.minimum}


@pytest.mark.parametrize("reduce", ["set", *COMBINED])
def test_scatters_store_or_combine(reduce: str) -> None:
    index, src = np.array([[1, -1], [0, 0], [2, 1]]), array(3, 2, seed=3)
    wanted = X.copy()
    for row, column in itertools.product(range(3), range(2)):
        place = row, index[row, column]
        wanted[place] = src[row, column] if reduce == "set" else COMBINED[reduce](wanted[place], src[row, column])
    np.testing.assert_allclose(run("scatter", X, index, src, dim=1, reduce=reduce), wanted, rtol=1e-6)
    blocks, places = array(2, 4, seed=4), np.array([[2], [0]])
    wanted = X.copy()
    for row, (place,) in enumerate(places):
        wanted[place] = blocks[row] if reduce == "set" else COMBINED[reduce](wanted[place], blocks[row])
    np.testing.assert_allclose(run("scatter_nd", X, places, blocks, reduce=reduce), wanted, rtol=1e-6)


def test_a_scatter_of_products_meets_every_factor() -> None:
    index, src = np.array([[0], [2], [0]]), array(3, 4, seed=5)
    wanted = X.copy()
    np.multiply.at(wanted, index[:, 0], src)
    np.testing.assert_allclose(run("scatter_prod", X, index, src), wanted, rtol=1e-5)


def test_one_hot_counts_negative_indices_from_the_back() -> None:
    index = np.array([[0, 2], [-1, 7]])
    wanted = np.where(index < 0, index + 3, index)[..., None] == np.arange(3)
    np.testing.assert_array_equal(run("one_hot", index, num_classes=3), wanted)
    np.testing.assert_array_equal(run("one_hot", index, num_classes=3, dim=1), wanted.transpose(0, 2, 1))


@settings(max_examples=10)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9), st.booleans(), st.data())
def test_the_largest_elements_are_a_stable_sort(values: list[int], largest: bool, data: st.DataObject) -> None:
    x = np.array(values, "int32")
    k = data.draw(st.integers(1, len(values)))
    order = np.argsort(-x if largest else x, kind="stable")[:k]
    found, places = run_all("topk", x, k=k, dim=0, largest=largest)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(found, x[order])


@pytest.mark.parametrize("largest", [True, False])
def test_of_the_largest_elements_no_number_is_the_largest(largest: bool) -> None:
    x = np.array([1, np.nan, np.inf, np.nan, -np.inf], "f4")
    _, places = run_all("topk", x, k=5, dim=0, largest=largest)
    np.testing.assert_array_equal(places, [1, 3, 2, 0, 4] if largest else [4, 0, 2, 1, 3])


def test_resampling_is_a_sum_by_tables() -> None:
    index, weight = np.array([[0, 1], [3, 3], [1, 2]]), array(3, 2, seed=6)
    np.testing.assert_allclose(run("resample", X, index, weight, dim=1), (X[:, index] * weight).sum(-1), rtol=1e-5, atol=1e-6)


def test_the_first_elements_of_each_row_are_turned() -> None:
    found = run("reverse_sequence", X, np.array([1, 3, 4]), dim=1, batch=0)
    np.testing.assert_array_equal(found, [X[0], [*X[1, 2::-1], X[1, 3]], X[2, ::-1]])


@pytest.mark.parametrize("diagonal", [-2, 0, 1])
def test_triangles(diagonal: int) -> None:
    np.testing.assert_array_equal(run("tril", X, diagonal=diagonal), np.tril(X, diagonal))
    np.testing.assert_array_equal(run("triu", X > 0, diagonal=diagonal), np.triu(X > 0, diagonal))


def test_numbers_among_boundaries() -> None:
    edges = np.array([-1, 0, 0.5], "f4")
    x = np.array([-2, -1, 0.25, 0.5, 3], "f4")
    np.testing.assert_array_equal(run("bucketize", x, edges), np.searchsorted(edges, x))


@pytest.mark.parametrize("padding_mode", few(["zeros", "border", "reflection"], 1))
def test_a_grid_of_the_pixels_themselves_gives_the_image(padding_mode: str) -> None:
    """In every mode, whatever is outside; and half a pixel on, linear is the mean of two."""
    image = array(1, 2, 3, 4)
    rows, columns = np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-1, 1, 4), indexing="ij")
    grid = np.stack([columns, rows], -1)[None].astype("f4")
    for mode in ("linear", "nearest", "cubic"):
        found = run("grid_sample", image, grid, mode=mode, padding_mode=padding_mode, align_corners=True)
        np.testing.assert_allclose(found, image, rtol=1e-4, atol=1e-5)
    between = grid[:, :, :3] + np.array([1 / 3, 0], "f4")
    found = run("grid_sample", image, between, padding_mode=padding_mode, align_corners=True)
    np.testing.assert_allclose(found, (image[..., :3] + image[..., 1:]) / 2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("padding_mode", "outside"), [("zeros", lambda image: 0 * image[..., :1]), ("border", lambda image: image[..., :1])]
)
def test_far_outside_is_what_the_padding_says(padding_mode: str, outside) -> None:
    image = array(1, 1, 3, 4)
    rows = np.linspace(-1, 1, 3)
    grid = np.stack([np.full(3, -9.0), rows], -1)[None, :, None].astype("f4")
    for mode in ("linear", "nearest"):
        found = run("grid_sample", image, grid, mode=mode, padding_mode=padding_mode, align_corners=True)
        np.testing.assert_allclose(found, outside(image), atol=1e-5)


def test_a_deformable_convolution_by_whole_pixels_is_one_of_the_moved_image() -> None:
    """Masks are factors of taps; groups of offsets move their own channels."""
    x, weight = array(1, 2, 6, 6), array(3, 2, 2, 2, seed=1)
    moves = np.zeros((1, 2, 4, 2, 5, 5), "f4")
    moves[:, 0, :, 0], moves[:, 1, :, 1] = 1.0, -1.0
    moved = np.zeros_like(x)
    moved[:, 0, :-1], moved[:, 1, :, 1:] = x[:, 0, 1:], x[:, 1, :, :-1]
    mask = np.full((1, 8, 5, 5), 0.5, "f4")
    seen = np.lib.stride_tricks.sliding_window_view(moved, (2, 2), axis=(2, 3))
    wanted = np.einsum("ncyxrs,ocrs->noyx", seen, weight)
    bias = array(3, seed=2)
    found = run("deform_conv2d", x, weight, moves.reshape(1, 16, 5, 5), bias, mask)
    np.testing.assert_allclose(found, 0.5 * wanted + bias[:, None, None], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("operator", "operands", "attributes", "message"),
    [
        ("topk", (X,), {"k": 5}, "topk: 5 elements of an axis of 4"),
        ("one_hot", (I,), {"num_classes": 3, "dim": 4}, "one_hot: axis 4 is none of the 3 of the result"),
        ("gather_nd", (X, I), {}, "gather_nd: .* has no tuples for"),
        ("scatter", (X, I, X[:1]), {"dim": 0}, "scatter: .* do not fit"),
        ("scatter_nd", (X, I[:, :1], X[0]), {}, "scatter_nd: .* are no blocks of"),
        ("grid_sample", (array(1, 1, 2, 2), array(1, 2, 2, 2)), {"mode": "magic"}, "grid_sample: the mode 'magic' .* is not known"),
        ("einsum", (X, X), {"equation": "ij,jkl->ik"}, "einsum: 'ij,jkl->ik' does not name the axes of"),
        ("tril", (X[0],), {}, "tril: .* has no matrices"),
    ],
)
def test_what_does_not_fit_is_refused(operator: str, operands: tuple[np.ndarray, ...], attributes: dict[str, object], message: str) -> None:
    b = graph.Builder()
    with pytest.raises(tl.GraphError, match=message):
        b(operator, *(b.input(one.shape, tl.dtype(one.dtype)) for one in operands), **attributes)
