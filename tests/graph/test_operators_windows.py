"""Windows along any number of axes, and recurrent layers, against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from scipy import special

import tensorlang as tl
from tensorlang import graph
from tests.graph.graphs import array, run, run_all

TESTED = {
    "max_pool", "max_pool_indices", "avg_pool", "lp_pool", "convolution", "conv_transpose", "fold", "lstm", "gru", "rnn",
}  # fmt: skip

FORMS = [
    ((9,), (3,), (2,), ((1, 0),), (1,)),
    ((5, 6), (3, 2), (2, 1), ((1, 1), (0, 1)), (1, 2)),
    ((4, 5, 4), (2, 3, 1), (1, 2, 1), ((0, 1), (2, 1), (0, 0)), (2, 1, 1)),
]
"""Extents, windows, steps, padding and distances, along one, two and three axes."""


def windows(x: np.ndarray, form: tuple[Any, ...], fill: float) -> np.ndarray:
    """The elements of all windows in the last axes."""
    _, kernel, stride, padding, dilation = form
    padded = np.pad(x, ((0, 0), (0, 0), *padding), constant_values=fill)
    reach = tuple(gap * (size - 1) + 1 for gap, size in zip(dilation, kernel, strict=True))
    seen = sliding_window_view(padded, reach, axis=tuple(range(2, x.ndim)))
    steps = tuple(slice(None, None, step) for step in stride)
    gaps = tuple(slice(None, None, gap) for gap in dilation)
    return seen[(slice(None), slice(None), *steps, *gaps)]


@pytest.mark.parametrize("form", FORMS, ids=["one axis", "two axes", "three axes"])
def test_pooling_is_a_reduction_of_windows(form: tuple[Any, ...]) -> None:
    extents, kernel, stride, padding, dilation = form
    x = array(2, 3, *extents)
    options = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    over = tuple(range(-len(kernel), 0))
    largest = windows(x, form, -np.inf).max(over)
    np.testing.assert_array_equal(run("max_pool", x, **options), largest)
    np.testing.assert_array_equal(x.reshape(-1)[run("max_pool_indices", x, **options)], largest)
    odd = np.where(np.arange(x.size).reshape(x.shape) % 3, x, np.nan)
    last = windows(np.where(np.isnan(odd), np.arange(x.size).reshape(x.shape), -1), form, -1).max(over)
    np.testing.assert_array_equal(run("max_pool_indices", odd, **options)[last >= 0], last[last >= 0])
    sums = windows(x, form, 0).sum(over)
    inside = windows(np.ones_like(x), form, 0).sum(over)
    np.testing.assert_allclose(run("avg_pool", x, count_include_pad=False, **options), sums / inside, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run("avg_pool", x, **options), sums / np.prod(kernel), rtol=1e-5, atol=1e-6)
    powers = (np.abs(windows(x, form, 0)) ** 3).sum(over) ** (1 / 3)
    np.testing.assert_allclose(run("lp_pool", x, norm_type=3.0, **options), powers, rtol=1e-4)


def test_what_lies_behind_all_padding_never_counts() -> None:
    x = np.ones((1, 1, 5), "f4")
    found = run("avg_pool", x, kernel_size=(3,), stride=(2,), padding=((1, 2),), excess=(1,))
    np.testing.assert_allclose(found[0, 0], [2 / 3, 1, 2 / 3])


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("form", FORMS, ids=["one axis", "two axes", "three axes"])
def test_a_convolution_is_a_product_with_windows(form: tuple[Any, ...], groups: int) -> None:
    extents, kernel, stride, padding, dilation = form
    x, weight, bias = array(2, 6, *extents), array(3, 6 // groups, *kernel, seed=1), array(3, seed=2)
    seen = windows(x, form, 0)
    share = 6 // groups
    own = [seen[:, (o * groups // 3) * share : (o * groups // 3 + 1) * share] for o in range(3)]
    letters = "xyz"[: len(kernel)]
    wanted = np.stack([np.einsum(f"nc...{letters},c{letters}->n...", one, w) for one, w in zip(own, weight, strict=True)], 1)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    found = run("convolution", x, weight, bias, **options)
    np.testing.assert_allclose(found, wanted + bias.reshape(-1, *(1,) * len(kernel)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("extents", "kernel", "stride", "dilation"), [((5,), (3,), (2,), (1,)), ((3, 4), (2, 3), (2, 1), (1, 2))])
def test_a_transposed_convolution_adds_its_kernel_at_every_place(
    extents: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], groups: int
) -> None:
    x, weight = array(2, 4, *extents), array(4, 3, *kernel, seed=1)
    shape = [(n - 1) * s + d * (k - 1) + 1 for n, k, s, d in zip(extents, kernel, stride, dilation, strict=True)]
    wanted = np.zeros((2, 3 * groups, *shape))
    for c, at, tap in itertools.product(range(4), np.ndindex(*extents), np.ndindex(*kernel)):
        place = tuple(i * s + t * d for i, s, t, d in zip(at, stride, tap, dilation, strict=True))
        group = c // (4 // groups)
        for o in range(3):
            wanted[(slice(None), group * 3 + o, *place)] += x[(slice(None), c, *at)] * weight[(c, o, *tap)]
    found = run("conv_transpose", x, weight, stride=stride, dilation=dilation, groups=groups)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_folding_adds_up_what_unfolding_took_apart() -> None:
    """Each element comes back as often as windows hold it."""
    x = array(2, 3, 5, 6)
    form = ((5, 6), (3, 2), (2, 2), ((1, 0), (0, 0)), (1, 1))
    seen, count = (windows(one, form, 0) for one in (x, np.ones_like(x)))

    def columns(one: np.ndarray) -> np.ndarray:
        n, c, *_, rows, width = one.shape
        return np.ascontiguousarray(one.transpose(0, 1, 4, 5, 2, 3).reshape(n, c * rows * width, -1))

    options = {"output_size": (5, 6), "kernel_size": (3, 2), "stride": (2, 2), "padding": ((1, 0), (0, 0))}
    back, times = run("fold", columns(seen), **options), run("fold", columns(count), **options)
    np.testing.assert_allclose(back, x * times, rtol=1e-5, atol=1e-6)
    assert times.max() > 1


T, N, H = 4, 3, 5
LENGTHS = np.array([4, 2, 3])


def states(step: Any, *start: np.ndarray) -> list[np.ndarray]:
    """What a step makes, T times, held at the end of each row."""
    made, now = [], start
    for t in range(T):
        after = step(t, *now)
        now = tuple(np.where((t < LENGTHS)[:, None], new, old) for new, old in zip(after, now, strict=True))
        made.append(now)
    return [np.stack(column) for column in zip(*made, strict=True)]


def test_an_lstm_is_its_equations() -> None:
    gates, weight, h0, c0, peephole = (
        array(T, N, 4 * H),
        array(4 * H, H, seed=1),
        array(N, H, seed=2),
        array(N, H, seed=3),
        array(3 * H, seed=4),
    )
    p_i, p_f, p_o = np.split(peephole, 3)

    def step(t: int, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        i, f, g, o = np.split(gates[t] + h @ weight.T, 4, 1)
        after = special.expit(f + p_f * c) * c + special.expit(i + p_i * c) * np.tanh(g)
        return special.expit(o + p_o * after) * np.tanh(after), after

    for found, wanted in zip(run_all("lstm", gates, weight, h0, c0, LENGTHS, peephole), states(step, h0, c0), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reset_after", [True, False])
def test_a_gru_is_its_equations(reset_after: bool) -> None:
    gates, weight, h0, bias = array(T, N, 3 * H), array(3 * H, H, seed=1), array(N, H, seed=2), array(3 * H, seed=3)
    w_n, b_n = weight[2 * H :], bias[2 * H :]

    def step(t: int, h: np.ndarray) -> tuple[np.ndarray]:
        r, z, n = np.split(gates[t], 3, 1)
        fed = h @ weight.T + bias
        r, z = special.expit(r + fed[:, :H]), special.expit(z + fed[:, H : 2 * H])
        n = np.tanh(n + (r * (h @ w_n.T + b_n) if reset_after else (r * h) @ w_n.T + b_n))
        return ((1 - z) * n + z * h,)

    (wanted,) = states(step, h0)
    np.testing.assert_allclose(run("gru", gates, weight, h0, bias, LENGTHS, reset_after=reset_after), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("nonlinearity", "function"), [("tanh", np.tanh), ("relu", lambda x: np.maximum(x, 0))])
def test_a_plain_recurrent_layer_is_its_equation(nonlinearity: str, function: Any) -> None:
    gates, weight, h0 = array(T, N, H), array(H, H, seed=1), array(N, H, seed=2)
    (wanted,) = states(lambda t, h: (function(gates[t] + h @ weight.T),), h0)
    np.testing.assert_allclose(run("rnn", gates, weight, h0, LENGTHS, nonlinearity=nonlinearity), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("operator", "shapes", "attributes", "message"),
    [
        ("max_pool", [(1, 1, 3)], {"kernel_size": (5,)}, r"a window of 5 elements, 1 apart, is longer than the 3 \+ 0 \+ 0 it lies in"),
        ("max_pool", [(1, 3)], {"kernel_size": (2,)}, "windows along 1 axes lie in a tensor of 3, not in"),
        ("avg_pool", [(1, 1, 3)], {"kernel_size": (2,), "stride": (0,)}, "stride is a number of at least 1 for each of 1 axes, not"),
        ("avg_pool", [(1, 1, 3)], {"kernel_size": (2,), "padding": (-1,)}, "padding is a number, or a pair"),
        ("convolution", [(1, 4, 3), (2, 3, 2)], {}, "convolution: .* do not fit 1 groups"),
        ("conv_transpose", [(1, 4, 3), (3, 3, 2)], {}, "conv_transpose: .* do not fit 1 groups"),
        ("fold", [(1, 4, 9)], {"output_size": (3, 3), "kernel_size": (2, 2)}, r"fold: .* does not hold \[2, 2\] windows of \(2, 2\)"),
        ("lstm", [(2, 3, 8), (8, 2), (3, 4), (3, 4)], {}, "lstm: .* do not fit"),
        ("rnn", [(2, 3, 4), (4, 4), (3, 4)], {"nonlinearity": "sin"}, "the nonlinearity is 'tanh' or 'relu', not 'sin'"),
    ],
)
def test_what_does_not_fit_is_refused(operator: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any], message: str) -> None:
    b = graph.Builder()
    with pytest.raises(tl.GraphError, match=message):
        b(operator, *(b.input(shape) for shape in shapes), **attributes)
