"""`bench.programs.outside` as arrays: anti-diagonals, scans, steps of several fields."""

from __future__ import annotations

from typing import Any, Final

from bench.programs.whole.diagonals import tables
from bench.programs.whole.dialects import bordered, factored, replaced, scanned, stepped


def affine_gaps(xp: Any, a: Any, b: Any) -> Any:
    """Along anti-diagonals of three tables."""

    def scores(corner: Any, above: Any, left: Any, same: Any) -> Any:
        e, f = xp.maximum(left[1] - 1, left[0] - 5), xp.maximum(above[2] - 1, above[0] - 5)
        h = xp.maximum(xp.maximum(xp.zeros_like(e), corner[0] + xp.where(same, 2, -3)), xp.maximum(e, f))
        return h, e, f

    none = xp.zeros(a.shape[0] + 1, dtype=xp.int32)
    return tables(xp, a[:, None] == b[None, :], (none, none, none), lambda _: 0, scores)


def knapsack(xp: Any, weight: Any, worth: Any) -> Any:
    """A thing after the other, all sizes at once: what was best without its weight is a roll away."""
    size = xp.arange(5000, dtype=xp.int32)

    def step(best: Any, weight: Any, worth: Any) -> tuple[Any, Any]:
        now = xp.where(size >= weight, xp.maximum(best, xp.roll(best, weight) + worth), best)
        return now, now

    return scanned(xp, step, xp.zeros(5000, dtype=worth.dtype), weight, worth)[1]


def neurons(xp: Any, given: Any) -> Any:
    """All neurons in each step."""

    def step(state: Any, row: Any) -> tuple[Any, None]:
        charge, fired = state
        now = 0.9 * charge + row
        return (xp.where(now > 1, 0.0, now), fired + xp.astype(now > 1, xp.int32)), None

    start = xp.zeros_like(given[0]), xp.zeros(given.shape[1], dtype=xp.int32)
    return scanned(xp, step, start, given)[0][1]


def fdtd(xp: Any, ex: Any, ey: Any, hz: Any) -> Any:
    """A part of each field anew in each step."""

    def step(t: Any, state: Any) -> Any:
        ex, ey, hz = state
        ey = replaced(xp, ey, ey[1:] - 0.5 * (hz[1:] - hz[:-1]), 1, 0)
        ey = replaced(xp, ey, xp.zeros_like(ey[:1]) + t, 0, 0)
        ex = replaced(xp, ex, ex[:, 1:] - 0.5 * (hz[:, 1:] - hz[:, :-1]), 0, 1)
        turned = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        return ex, ey, replaced(xp, hz, hz[:-1, :-1] - 0.7 * turned, 0, 0)

    return stepped(xp, 20, step, (ex, ey, hz))


def normal_product(xp: Any, a: Any, x: Any) -> Any:  # noqa: ARG001 - as every form
    """Two products."""
    return (a @ x) @ a


def folding(xp: Any, bases: Any) -> Any:
    """All beginnings and all cuts of a length at once, a length after the other."""
    n = bases.shape[0]
    begin = xp.arange(n, dtype=xp.int32)
    after = xp.clip(begin + 1, 0, n - 1)
    cut = begin[:, None]

    def step(shorter: Any, most: Any) -> Any:
        length = shorter + 1
        end = begin + length
        paired = xp.astype(bases + bases[xp.clip(end, 0, n - 1)] == 3, xp.int32)
        inside = xp.where(length >= 2, most[length - 2][after], 0) + paired
        parts = most + most[xp.clip(length - 1 - cut, 0, n - 1), xp.clip(begin + cut + 1, 0, n - 1)]
        apart = xp.max(xp.where(cut < length, parts, 0), axis=0)
        below = most[length - 1]
        found = xp.maximum(xp.maximum(below[after], below), xp.maximum(inside, apart))
        return replaced(xp, most, xp.where(end < n, found, 0)[None, :], length, 0)

    return stepped(xp, n - 1, step, xp.zeros((n, n), dtype=xp.int32))


def factors(xp: Any, a: Any) -> Any:
    """By LAPACK: the diagonal is the greatest, so that no rows are exchanged."""
    return factored(xp, a)


def reaction(xp: Any, first: Any, second: Any) -> Any:
    """Two fields, their edges repeated."""

    def spread(x: Any) -> Any:
        wide = bordered(xp, x, 1, 1)
        return wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:] - 4 * x

    def step(_: Any, state: Any) -> Any:
        u, v = state
        rate = u * v * v
        return u + 0.16 * spread(u) - rate + 0.035 * (1 - u), v + 0.08 * spread(v) + rate - 0.1 * v

    return stepped(xp, 20, step, (first, second))


def inverses(xp: Any, a: Any) -> Any:
    """By minors: LAPACK is called for each matrix."""

    def minor(i: int, j: int) -> Any:
        p, q, r, s = (j + 1) % 3, (j + 2) % 3, (i + 1) % 3, (i + 2) % 3
        return a[:, p, r] * a[:, q, s] - a[:, p, s] * a[:, q, r]

    minors = [[minor(i, j) for j in range(3)] for i in range(3)]
    whole = sum(a[:, 0, i] * minors[i][0] for i in range(3))
    return xp.stack([xp.stack(row, axis=1) for row in minors], axis=1) * (1 / whole)[:, None, None]


FORMS: Final = (affine_gaps, knapsack, neurons, fdtd, normal_product, folding, factors, reaction, inverses)
