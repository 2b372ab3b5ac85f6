"""`bench.programs.fronts` as arrays: running sums along both axes, anti-diagonals, rows of a sweep."""

from __future__ import annotations

from typing import Any, Final

from bench.programs.whole.diagonals import tables
from bench.programs.whole.dialects import geometric, scanned


def integral_image(xp: Any, x: Any) -> Any:
    """Running sums, twice."""
    return xp.cumulative_sum(xp.cumulative_sum(x, axis=1), axis=0)


def _of_pairs(xp: Any, a: Any, b: Any, border: Any, cell: Any) -> Any:
    """A table of whole numbers of two sequences, from where they are alike."""
    none = xp.zeros(a.shape[0] + 1, dtype=xp.int32)
    return tables(xp, a[:, None] == b[None, :], (none,), border, lambda *around: (cell(*(x[0] for x in around[:3]), around[3]),))[0]


def smith_waterman(xp: Any, a: Any, b: Any) -> Any:
    """Along anti-diagonals."""

    def score(corner: Any, above: Any, left: Any, same: Any) -> Any:
        return xp.maximum(xp.maximum(corner + xp.where(same, 2, -1), xp.zeros_like(corner)), xp.maximum(above, left) - 1)

    return _of_pairs(xp, a, b, lambda _: 0, score)


def common_subsequence(xp: Any, a: Any, b: Any) -> Any:
    """Along anti-diagonals."""
    return _of_pairs(xp, a, b, lambda _: 0, lambda corner, above, left, same: xp.where(same, corner + 1, xp.maximum(above, left)))


def edit_distance(xp: Any, a: Any, b: Any) -> Any:
    """Along anti-diagonals, whose number is the distance from nothing."""

    def distance(corner: Any, above: Any, left: Any, same: Any) -> Any:
        return xp.minimum(xp.minimum(above, left) + 1, corner + xp.where(same, 0, 1))

    return _of_pairs(xp, a, b, lambda diagonal: diagonal, distance)


def time_warping(xp: Any, a: Any, b: Any) -> Any:
    """Along anti-diagonals."""

    def cost(corner: Any, above: Any, left: Any, apart: Any) -> Any:
        return (apart + xp.minimum(corner[0], xp.minimum(above[0], left[0])),)

    none = xp.zeros(a.shape[0] + 1, dtype=a.dtype)
    return tables(xp, xp.abs(a[:, None] - b[None, :]), (none,), lambda diagonal: xp.where(diagonal == 0, 0.0, xp.inf), cost)[0]


def seidel(xp: Any, x: Any) -> Any:
    """Row by row; what is new to the left is a geometric recurrence along the row."""

    def row(above: Any, here: Any, below: Any) -> tuple[Any, Any]:
        known = above[:-2] + above[1:-1] + above[2:] + here[1:-1] + here[2:] + below[:-2] + below[1:-1] + below[2:]
        inner = geometric(xp, 1 / 9, xp.concat([known[:1] + here[:1], known[1:]]) / 9)
        now = xp.concat([here[:1], inner, here[-1:]])
        return now, now

    def sweep(a: Any, _: Any) -> tuple[Any, Any]:
        inner = scanned(xp, row, a[0], a[1:-1], a[2:])[1]
        now = xp.concat([a[:1], inner, a[-1:]], axis=0)
        return now, now

    return scanned(xp, sweep, x, xp.arange(10))[1]


FORMS: Final = (integral_image, smith_waterman, common_subsequence, edit_distance, time_warping, seidel)
