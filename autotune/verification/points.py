"""Elements by which a result is judged where all of them would take too long: those at which schedules go wrong, then random ones.

A loop that is split by a factor goes wrong at its ends: in the first tile, at the seam to the second, in the last whole tile, in the
tail. Which factors a candidate splits by is not known when the reference is computed, but they are few: the values of the space's knobs,
and products of small numbers and powers of two. So for every axis, and for the axes fused into one, the elements beside these boundaries
are listed, and the lists of all axes are walked at once: every boundary of every axis is met early, and later in the company of others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any, Final

import numpy as np

from tensorlang.schedules.spaces.knobs import Knob

Point = tuple[int, ...]

_ODD: Final = range(1, 16, 2)
_CORNERED: Final = 10
"""Axes of which corners are listed."""


def factors(knobs: Iterable[Knob]) -> set[int]:
    """The numbers among the values of knobs, and of those that they open: sizes of tiles, for the most part."""
    found = set()
    for knob in knobs:
        found |= {value for value in knob.values if isinstance(value, int) and not isinstance(value, bool) and value > 1}
        found |= factors(inner for opened in knob.opens.values() for inner in opened)
    return found


def boundaries(size: int, factors: Iterable[int] = ()) -> list[int]:
    """The positions of an axis beside which a tile of a likely factor begins or ends, the ends of the axis first."""
    likely = [odd << power for power in range(size.bit_length()) for odd in _ODD]
    found = dict.fromkeys((0, size - 1))
    for factor in dict.fromkeys((*factors, *likely)):
        if 1 <= factor <= size:
            last = size // factor * factor
            found |= dict.fromkeys((factor - 1, factor, last - 1, last))
    return [position for position in found if 0 <= position < size]


def sample_points(shape: tuple[int, ...], count: int, factors: Iterable[int] = ()) -> list[Point]:
    """At most `count` distinct indices, those that tell most first: corners, boundaries of tiles by `factors` and others, random ones."""
    given = tuple(factors)
    rng = np.random.default_rng(0)
    telling = (_corners(shape, count // 8), _beside(shape, given, rng), _fused(shape, given), _mixed(shape, given, rng, count))
    chosen: dict[Point, None] = {}
    for point in itertools.chain.from_iterable(telling):
        chosen.setdefault(point)
        if len(chosen) == count:
            break
    return list(chosen)


def _corners(shape: tuple[int, ...], count: int) -> Iterator[Point]:
    axes = shape[:_CORNERED]
    corners = (corner + tuple(0 for _ in shape[_CORNERED:]) for corner in itertools.product(*({0, size - 1} for size in axes)))
    return itertools.islice(corners, max(count, 4))


def _beside(shape: tuple[int, ...], factors: tuple[int, ...], rng: np.random.Generator) -> Iterator[Point]:
    """Every boundary of every axis, each in one point at least."""
    lists = [boundaries(size, factors) for size in shape]
    if not lists:
        return
    longest = max(map(len, lists))
    columns = [[found[place % len(found)] for place in rng.permutation(max(longest, len(found)))] for found in lists]
    yield from zip(*columns, strict=True)


def _fused(shape: tuple[int, ...], factors: tuple[int, ...]) -> Iterator[Point]:
    """The boundaries of the last axes fused into one, and of all of them."""
    for depth in sorted({2, len(shape)} - {0, 1}):
        if depth <= len(shape):
            inner = shape[-depth:]
            for position in boundaries(prod(inner), factors):
                yield (*(size // 2 for size in shape[:-depth]), *_index(position, inner))


def _index(position: int, shape: tuple[int, ...]) -> Point:
    index: list[int] = []
    for size in reversed(shape):
        position, own = divmod(position, size)
        index.append(own)
    return tuple(reversed(index))


def _mixed(shape: tuple[int, ...], factors: tuple[int, ...], rng: np.random.Generator, count: int) -> Iterator[Point]:
    """Random positions, some of them moved to a boundary."""
    inside: Any = rng.integers(0, shape, size=(2 * count, len(shape)))
    for axis, size in enumerate(shape):
        moved = rng.random(2 * count) < 0.25
        inside[moved, axis] = rng.choice(boundaries(size, factors), size=int(moved.sum()))
    return (tuple(row) for row in inside.tolist())
