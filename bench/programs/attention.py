"""Attention: causal, grouped, masked, over a cache, and as a memory that is corrected."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, integers, named, operand, real


def causal_attention() -> Made:
    """Attention of eight heads, where no place looks at later ones."""
    heads, n, width = 8, 256, 64
    q, k, v = (operand(name, heads, n, width) for name in "QKV")
    c, t = tl.reduce_axis(width), tl.reduce_axis(n)
    score = tl.compute((heads, n, n), lambda h, i, j: tl.sum(q[h, i, c] * k[h, j, c], axis=c) / math.sqrt(width), name="score")
    top = tl.compute((heads, n), lambda h, i: tl.max(score[h, i, t], axis=t, where=t <= i), name="top")
    power = tl.compute((heads, n, n), lambda h, i, j: tl.select(j <= i, tl.exp(score[h, i, j] - top[h, i]), 0.0), name="power")
    total = tl.compute((heads, n), lambda h, i: tl.sum(power[h, i, t], axis=t), name="total")
    weight = tl.compute((heads, n, n), lambda h, i, j: power[h, i, j] / total[h, i], name="weight")
    seen = tl.compute((heads, n, width), lambda h, i, j: tl.sum(weight[h, i, t] * v[h, t, j], axis=t), name="seen")
    return seen, tuple(floats(heads, n, width) for _ in range(3))


def _causal_attention(q: Any, k: Any, v: Any, out: Any) -> None:
    heads, n, width = q.shape
    scale, row = np.float32(1) / np.sqrt(np.float32(width)), np.empty(n, np.float32)
    for h in range(heads):
        for i in range(n):
            top = np.float32(-1e30)
            for j in range(i + 1):
                score = np.float32(0)
                for c in range(width):
                    score += q[h, i, c] * k[h, j, c]
                row[j] = score * scale
                top = max(top, row[j])
            total = np.float32(0)
            for j in range(i + 1):
                row[j] = np.exp(row[j] - top)
                total += row[j]
            for c in range(width):
                out[h, i, c] = np.float32(0)
            for j in range(i + 1):
                weight = row[j] / total
                for c in range(width):
                    out[h, i, c] += weight * v[h, j, c]


def grouped_attention() -> Made:
    """Attention of sixteen heads that share keys and values by four, places told by rotations (Llama's)."""
    n, heads, groups, width = 128, 16, 4, 64
    half, each = width // 2, heads // groups
    q, k, v = operand("Q", n, heads, width), operand("K", n, groups, width), operand("V", n, groups, width)
    cosine, sine = operand("cosine", n, half), operand("sine", n, half)
    c, t = tl.reduce_axis(width), tl.reduce_axis(n)

    def turned(x: Any, name: str) -> Any:
        def element(i: Any, h: Any, j: Any) -> Any:
            across = tl.select(j < half, -x[i, h, (j + half) % width], x[i, h, (j + half) % width])
            return x[i, h, j] * cosine[i, j % half] + across * sine[i, j % half]

        return tl.compute(x.shape, element, name=name)

    asks, keys = turned(q, "asks"), turned(k, "keys")
    score = tl.compute(
        (heads, n, n), lambda h, i, j: tl.sum(asks[i, h, c] * keys[j, h // each, c], axis=c) / math.sqrt(width), name="score"
    )
    top = tl.compute((heads, n), lambda h, i: tl.max(score[h, i, t], axis=t), name="top")
    power = tl.compute((heads, n, n), lambda h, i, j: tl.exp(score[h, i, j] - top[h, i]), name="power")
    total = tl.compute((heads, n), lambda h, i: tl.sum(power[h, i, t], axis=t), name="total")
    weight = tl.compute((heads, n, n), lambda h, i, j: power[h, i, j] / total[h, i], name="weight")
    seen = tl.compute((n, heads, width), lambda i, h, j: tl.sum(weight[h, i, t] * v[t, h // each, j], axis=t), name="seen")
    angle = np.arange(n)[:, None] / 10_000 ** (np.arange(half) / half)
    given = floats(n, heads, width), floats(n, groups, width), floats(n, groups, width)
    return seen, (*given, np.cos(angle).astype("float32"), np.sin(angle).astype("float32"))


def _grouped_attention(q: Any, k: Any, v: Any, cosine: Any, sine: Any, out: Any) -> None:
    n, heads, width = q.shape
    half, each, scale = width // 2, heads // k.shape[1], np.float32(1) / np.sqrt(np.float32(width))
    keys, ask, row = np.empty_like(k), np.empty(width, np.float32), np.empty(n, np.float32)
    for i in range(n):
        for h in range(k.shape[1]):
            for c in range(half):
                keys[i, h, c] = k[i, h, c] * cosine[i, c] - k[i, h, c + half] * sine[i, c]
                keys[i, h, c + half] = k[i, h, c + half] * cosine[i, c] + k[i, h, c] * sine[i, c]
    for i in range(n):
        for h in range(heads):
            for c in range(half):
                ask[c] = q[i, h, c] * cosine[i, c] - q[i, h, c + half] * sine[i, c]
                ask[c + half] = q[i, h, c + half] * cosine[i, c] + q[i, h, c] * sine[i, c]
            top = np.float32(-1e30)
            for j in range(n):
                score = np.float32(0)
                for c in range(width):
                    score += ask[c] * keys[j, h // each, c]
                row[j] = score * scale
                top = max(top, row[j])
            total = np.float32(0)
            for j in range(n):
                row[j] = np.exp(row[j] - top)
                total += row[j]
            for c in range(width):
                out[i, h, c] = np.float32(0)
            for j in range(n):
                weight = row[j] / total
                for c in range(width):
                    out[i, h, c] += weight * v[j, h // each, c]


def masked_softmax() -> Made:
    """Softmax of scaled scores where a mask lets them through, and a tenth of the weights dropped."""
    heads, n, k = 8, 256, tl.reduce_axis(256)
    s, mask, kept = operand("S", heads, n, n), operand("mask", n, n, dtype="uint8"), operand("kept", heads, n, n, dtype="uint8")
    scaled = tl.compute((heads, n, n), lambda h, i, j: tl.select(mask[i, j] == 1, 0.125 * s[h, i, j], -1e9), name="scaled")
    top = tl.compute((heads, n), lambda h, i: tl.max(scaled[h, i, k], axis=k), name="top")
    power = tl.compute((heads, n, n), lambda h, i, j: tl.exp(scaled[h, i, j] - top[h, i]), name="power")
    total = tl.compute((heads, n), lambda h, i: tl.sum(power[h, i, k], axis=k), name="total")
    weight = tl.compute((heads, n, n), lambda h, i, j: power[h, i, j] / total[h, i] * real(kept[h, i, j]) / 0.9, name="weight")
    return weight, (floats(heads, n, n), integers(2, "uint8", n, n), (floats(heads, n, n) < 0.9).astype("uint8"))


def _masked_softmax(s: Any, mask: Any, kept: Any, out: Any) -> None:
    heads, n, _ = s.shape
    for h in range(heads):
        for i in range(n):
            top, total = np.float32(-1e30), np.float32(0)
            for j in range(n):
                out[h, i, j] = np.float32(0.125) * s[h, i, j] if mask[i, j] == 1 else np.float32(-1e9)
                top = max(top, out[h, i, j])
            for j in range(n):
                out[h, i, j] = np.exp(out[h, i, j] - top)
                total += out[h, i, j]
            scale = np.float32(1) / (total * np.float32(0.9))
            for j in range(n):
                out[h, i, j] *= scale * np.float32(kept[h, i, j])


def delta_rule() -> Made:
    """A memory of 64 x 64 that each key corrects to its value before it is asked (linear attention by the delta rule)."""
    steps, width, k = 128, 64, tl.reduce_axis(64)
    q, keys, v, rate = operand("Q", steps, width), operand("K", steps, width), operand("V", steps, width), operand("rate", steps)

    def step(t: Any, state: Any) -> Any:
        memory, _ = state
        held = tl.compute((width,), lambda j: tl.sum(keys[t, k] * memory[k, j], axis=k), name="held")
        better = tl.compute((width, width), lambda i, j: memory[i, j] + rate[t] * keys[t, i] * (v[t, j] - held[j]), name="better")
        return better, tl.compute((width,), lambda j: tl.sum(q[t, k] * better[k, j], axis=k), name="answer")

    start = tl.compute((width, width), lambda *_: 0.0, name="memory"), tl.compute((width,), lambda _: 0.0, name="none")
    unit = floats(steps, width)
    given = floats(steps, width), unit / np.linalg.norm(unit, axis=1, keepdims=True), floats(steps, width), floats(steps)
    return tl.scan(step, start, steps, keep="all", name="answers")[1], given


def _delta_rule(q: Any, keys: Any, v: Any, rate: Any, out: Any) -> None:
    steps, width = q.shape
    memory, held = np.zeros((width, width), np.float32), np.empty(width, np.float32)
    for t in range(steps):
        held[:], out[t] = np.float32(0), np.float32(0)
        for i in range(width):
            for j in range(width):
                held[j] += keys[t, i] * memory[i, j]
        for j in range(width):
            held[j] = rate[t] * (v[t, j] - held[j])
        for i in range(width):
            for j in range(width):
                memory[i, j] += keys[t, i] * held[j]
                out[t, j] += q[t, i] * memory[i, j]


def decoding() -> Made:
    """A step of a model that writes: sixteen heads look at as much of a cache of keys and values as there is."""
    most, heads, groups, width = 1024, 16, 4, 64
    each = heads // groups
    q, keys, v = operand("Q", heads, width), operand("K", most, groups, width), operand("V", most, groups, width)
    length, c = operand("length", 1, dtype="int32"), tl.reduce_axis(width)
    score = tl.compute((heads, most), lambda h, j: tl.sum(q[h, c] * keys[j, h // each, c], axis=c) / math.sqrt(width), name="score")

    def there() -> Any:
        return tl.reduce_axis((0, length[0]), within=most)

    def top_of(h: Any) -> Any:
        return tl.max(score[h, (j := there())], axis=j)

    top = tl.compute((heads,), top_of, name="top")
    power = tl.compute((heads, most), lambda h, j: tl.exp(score[h, j] - top[h]), name="power")
    total = tl.compute((heads,), lambda h: tl.sum(power[h, (j := there())], axis=j), name="total")
    seen = tl.compute((heads, width), lambda h, i: tl.sum(power[h, (j := there())] * v[j, h // each, i], axis=j) / total[h], name="seen")
    given = floats(heads, width), floats(most, groups, width), floats(most, groups, width)
    return seen, (*given, np.array([700], "int32"))


def _decoding(q: Any, keys: Any, v: Any, length: Any, out: Any) -> None:
    heads, width = q.shape
    n, each, scale = length[0], heads // keys.shape[1], np.float32(1) / np.sqrt(np.float32(width))
    power = np.empty(n, np.float32)
    for h in range(heads):
        top, total = np.float32(-1e30), np.float32(0)
        for j in range(n):
            score = np.float32(0)
            for c in range(width):
                score += q[h, c] * keys[j, h // each, c]
            power[j] = score * scale
            top = max(top, power[j])
        for j in range(n):
            power[j] = np.exp(power[j] - top)
            total += power[j]
        for i in range(width):
            out[h, i] = np.float32(0)
        for j in range(n):
            weight = power[j] / total
            for i in range(width):
                out[h, i] += weight * v[j, h // each, i]


def embedded() -> Made:
    """Rows of a table by the words of 8 sentences and what tells their places, normalised (BERT's first layer)."""
    sentences, n, width, words, k = 8, 128, 256, 10_000, tl.reduce_axis(256)
    word, table, place = operand("word", sentences, n, dtype="int32"), operand("T", words, width), operand("P", n, width)
    gain, bias = operand("g", width), operand("b", width)
    rows = (sentences, n)
    both = tl.compute((*rows, width), lambda s, i, j: table[tl.clamp(word[s, i], 0, words - 1), j] + place[i, j], name="both")
    mean = tl.compute(rows, lambda s, i: tl.mean(both[s, i, k], axis=k), name="mean")
    spread = tl.compute(rows, lambda s, i: tl.mean((both[s, i, k] - mean[s, i]) ** 2, axis=k), name="spread")

    def element(s: Any, i: Any, j: Any) -> Any:
        return (both[s, i, j] - mean[s, i]) * tl.rsqrt(spread[s, i] + 1e-5) * gain[j] + bias[j]

    given = integers(words, "int32", sentences, n), floats(words, width), floats(n, width), floats(width), floats(width)
    return tl.compute((*rows, width), element, name="embedded"), given


def _embedded(word: Any, table: Any, place: Any, gain: Any, bias: Any, out: Any) -> None:
    sentences, n, width = out.shape
    for s in range(sentences):
        for i in range(n):
            mean, spread = np.float32(0), np.float32(0)
            for j in range(width):
                out[s, i, j] = table[word[s, i], j] + place[i, j]
                mean += out[s, i, j]
            mean /= np.float32(width)
            for j in range(width):
                spread += (out[s, i, j] - mean) * (out[s, i, j] - mean)
            scale = np.float32(1) / np.sqrt(spread / np.float32(width) + np.float32(1e-5))
            for j in range(width):
                out[s, i, j] = (out[s, i, j] - mean) * scale * gain[j] + bias[j]


PROGRAMS: Final = named(
    (causal_attention, _causal_attention),
    (grouped_attention, _grouped_attention),
    (masked_softmax, _masked_softmax),
    (delta_rule, _delta_rule),
    (decoding, _decoding),
    (embedded, _embedded),
)
