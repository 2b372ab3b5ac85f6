"""`bench.programs.models` as arrays: products of stacks of matrices, sums along rows."""

from __future__ import annotations

import math
from itertools import product
from typing import Any, Final


def _softmax(xp: Any, x: Any) -> Any:
    """Along the last axis."""
    power = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return power / xp.sum(power, axis=-1, keepdims=True)


def causal_attention(xp: Any, q: Any, k: Any, v: Any) -> Any:
    """Minus infinity where a score does not count."""
    place = xp.arange(q.shape[1])
    score = q @ xp.permute_dims(k, (0, 2, 1)) / math.sqrt(q.shape[2])
    return _softmax(xp, xp.where(place[:, None] >= place[None, :], score, -xp.inf)) @ v


def grouped_attention(xp: Any, q: Any, k: Any, v: Any, cosine: Any, sine: Any) -> Any:
    """Heads first; those of a group are an axis of their own, along which its keys and values are broadcast."""
    n, heads, width = q.shape
    groups, half = k.shape[1], width // 2

    def turned(x: Any) -> Any:
        first, second = x[..., :half], x[..., half:]
        c, s = cosine[:, None, :], sine[:, None, :]
        return xp.concat([first * c - second * s, second * c + first * s], axis=2)

    asks = xp.reshape(xp.permute_dims(turned(q), (1, 0, 2)), (groups, heads // groups, n, width))
    keys = xp.permute_dims(turned(k), (1, 2, 0))[:, None]
    seen = _softmax(xp, asks @ keys / math.sqrt(width)) @ xp.permute_dims(v, (1, 0, 2))[:, None]
    return xp.permute_dims(xp.reshape(seen, (heads, n, width)), (1, 0, 2))


def masked_softmax(xp: Any, s: Any, mask: Any, kept: Any) -> Any:
    """Along the last axis."""
    return _softmax(xp, xp.where(mask == 1, 0.125 * s, -1e9)) * xp.astype(kept, xp.float32) / 0.9


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


FORMS: Final = (
    causal_attention,
    grouped_attention,
    masked_softmax,
    residual_norm,
    gated_layer,
    cross_entropy,
    norm_pool,
    depthwise_norm,
)
