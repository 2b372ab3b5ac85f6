"""What a notebook has in one expression: sums stand in it wherever the formula has them, and nothing says what is computed once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import RNG, Made, floats, named, operand


def centred() -> Made:
    """A matrix of distances without the means of its rows and columns (Gower 1966)."""
    n = 400
    d = operand("d", n, n)
    k, q, r, s = (tl.reduce_axis(n, name=name) for name in "kqrs")

    def element(i: Any, j: Any) -> Any:
        return d[i, j] - tl.mean(d[i, k], axis=k) - tl.mean(d[q, j], axis=q) + tl.mean(d[r, s], axis=(r, s))

    return tl.compute((n, n), element, name="centred"), (floats(n, n),)


def _centred(d: Any, out: Any) -> None:
    n = d.shape[0]
    rows, columns, total = np.zeros(n, np.float32), np.zeros(n, np.float32), np.float32(0)
    for i in range(n):
        for j in range(n):
            rows[i] += d[i, j]
            columns[j] += d[i, j]
        total += rows[i]
    mean = total / np.float32(n * n)
    for i in range(n):
        for j in range(n):
            out[i, j] = d[i, j] - rows[i] / np.float32(n) - columns[j] / np.float32(n) + mean


def recalled() -> Made:
    """Attention over what came before, of eight heads: numerator, denominator and the greatest score call one function."""
    heads, length, width = 8, 96, 32
    query, key, value = (operand(name, heads, length, width) for name in ("query", "key", "value"))
    k, t, u, w = tl.reduce_axis(width, name="k"), *(tl.reduce_axis(length, name=name) for name in "tuw")

    def score(h: Any, i: Any, j: Any) -> Any:
        return tl.sum(query[h, i, k] * key[h, j, k], axis=k) * width**-0.5

    def element(h: Any, i: Any, c: Any) -> Any:
        most = tl.max(score(h, i, w), axis=w, where=w <= i)
        mixed = tl.sum(tl.exp(score(h, i, t) - most) * value[h, t, c], axis=t, where=t <= i)
        return mixed / tl.sum(tl.exp(score(h, i, u) - most), axis=u, where=u <= i)

    return tl.compute((heads, length, width), element, name="recalled"), tuple(floats(heads, length, width) for _ in range(3))


def _recalled(query: Any, key: Any, value: Any, out: Any) -> None:
    heads, length, width = query.shape
    scale, scores = np.float32(width**-0.5), np.empty(length, np.float32)
    for h in range(heads):
        for i in range(length):
            most, total = np.float32(-np.inf), np.float32(0)
            for j in range(i + 1):
                found = np.float32(0)
                for k in range(width):
                    found += query[h, i, k] * key[h, j, k]
                scores[j] = found * scale
                most = max(most, scores[j])
            out[h, i, :] = np.float32(0)
            for j in range(i + 1):
                weight = np.exp(scores[j] - most)
                total += weight
                for c in range(width):
                    out[h, i, c] += weight * value[h, j, c]
            for c in range(width):
                out[h, i, c] /= total


def neighbourhoods() -> Made:
    """A layer of a graph network with attention (Velickovic et al. 2018): weights of neighbours from scores of both nodes."""
    nodes, width = 200, 32
    x, a, b, near = operand("x", nodes, width), operand("a", width), operand("b", width), operand("near", nodes, nodes, dtype="bool")
    k, j, q = tl.reduce_axis(width, name="k"), tl.reduce_axis(nodes, name="j"), tl.reduce_axis(nodes, name="q")

    def weight(i: Any, at: Any) -> Any:
        score = tl.sum(x[i, k] * a[k], axis=k) + tl.sum(x[at, k] * b[k], axis=k)
        return tl.exp(tl.maximum(score, 0.2 * score))

    def element(i: Any, c: Any) -> Any:
        return tl.sum(weight(i, j) * x[j, c], axis=j, where=near[i, j]) / tl.sum(weight(i, q), axis=q, where=near[i, q])

    edges = (RNG.random((nodes, nodes)) < 0.15) | np.eye(nodes, dtype=bool)
    given = floats(nodes, width) - np.float32(0.5), floats(width) - np.float32(0.5), floats(width) - np.float32(0.5), edges
    return tl.compute((nodes, width), element, name="neighbourhoods"), given


def _neighbourhoods(x: Any, a: Any, b: Any, near: Any, out: Any) -> None:
    nodes, width = x.shape
    left, right = np.zeros(nodes, np.float32), np.zeros(nodes, np.float32)
    for i in range(nodes):
        for k in range(width):
            left[i] += x[i, k] * a[k]
            right[i] += x[i, k] * b[k]
    for i in range(nodes):
        total = np.float32(0)
        out[i, :] = np.float32(0)
        for j in range(nodes):
            if near[i, j]:
                score = left[i] + right[j]
                weight = np.exp(max(score, np.float32(0.2) * score))
                total += weight
                for c in range(width):
                    out[i, c] += weight * x[j, c]
        for c in range(width):
            out[i, c] /= total


def stretched() -> Made:
    """An image as shares of what lies between its least and its greatest, without a stage for either."""
    h, w = 480, 640
    x = operand("x", h, w)
    a, b, c, d = tl.reduce_axis(h, name="a"), tl.reduce_axis(w, name="b"), tl.reduce_axis(h, name="c"), tl.reduce_axis(w, name="d")

    def pixel(i: Any, j: Any) -> Any:
        least = tl.min(x[a, b], axis=(a, b))
        return (x[i, j] - least) / tl.maximum(tl.max(x[c, d], axis=(c, d)) - least, 1e-6)

    return tl.compute((h, w), pixel, name="stretched"), (floats(h, w),)


def _stretched(x: Any, out: Any) -> None:
    least, most = x[0, 0], x[0, 0]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            least, most = min(least, x[i, j]), max(most, x[i, j])
    span = max(most - least, np.float32(1e-6))
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - least) / span


PROGRAMS: Final = named((centred, _centred), (recalled, _recalled), (neighbourhoods, _neighbourhoods), (stretched, _stretched))
