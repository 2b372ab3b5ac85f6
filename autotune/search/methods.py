"""The methods that learn no model: points at random, in order, or bred from the fastest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from tensorlang.autotune.search.candidates import Candidates, Points
from tensorlang.autotune.search.forecast import Forecast
from tensorlang.autotune.search.searcher import Proposal, Searcher
from tensorlang.schedules.spaces.space import Config, Space
from tensorlang.system.lazy import cached_property

if TYPE_CHECKING:
    from tensorlang.schedules.strategies.point_costs import PointCosts


class Random(Searcher):
    """Uniform over the feasible points."""

    def propose(self, rng: np.random.Generator) -> Proposal | None:
        """A point drawn anew."""
        return self.fresh(rng)


class Grid(Searcher):
    """Every point in a fixed order, coarse to fine (see `Space.__iter__`)."""

    _points: Iterator[Config] | None = None

    def propose(self, rng: np.random.Generator) -> Proposal | None:
        """The next point of the order."""
        del rng
        if self._points is None:
            self._points = iter(self.space)
        return next((Proposal(config, "grid") for config in self._points if not self.seen(config)), None)


class Evolutionary(Searcher):
    """Mutation and crossover of the fastest points, after a first generation of random ones and of those that the cost model likes."""

    GENERATION: Final = 10
    ATTEMPTS: Final = 30

    def __init__(
        self, space: Space, default: Config, *, seed: int = 0, seeds: Iterable[Config] = (), costs: PointCosts | None = None
    ) -> None:
        super().__init__(space, default, seed=seed, seeds=seeds)
        self._costs = costs

    @cached_property
    def _liked(self) -> Points:
        found = None if self._costs is None else Forecast(self._costs, Candidates(self.space, self.seed), self.seed)
        return found.pool if found is not None and found.usable else {}

    def propose(self, rng: np.random.Generator) -> Proposal | None:
        """A child of one or two elites that was not seen; a random point where breeding finds none."""
        parents = [elite.config for elite in self.elites(self.GENERATION)]
        if (seen := len(self.history) + len(self.pending)) < self.GENERATION or not parents:
            liked = (config for config in self._liked.values() if not self.seen(config)) if seen % 2 else iter(())
            return next((Proposal(config, "model") for config in liked), None) or self.fresh(rng)
        for _ in range(self.ATTEMPTS):
            child = self.space.mix(rng, *(parents[int(rng.integers(len(parents)))] for _ in range(2)))
            for _ in range(int(rng.integers(3))):
                near = self.space.neighbours(child)
                child = near[int(rng.integers(len(near)))] if near else child
            if not self.seen(child) and self.space.contains(child):
                return Proposal(child, "neighbour")
        return self.fresh(rng)
