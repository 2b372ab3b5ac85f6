"""Sequences: gates, states and memories over time, checksums, many alignments, a Fourier transform."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, integers, named, operand, real


def gru() -> Made:
    """A layer of 128 gated recurrent units over 60 steps."""
    steps, cells = 60, 128
    x, w, u = operand("X", steps, cells), operand("W", 3 * cells, cells), operand("U", 3 * cells, cells)
    b, c, k = operand("b", 3 * cells), operand("c", 3 * cells), tl.reduce_axis(cells)
    given = tl.compute((steps, 3 * cells), lambda t, i: tl.sum(w[i, k] * x[t, k], axis=k) + b[i], name="given")

    def step(t: Any, h: Any) -> Any:
        held = tl.compute((3 * cells,), lambda i: tl.sum(u[i, k] * h[k], axis=k) + c[i], name="held")

        def element(i: Any) -> Any:
            reset, update = tl.sigmoid(given[t, i] + held[i]), tl.sigmoid(given[t, cells + i] + held[cells + i])
            new = tl.tanh(given[t, 2 * cells + i] + reset * held[2 * cells + i])
            return (1 - update) * new + update * h[i]

        return tl.compute((cells,), element, name="hidden")

    start = tl.compute((cells,), lambda _: 0.0, name="h")
    weights = floats(3 * cells, cells) / 8 - 0.0625, floats(3 * cells, cells) / 8 - 0.0625, floats(3 * cells), floats(3 * cells)
    return tl.scan(step, start, steps, keep="all", name="gru"), (floats(steps, cells), *weights)


def _gru(x: Any, w: Any, u: Any, b: Any, c: Any, out: Any) -> None:
    steps, cells = x.shape
    h, given, held, one = np.zeros(cells, np.float32), np.empty(3 * cells, np.float32), np.empty(3 * cells, np.float32), np.float32(1)
    for t in range(steps):
        for i in range(3 * cells):
            first, second = b[i], c[i]
            for k in range(cells):
                first += w[i, k] * x[t, k]
                second += u[i, k] * h[k]
            given[i], held[i] = first, second
        for i in range(cells):
            reset, update = one / (one + np.exp(-given[i] - held[i])), one / (one + np.exp(-given[cells + i] - held[cells + i]))
            h[i] = (one - update) * np.tanh(given[2 * cells + i] + reset * held[2 * cells + i]) + update * h[i]
            out[t, i] = h[i]


def selective_scan() -> Made:
    """States of 128 channels that each element of a sequence lets fade and fill as it chooses (Mamba)."""
    steps, channels, states = 256, 128, 16
    x, delta, a = operand("X", steps, channels), operand("delta", steps, channels), operand("A", channels, states)
    b, c, skip, k = operand("B", steps, states), operand("C", steps, states), operand("D", channels), tl.reduce_axis(states)

    def state(t: Any, i: Any, s: Any, h: Any) -> Any:
        return tl.exp(delta[t, i] * a[i, s]) * h[t - 1, i, s] + delta[t, i] * b[t, s] * x[t, i]

    h = tl.recurrence((steps, channels, states), state, name="h")
    y = tl.compute((steps, channels), lambda t, i: tl.sum(c[t, k] * h[t, i, k], axis=k) + skip[i] * x[t, i], name="y")
    given = floats(steps, channels) - 0.5, floats(steps, channels), -1 - floats(channels, states)
    return y, (*given, floats(steps, states) - 0.5, floats(steps, states) - 0.5, floats(channels))


def _selective_scan(x: Any, delta: Any, a: Any, b: Any, c: Any, skip: Any, out: Any) -> None:
    steps, channels = x.shape
    states = a.shape[1]
    h = np.zeros((channels, states), np.float32)
    for t in range(steps):
        for i in range(channels):
            total, step, fed = np.float32(0), delta[t, i], delta[t, i] * x[t, i]
            for s in range(states):
                h[i, s] = np.exp(step * a[i, s]) * h[i, s] + fed * b[t, s]
                total += c[t, s] * h[i, s]
            out[t, i] = total + skip[i] * x[t, i]


def edit_distances() -> Made:
    """Levenshtein's distances between 64 pairs of words of 128 letters."""
    pairs, n = 64, 128
    a, b = operand("a", pairs, n, dtype="uint8"), operand("b", pairs, n, dtype="uint8")

    def distance(p: Any, i: Any, j: Any, known: Any) -> Any:
        above = tl.select(i == 0, tl.cast(j + 1, "int32"), known[p, i - 1, j])
        left = tl.select(j == 0, tl.cast(i + 1, "int32"), known[p, i, j - 1])
        corner = tl.select(i == 0, tl.cast(j, "int32"), tl.select(j == 0, tl.cast(i, "int32"), known[p, i - 1, j - 1]))
        other = tl.select(a[p, i] == b[p, j], tl.cast(0, "int32"), tl.cast(1, "int32"))
        return tl.minimum(tl.minimum(above + 1, left + 1), corner + other)

    table = tl.recurrence((pairs, n, n), distance, name="table", dtype="int32")
    given = integers(4, "uint8", pairs, n), integers(4, "uint8", pairs, n)
    return tl.compute((pairs,), lambda p: table[p, n - 1, n - 1], name="distances"), given


