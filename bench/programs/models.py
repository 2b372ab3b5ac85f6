"""Parts of models: layers that normalise, a gated layer of two products, a loss, blocks of convolutions, a step of learning."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, integers, named, operand


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


def learning() -> Made:
    """A step of learning of two layers: what they give, by how much that is wrong, and the weights after it."""
    rows, width, inner, other = 256, 128, 64, 16
    x, y, first, second = operand("X", rows, width), operand("Y", rows, other), operand("V", width, inner), operand("W", inner, other)
    k, h, o, r = tl.reduce_axis(width), tl.reduce_axis(inner), tl.reduce_axis(other), tl.reduce_axis(rows)
    hidden = tl.compute((rows, inner), lambda i, j: tl.maximum(tl.sum(x[i, k] * first[k, j], axis=k), 0), name="hidden")
    wrong = tl.compute((rows, other), lambda i, j: (tl.sum(hidden[i, h] * second[h, j], axis=h) - y[i, j]) / rows, name="wrong")
    blame = tl.compute(
        (rows, inner), lambda i, j: tl.select(hidden[i, j] > 0, tl.sum(wrong[i, o] * second[j, o], axis=o), 0.0), name="blame"
    )
    first_after = tl.compute((width, inner), lambda i, j: first[i, j] - 0.1 * tl.sum(x[r, i] * blame[r, j], axis=r), name="first_after")
    second_after = tl.compute(
        (inner, other), lambda i, j: second[i, j] - 0.1 * tl.sum(hidden[r, i] * wrong[r, j], axis=r), name="second_after"
    )
    weights = 0.2 * floats(width, inner) - 0.1, 0.2 * floats(inner, other) - 0.1
    return (first_after, second_after), (floats(rows, width), floats(rows, other), *weights)


def _learning(x: Any, y: Any, first: Any, second: Any, first_after: Any, second_after: Any) -> None:
    rows, width = x.shape
    inner, other = second.shape
    hidden, wrong, blame = np.empty(inner, np.float32), np.empty(other, np.float32), np.empty(inner, np.float32)
    first_after[:], second_after[:] = first, second
    rate = np.float32(0.1)
    for i in range(rows):
        hidden[:], wrong[:] = np.float32(0), np.float32(0)
        for k in range(width):
            for j in range(inner):
                hidden[j] += x[i, k] * first[k, j]
        for k in range(inner):
            hidden[k] = max(hidden[k], np.float32(0))
            for j in range(other):
                wrong[j] += hidden[k] * second[k, j]
        for j in range(other):
            wrong[j] = (wrong[j] - y[i, j]) / np.float32(rows)
        for j in range(inner):
            blame[j] = np.float32(0)
            if hidden[j] > 0:
                for k in range(other):
                    blame[j] += wrong[k] * second[j, k]
        for k in range(width):
            for j in range(inner):
                first_after[k, j] -= rate * x[i, k] * blame[j]
        for k in range(inner):
            for j in range(other):
                second_after[k, j] -= rate * hidden[k] * wrong[j]


PROGRAMS: Final = named(
    (residual_norm, _residual_norm),
    (gated_layer, _gated_layer),
    (cross_entropy, _cross_entropy),
    (norm_pool, _norm_pool),
    (depthwise_norm, _depthwise_norm),
    (learning, _learning),
)
