"""Parts of models: attention, layers that normalise, a gated layer of two products, a loss, a block of convolutions."""

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


def residual_norm() -> Made:
    """A sum with what a layer has left, each row normalised, and a product."""
    rows, width, other = 512, 768, 256
    x, r, gain, bias, w = (
        operand("X", rows, width),
        operand("R", rows, width),
        *(operand(name, width) for name in "gb"),
        operand("W", width, other),
    )
    k = tl.reduce_axis(width)
    both = tl.compute((rows, width), lambda i, j: x[i, j] + r[i, j], name="both")
    mean = tl.compute((rows,), lambda i: tl.sum(both[i, k], axis=k) / width, name="mean")
    spread = tl.compute((rows,), lambda i: tl.sum((both[i, k] - mean[i]) ** 2, axis=k) / width, name="spread")
    normal = tl.compute((rows, width), lambda i, j: (both[i, j] - mean[i]) / tl.sqrt(spread[i] + 1e-5) * gain[j] + bias[j], name="normal")
    product = tl.compute((rows, other), lambda i, j: tl.sum(normal[i, k] * w[k, j], axis=k), name="product")
    return product, (floats(rows, width), floats(rows, width), floats(width), floats(width), floats(width, other) - 0.5)


def _residual_norm(x: Any, r: Any, gain: Any, bias: Any, w: Any, out: Any) -> None:
    rows, width = x.shape
    row = np.empty(width, np.float32)
    for i in range(rows):
        mean, spread = np.float32(0), np.float32(0)
        for j in range(width):
            row[j] = x[i, j] + r[i, j]
            mean += row[j]
        mean /= np.float32(width)
        for j in range(width):
            spread += (row[j] - mean) * (row[j] - mean)
        scale = np.float32(1) / np.sqrt(spread / np.float32(width) + np.float32(1e-5))
        for j in range(w.shape[1]):
            out[i, j] = np.float32(0)
        for k in range(width):
            value = (row[k] - mean) * scale * gain[k] + bias[k]
            for j in range(w.shape[1]):
                out[i, j] += value * w[k, j]


def gated_layer() -> Made:
    """Rows by the root of their mean square, two products, one of which gates the other, and the product back (SwiGLU)."""
    rows, width, inner = 128, 256, 512
    x, gain = operand("X", rows, width), operand("g", width)
    up, gate, down = operand("U", width, inner), operand("G", width, inner), operand("D", inner, width)
    k, q = tl.reduce_axis(width), tl.reduce_axis(inner)
    square = tl.compute((rows,), lambda i: tl.sum(x[i, k] * x[i, k], axis=k) / width, name="square")
    normal = tl.compute((rows, width), lambda i, j: x[i, j] * tl.rsqrt(square[i] + 1e-6) * gain[j], name="normal")
    a = tl.compute((rows, inner), lambda i, j: tl.sum(normal[i, k] * gate[k, j], axis=k), name="a")
    b = tl.compute((rows, inner), lambda i, j: tl.sum(normal[i, k] * up[k, j], axis=k), name="b")
    gated = tl.compute((rows, inner), lambda i, j: a[i, j] * tl.sigmoid(a[i, j]) * b[i, j], name="gated")
    layer = tl.compute((rows, width), lambda i, j: tl.sum(gated[i, q] * down[q, j], axis=q), name="layer")
    weights = floats(width, inner) - 0.5, floats(width, inner) - 0.5, floats(inner, width) - 0.5
    return layer, (floats(rows, width), floats(width) / 8, *weights)


def _gated_layer(x: Any, gain: Any, up: Any, gate: Any, down: Any, out: Any) -> None:
    rows, width = x.shape
    inner, one = up.shape[1], np.float32(1)
    a, b = np.empty(inner, np.float32), np.empty(inner, np.float32)
    for i in range(rows):
        square = np.float32(0)
        for k in range(width):
            square += x[i, k] * x[i, k]
        scale = one / np.sqrt(square / np.float32(width) + np.float32(1e-6))
        a[:], b[:], out[i] = np.float32(0), np.float32(0), np.float32(0)
        for k in range(width):
            value = x[i, k] * scale * gain[k]
            for j in range(inner):
                a[j] += value * gate[k, j]
                b[j] += value * up[k, j]
        for q in range(inner):
            value = a[q] / (one + np.exp(-a[q])) * b[q]
            for j in range(width):
                out[i, j] += value * down[q, j]


def cross_entropy() -> Made:
    """The loss of scores of 4096 classes, as each row has one that is right."""
    rows, classes = 512, 4096
    x, label = operand("X", rows, classes), operand("label", rows, dtype="int32")
    k, r = tl.reduce_axis(classes), tl.reduce_axis(rows)
    top = tl.compute((rows,), lambda i: tl.max(x[i, k], axis=k), name="top")
    total = tl.compute((rows,), lambda i: tl.sum(tl.exp(x[i, k] - top[i]), axis=k), name="total")
    loss = tl.compute((rows,), lambda i: tl.log(total[i]) + top[i] - x[i, tl.clamp(label[i], 0, classes - 1)], name="loss")
    return tl.compute((1,), lambda _: tl.sum(loss[r], axis=r) / rows, name="mean"), (
        8 * floats(rows, classes),
        integers(classes, "int32", rows),
    )


