"""PolyBench/C 4.2, medley: deriche, floyd-warshall, nussinov."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tensorlang as tl
from tests.polybench.kernels import agree, array, operand, rng

W, H, N = 6, 9, 11


def test_deriche() -> None:
    alpha = 0.25
    decay = math.exp(-alpha)
    k = (1 - decay) ** 2 / (1 + 2 * alpha * decay - math.exp(2 * alpha))
    a1 = a5 = k
    a2 = a6 = k * decay * (alpha - 1)
    a3 = a7 = k * decay * (alpha + 1)
    a4 = a8 = -k * math.exp(-2 * alpha)
    b1, b2 = 2**-alpha, -math.exp(-2 * alpha)
    image = operand("image", W, H)

    def left(i: Any, j: Any, self: Any) -> Any:
        return a1 * image[i, j] + a2 * tl.select(j > 0, image[i, j - 1], 0.0) + b1 * self[i, j - 1] + b2 * self[i, j - 2]

    def right(i: Any, n: Any, self: Any) -> Any:  # column n counted from the right end
        near, far = tl.select(n > 0, image[i, H - n], 0.0), tl.select(n > 1, image[i, H + 1 - n], 0.0)
        return a3 * near + a4 * far + b1 * self[i, n - 1] + b2 * self[i, n - 2]

    y1, y2 = tl.recurrence((W, H), left, name="y1"), tl.recurrence((W, H), right, name="y2")
    rows = tl.compute((W, H), lambda i, j: y1[i, j] + y2[i, H - 1 - j], name="rows")

    def down(i: Any, j: Any, self: Any) -> Any:
        return a5 * rows[i, j] + a6 * tl.select(i > 0, rows[i - 1, j], 0.0) + b1 * self[i - 1, j] + b2 * self[i - 2, j]

    def up(n: Any, j: Any, self: Any) -> Any:
        near, far = tl.select(n > 0, rows[W - n, j], 0.0), tl.select(n > 1, rows[W + 1 - n, j], 0.0)
        return a7 * near + a8 * far + b1 * self[n - 1, j] + b2 * self[n - 2, j]

    z1, z2 = tl.recurrence((W, H), down, name="z1"), tl.recurrence((W, H), up, name="z2")
    out = tl.compute((W, H), lambda i, j: z1[i, j] + z2[W - 1 - i, j], name="out")

    def filtered(line: Any, c1: float, c2: float, c3: float, c4: float) -> Any:
        forward, backward = np.zeros(len(line)), np.zeros(len(line))
        x1 = p1 = p2 = 0.0
        for j in range(len(line)):
            forward[j] = c1 * line[j] + c2 * x1 + b1 * p1 + b2 * p2
            x1, p1, p2 = line[j], forward[j], p1
        x1 = x2 = p1 = p2 = 0.0
        for j in reversed(range(len(line))):
            backward[j] = c3 * x1 + c4 * x2 + b1 * p1 + b2 * p2
            x1, x2, p1, p2 = line[j], x1, backward[j], p1
        return forward + backward

    x = array(W, H)
    want = np.stack([filtered(line, a1, a2, a3, a4) for line in x])
    want = np.stack([filtered(line, a5, a6, a7, a8) for line in want.T]).T
    agree(out, {image: x}, want)


def test_floyd_warshall() -> None:
    P = tl.placeholder((N, N), "int32", name="P")

    def step(k: Any, path: Any) -> Any:
        return tl.compute((N, N), lambda i, j: tl.minimum(path[i, j], path[i, k] + path[k, j]), name="path")

    shortest = tl.scan(step, P, N, keep="last", name="shortest")
    p = rng.integers(1, 100, (N, N)).astype("int32")
    want = p.copy()
    for k in range(N):
        for i in range(N):
            for j in range(N):
                want[i, j] = min(want[i, j], want[i, k] + want[k, j])
    agree(shortest, {P: p}, want)


def test_nussinov() -> None:
    seq = tl.placeholder((N,), "int32", name="seq")
    k = tl.reduce_axis(N, name="k")

    def body(d: Any, j: Any, self: Any) -> Any:  # row d is i = N - 1 - d: from the last one up
        i = N - 1 - d
        match = tl.cast(seq[i] + seq[j] == 3, "int32")
        inner = self[d - 1, j - 1] + tl.select(i < j - 1, match, 0)
        split = tl.max(self[d, k] + self[N - 2 - k, j], axis=k, where=(k > i) & (k < j))
        best = tl.maximum(tl.maximum(self[d, j - 1], self[d - 1, j]), tl.maximum(inner, tl.maximum(split, 0)))
        return tl.select(j > i, best, 0)

    turned = tl.recurrence((N, N), body, dtype="int32", name="turned")
    table = tl.compute((N, N), lambda i, j: turned[N - 1 - i, j], name="table")
    s = rng.integers(0, 4, N).astype("int32")
    want = np.zeros((N, N), "int32")
    for i in reversed(range(N)):
        for j in range(i + 1, N):
            best = max(want[i, j], want[i, j - 1])
            if i + 1 < N:
                best = max(best, want[i + 1, j], want[i + 1, j - 1] + (int(s[i] + s[j] == 3) if i < j - 1 else 0))
            for k_ in range(i + 1, j):
                best = max(best, want[i, k_] + want[k_ + 1, j])
            want[i, j] = best
    agree(table, {seq: s}, want)
