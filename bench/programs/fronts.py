"""Recurrences along two axes: each element waits for the ones above it and for those to its left."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, integers, named, operand


def integral_image() -> Made:
    """Sums of all that lies above and to the left, by the formula of four corners; the loops keep the sum of a row."""
    x = operand("X", 1000, 1000)
    corners = tl.recurrence((1000, 1000), lambda i, j, s: s[i - 1, j] + s[i, j - 1] - s[i - 1, j - 1] + x[i, j], name="S")
    return corners, (floats(1000, 1000),)


def _integral_image(x: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
            out[i, j] = total + (out[i - 1, j] if i > 0 else np.float32(0))


def smith_waterman() -> Made:
    """Scores of local alignments of two sequences."""
    n = 1000
    a, b = operand("a", n, dtype="int8"), operand("b", n, dtype="int8")

    def score(i: Any, j: Any, h: Any) -> Any:
        same = tl.select(a[i] == b[j], tl.cast(2, "int32"), tl.cast(-1, "int32"))
        return tl.maximum(tl.maximum(h[i - 1, j - 1] + same, 0), tl.maximum(h[i - 1, j] - 1, h[i, j - 1] - 1))

    return tl.recurrence((n, n), score, name="H", dtype="int32"), (integers(4, "int8", n), integers(4, "int8", n))


def _smith_waterman(a: Any, b: Any, out: Any) -> None:
    for i in range(a.shape[0]):
        left = 0
        for j in range(b.shape[0]):
            corner = out[i - 1, j - 1] if i > 0 and j > 0 else 0
            above = out[i - 1, j] if i > 0 else 0
            left = max(corner + (2 if a[i] == b[j] else -1), 0, above - 1, left - 1)
            out[i, j] = left


def common_subsequence() -> Made:
    """Lengths of the longest common subsequences of two sequences' beginnings."""
    n = 1000
    a, b = operand("a", n, dtype="int32"), operand("b", n, dtype="int32")

    def length(i: Any, j: Any, known: Any) -> Any:
        return tl.select(a[i] == b[j], known[i - 1, j - 1] + 1, tl.maximum(known[i - 1, j], known[i, j - 1]))

    return tl.recurrence((n, n), length, name="L", dtype="int32"), (integers(4, "int32", n), integers(4, "int32", n))


def _common_subsequence(a: Any, b: Any, out: Any) -> None:
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            corner = out[i - 1, j - 1] if i > 0 and j > 0 else 0
            above, left = out[i - 1, j] if i > 0 else 0, out[i, j - 1] if j > 0 else 0
            out[i, j] = corner + 1 if a[i] == b[j] else max(above, left)


def edit_distance() -> Made:
    """Levenshtein's distances between two sequences' beginnings."""
    n = 1000
    a, b = operand("a", n, dtype="int32"), operand("b", n, dtype="int32")

    def distance(i: Any, j: Any, known: Any) -> Any:
        above = tl.select(i == 0, tl.cast(j + 1, "int32"), known[i - 1, j])
        left = tl.select(j == 0, tl.cast(i + 1, "int32"), known[i, j - 1])
        corner = tl.select(i == 0, tl.cast(j, "int32"), tl.select(j == 0, tl.cast(i, "int32"), known[i - 1, j - 1]))
        other = tl.select(a[i] == b[j], tl.cast(0, "int32"), tl.cast(1, "int32"))
        return tl.minimum(tl.minimum(above + 1, left + 1), corner + other)

    return tl.recurrence((n, n), distance, name="D", dtype="int32"), (integers(4, "int32", n), integers(4, "int32", n))


def _edit_distance(a: Any, b: Any, out: Any) -> None:
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            above, left = out[i - 1, j] if i > 0 else j + 1, out[i, j - 1] if j > 0 else i + 1
            corner = j if i == 0 else i if j == 0 else out[i - 1, j - 1]
            out[i, j] = min(above + 1, left + 1, corner + (0 if a[i] == b[j] else 1))


def time_warping() -> Made:
    """Costs of the cheapest ways to lay one signal over another (dynamic time warping)."""
    n = 600
    a, b = operand("a", n), operand("b", n)

    def cost(i: Any, j: Any, known: Any) -> Any:
        above, left = tl.select(i == 0, np.inf, known[i - 1, j]), tl.select(j == 0, np.inf, known[i, j - 1])
        corner = tl.select((i == 0) & (j == 0), 0.0, tl.select((i == 0) | (j == 0), np.inf, known[i - 1, j - 1]))
        return tl.abs(a[i] - b[j]) + tl.minimum(corner, tl.minimum(above, left))

    return tl.recurrence((n, n), cost, name="C"), (floats(n), floats(n))


def _time_warping(a: Any, b: Any, out: Any) -> None:
    far = np.float32(1e30)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            above, left = out[i - 1, j] if i > 0 else far, out[i, j - 1] if j > 0 else far
            corner = out[i - 1, j - 1] if i > 0 and j > 0 else np.float32(0) if i == j else far
            out[i, j] = abs(a[i] - b[j]) + min(corner, above, left)


def seidel() -> Made:
    """PolyBench's seidel-2d, ten sweeps: four neighbours of this sweep, five of the one before."""
    sweeps, n = 10, 400
    x = operand("X", n, n)

    def element(t: Any, i: Any, j: Any, a: Any) -> Any:
        def before(down: Any, right: Any) -> Any:
            return tl.select(t == 0, x[down, right], a[t - 1, down, right])

        above = a[t, i - 1, j - 1] + a[t, i - 1, j] + a[t, i - 1, j + 1] + a[t, i, j - 1]
        below = before(i, j) + before(i, j + 1) + before(i + 1, j - 1) + before(i + 1, j) + before(i + 1, j + 1)
        return tl.select((i > 0) & (i < n - 1) & (j > 0) & (j < n - 1), (above + below) / 9.0, before(i, j))

    return tl.recurrence((sweeps, n, n), element, name="A"), (floats(n, n),)


def _seidel(x: Any, out: Any) -> None:
    sweeps, n, _ = out.shape
    for t in range(sweeps):
        out[t] = x if t == 0 else out[t - 1]
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                above = out[t, i - 1, j - 1] + out[t, i - 1, j] + out[t, i - 1, j + 1] + out[t, i, j - 1]
                below = out[t, i, j] + out[t, i, j + 1] + out[t, i + 1, j - 1] + out[t, i + 1, j] + out[t, i + 1, j + 1]
                out[t, i, j] = (above + below) / np.float32(9)


PROGRAMS: Final = named(
    (integral_image, _integral_image),
    (smith_waterman, _smith_waterman),
    (common_subsequence, _common_subsequence),
    (edit_distance, _edit_distance),
    (time_warping, _time_warping),
    (seidel, _seidel),
)
