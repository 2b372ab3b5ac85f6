"""`bench.programs.sequences` as arrays: scans over time, all rows at once, and the transform that each library has."""

from __future__ import annotations

import math
from typing import Any, Final

from bench.programs.whole.dialects import NoFormError, is_torch, scanned, stepped


def _sigmoid(xp: Any, z: Any) -> Any:
    return 1 / (1 + xp.exp(-z))


def gru(xp: Any, x: Any, w: Any, u: Any, b: Any, c: Any) -> Any:
    """What the inputs give to all steps as one product, then a step after the other."""
    cells = x.shape[1]

    def step(h: Any, given: Any) -> tuple[Any, Any]:
        held = u @ h + c
        gates = _sigmoid(xp, given[: 2 * cells] + held[: 2 * cells])
        new = xp.tanh(given[2 * cells :] + gates[:cells] * held[2 * cells :])
        now = (1 - gates[cells:]) * new + gates[cells:] * h
        return now, now

    return scanned(xp, step, xp.zeros_like(x[0]), x @ w.T + b)[1]


def selective_scan(xp: Any, x: Any, delta: Any, a: Any, b: Any, c: Any, skip: Any) -> Any:
    """A state of all channels, an element of the sequence after the other."""

    def step(h: Any, x: Any, delta: Any, b: Any, c: Any) -> tuple[Any, Any]:
        h = xp.exp(delta[:, None] * a) * h + (delta * x)[:, None] * b
        return h, h @ c

    return scanned(xp, step, xp.zeros_like(a), x, delta, b, c)[1] + skip * x


def edit_distances(xp: Any, a: Any, b: Any) -> Any:
    """Along anti-diagonals of all tables at once: a lane for each letter of `a` and one more for the border."""
    pairs, n = a.shape
    place = xp.arange(n + 1, dtype=xp.int32)
    spare = xp.zeros((pairs, n), dtype=b.dtype)
    wide = xp.concat([spare, xp.flip(b, axis=1), spare], axis=1)

    def step(state: Any, diagonal: Any) -> tuple[Any, None]:
        before, last = state
        letters = wide[:, xp.clip(2 * n - diagonal + place, 0, 3 * n - 1)]
        other = xp.astype(xp.concat([a[:, :1], a], axis=1) != letters, xp.int32)
        near = xp.minimum(last[:, :-1], last[:, 1:]) + 1
        now = xp.concat([last[:, :1], xp.minimum(near, before[:, :-1] + other[:, 1:])], axis=1)
        return (last, xp.where((place == 0) | (place == diagonal), diagonal, now)), None

    first = xp.zeros((pairs, n + 1), dtype=xp.int32)
    state = (first, first + 1)
    return scanned(xp, step, state, xp.arange(2, 2 * n + 1, dtype=xp.int32))[0][1][:, -1]


def checksums(xp: Any, message: Any, table: Any) -> Any:
    """A byte of all messages after the other. Raises `NoFormError`."""
    if is_torch(xp):
        raise NoFormError("torch computes little in words without a sign")

    def step(crc: Any, byte: Any) -> tuple[Any, None]:
        return table[(crc ^ byte) & 255] ^ (crc >> 8), None

    every = 0xFFFFFFFF
    start = xp.full(message.shape[0], every, dtype=xp.uint32)
    return scanned(xp, step, start, xp.astype(message.T, xp.uint32))[0] ^ xp.asarray(every, dtype=xp.uint32)


def fourier(xp: Any, re: Any, im: Any, wr: Any, wi: Any) -> Any:  # noqa: ARG001 - as every form
    """What each library has."""
    found = xp.fft.fft(re + 1j * im)
    return xp.real(found), xp.imag(found)


def alignments(xp: Any, score: Any, label: Any) -> Any:
    """All states of a step at once."""
    text = label.shape[0]
    blanks = xp.zeros_like(label)
    letter = xp.concat([xp.reshape(xp.stack([blanks, label], axis=1), (-1,)), blanks[:1]])
    none = xp.full(2, -1e30, dtype=score.dtype)
    skips = xp.concat([letter[:2] < 0, (letter[2:] != 0) & (letter[2:] != letter[:-2])])

    def step(stay: Any, row: Any) -> tuple[Any, None]:
        one, two = xp.concat([none[:1], stay[:-1]]), xp.where(skips, xp.concat([none, stay[:-2]]), none[0])
        most = xp.maximum(xp.maximum(stay, one), two)
        return most + xp.log(xp.exp(stay - most) + xp.exp(one - most) + xp.exp(two - most)) + row, None

    rows = score[:, letter]
    start = xp.concat([rows[0, :2], xp.full(2 * text - 1, -1e30, dtype=score.dtype)])
    last = scanned(xp, step, start, rows[1:])[0][-2:]
    most = xp.max(last)
    return xp.reshape(most + xp.log(xp.sum(xp.exp(last - most))), (1,))


def options(xp: Any, price: Any, strike: Any) -> Any:
    """All prices of a step at once."""
    steps = 200
    rises = xp.arange(steps + 1, dtype=price.dtype)

    def exercised(t: Any) -> Any:
        return xp.maximum(strike[:, None] - price[:, None] * xp.exp(math.log(1.01) * (2 * rises - t)), xp.zeros_like(strike)[:, None])

    def step(t: Any, later: Any) -> Any:
        kept = 0.9999 * 0.5 * (xp.roll(later, -1, axis=1) + later)
        return xp.maximum(kept, exercised(steps - 1 - t))

    return stepped(xp, steps, step, exercised(steps))[:, 0]


FORMS: Final = (
    gru,
    selective_scan,
    edit_distances,
    checksums,
    fourier,
    alignments,
    options,
)
