"""Convolutions and pooling of `tl.ops` compute what NumPy and SciPy compute."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy

import tensorlang as tl
from tensorlang import ops
from tests.test_ops import array, check, feed
from tests.thinned import crossed, few

rng = np.random.default_rng(18)


def reference_conv2d(x: Any, w: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Convolution of NCHW images with SciPy, a channel at a time."""
    (sy, sx), (py, px), (dy, dx) = stride, padding, dilation
    xp = np.pad(x.astype("f8"), ((0, 0), (0, 0), (py, py), (px, px)))
    n, o, share, own = x.shape[0], w.shape[0], w.shape[0] // groups, w.shape[1]
    spread = np.zeros((*w.shape[:2], dy * (w.shape[2] - 1) + 1, dx * (w.shape[3] - 1) + 1))
    spread[:, :, ::dy, ::dx] = w
    planes = [
        sum(scipy.signal.correlate2d(xp[i, (j // share) * own + c], spread[j, c], mode="valid") for c in range(own))
        for i, j in itertools.product(range(n), range(o))
    ]
    return np.stack(planes).reshape(n, o, *planes[0].shape)[:, :, ::sy, ::sx]


CONVOLUTIONS = [
    {},
    {"padding": 1},
    {"stride": 2, "padding": (1, 0)},
    {"dilation": (1, 2), "padding": (0, 2), "stride": (1, 2)},
    {"groups": 2},
    {"groups": 4, "padding": 1},
]


@crossed({"options": CONVOLUTIONS, "layout": ["NCHW", "NHWC"], "biased": [False, True]})
def test_conv2d_is_a_sum_of_correlations(options: Any, layout: str, biased: bool) -> None:
    x, w, b = array(2, 4, 7, 8), array(4, 4 // options.get("groups", 1), 3, 2), array(4)

    def two(key: str, default: int) -> Any:
        value = options.get(key, default)
        return value if isinstance(value, tuple) else (value, value)

    want = reference_conv2d(x, w, two("stride", 1), two("padding", 0), two("dilation", 1), options.get("groups", 1))
    if biased:
        want = want + b[:, None, None]
    if layout == "NHWC":
        x, w, want = (np.ascontiguousarray(part) for part in (x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), want.transpose(0, 2, 3, 1)))
    X, W, B = feed(x, w, b)
    arrays = (x, w, b) if biased else (x, w)
    check(ops.conv2d(X, W, B if biased else None, layout=layout, **options), [X, W, B][: len(arrays)], arrays, want, rtol=1e-4)


@crossed({"layout": ["NCHW", "NHWC"], "multiplier": [1, 2]})
def test_depthwise_conv2d_keeps_channels_apart(layout: str, multiplier: int) -> None:
    x, w = array(2, 3, 6, 5), array(3 * multiplier, 1, 3, 3)
    want = reference_conv2d(x, w, (1, 1), (1, 1), (1, 1), 3)
    if layout == "NHWC":
        x, w, want = (np.ascontiguousarray(part) for part in (x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), want.transpose(0, 2, 3, 1)))
    X, W = feed(x, w)
    check(ops.depthwise_conv2d(X, W, padding=1, layout=layout), [X, W], (x, w), want, rtol=1e-4)


def test_depthwise_conv2d_of_one_channel() -> None:
    x, w = array(1, 1, 9, 8), array(1, 1, 3, 3)
    X, W = feed(x, w)
    want = scipy.signal.correlate2d(x[0, 0], w[0, 0], "valid")[None, None]
    check(ops.depthwise_conv2d(X, W), [X, W], (x, w), want, rtol=1e-4)


@pytest.mark.parametrize("options", [{}, {"padding": 2, "stride": 2}, {"dilation": 2, "groups": 2}])
def test_conv1d_is_conv2d_of_one_row(options: Any) -> None:
    x, w, b = array(2, 4, 9), array(6, 4 // options.get("groups", 1), 3), array(6)
    stride, padding, dilation = (options.get(key, default) for key, default in (("stride", 1), ("padding", 0), ("dilation", 1)))
    want = (
        reference_conv2d(x[:, :, None], w[:, :, None], (1, stride), (0, padding), (1, dilation), options.get("groups", 1))[:, :, 0]
        + b[:, None]
    )
    X, W, B = feed(x, w, b)
    check(ops.conv1d(X, W, B, **options), [X, W, B], (x, w, b), want, rtol=1e-4)


@pytest.mark.parametrize(
    "options",
    few(
        [
            {},
            {"stride": 2, "padding": 1},
            {"stride": (2, 3), "output_padding": (1, 2)},
            {"groups": 2, "dilation": 2, "padding": 1},
            {"stride": 2, "padding": 2, "groups": 4},
            {"stride": (3, 2), "dilation": (1, 2), "padding": (0, 1)},
            {"stride": (2, 4), "dilation": 3, "output_padding": 1},
            {"stride": 5, "padding": 1},
        ],
        4,
    ),
)
def test_conv2d_transpose_spreads_every_element(options: Any) -> None:
    x, w, b = array(2, 4, 3, 4), array(4, 3, 3, 2), array(3 * options.get("groups", 1))

    def two(key: str, default: int) -> Any:
        value = options.get(key, default)
        return value if isinstance(value, tuple) else (value, value)

    (sy, sx), (py, px), (dy, dx), (ey, ex) = two("stride", 1), two("padding", 0), two("dilation", 1), two("output_padding", 0)
    groups = options.get("groups", 1)
    full = np.zeros((2, 3 * groups, 2 * sy + dy * 2 + 1 + ey, 3 * sx + dx + 1 + ex))
    for n, c, v, u, o, r, s in np.ndindex(2, 4, 3, 4, 3, 3, 2):
        full[n, (c // (4 // groups)) * 3 + o, v * sy + r * dy, u * sx + s * dx] += float(x[n, c, v, u]) * float(w[c, o, r, s])
    want = full[:, :, py : full.shape[2] - py, px : full.shape[3] - px] + b[:, None, None]
    X, W, B = feed(x, w, b)
    check(ops.conv2d_transpose(X, W, B, **options), [X, W, B], (x, w, b), want, rtol=1e-4)


def view(x: Any, size: Any, stride: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=(2, 3))
    return windows[:, :, :: stride[0], :: stride[1]]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_max_pool2d_takes_the_greatest_of_each_window(layout: str) -> None:
    x = array(2, 3, 7, 8)
    for padding, stride in ((0, None), (1, (2, 1))):
        padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)), constant_values=-np.inf)
        want = view(padded, (3, 2), stride or (3, 2)).max((4, 5))
        given = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        (X,) = feed(given)
        output = ops.max_pool2d(X, (3, 2), stride, padding, layout=layout)
        check(output, [X], (given,), want if layout == "NCHW" else want.transpose(0, 2, 3, 1), rtol=0, atol=0)


def test_max_pool2d_is_scipys_maximum_filter() -> None:
    x = array(1, 1, 9, 9)
    (X,) = feed(x)
    want = scipy.ndimage.maximum_filter(x[0, 0], 3, mode="constant", cval=-np.inf)[None, None]
    check(ops.max_pool2d(X, 3, 1, 1), [X], (x,), want, rtol=0, atol=0)


@crossed({"layout": ["NCHW", "NHWC"], "include": [True, False]})
def test_avg_pool2d_divides_by_the_window_or_by_what_it_covers(layout: str, include: bool) -> None:
    x = array(2, 3, 7, 8)
    widths = ((0, 0), (0, 0), (1, 1), (1, 1))
    total = view(np.pad(x, widths), (3, 2), (2, 2)).sum((4, 5))
    covered = view(np.pad(np.ones_like(x), widths), (3, 2), (2, 2)).sum((4, 5))
    want = total / (6 if include else covered)
    given = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    (X,) = feed(given)
    output = ops.avg_pool2d(X, (3, 2), 2, 1, count_include_pad=include, layout=layout)
    check(output, [X], (given,), want if layout == "NCHW" else want.transpose(0, 2, 3, 1))


def test_operators_take_symbolic_extents() -> None:
    n, h = tl.dim("n"), tl.dim("h")
    x, w = array(2, 3, 8, 6), array(4, 3, 3, 3)
    X, W = tl.placeholder((n, 3, h, 6), name="X"), tl.placeholder((4, 3, 3, 3), name="W")
    Y = ops.softmax(ops.max_pool2d(ops.relu(ops.conv2d(X, W, stride=2, padding=1)), 2))
    conv = np.maximum(reference_conv2d(x, w, (2, 2), (1, 1), (1, 1), 1), 0)
    want = scipy.special.softmax(view(conv, (2, 2), (2, 2))[:, :, :2].max((4, 5)), -1)
    got = tl.evaluate(Y, {X: x, W: w})
    np.testing.assert_allclose(got, want, rtol=1e-4)
