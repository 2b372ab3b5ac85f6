"""Each operator of `tl.ops` computes what NumPy or SciPy computes, and refuses shapes that do not fit by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy

import tensorlang as tl
from tensorlang import ops
from tensorlang.definition.expr import Expr
from tensorlang.definition.tensor import Stage, definitions
from tests.thinned import crossed

rng = np.random.default_rng(17)


def array(*shape: int, dtype: str = "float32") -> Any:
    return rng.standard_normal(shape).astype(dtype)


def feed(*arrays: Any) -> list[Any]:
    """A placeholder for each array, named a, b, c, ..."""
    return [tl.placeholder(value.shape, value.dtype.name, name="abcdefg"[n]) for n, value in enumerate(arrays)]


def check(output: Any, tensors: list[Any], arrays: tuple[Any, ...], want: Any, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    """The meaning of the definition, and the kernel of its default schedule, are what NumPy computes."""
    for got in (tl.evaluate(output, dict(zip(tensors, arrays, strict=True))), tl.build(output, inputs=tensors)(*arrays)):
        assert got.dtype == arrays[0].dtype
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


@pytest.mark.parametrize(("left", "right"), [((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 1, 4), (2, 3, 4, 2))])
def test_matmul_is_numpy_matmul(left: Any, right: Any) -> None:
    a, b = array(*left), array(*right)
    A, B = feed(a, b)
    check(ops.matmul(A, B), [A, B], (a, b), a @ b)


def test_batch_matmul_is_numpy_matmul_of_three_axes() -> None:
    a, b = array(3, 2, 4), array(3, 4, 5)
    A, B = feed(a, b)
    check(ops.batch_matmul(A, B), [A, B], (a, b), a @ b)


@pytest.mark.parametrize("lead", [(), (5,), (2, 3)])
@pytest.mark.parametrize("biased", [False, True])
def test_dense_is_a_product_with_the_transposed_weight(lead: Any, biased: bool) -> None:
    x, w, b = array(*lead, 4), array(6, 4), array(6)
    X, W, B = feed(x, w, b)
    arrays = (x, w, b) if biased else (x, w)
    check(ops.dense(X, W, B if biased else None), [X, W, B][: len(arrays)], arrays, x @ w.T + (b if biased else 0))


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax_and_log_softmax_are_scipys(axis: int) -> None:
    x = array(3, 5, 4) * 20
    (X,) = feed(x)
    for value in (ops.softmax(X, axis), ops.softmax(X, dim=axis), ops.softmax(X, axis=axis)):
        check(value, [X], (x,), scipy.special.softmax(x.astype("f8"), axis))
    check(ops.log_softmax(X, axis), [X], (x,), scipy.special.log_softmax(x.astype("f8"), axis))


@pytest.mark.parametrize("shape", [(4,), (5, 4)])
def test_layer_norm_has_mean_zero_and_variance_one(shape: Any) -> None:
    x, w, b = array(3, 5, 4) * 3 + 2, array(*shape), array(*shape)
    X, W, B = feed(x, w, b)
    axes = tuple(range(-len(shape), 0))
    plain = (x - x.mean(axes, keepdims=True, dtype="f8")) / np.sqrt(x.var(axes, keepdims=True, dtype="f8") + 1e-5)
    check(ops.layer_norm(X, shape), [X], (x,), plain, rtol=1e-4)
    check(ops.layer_norm(X, shape, W, B), [X, W, B], (x, w, b), plain * w + b, rtol=1e-4)


def test_rms_norm_divides_by_the_root_of_the_mean_square() -> None:
    x, w = array(6, 8), array(8)
    X, W = feed(x, w)
    want = x / np.sqrt((x.astype("f8") ** 2).mean(1, keepdims=True) + 0.1) * w
    check(ops.rms_norm(X, 8, W, eps=0.1), [X, W], (x, w), want)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_batch_norm_uses_the_statistics_it_is_given(layout: str) -> None:
    x, m, v, w, b = array(2, 3, 4, 5), array(3), np.abs(array(3)) + 0.5, array(3), array(3)

    def channel(part: Any) -> Any:
        return part[:, None, None]

    want = (x - channel(m)) / np.sqrt(channel(v) + 1e-5) * channel(w) + channel(b)
    if layout == "NHWC":
        x, want = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), want.transpose(0, 2, 3, 1)
    X, M, V, W, B = feed(x, m, v, w, b)
    check(ops.batch_norm(X, M, V, W, B, layout=layout), [X, M, V, W, B], (x, m, v, w, b), want)


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "sigmoid": scipy.special.expit,
    "tanh": np.tanh,
    "silu": lambda x: x * scipy.special.expit(x),
    "gelu": lambda x: x * scipy.special.ndtr(x),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_activations_are_scipys(name: str, dtype: str) -> None:
    x = (array(4, 9) * 4).astype(dtype)
    (X,) = feed(x)
    tolerance = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-12}[dtype]
    check(getattr(ops, name)(X), [X], (x,), ACTIVATIONS[name](x.astype("f8")), rtol=tolerance, atol=tolerance)


def test_gelu_may_be_approximated_by_tanh() -> None:
    x = array(20)
    (X,) = feed(x)
    want = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    check(ops.gelu(X, approximate="tanh"), [X], (x,), want)


@crossed({"lead": [(), (2,), (2, 3)], "mask": [None, "bool", "float32"], "is_causal": [False, True]})
def test_attention_is_a_softmax_between_two_products(lead: Any, mask: Any, is_causal: bool) -> None:
    q, k, v = array(*lead, 5, 4), array(*lead, 6, 4), array(*lead, 6, 3)
    m = rng.random((5, 6)) < 0.8 if mask == "bool" else array(5, 6)
    m[:, 0] = 1
    scores = q.astype("f8") @ k.swapaxes(-1, -2) / 2
    if mask == "bool":
        scores = np.where(m, scores, -np.inf)
    elif mask:
        scores = scores + m
    if is_causal:
        scores = np.where(np.tri(5, 6, dtype=bool), scores, -np.inf)
    want = scipy.special.softmax(scores, -1) @ v
    arrays = (q, k, v, m) if mask else (q, k, v)
    Q, K, V, *rest = feed(*arrays)
    check(ops.attention(Q, K, V, rest[0] if rest else None, is_causal=is_causal), [Q, K, V, *rest], arrays, want)


def test_attention_in_half_precision_gives_half_precision() -> None:
    q, k, v = (array(4, 8, dtype="float16") for _ in range(3))
    Q, K, V = feed(q, k, v)
    want = scipy.special.softmax(q.astype("f8") @ k.astype("f8").T * 0.25, -1) @ v
    check(ops.attention(Q, K, V, scale=0.25), [Q, K, V], (q, k, v), want, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_embedding_reads_rows_and_clamps(dtype: str) -> None:
    table = array(5, 3)
    index = np.array([[0, 4, 2], [3, 9, 255 if dtype == "uint8" else -3]], dtype)
    I, T = feed(index, table)
    got = tl.evaluate(ops.embedding(I, T), {I: index, T: table})
    np.testing.assert_array_equal(got, table[np.clip(index.astype("i8"), 0, 4)])


@pytest.mark.parametrize("size", [(3, 4), (10, 7), 5])
def test_resize2d_nearest_reads_the_pixel_at_the_same_part_of_the_image(size: Any) -> None:
    x = array(2, 3, 5, 7)
    (X,) = feed(x)
    down, across = size if isinstance(size, tuple) else (size, size)
    want = x[:, :, np.arange(down) * 5 // down][:, :, :, np.arange(across) * 7 // across]
    check(ops.resize2d(X, size), [X], (x,), want, rtol=0, atol=0)


@crossed({"size": [(3, 4), (10, 7), (1, 1)], "align_corners": [False, True], "layout": ["NCHW", "NHWC"]})
def test_resize2d_bilinear_is_scipys_map_coordinates(size: Any, align_corners: bool, layout: str) -> None:
    x = array(1, 2, 5, 7)

    def places(extent: int, new: int) -> Any:
        at = np.arange(new)
        exact = at * (extent - 1) / max(1, new - 1) if align_corners else (at + 0.5) * extent / new - 0.5
        return np.clip(exact, 0, extent - 1)

    grid = np.meshgrid(places(5, size[0]), places(7, size[1]), indexing="ij")
    want = np.stack([scipy.ndimage.map_coordinates(plane.astype("f8"), grid, order=1) for plane in x[0]])[None]
    given = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    (X,) = feed(given)
    output = ops.resize2d(X, size, mode="bilinear", align_corners=align_corners, layout=layout)
    check(output, [X], (given,), want if layout == "NCHW" else want.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("rows", [1, 5])
def test_embedding_takes_a_table_of_any_length(rows: int) -> None:
    table, index = array(rows, 3), np.array([0, 4, -2, 9])
    I, T = tl.placeholder((tl.dim("n"),), "int64", name="I"), tl.placeholder((tl.dim("v"), tl.dim("d")), name="T")
    E = ops.embedding(I, T)
    want = table[np.clip(index, 0, rows - 1)]
    np.testing.assert_array_equal(tl.evaluate(E, {I: index, T: table}), want)
    kernel = tl.build(E)
    np.testing.assert_array_equal(kernel(index, table), want)
    np.testing.assert_array_equal(kernel(index, table[:0]), np.zeros((4, 3), "f4"))


@crossed(
    {
        "layout": ["NCHW", "NHWC"],
        "options": [{}, {"mode": "bilinear"}, {"mode": "bilinear", "align_corners": True}],
        "size": [(3, 4), (10, 7), (1, 1)],
    }
)
def test_resize2d_takes_dims_and_means_the_same(size: tuple[int, int], options: Any, layout: str) -> None:
    x = array(1, 2, 5, 6) if layout == "NCHW" else array(1, 5, 6, 2)
    (X,) = feed(x)
    want = tl.evaluate(ops.resize2d(X, size, layout=layout, **options), {X: x})
    h, w, p, q = map(tl.dim, "hwpq")
    S = tl.placeholder((1, 2, h, w) if layout == "NCHW" else (1, h, w, 2), name="S")
    old = ops.resize2d(S, size, layout=layout, **options)
    new = ops.resize2d(S, (p, q), layout=layout, **options)
    np.testing.assert_allclose(tl.build(old)(x), want, rtol=1e-6)
    np.testing.assert_allclose(tl.build(new)(x, p=size[0], q=size[1]), want, rtol=1e-6)
    np.testing.assert_allclose(tl.evaluate(new, {S: x}, p=size[0], q=size[1]), want, rtol=1e-6)


@crossed({"shape": [(2, 6), (3, 6, 5), (2, 12, 3, 4), (2, 4, 2, 3, 2)], "groups": [1, 2], "layout": ["NCHW", "NHWC"]})
def test_group_norm_normalises_groups_of_channels(shape: tuple[int, ...], groups: int, layout: str) -> None:
    x, w, b = array(*shape), array(shape[1]), array(shape[1])
    parts = x.astype("f8").reshape(shape[0], groups, -1)
    want = ((parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + 1e-3)).reshape(shape)
    ends = (1, shape[1], *[1] * (len(shape) - 2))
    want = want * w.reshape(ends) + b.reshape(ends)
    given = x if layout == "NCHW" else np.ascontiguousarray(np.moveaxis(x, 1, -1))
    X, W, B = feed(given, w, b)
    output = ops.group_norm(X, groups, W, B, eps=1e-3, layout=layout)
    check(output, [X, W, B], (given, w, b), want if layout == "NCHW" else np.moveaxis(want, 1, -1))


def test_group_norm_of_an_image_of_any_size() -> None:
    x = array(2, 4, 3, 5)
    X = tl.placeholder((tl.dim("n"), 4, tl.dim("h"), tl.dim("w")), name="X")
    parts = x.reshape(2, 2, -1).astype("f8")
    want = ((parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + 1e-5)).reshape(x.shape)
    check(ops.group_norm(X, 2), [X], (x,), want)


def test_axes_and_stages_have_the_names_of_the_field() -> None:
    X, W, B = tl.placeholder((1, 3, 8, 8), name="X"), tl.placeholder((4, 3, 3, 3), name="W"), tl.placeholder((4,), name="b")
    Y = ops.conv2d(X, W, B, padding=1, name="stem")
    stages = [definition for definition in definitions((Y,)) if isinstance(definition, Stage)]
    assert [stage.name for stage in stages] == ["stem_pad", "stem_sum", "stem"]
    assert repr(Expr(stages[1].values[0])) == (
        "sum(stem_pad[n, c, y + r, x + s] * W[o, c, r, s] for c in range(3), r in range(3), s in range(3))"
    )


def test_every_operator_is_exported_and_documented() -> None:
    for name in ops.__all__:
        assert getattr(ops, name).__doc__


X2, X3, X4 = tl.placeholder((4, 6), name="X"), tl.placeholder((2, 4, 6), name="X"), tl.placeholder((1, 4, 6, 6), name="X")
W2, W4 = tl.placeholder((5, 7), name="W"), tl.placeholder((4, 3, 3, 3), name="W")
REFUSED = {
    "dense: the input channels differ: 6 in axis 1 of X: float32[4, 6], 7 in axis 1 of W: float32[5, 7]": lambda: ops.dense(X2, W2),
    "dense: weight has 2 axes, but is X: float32[2, 4, 6]": lambda: ops.dense(X2, X3),
    "matmul: the inner extents differ: 6 in axis 1 of X: float32[4, 6], 5 in axis 0 of W: float32[5, 7]": lambda: ops.matmul(X2, W2),
    "matmul: a must be a tensor, not 3": lambda: ops.matmul(3, W2),  # type: ignore[arg-type]
    "matmul: the batch axes of X: float32[4, 6] and X: float32[2, 4, 6] differ; b has 2 axes or as many as a": lambda: ops.matmul(X2, X3),
    "conv2d: weight takes 4 channels of X: float32[1, 4, 6, 6], but is W: float32[4, 3, 3, 3]": lambda: ops.conv2d(X4, W4),
    "conv2d: stride must be an int or a pair of ints, each at least 1, not 0": lambda: ops.conv2d(X4, W4, stride=0),
    "conv2d: layout 'NWHC' is not one of 'NCHW', 'NHWC'": lambda: ops.conv2d(X4, W4, layout="NWHC"),
    "conv2d: 3 groups do not divide 4 input and 4 output channels": lambda: ops.conv2d(X4, W4, groups=3),
    "max_pool2d: a window of 9 does not fit 6 elements padded by 0": lambda: ops.max_pool2d(X4, 9),
    "max_pool2d: padding 2 is more than half of kernel_size 3": lambda: ops.max_pool2d(X4, 3, padding=2),
    "softmax: axis 2 is none of the 2 axes of X: float32[4, 6]": lambda: ops.softmax(X2, axis=2),
    "softmax: dim=0 and axis=1 are two words for one axis; give one of them": lambda: ops.softmax(X2, dim=0, axis=1),
    "layer_norm: normalized_shape 4 is not the last axes of X: float32[4, 6]": lambda: ops.layer_norm(X2, 4),
    "layer_norm: weight has 1 axes, but is W: float32[5, 7]": lambda: ops.layer_norm(X2, 6, W2),
    "gelu: approximate 'sign' is not one of 'none', 'tanh'": lambda: ops.gelu(X2, approximate="sign"),
    "avg_pool2d: count_include_pad must be True or False, not 'no'": lambda: ops.avg_pool2d(X4, 2, count_include_pad="no"),  # type: ignore[arg-type]
    "resize2d: align_corners must be True or False, not 'yes'": lambda: ops.resize2d(X4, 2, align_corners="yes"),  # type: ignore[arg-type]
    "attention: is_causal must be True or False, not 1": lambda: ops.attention(X2, X2, X2, is_causal=1),  # type: ignore[arg-type]
    "group_norm: num_groups 4 does not divide the 6 channels of X: float32[4, 6]": lambda: ops.group_norm(X2, 4),
    "embedding: input must be integers, but is X: float32[4, 6]": lambda: ops.embedding(X2, W2),
    "sigmoid: input must be floating point, but is I: int32[3]; convert it with tl.cast": lambda: ops.sigmoid(
        tl.placeholder((3,), "int32", name="I")
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_shapes_that_do_not_fit_are_refused_by_name(message: str) -> None:
    with pytest.raises(tl.DefinitionError) as refusal:
        REFUSED[message]()
    assert str(refusal.value) == message


@pytest.mark.parametrize("left", [(None, True), (True, None)])
def test_batch_norm_needs_its_statistics(left: tuple[Any, Any]) -> None:
    x, m = tl.placeholder((4, 6), name="X"), tl.placeholder((6,), name="M")
    with pytest.raises(tl.DefinitionError, match="batch_norm"):
        ops.batch_norm(x, *[one and m for one in left])
