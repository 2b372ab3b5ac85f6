"""`bench.programs.matrices` as arrays: products, triangles, stacks of small matrices."""

from __future__ import annotations

from typing import Any, Final

from bench.programs.whole.dialects import scanned, stepped


def rank_two(xp: Any, a: Any, u: Any, v: Any, s: Any, t: Any, y: Any, z: Any) -> Any:  # noqa: ARG001 - as every form
    """Outer products and products with vectors."""
    b = a + u[:, None] * v + s[:, None] * t
    x = 1.2 * (y @ b) + z
    return b, x, 1.5 * (b @ x)


def symmetric_product(xp: Any, a: Any, b: Any) -> Any:
    """The triangle and its transposed."""
    return (xp.tril(a) + xp.tril(a, k=-1).T) @ b


def triangular_product(xp: Any, a: Any, b: Any) -> Any:
    """A triangle, transposed."""
    return b + xp.tril(a, k=-1).T @ b


def toeplitz(xp: Any, r: Any) -> Any:
    """Whole vectors in each step: what was found turned round is a roll of what is zero beyond."""
    place = xp.arange(r.shape[0])

    def step(t: Any, state: Any) -> Any:
        y, rest = state
        back = xp.roll(xp.flip(y), t)
        reflected = -(r[t] + xp.sum(xp.where(place < t, r * back, 0.0))) / rest
        return y + reflected * xp.where(place < t, back, xp.where(place == t, 1.0, 0.0)), rest * (1 - reflected * reflected)

    return stepped(xp, r.shape[0], step, (xp.zeros_like(r), xp.ones((), dtype=r.dtype)))[0]


def tracking(xp: Any, seen: Any) -> Any:
    """Stacks of matrices of 4 x 4, a measurement after the other."""
    many = seen.shape[1]
    move = xp.asarray([[1, 0, 0.1, 0], [0, 1, 0, 0.1], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=seen.dtype)

    def step(state: Any, seen: Any) -> tuple[Any, None]:
        x, p = state
        x = x @ move.T
        p = move @ p @ move.T + 0.01 * xp.eye(4, dtype=p.dtype)
        a, c, e, f = p[:, 0, 0] + 0.1, p[:, 0, 1], p[:, 1, 0], p[:, 1, 1] + 0.1
        part = 1 / (a * f - c * e)
        left = (p[:, :, 0] * f[:, None] - p[:, :, 1] * e[:, None]) * part[:, None]
        right = (p[:, :, 1] * a[:, None] - p[:, :, 0] * c[:, None]) * part[:, None]
        apart = seen - x[:, :2]
        x = x + left * apart[:, :1] + right * apart[:, 1:]
        return (x, p - left[:, :, None] * p[:, None, 0] - right[:, :, None] * p[:, None, 1]), None

    start = xp.zeros((many, 4), dtype=seen.dtype), xp.zeros((many, 4, 4), dtype=seen.dtype) + xp.eye(4, dtype=seen.dtype)
    return scanned(xp, step, start, seen)[0][0]


def packed_weights(xp: Any, x: Any, packed: Any, scale: Any) -> Any:
    """The weights in full, then a product."""
    width, half = packed.shape
    whole = xp.reshape(xp.stack([packed & 15, packed >> 4], axis=2), (width, scale.shape[1], -1))
    weights = (xp.astype(whole, xp.float32) - 8) * scale[:, :, None]
    return x @ xp.reshape(weights, (width, 2 * half)).T


FORMS: Final = (rank_two, symmetric_product, triangular_product, toeplitz, tracking, packed_weights)
