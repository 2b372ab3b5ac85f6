"""`bench.programs.attention` as arrays: products of stacks of matrices, sums along rows, a scan over time."""

from __future__ import annotations

import math
from typing import Any, Final

from bench.programs.whole.dialects import scanned


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


def delta_rule(xp: Any, q: Any, keys: Any, v: Any, rate: Any) -> Any:
    """Two products and an outer one for each step."""

    def step(memory: Any, q: Any, key: Any, v: Any, rate: Any) -> tuple[Any, Any]:
        memory = memory + (rate * key)[:, None] * (v - key @ memory)[None, :]
        return memory, q @ memory

    return scanned(xp, step, xp.zeros((q.shape[1], q.shape[1]), dtype=q.dtype), q, keys, v, rate)[1]


def decoding(xp: Any, q: Any, keys: Any, v: Any, length: Any) -> Any:
    """Minus infinity where the cache holds nothing."""
    (heads, width), groups = q.shape, keys.shape[1]
    asks = xp.reshape(q, (groups, heads // groups, width))
    score = asks @ xp.permute_dims(keys, (1, 2, 0)) / math.sqrt(width)
    weight = _softmax(xp, xp.where(xp.arange(keys.shape[0]) < length, score, -xp.inf))
    return xp.reshape(weight @ xp.permute_dims(v, (1, 0, 2)), (heads, width))


def embedded(xp: Any, word: Any, table: Any, place: Any, gain: Any, bias: Any) -> Any:
    """A gather, and sums along the last axis."""
    both = table[word] + place
    centred = both - xp.mean(both, axis=2, keepdims=True)
    return centred / xp.sqrt(xp.mean(centred * centred, axis=2, keepdims=True) + 1e-5) * gain + bias


FORMS: Final = (
    causal_attention,
    grouped_attention,
    masked_softmax,
    delta_rule,
    decoding,
    embedded,
)
