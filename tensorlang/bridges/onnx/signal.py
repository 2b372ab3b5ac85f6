"""Rows of the table: Fourier transforms of any length as products with a table, which is written down while the model is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx.call import Call, Translation
from tensorlang.bridges.onnx.moving import MOST
from tensorlang.graph import Value

Table: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


def table(length: int, given: int, parts: int, *, inverse: bool, onesided: bool) -> tuple[Table, int]:
    """The matrix from the numbers of a signal, real or pairs, to those of its transform, and how many numbers each result is.

    The signal has `given` elements, and is cut, or followed by zeros, to `length`, or to the half of it that a real one's transform has.
    """
    if length < 1 or given * length * parts * 2 > MOST:
        raise tl.GraphError(f"a transform of {length} numbers has no translation")
    turn = 2j * np.pi / length
    if inverse and onesided:
        half = length // 2 + 1
        bins = np.arange(min(given, half))
        twice = np.where((bins == 0) | (2 * bins == length), 1.0, 2.0)
        waves = np.exp(turn * np.outer(bins, np.arange(length))) * twice[:, None] / length
        made = np.stack([waves.real, -waves.imag][:parts], 1)
        whole = np.zeros((given, parts, length))
        whole[: len(bins)] = made
        return whole.reshape(given * parts, length), 1
    count = length // 2 + 1 if onesided else length
    used = min(given, length)
    waves = np.exp((turn if inverse else -turn) * np.outer(np.arange(used), np.arange(count))) / (length if inverse else 1)
    real = np.stack([waves.real, waves.imag], -1)
    imaginary = np.stack([-waves.imag, waves.real], -1)
    whole = np.zeros((given, parts, count, 2))
    whole[:used] = np.stack([real, imaginary][:parts], 1)
    return whole.reshape(given * parts, count * 2), 2


def transformed(call: Call, value: Value, axis: int, length: int | None, *, inverse: bool, onesided: bool) -> Value:
    """The transform along an axis; the last axis holds 1 or 2 numbers for each element."""
    *_, parts = extents = call.extents(value)
    if parts not in (1, 2) or not 0 <= axis < len(extents) - 1:
        raise tl.GraphError(f"{value} has no pairs of numbers in its last axis, or axis {axis} is that one")
    given = extents[axis]
    if length is None:
        length = 2 * (given - 1) if inverse and onesided else given
    matrix, numbers = table(length, given, parts, inverse=inverse, onesided=onesided)
    order = [place for place in range(len(extents) - 1) if place != axis] + [axis, len(extents) - 1]
    rows = call.permuted(value, order)
    lead = rows.shape[:-2]
    made = call("linear", call.reshaped(rows, (*lead, given * parts)), call.builder.constant(matrix.T.astype(value.dtype.numpy).copy()))
    apart = call.reshaped(made, (*lead, matrix.shape[1] // numbers, numbers))
    return call.permuted(apart, [order.index(place) for place in range(len(extents))])


def transform(call: Call) -> Value:
    """The axis is an operand since opset 20."""
    rank = len(call[0].shape)
    axis = call.number(2, -2) if call.opset >= 20 else call.get("axis", 1)
    length = None if call.operand(1) is None else call.number(1, 0)
    options = {"inverse": bool(call.get("inverse", 0)), "onesided": bool(call.get("onesided", 0))}
    return transformed(call, call[0], call.place(axis, rank), length, **options)


def short_time(call: Call) -> Value:
    """Transforms of frames of a signal, each by a window."""
    value, step, window = call[0], call.number(1, 0), call.operand(2)
    batch, extent, *rest = call.extents(value)
    parts = rest[0] if rest else 1
    size = window.shape[0] if window is not None else None
    length = call.number(3, 0) if call.operand(3) is not None else size
    if not isinstance(length, int) or step < 1 or length < 1:
        raise tl.GraphError("a window, or the length of a frame, is needed")
    frames = (extent - length) // step + 1
    places = (np.arange(frames)[:, None] * step + np.arange(length)[None, :]).reshape(-1)
    cut = call("index_select", call.reshaped(value, (batch, extent, parts)), call.builder.constant(places), dim=1)
    apart = call.reshaped(cut, (batch, frames, length, parts))
    if window is not None:
        apart = call("mul", apart, call.reshaped(window, (length, 1)))
    return transformed(call, apart, 2, length, inverse=False, onesided=bool(call.get("onesided", 1)))


def mel_weights(call: Call) -> Value:
    """The triangles of the mel scale, all of whose operands are known."""
    bands, size, rate = (call.number(place, 0) for place in range(3))
    low, high = (float(call.known(call[place], f"operand {place}").reshape(())) for place in (3, 4))
    bins = size // 2 + 1
    if not 0 < bands * bins <= MOST:
        raise tl.GraphError(f"a table of {bands} by {bins} weights has no translation")
    mel = [2595 * math.log10(1 + hertz / 700) for hertz in (low, high)]
    steps = np.arange(bands + 2) * ((mel[1] - mel[0]) / (bands + 2)) + mel[0]
    edges = ((size + 1) * (700 * (10 ** (steps / 2595) - 1)) // rate).astype(np.int64)
    made = np.zeros((bins, bands))
    for band in range(bands):
        first, centre, last = edges[band : band + 3]
        if centre == first:
            made[centre, band] = 1
        else:
            made[first : centre + 1, band] = np.arange(centre - first + 1) / (centre - first)
        if last > centre:
            made[centre:last, band] = (last - np.arange(centre, last)) / (last - centre)
    dtype = call.get("output_datatype")
    return call.constant(made.astype(np.float32 if dtype in (None, 1) else np.float64))


ROWS: Final[Mapping[str, Translation]] = {"DFT": transform, "STFT": short_time, "MelWeightMatrix": mel_weights}
"""By ONNX's names."""
