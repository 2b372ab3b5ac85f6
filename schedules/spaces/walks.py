"""Random walks from a feasible point to others, in spaces of which so little is feasible that nothing is found by chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from tensorlang.schedules.spaces.space import Space

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
