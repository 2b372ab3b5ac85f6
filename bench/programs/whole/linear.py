"""`bench.programs.linear` as arrays: sums over an axis, gathers, and LAPACK, which all of them call."""

from __future__ import annotations

from typing import Any, Final

from bench.programs.whole.dialects import solved, summed, summed_rows


def softmax_columns(xp: Any, x: Any) -> Any:
    """Over the first axis."""
    powers = xp.exp(x - xp.max(x, axis=0))
    return powers / xp.sum(powers, axis=0)


def standardised(xp: Any, x: Any) -> Any:
    """Over the first axis."""
    centred = x - xp.mean(x, axis=0)
    return centred / xp.sqrt(xp.mean(centred * centred, axis=0) + 1e-5)


def greatest(xp: Any, x: Any) -> Any:
    """Over the first axis."""
    return xp.argmax(x, axis=0)


def sparse_rows(xp: Any, ptr: Any, col: Any, val: Any, x: Any) -> Any:
    """Rows that are gathered and scaled, added up by row."""
    return summed_rows(xp, ptr, val[:, None] * x[col])


def bags(xp: Any, x: Any, at: Any) -> Any:  # noqa: ARG001 - as every form
    """Twenty gathers; a sum over all that was gathered at once takes XLA five times as long."""
    return sum(x[at[:, k]] for k in range(at.shape[1]))


def segments(xp: Any, x: Any, at: Any) -> Any:
    """Sums by index."""
    return summed(xp, 100, at, x)


def triangular(xp: Any, lower: Any, right: Any) -> Any:
    """By BLAS."""
    return solved(xp, lower, right)


def cholesky(xp: Any, a: Any) -> Any:
    """By LAPACK."""
    return xp.linalg.cholesky(a)


def determinants(xp: Any, a: Any) -> Any:  # noqa: ARG001 - as every form
    """By minors: LAPACK is called for each matrix."""

    def minor(b: int, c: int) -> Any:
        return a[:, 1, b] * a[:, 2, c] - a[:, 1, c] * a[:, 2, b]

    return a[:, 0, 0] * minor(1, 2) - a[:, 0, 1] * minor(0, 2) + a[:, 0, 2] * minor(0, 1)


def taxicab(xp: Any, x: Any, y: Any) -> Any:
    """All differences, and their sums."""
    return xp.sum(xp.abs(x[:, None, :] - y[None, :, :]), axis=2)


FORMS: Final = (softmax_columns, standardised, greatest, sparse_rows, bags, segments, triangular, cholesky, determinants, taxicab)
