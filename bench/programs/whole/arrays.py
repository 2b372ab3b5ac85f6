"""`bench.programs.arrays` as arrays: products of matrices, broadcasting, gathers, sums by index."""

from __future__ import annotations

import math
from typing import Any, Final

from bench.programs.whole.dialects import summed_rows


def distances(xp: Any, x: Any, y: Any) -> Any:
    """By a product of matrices."""
    return xp.sum(x * x, axis=1)[:, None] + xp.sum(y * y, axis=1)[None, :] - 2 * (x @ y.T)


def nearest(xp: Any, x: Any, y: Any) -> Any:
    """The same; what all centres of a point share decides nothing."""
    return xp.argmin(xp.sum(y * y, axis=1)[None, :] - 2 * (x @ y.T), axis=1)


def gravity(xp: Any, at: Any, mass: Any) -> Any:
    """Matrices of differences, one for each component."""
    apart = [at[None, :, a] - at[:, None, a] for a in range(3)]
    square = apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2] + 0.01
    scale = mass[None, :] / (square * xp.sqrt(square))
    return xp.stack([xp.sum(scale * part, axis=1) for part in apart], axis=1)


def horizontal_diffusion(xp: Any, field: Any, weight: Any) -> Any:
    """As NPBench has it."""
    around = field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2]
    laplacian = 4 * field[1:-1, 1:-1] - around
    flux = laplacian[1:, 1:-1] - laplacian[:-1, 1:-1]
    across = xp.where(flux * (field[2:-1, 2:-2] - field[1:-2, 2:-2]) > 0, 0.0, flux)
    flux = laplacian[1:-1, 1:] - laplacian[1:-1, :-1]
    along = xp.where(flux * (field[2:-2, 2:-1] - field[2:-2, 1:-2]) > 0, 0.0, flux)
    return field[2:-2, 2:-2] - weight * (across[1:] - across[:-1] + along[:, 1:] - along[:, :-1])


def correlation(xp: Any, x: Any) -> Any:
    """A product of the scaled table by itself."""
    centred = x - xp.mean(x, axis=0)
    scaled = centred / (xp.sqrt(xp.mean(centred * centred, axis=0)) * math.sqrt(x.shape[0]))
    return scaled.T @ scaled


def sparse_product(xp: Any, pointer: Any, column: Any, value: Any, x: Any) -> Any:
    """Products of all entries, added up by row."""
    return summed_rows(xp, pointer, value * x[column])


def butterflies(xp: Any, re: Any, im: Any, wr: Any, wi: Any) -> Any:
    """Blocks, the halves of a block, the elements of a half."""
    re_blocks, im_blocks = (xp.reshape(part, (-1, 2, wr.shape[0])) for part in (re, im))
    x = re_blocks[:, 1] * wr - im_blocks[:, 1] * wi
    y = re_blocks[:, 1] * wi + im_blocks[:, 1] * wr
    halves = (re_blocks[:, 0], x), (im_blocks[:, 0], y)
    return tuple(xp.reshape(xp.stack([first + second, first - second], axis=1), (-1,)) for first, second in halves)


def experts(xp: Any, x: Any, w: Any, gate: Any) -> Any:  # noqa: ARG001 - as every form
    """A matrix for each row, and a product of both."""
    return (x[:, None, :] @ w[gate])[:, 0]


def causal_softmax(xp: Any, s: Any) -> Any:
    """Minus infinity where a score does not count."""
    place = xp.arange(s.shape[0])
    masked = xp.where(place[:, None] >= place[None, :], s, -xp.inf)
    power = xp.exp(masked - xp.max(masked, axis=1, keepdims=True))
    return power / xp.sum(power, axis=1, keepdims=True)


def small_products(xp: Any, a: Any, b: Any) -> Any:  # noqa: ARG001 - as every form
    """A term of the sums at a time: torch calls BLAS for each of many small products, XLA is as fast either way."""
    return sum(a[:, :, k, None] * b[:, None, k, :] for k in range(4))


def long_filter(xp: Any, x: Any, w: Any) -> Any:  # noqa: ARG001 - as every form
    """Thirty-one slices."""
    taps = w.shape[0]
    return sum(x[k : x.shape[0] - taps + 1 + k] * w[k] for k in range(taps))


FORMS: Final = (
    distances,
    nearest,
    gravity,
    horizontal_diffusion,
    correlation,
    sparse_product,
    butterflies,
    experts,
    causal_softmax,
    small_products,
    long_filter,
)