def _edit_distances(a: Any, b: Any, out: Any) -> None:
    pairs, n = a.shape
    row = np.empty(n + 1, np.int32)
    for p in range(pairs):
        for j in range(n + 1):
            row[j] = j
        for i in range(n):
            corner, row[0] = row[0], i + 1
            for j in range(n):
                best = min(min(row[j], row[j + 1]) + 1, corner + (0 if a[p, i] == b[p, j] else 1))
                corner, row[j + 1] = row[j + 1], best
        out[p] = row[n]


def checksums() -> Made:
    """CRC-32 of a thousand messages of 256 bytes, a byte at a time by a table."""
    count, length = 1000, 256
    message, table = operand("M", count, length, dtype="uint8"), operand("T", 256, dtype="uint32")
    every = np.uint32(0xFFFFFFFF)

    def after(i: Any, j: Any, crc: Any) -> Any:
        return table[(crc[i, j - 1] ^ tl.cast(message[i, j], "uint32")) & 255] ^ (crc[i, j - 1] >> 8)

    crc = tl.recurrence((count, length), after, outside=every, name="crc", dtype="uint32")
    remainders = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        remainders = np.where(remainders & 1, np.uint32(0xEDB88320) ^ (remainders >> 1), remainders >> 1).astype(np.uint32)
    return tl.compute((count,), lambda i: crc[i, length - 1] ^ every, name="checksums"), (integers(256, "uint8", count, length), remainders)


def _checksums(message: Any, table: Any, out: Any) -> None:
    for i in range(message.shape[0]):
        crc = np.uint32(0xFFFFFFFF)
        for j in range(message.shape[1]):
            crc = table[(crc ^ np.uint32(message[i, j])) & np.uint32(255)] ^ (crc >> np.uint32(8))
        out[i] = crc ^ np.uint32(0xFFFFFFFF)


