"""Linear algebra and tables: statistics of columns, sparse and gathered rows, triangular systems, many small matrices."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, integers, named, operand


def softmax_columns() -> Made:
    """Softmax along columns."""
    n = 1000
    x, k = operand("X", n, n), tl.reduce_axis(n)
    most = tl.compute((n,), lambda j: tl.max(x[k, j], axis=k), name="most")
    powers = tl.compute((n, n), lambda i, j: tl.exp(x[i, j] - most[j]), name="powers")
    total = tl.compute((n,), lambda j: tl.sum(powers[k, j], axis=k), name="total")
    return tl.compute((n, n), lambda i, j: powers[i, j] / total[j], name="Y"), (floats(n, n),)


def _softmax_columns(x: Any, out: Any) -> None:
    rows, columns = x.shape
    most, total = np.full(columns, np.float32(-1e30)), np.zeros(columns, np.float32)
    for i in range(rows):
        for j in range(columns):
            most[j] = max(most[j], x[i, j])
    for i in range(rows):
        for j in range(columns):
            out[i, j] = np.exp(x[i, j] - most[j])
            total[j] += out[i, j]
    for i in range(rows):
        for j in range(columns):
            out[i, j] /= total[j]


def standardised() -> Made:
    """Columns with mean 0 and variance 1."""
    n = 1000
    x, k = operand("X", n, n), tl.reduce_axis(n)
    mean = tl.compute((n,), lambda j: tl.sum(x[k, j], axis=k) / n, name="mean")
    spread = tl.compute((n,), lambda j: tl.sum((x[k, j] - mean[j]) ** 2, axis=k) / n, name="spread")
    return tl.compute((n, n), lambda i, j: (x[i, j] - mean[j]) / tl.sqrt(spread[j] + 1e-5), name="Y"), (floats(n, n),)


def _standardised(x: Any, out: Any) -> None:
    rows, columns = x.shape
    mean, spread = np.zeros(columns, np.float32), np.zeros(columns, np.float32)
    for i in range(rows):
        for j in range(columns):
            mean[j] += x[i, j]
    for j in range(columns):
        mean[j] /= np.float32(rows)
    for i in range(rows):
        for j in range(columns):
            spread[j] += (x[i, j] - mean[j]) * (x[i, j] - mean[j])
    for j in range(columns):
        spread[j] = np.float32(1) / np.sqrt(spread[j] / np.float32(rows) + np.float32(1e-5))
    for i in range(rows):
        for j in range(columns):
            out[i, j] = (x[i, j] - mean[j]) * spread[j]


def greatest() -> Made:
    """The row of the greatest element of each column."""
    n = 1000
    x, k = operand("X", n, n), tl.reduce_axis(n)
    return tl.compute((n,), lambda j: tl.argmax(x[k, j], axis=k), name="row"), (floats(n, n),)


def _greatest(x: Any, out: Any) -> None:
    most = x[0].copy()
    for j in range(x.shape[1]):
        out[j] = 0
    for i in range(1, x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > most[j]:
                most[j], out[j] = x[i, j], i


def sparse_rows() -> Made:
    """A matrix of sparse rows times a dense one."""
    n, width, entries = 2000, 32, 32000
    ptr, col = operand("ptr", n + 1, dtype="int32"), operand("col", entries, dtype="int32")
    val, x = operand("val", entries), operand("X", n, width)

    def element(i: Any, j: Any) -> Any:
        k = tl.reduce_axis((tl.clamp(ptr[i], 0, entries), tl.clamp(ptr[i + 1], 0, entries)))
        return tl.sum(val[k] * x[tl.clamp(col[k], 0, n - 1), j], axis=k)

    given = (np.arange(n + 1) * 16).astype("int32"), integers(n, "int32", entries), floats(entries), floats(n, width)
    return tl.compute((n, width), element, name="O"), given


def _sparse_rows(ptr: Any, col: Any, val: Any, x: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = 0
        for k in range(ptr[i], ptr[i + 1]):
            for j in range(out.shape[1]):
                out[i, j] += val[k] * x[col[k], j]


def bags() -> Made:
    """Sums of twenty rows of a table, for each of five hundred bags."""
    x, at, k = operand("T", 5000, 64), operand("at", 500, 20, dtype="int32"), tl.reduce_axis(20)
    total = tl.compute((500, 64), lambda i, j: tl.sum(x[tl.clamp(at[i, k], 0, 4999), j], axis=k), name="bags")
    return total, (floats(5000, 64), integers(5000, "int32", 500, 20))


def _bags(x: Any, at: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = 0
        for k in range(at.shape[1]):
            for j in range(out.shape[1]):
                out[i, j] += x[at[i, k], j]


def segments() -> Made:
    """Rows added up by the segment that each of them names."""
    x, at = operand("X", 5000, 32), operand("at", 5000, dtype="int32")
    zero = tl.compute((100, 32), lambda *_: tl.cast(0.0, "float32"), name="zero")
    i, j = tl.reduce_axis(5000), tl.reduce_axis(32)
    total = tl.scatter(zero, (i, j), lambda i, j: (tl.clamp(at[i], 0, 99), j), lambda i, j: x[i, j], name="segments")
    return total, (floats(5000, 32), integers(100, "int32", 5000))


def _segments(x: Any, at: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[at[i], j] += x[i, j]


def triangular() -> Made:
    """A lower triangular system with two hundred right hand sides."""
    n = 200
    lower, right, k = operand("L", n, n), operand("B", n, n), tl.reduce_axis(n)
    solution = tl.recurrence(
        (n, n), lambda i, j, x: (right[i, j] - tl.sum(lower[i, k] * x[k, j], axis=k, where=k < i)) / lower[i, i], name="X"
    )
    return solution, (0.01 * floats(n, n) + 2 * np.eye(n, dtype=np.float32), floats(n, n))


def _triangular(lower: Any, right: Any, out: Any) -> None:
    n = lower.shape[0]
    for i in range(n):
        for j in range(n):
            out[i, j] = right[i, j]
        for k in range(i):
            for j in range(n):
                out[i, j] -= lower[i, k] * out[k, j]
        for j in range(n):
            out[i, j] /= lower[i, i]


def cholesky() -> Made:
    """The lower factor of a positive definite matrix."""
    n = 120
    a, k = operand("A", n, n), tl.reduce_axis(n)

    def element(i: Any, j: Any, lower: Any) -> Any:
        rest = a[i, j] - tl.sum(lower[i, k] * lower[j, k], axis=k, where=k < j)
        return tl.select(i < j, 0.0, tl.select(i == j, tl.sqrt(rest), rest / lower[j, j]))

    m = floats(n, n)
    return tl.recurrence((n, n), element, name="L"), (m @ m.T + n * np.eye(n, dtype=np.float32),)


def _cholesky(a: Any, out: Any) -> None:
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            out[i, j] = 0
    for i in range(n):
        for j in range(i + 1):
            rest = a[i, j]
            for k in range(j):
                rest -= out[i, k] * out[j, k]
            out[i, j] = np.sqrt(rest) if i == j else rest / out[j, j]


def determinants() -> Made:
    """Of twenty thousand matrices of 3 x 3."""
    a = operand("A", 20000, 3, 3)

    def element(i: Any) -> Any:
        def minor(b: int, c: int) -> Any:
            return a[i, 1, b] * a[i, 2, c] - a[i, 1, c] * a[i, 2, b]

        return a[i, 0, 0] * minor(1, 2) - a[i, 0, 1] * minor(0, 2) + a[i, 0, 2] * minor(0, 1)

    return tl.compute((20000,), element, name="D"), (floats(20000, 3, 3),)


def _determinants(a: Any, out: Any) -> None:
    for i in range(a.shape[0]):
        first = a[i, 1, 1] * a[i, 2, 2] - a[i, 1, 2] * a[i, 2, 1]
        second = a[i, 1, 0] * a[i, 2, 2] - a[i, 1, 2] * a[i, 2, 0]
        third = a[i, 1, 0] * a[i, 2, 1] - a[i, 1, 1] * a[i, 2, 0]
        out[i] = a[i, 0, 0] * first - a[i, 0, 1] * second + a[i, 0, 2] * third


def taxicab() -> Made:
    """Sums of absolute differences between all points of two sets."""
    x, y, k = operand("X", 300, 64), operand("Y", 200, 64), tl.reduce_axis(64)
    return tl.compute((300, 200), lambda i, j: tl.sum(tl.abs(x[i, k] - y[j, k]), axis=k), name="D"), (floats(300, 64), floats(200, 64))


def _taxicab(x: Any, y: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            total = np.float32(0)
            for k in range(x.shape[1]):
                total += abs(x[i, k] - y[j, k])
            out[i, j] = total


PROGRAMS: Final = named(
    (softmax_columns, _softmax_columns),
    (standardised, _standardised),
    (greatest, _greatest),
    (sparse_rows, _sparse_rows),
    (bags, _bags),
    (segments, _segments),
    (triangular, _triangular),
    (cholesky, _cholesky),
    (determinants, _determinants),
    (taxicab, _taxicab),
)
