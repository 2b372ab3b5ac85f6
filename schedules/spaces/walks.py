"""Random walks through a space: by ranks spread over all of it, and from a feasible point to others.

The latter are for spaces of which so little is feasible that next to nothing is found by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from tensorlang.schedules.spaces.space import Space

SCANNED: Final = 100_000
"""Ranks of a walk, at most."""
MOVES: Final = 12
"""Moves of a walk, at most: a dozen decisions of a program of sixty stages."""


def walked(space: Space, rng: np.random.Generator, point: Mapping[str, Any]) -> dict[str, Any]:
    """A feasible point some moves from another one: of one knob each, to a near value, and none that would not be feasible."""
    found = dict(point)
    for _ in range(int(rng.integers(1, MOVES + 1))):
        active = list(space.active(found))
        name, knob = active[int(rng.integers(len(active)))]
        near = knob.near(found[name])
        if near:
            moved = space.complete({**found, name: near[int(rng.integers(len(near)))]})
            found = moved if space.contains(moved) else found
    return found


def below(rng: np.random.Generator, bound: int) -> int:
    """A uniform integer below a bound of any size."""
    return int.from_bytes(rng.bytes(bound.bit_length() // 8 + 9), "little") % bound


def scattered(rng: np.random.Generator, total: int) -> Iterator[int]:
    """Distinct ranks below `total`, at most `SCANNED`, spread evenly from a random one on."""
    start = below(rng, total)
    stride = next(step for step in range(total * 618 // 1000 | 1, 2 * total + 2) if math.gcd(step, total) == 1)
    for step in range(min(SCANNED, total)):
        yield (start + step * stride) % total