def fourier() -> Made:
    """Fourier transforms of 64 rows of 1024, in ten steps that sort themselves (Stockham)."""
    rows, n = 64, 1024
    re, im, wr, wi = operand("re", rows, n), operand("im", rows, n), operand("wr", n // 2), operand("wi", n // 2)

    def halved(x: Any, y: Any, stride: int) -> Any:
        """Sums and turned differences of what is half the row apart, side by side in runs of `stride`."""

        def element(r: Any, i: Any) -> tuple[Any, Any]:
            turn, first = i // (2 * stride) * stride, i // (2 * stride) * stride + i % stride
            second = first + n // 2
            a, b = x[r, first] - x[r, second], y[r, first] - y[r, second]
            lower = i // stride % 2 == 0
            return (
                tl.select(lower, x[r, first] + x[r, second], a * wr[turn] - b * wi[turn]),
                tl.select(lower, y[r, first] + y[r, second], a * wi[turn] + b * wr[turn]),
            )

        return tl.compute((rows, n), element, name=f"by_{stride}")

    found: Any = re, im
    for stage in range(10):
        found = halved(found[0], found[1], 1 << stage)
    angle = -2 * np.pi * np.arange(n // 2) / n
    return found, (floats(rows, n), floats(rows, n), np.cos(angle).astype("float32"), np.sin(angle).astype("float32"))


def _fourier(re: Any, im: Any, wr: Any, wi: Any, out: Any, imaginary: Any) -> None:
    rows, n = re.shape
    x, y, u, v = np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    for r in range(rows):
        x[:], y[:], stride = re[r], im[r], 1
        while stride < n:
            for turn in range(0, n // 2, stride):
                for k in range(stride):
                    first, at = turn + k, 2 * turn + k
                    second = first + n // 2
                    a, b = x[first] - x[second], y[first] - y[second]
                    u[at], v[at] = x[first] + x[second], y[first] + y[second]
                    u[at + stride], v[at + stride] = a * wr[turn] - b * wi[turn], a * wi[turn] + b * wr[turn]
            x, y, u, v, stride = u, v, x, y, 2 * stride
        out[r], imaginary[r] = x, y


def alignments() -> Made:
    """How likely a model of 100 steps finds a text of 40 letters: the sum over all ways with blanks (CTC), in logarithms."""
    steps, letters, text = 100, 32, 40
    states = 2 * text + 1
    score, label, none = operand("S", steps, letters), operand("label", text, dtype="int32"), -1e30

    def letter(s: Any) -> Any:
        """The blank of even states, or what stands in the text."""
        return tl.select(s % 2 == 0, tl.cast(0, "int32"), tl.clamp(label[tl.minimum(s // 2, text - 1)], 0, letters - 1))

    def likely(t: Any, s: Any, known: Any) -> Any:
        stay, one = known[t - 1, s], known[t - 1, s - 1]
        two = tl.select((s >= 2) & (s % 2 == 1) & (letter(s) != letter(tl.maximum(s - 2, 0))), known[t - 1, s - 2], none)
        most = tl.maximum(tl.maximum(stay, one), two)
        total = most + tl.log(tl.exp(stay - most) + tl.exp(one - most) + tl.exp(two - most))
        return tl.select(t == 0, tl.select(s < 2, 0.0, none), total) + score[t, tl.clamp(letter(s), 0, letters - 1)]

    known = tl.recurrence((steps, states), likely, outside=none, name="known")
    last = steps - 1

    def whole(_: Any) -> Any:
        a, b = known[last, states - 1], known[last, states - 2]
        most = tl.maximum(a, b)
        return most + tl.log(tl.exp(a - most) + tl.exp(b - most))

    given = np.log(floats(steps, letters) + 0.01), 1 + integers(letters - 1, "int32", text)
    return tl.compute((1,), whole, name="likelihood"), given


def _alignments(score: Any, label: Any, out: Any) -> None:
    steps, states, none = score.shape[0], 2 * label.shape[0] + 1, np.float32(-1e30)
    known, before = np.full(states, none), np.empty(states, np.float32)
    known[0], known[1] = score[0, 0], score[0, label[0]]
    for t in range(1, steps):
        before[:] = known
        for s in range(states):
            letter = 0 if s % 2 == 0 else label[s // 2]
            stay, one, two = before[s], before[s - 1] if s > 0 else none, none
            if s >= 2 and s % 2 == 1 and letter != label[s // 2 - 1]:
                two = before[s - 2]
            most = max(stay, one, two)
            known[s] = most + np.log(np.exp(stay - most) + np.exp(one - most) + np.exp(two - most)) + score[t, letter]
    most = max(known[states - 1], known[states - 2])
    out[0] = most + np.log(np.exp(known[states - 1] - most) + np.exp(known[states - 2] - most))


def options() -> Made:
    """What 64 American put options are worth, by trees of 200 steps, from the end backwards (Cox, Ross and Rubinstein)."""
    many, steps = 64, 200
    price, strike = operand("price", many), operand("strike", many)
    up, chance, discount = 1.01, 0.5, 0.9999
    factor = tl.compute((2 * steps + 1,), lambda k: tl.pow(up, real(k - steps)), name="factor")

    def exercised(t: Any, i: Any, j: Any) -> Any:
        """Where the price rose j times in t steps."""
        return strike[i] - price[i] * factor[2 * j - t + steps]

    def step(t: Any, later: Any) -> Any:
        left = steps - 1 - t

        def element(i: Any, j: Any) -> Any:
            kept = discount * (chance * later[i, j + 1] + (1 - chance) * later[i, j])
            return tl.select(j <= left, tl.maximum(kept, exercised(left, i, j)), 0.0)

        return tl.compute((many, steps + 1), element, name="earlier")

    end = tl.compute((many, steps + 1), lambda i, j: tl.maximum(exercised(steps, i, j), 0), name="end")
    first = tl.scan(step, end, steps, keep="last", name="tree")
    return tl.compute((many,), lambda i: first[i, 0], name="worth"), (90 + 20 * floats(many), 90 + 20 * floats(many))


def _options(price: Any, strike: Any, out: Any) -> None:
    steps, up = 200, np.float32(1.01)
    worth, factor = np.empty(steps + 1, np.float32), np.empty(2 * steps + 1, np.float32)
    for k in range(2 * steps + 1):
        factor[k] = up ** np.float32(k - steps)
    for i in range(price.shape[0]):
        for j in range(steps + 1):
            worth[j] = max(strike[i] - price[i] * factor[2 * j], np.float32(0))
        for left in range(steps - 1, -1, -1):
            for j in range(left + 1):
                kept = np.float32(0.9999) * np.float32(0.5) * (worth[j + 1] + worth[j])
                worth[j] = max(kept, strike[i] - price[i] * factor[2 * j - left + steps])
        out[i] = worth[0]


PROGRAMS: Final = named(
    (gru, _gru),
    (selective_scan, _selective_scan),
    (edit_distances, _edit_distances),
    (checksums, _checksums),
    (fourier, _fourier),
    (alignments, _alignments),
    (options, _options),
)
