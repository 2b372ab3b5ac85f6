"""The points among which a proposal is chosen, and their features: found once, and kept from proposal to proposal.

All points of a small space; of a large one uniform points, neighbours of the fastest, and crossings of them. A search on one core asks
for a proposal between any two measurements, so what was drawn, checked and encoded for one serves the next: uniform points are drawn
anew whenever twice as many points have been seen. What is drawn depends on the seed and on how many points were seen, and on nothing
else, so a search that was resumed sees the same points.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from tensorlang.autotune.search.gaussian import Array
from tensorlang.schedules.spaces.space import Config, Space, spelling
from tensorlang.system.lazy import cached_property

LISTED: Final = 2_048
"""Points of the largest space all of whose points are candidates."""
UNIFORM: Final = 256
CROSSINGS: Final = 32
RENEWED: Final = 8
"""Points seen before uniform points are drawn for the second time."""
LEVELS: Final = 16
REMEMBERED: Final = 8_192
"""Points whose features are kept."""

Points = dict[str, Config]
"""Points by their spelling."""


class Candidates:
    """Points of a space by their spelling, and their features."""

    def __init__(self, space: Space, seed: int) -> None:
        self.space = space
        self.seed = seed
        self._near: dict[str, Points] = {}
        self._drawn: tuple[int, Points] | None = None
        self._known: dict[str, Array] = {}

    @cached_property
    def listed(self) -> Points | None:
        """Every point of a small space; None for a large one."""
        if not self.space.count.exact or self.space.count.feasible > LISTED:
            return None
        return {spelling(config): config for config in self.space}

    def uniform(self, seen: int) -> Points:
        """Uniform points for a proposal before which so many points were seen; of a small space all."""
        if self.listed is not None:
            return self.listed
        drawing = (seen // RENEWED).bit_length()
        if self._drawn is None or self._drawn[0] != drawing:
            points = self.space.sample(np.random.default_rng([self.seed, drawing, 1]), UNIFORM)
            self._drawn = drawing, {spelling(config): config for config in points}
        return self._drawn[1]

    def near(self, elites: Iterable[Config]) -> Points:
        """The neighbours of these points, as far as they are of the space."""
        found: Points = {}
        for elite in elites:
            key = spelling(elite)
            if key not in self._near:
                around = self.space.neighbours(elite) if self.space.contains(elite) else ()
                self._near[key] = {spelling(config): config for config in around}
            found |= self._near[key]
        return found

    def crossed(self, rng: np.random.Generator, elites: list[Config]) -> Points:
        """Feasible points that take each knob from one of two of these points; of a small space none, as all are candidates."""
        if self.listed is not None or not elites:
            return {}
        pairs = rng.integers(len(elites), size=(CROSSINGS, 2))
        mixed = {spelling(point): point for point in (self.space.mix(rng, elites[a], elites[b]) for a, b in pairs)}
        return {key: point for key, point in mixed.items() if key in self._known or self.space.contains(point)}

    def rows(self, points: Mapping[str, Config]) -> Array:
        """Features of points: standardised, then one for each value of those with few.

        So a tile of 8 rows may be fast where 6 and 10 are slow.
        """
        if len(self._known) > REMEMBERED:
            self._known.clear()
        missing = [key for key in points if key not in self._known]
        if missing:
            self._known.update(zip(missing, self._encoded([points[key] for key in missing]), strict=True))
        rows = [self._known[key] for key in points]
        return np.array(rows) if rows else np.empty((0, self._width))

    def _encoded(self, configs: list[Config]) -> Array:
        middle, scale, few = self._scale
        rows = self.space.encode_all(configs)
        return np.hstack([(rows - middle) * scale, *(rows[:, [place]] == values for place, values in few)])

    @cached_property
    def _scale(self) -> tuple[Array, Array, tuple[tuple[int, Array], ...]]:
        """Mean and reciprocal of the spread of each feature over the space (0 where it is constant), and the values of those with few."""
        probed = list(self.uniform(0).values()) if self.listed is None else self.space.sample(np.random.default_rng(0), UNIFORM)
        rows = self.space.encode_all(probed)
        spread = rows.std(axis=0)
        values = ((place, np.unique(column)) for place, column in enumerate(rows.T))
        few = tuple((place, found) for place, found in values if 2 < len(found) <= LEVELS)
        return rows.mean(axis=0), np.where(spread > 1e-9, 1 / np.maximum(spread, 1e-9), 0.0), few

    @property
    def _width(self) -> int:
        middle, _, few = self._scale
        return len(middle) + sum(len(values) for _, values in few)
