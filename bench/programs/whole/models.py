"""`bench.programs.models` as arrays: sums along rows, products, a tap at a time."""

from __future__ import annotations

from itertools import product
from typing import Any, Final


def residual_norm(xp: Any, x: Any, r: Any, gain: Any, bias: Any, w: Any) -> Any:
    """Along the last axis, and a product."""
    both = x + r
    centred = both - xp.mean(both, axis=1, keepdims=True)
    return (centred / xp.sqrt(xp.mean(centred * centred, axis=1, keepdims=True) + 1e-5) * gain + bias) @ w


def gated_layer(xp: Any, x: Any, gain: Any, up: Any, gate: Any, down: Any) -> Any:
    """Three products."""
    normal = x / xp.sqrt(xp.mean(x * x, axis=1, keepdims=True) + 1e-6) * gain
    a = normal @ gate
    return (a / (1 + xp.exp(-a)) * (normal @ up)) @ down


def cross_entropy(xp: Any, x: Any, label: Any) -> Any:
    """The score of the right class is a gather."""
    top = xp.max(x, axis=1)
    total = xp.sum(xp.exp(x - top[:, None]), axis=1)
    right = x[xp.arange(x.shape[0]), label]
    return xp.reshape(xp.mean(xp.log(total) + top - right), (1,))


def norm_pool(xp: Any, x: Any, gain: Any, bias: Any) -> Any:
    """The greatest of four images of every other pixel."""
    centred = x - xp.mean(x, axis=(0, 2, 3), keepdims=True)
    scale = gain[:, None, None] / xp.sqrt(xp.mean(centred * centred, axis=(0, 2, 3), keepdims=True) + 1e-5)
    y = centred * scale + bias[:, None, None]
    most = xp.maximum(xp.maximum(y[..., ::2, ::2], y[..., ::2, 1::2]), xp.maximum(y[..., 1::2, ::2], y[..., 1::2, 1::2]))
    return xp.maximum(most, xp.zeros_like(most))


def depthwise_norm(xp: Any, x: Any, w: Any, gain: Any, bias: Any) -> Any:
    """A tap at a time: each scales a shifted image."""
    taps, n = w.shape[0], x.shape[0] - w.shape[0] + 1
    y = sum(x[u : u + n, v : v + n] * w[u, v] for u, v in product(range(taps), repeat=2))
    centred = y - xp.mean(y, axis=2, keepdims=True)
    return centred / xp.sqrt(xp.mean(centred * centred, axis=2, keepdims=True) + 1e-6) * gain + bias


def learning(xp: Any, x: Any, y: Any, first: Any, second: Any) -> Any:
    """Five products."""
    given = x @ first
    hidden = xp.maximum(given, xp.zeros_like(given))
    wrong = (hidden @ second - y) / x.shape[0]
    blame = xp.where(given > 0, wrong @ second.T, 0.0)
    return first - 0.1 * (x.T @ blame), second - 0.1 * (hidden.T @ wrong)


FORMS: Final = (
    residual_norm,
    gated_layer,
    cross_entropy,
    norm_pool,
    depthwise_norm,
    learning,
)