def _cross_entropy(x: Any, label: Any, out: Any) -> None:
    rows, classes = x.shape
    loss = np.float32(0)
    for i in range(rows):
        top, total = x[i, 0], np.float32(0)
        for k in range(classes):
            top = max(top, x[i, k])
        for k in range(classes):
            total += np.exp(x[i, k] - top)
        loss += np.log(total) + top - x[i, label[i]]
    out[0] = loss / np.float32(rows)


def norm_pool() -> Made:
    """Each channel of a batch by its own mean and variance, what is positive of it, and the greatest of 2 x 2."""
    batch, channels, n = 8, 32, 56
    x, gain, bias = operand("X", batch, channels, n, n), operand("g", channels), operand("b", channels)
    m, i, j, a, b = (tl.reduce_axis(extent) for extent in (batch, n, n, 2, 2))
    count, field = batch * n * n, (batch, channels, n, n)
    mean = tl.compute((channels,), lambda c: tl.sum(x[m, c, i, j], axis=(m, i, j)) / count, name="mean")
    spread = tl.compute((channels,), lambda c: tl.sum((x[m, c, i, j] - mean[c]) ** 2, axis=(m, i, j)) / count, name="spread")
    normal = tl.compute(field, lambda m, c, i, j: (x[m, c, i, j] - mean[c]) / tl.sqrt(spread[c] + 1e-5) * gain[c] + bias[c], name="normal")
    positive = tl.compute(field, lambda m, c, i, j: tl.maximum(normal[m, c, i, j], 0), name="positive")
    pooled = tl.compute(
        (batch, channels, n // 2, n // 2), lambda m, c, i, j: tl.max(positive[m, c, 2 * i + a, 2 * j + b], axis=(a, b)), name="pooled"
    )
    return pooled, (floats(*field), floats(channels), floats(channels) - 0.5)


def _norm_pool(x: Any, gain: Any, bias: Any, out: Any) -> None:
    batch, channels, n, _ = x.shape
    count = np.float32(batch * n * n)
    for c in range(channels):
        mean, spread = np.float32(0), np.float32(0)
        for m in range(batch):
            for i in range(n):
                for j in range(n):
                    mean += x[m, c, i, j]
        mean /= count
        for m in range(batch):
            for i in range(n):
                for j in range(n):
                    spread += (x[m, c, i, j] - mean) * (x[m, c, i, j] - mean)
        scale = gain[c] / np.sqrt(spread / count + np.float32(1e-5))
        for m in range(batch):
            for i in range(n // 2):
                for j in range(n // 2):
                    most = np.float32(0)
                    for a in range(2):
                        for b in range(2):
                            most = max(most, (x[m, c, 2 * i + a, 2 * j + b] - mean) * scale + bias[c])
                    out[m, c, i, j] = most


def depthwise_norm() -> Made:
    """A filter of 7 x 7 for each channel, and each pixel normalised over its channels (the front of a block of ConvNeXt)."""
    n, channels, taps = 28, 192, 7
    x, w = operand("X", n + taps - 1, n + taps - 1, channels), operand("W", taps, taps, channels)
    gain, bias = operand("g", channels), operand("b", channels)
    u, v, k = tl.reduce_axis(taps), tl.reduce_axis(taps), tl.reduce_axis(channels)
    y = tl.compute((n, n, channels), lambda i, j, c: tl.sum(x[i + u, j + v, c] * w[u, v, c], axis=(u, v)), name="filtered")
    mean = tl.compute((n, n), lambda i, j: tl.sum(y[i, j, k], axis=k) / channels, name="mean")
    spread = tl.compute((n, n), lambda i, j: tl.sum((y[i, j, k] - mean[i, j]) ** 2, axis=k) / channels, name="spread")

    def element(i: Any, j: Any, c: Any) -> Any:
        return (y[i, j, c] - mean[i, j]) / tl.sqrt(spread[i, j] + 1e-6) * gain[c] + bias[c]

    given = floats(n + taps - 1, n + taps - 1, channels), floats(taps, taps, channels) - 0.5, floats(channels), floats(channels)
    return tl.compute((n, n, channels), element, name="normal"), given


def _depthwise_norm(x: Any, w: Any, gain: Any, bias: Any, out: Any) -> None:
    n, _, channels = out.shape
    taps, row = w.shape[0], np.empty(channels, np.float32)
    for i in range(n):
        for j in range(n):
            row[:] = np.float32(0)
            for u in range(taps):
                for v in range(taps):
                    for c in range(channels):
                        row[c] += x[i + u, j + v, c] * w[u, v, c]
            mean, spread = np.float32(0), np.float32(0)
            for c in range(channels):
                mean += row[c]
            mean /= np.float32(channels)
            for c in range(channels):
                spread += (row[c] - mean) * (row[c] - mean)
            scale = np.float32(1) / np.sqrt(spread / np.float32(channels) + np.float32(1e-6))
            for c in range(channels):
                out[i, j, c] = (row[c] - mean) * scale * gain[c] + bias[c]


PROGRAMS: Final = named(
    (causal_attention, _causal_attention),
    (grouped_attention, _grouped_attention),
    (masked_softmax, _masked_softmax),
    (residual_norm, _residual_norm),
    (gated_layer, _gated_layer),
    (cross_entropy, _cross_entropy),
    (norm_pool, _norm_pool),
    (depthwise_norm, _depthwise_norm),
)
