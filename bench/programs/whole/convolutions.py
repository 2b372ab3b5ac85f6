"""`bench.programs.convolutions` as arrays: the convolutions of each library; a tap at a time where each channel has its own."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

from bench.programs.whole.dialects import convolved, convolved_back, replaced


def mobile_block(xp: Any, x: Any, up: Any, w: Any, down: Any) -> Any:
    """Products over channels, a tap at a time between them."""
    n, wide = x.shape[0], up.shape[1]
    framed = replaced(xp, xp.zeros((n + 2, n + 2, wide), dtype=x.dtype), xp.clip(x @ up, 0.0, 6.0), 1, 1, 0)
    return x + xp.clip(sum(framed[a : a + n, b : b + n] * w[a, b] for a, b in product(range(3), repeat=2)), 0.0, 6.0) @ down


def diffusion_block(xp: Any, x: Any, w: Any, gain: Any, bias: Any) -> Any:
    """Groups as an axis of their own, and the convolution that each library has."""
    grouped = xp.reshape(x, (8, -1))
    centred = grouped - xp.mean(grouped, axis=1, keepdims=True)
    normal = xp.reshape(centred / xp.sqrt(xp.mean(centred * centred, axis=1, keepdims=True) + 1e-5), x.shape)
    normal = normal * gain[:, None, None] + bias[:, None, None]
    return x + convolved(xp, normal / (1 + xp.exp(-normal)), w)


def doubling_layer(xp: Any, x: Any, w: Any, bias: Any) -> Any:
    """The transposed convolution that each library has."""
    doubled = convolved_back(xp, x, w) + bias
    return xp.maximum(doubled, xp.zeros_like(doubled))


FORMS: Final = (mobile_block, diffusion_block, doubling_layer)
