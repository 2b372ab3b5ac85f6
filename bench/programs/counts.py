"""What is counted and put where data says: histograms, clusters, extrema of groups, a network that learns, a table that is looked up."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, integers, named, operand


def joint_histogram() -> Made:
    """How often two signals have values in each of 64 x 64 squares."""
    n, bins = 200_000, 64
    x, y, r = operand("X", n), operand("Y", n), tl.reduce_axis(n)
    none = tl.compute((bins, bins), lambda *_: tl.cast(0, "int32"), name="none")

    def place(value: Any) -> Any:
        return tl.cast(tl.clamp(value * bins, 0, bins - 1), "int32")

    counts = tl.scatter(none, axes=(r,), index=lambda r: (place(x[r]), place(y[r])), value=lambda r: tl.cast(1, "int32"), name="counts")
    return counts, (floats(n) ** 2, floats(n))


def _joint_histogram(x: Any, y: Any, out: Any) -> None:
    bins = np.float32(out.shape[0])
    out[:] = 0
    for r in range(x.shape[0]):
        i, j = int(x[r] * bins), int(y[r] * bins)
        out[min(max(i, 0), out.shape[0] - 1), min(max(j, 0), out.shape[1] - 1)] += 1


def clusters() -> Made:
    """A step of k-means: the nearest of 32 centres of each point, and the means of the points of each."""
    n, many, width = 4000, 32, 16
    x, centre, k, c = operand("X", n, width), operand("C", many, width), tl.reduce_axis(width), tl.reduce_axis(many)
    p, q = tl.reduce_axis(n), tl.reduce_axis(width)
    apart = tl.compute((n, many), lambda i, j: tl.sum((x[i, k] - centre[j, k]) ** 2, axis=k), name="apart")
    nearest = tl.compute((n,), lambda i: tl.argmin(apart[i, c], axis=c), name="nearest")
    none = tl.compute((many, width), lambda *_: tl.cast(0, "float32"), name="none")
    zero = tl.compute((many,), lambda _: tl.cast(0, "float32"), name="zero")
    total = tl.scatter(none, (p, q), lambda p, q: (tl.clamp(nearest[p], 0, many - 1), q), lambda p, q: x[p, q], name="total")
    size = tl.scatter(zero, (p,), lambda p: tl.clamp(nearest[p], 0, many - 1), lambda p: tl.cast(1, "float32"), name="size")
    return tl.compute((many, width), lambda i, j: total[i, j] / tl.maximum(size[i], 1), name="centres"), (
        floats(n, width),
        floats(many, width),
    )


def _clusters(x: Any, centre: Any, out: Any) -> None:
    n, width = x.shape
    size = np.zeros(centre.shape[0], np.float32)
    out[:] = np.float32(0)
    for i in range(n):
        best, place = np.float32(1e30), 0
        for j in range(centre.shape[0]):
            apart = np.float32(0)
            for k in range(width):
                apart += (x[i, k] - centre[j, k]) * (x[i, k] - centre[j, k])
            if apart < best:
                best, place = apart, j
        size[place] += np.float32(1)
        for k in range(width):
            out[place, k] += x[i, k]
    for j in range(centre.shape[0]):
        for k in range(width):
            out[j, k] /= max(size[j], np.float32(1))


def group_extrema() -> Made:
    """The least and the greatest value of each of a thousand groups."""
    n, groups = 100_000, 1000
    x, group, r = operand("X", n), operand("group", n, dtype="int32"), tl.reduce_axis(n)
    low, high = (tl.compute((groups,), lambda _, value=value: value, name=name) for name, value in (("low", 1e30), ("high", -1e30)))

    def place(r: Any) -> Any:
        return tl.clamp(group[r], 0, groups - 1)

    least = tl.scatter(low, (r,), place, lambda r: x[r], reduce="min", name="least")
    return (least, tl.scatter(high, (r,), place, lambda r: x[r], reduce="max", name="most")), (floats(n), integers(groups, "int32", n))


def _group_extrema(x: Any, group: Any, least: Any, most: Any) -> None:
    least[:], most[:] = np.float32(1e30), np.float32(-1e30)
    for r in range(x.shape[0]):
        least[group[r]] = min(least[group[r]], x[r])
        most[group[r]] = max(most[group[r]], x[r])


def messages() -> Made:
    """A layer of a graph network: what the nodes at the ends of each edge give to it, its greatest part, and a product."""
    nodes, edges, width, other = 2000, 10_000, 32, 32
    x, source, target = operand("X", nodes, width), operand("source", edges, dtype="int32"), operand("target", edges, dtype="int32")
    w, k = operand("W", width, other), tl.reduce_axis(width)
    e, c = tl.reduce_axis(edges), tl.reduce_axis(width)

    def at(e: Any) -> tuple[Any, Any]:
        return tl.clamp(source[e], 0, nodes - 1), tl.clamp(target[e], 0, nodes - 1)

    sent = tl.compute((edges, width), lambda e, j: tl.maximum(x[at(e)[0], j] - x[at(e)[1], j], 0), name="sent")
    none = tl.compute((nodes, width), lambda *_: tl.cast(0, "float32"), name="none")
    got = tl.scatter(none, (e, c), lambda e, c: (at(e)[1], c), lambda e, c: sent[e, c], name="got")
    layer = tl.compute((nodes, other), lambda i, j: tl.maximum(tl.sum((x[i, k] + got[i, k]) * w[k, j], axis=k), 0), name="layer")
    ends = integers(nodes, "int32", edges), integers(nodes, "int32", edges)
    return layer, (floats(nodes, width), *ends, floats(width, other) - 0.5)


def _messages(x: Any, source: Any, target: Any, w: Any, out: Any) -> None:
    nodes, width = x.shape
    got = x.copy()
    for e in range(source.shape[0]):
        for c in range(width):
            got[target[e], c] += max(x[source[e], c] - x[target[e], c], np.float32(0))
    for i in range(nodes):
        for j in range(w.shape[1]):
            out[i, j] = np.float32(0)
        for k in range(width):
            for j in range(w.shape[1]):
                out[i, j] += got[i, k] * w[k, j]
        for j in range(w.shape[1]):
            out[i, j] = max(out[i, j], np.float32(0))


def suppression() -> Made:
    """Which of four hundred boxes, the best first, are kept: those that no kept one before covers by half."""
    n, k = 400, tl.reduce_axis(400)
    box = operand("B", n, 4)

    def overlap(i: Any, j: Any) -> Any:
        high = tl.minimum(box[i, 2], box[j, 2]) - tl.maximum(box[i, 0], box[j, 0])
        wide = tl.minimum(box[i, 3], box[j, 3]) - tl.maximum(box[i, 1], box[j, 1])
        both = tl.maximum(high, 0) * tl.maximum(wide, 0)
        areas = sum((box[m, 2] - box[m, 0]) * (box[m, 3] - box[m, 1]) for m in (i, j))
        return tl.cast(tl.select(both > 0.5 * (areas - both), 1, 0), "uint8")

    covers = tl.compute((n, n), overlap, name="covers")

    def keep(i: Any, kept: Any) -> Any:
        return tl.cast(tl.select(tl.any((covers[k, i] == 1) & (kept[k] == 1), axis=k, where=k < i), 0, 1), "uint8")

    corner = floats(n, 2)
    boxes = np.concatenate([corner, corner + 0.05 + 0.2 * floats(n, 2)], axis=1)
    return tl.recurrence((n,), keep, name="kept", dtype="uint8"), (boxes,)


def _suppression(box: Any, out: Any) -> None:
    half = np.float32(0.5)
    for i in range(box.shape[0]):
        out[i] = 1
        for k in range(i):
            if out[k] == 1:
                high = min(box[i, 2], box[k, 2]) - max(box[i, 0], box[k, 0])
                wide = min(box[i, 3], box[k, 3]) - max(box[i, 1], box[k, 1])
                both = max(high, np.float32(0)) * max(wide, np.float32(0))
                areas = (box[i, 2] - box[i, 0]) * (box[i, 3] - box[i, 1]) + (box[k, 2] - box[k, 0]) * (box[k, 3] - box[k, 1])
                if both > half * (areas - both):
                    out[i] = 0
                    break


def compacted() -> Made:
    """The values above a half, moved together in their order, and how many there are."""
    n, r = 100_000, tl.reduce_axis(100_000)
    x = operand("X", n)
    place = tl.recurrence((n,), lambda i, p: p[i - 1] + tl.select(x[i] > 0.5, tl.cast(1, "int32"), 0), name="place", dtype="int32")
    none = tl.compute((n,), lambda _: tl.cast(0, "float32"), name="none")
    found = tl.scatter(
        none, (r,), lambda r: tl.clamp(place[r] - 1, 0, n - 1), lambda r: x[r], reduce="set", where=lambda r: x[r] > 0.5, name="found"
    )
    return (found, tl.compute((1,), lambda _: place[n - 1], name="count")), (floats(n),)


def _compacted(x: Any, out: Any, count: Any) -> None:
    found = 0
    for r in range(x.shape[0]):
        if x[r] > 0.5:
            out[found] = x[r]
            found += 1
    for r in range(found, x.shape[0]):
        out[r] = 0
    count[0] = found


def routed() -> Made:
    """The two best of eight experts of each row, what each of them is worth, and their products (a mixture of experts)."""
    rows, many, depth, width = 128, 8, 64, 64
    x, gate, w = operand("X", rows, depth), operand("G", depth, many), operand("W", many, depth, width)
    k, e = tl.reduce_axis(depth), tl.reduce_axis(many)
    score = tl.compute((rows, many), lambda i, j: tl.sum(x[i, k] * gate[k, j], axis=k), name="score")
    first = tl.compute((rows,), lambda i: tl.argmax(score[i, e], axis=e), name="first")
    second = tl.compute((rows,), lambda i: tl.argmax(score[i, e], axis=e, where=e != first[i]), name="second")

    def chosen(which: Any, i: Any) -> Any:
        return tl.clamp(which[i], 0, many - 1)

    worth = tl.compute((rows,), lambda i: tl.sigmoid(score[i, chosen(first, i)] - score[i, chosen(second, i)]), name="worth")

    def product(which: Any, name: str) -> Any:
        return tl.compute((rows, width), lambda i, j: tl.sum(x[i, k] * w[chosen(which, i), k, j], axis=k), name=name)

    best, other = product(first, "best"), product(second, "other")
    mixed = tl.compute((rows, width), lambda i, j: worth[i] * best[i, j] + (1 - worth[i]) * other[i, j], name="mixed")
    return mixed, (floats(rows, depth), floats(depth, many), floats(many, depth, width) - 0.5)


def _routed(x: Any, gate: Any, w: Any, out: Any) -> None:
    rows, depth = x.shape
    many, score = gate.shape[1], np.empty(gate.shape[1], np.float32)
    for i in range(rows):
        score[:] = np.float32(0)
        for k in range(depth):
            for j in range(many):
                score[j] += x[i, k] * gate[k, j]
        first, second = 0, 1
        for j in range(1, many):
            if score[j] > score[first]:
                first, second = j, first
            elif score[j] > score[second] or first == second:
                second = j
        worth = np.float32(1) / (np.float32(1) + np.exp(score[second] - score[first]))
        for j in range(w.shape[2]):
            out[i, j] = np.float32(0)
        for k in range(depth):
            better, worse = worth * x[i, k], (np.float32(1) - worth) * x[i, k]
            for j in range(w.shape[2]):
                out[i, j] += better * w[first, k, j] + worse * w[second, k, j]


PROGRAMS: Final = named(
    (joint_histogram, _joint_histogram),
    (clusters, _clusters),
    (group_extrema, _group_extrema),
    (messages, _messages),
    (suppression, _suppression),
    (compacted, _compacted),
    (routed, _routed),
)
