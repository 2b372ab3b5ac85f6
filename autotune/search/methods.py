"""The methods that need no model: points at random, in order, or bred from the fastest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tensorlang.autotune.search.searcher import Proposal, Searcher
from tensorlang.schedules.spaces.space import Config


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
    """Mutation and crossover of the fastest points, after a random first generation."""

    GENERATION: Final = 10
    ATTEMPTS: Final = 30

    def propose(self, rng: np.random.Generator) -> Proposal | None:
        """A child of one or two elites that was not seen; a random point where breeding finds none."""
        parents = [elite.config for elite in self.elites(self.GENERATION)]
        if len(self.history) + len(self.pending) < self.GENERATION or not parents:
            return self.fresh(rng)
        for _ in range(self.ATTEMPTS):
            child = self.space.mix(rng, *(parents[int(rng.integers(len(parents)))] for _ in range(2)))
            for _ in range(int(rng.integers(3))):
                near = self.space.neighbours(child)
                child = near[int(rng.integers(len(near)))] if near else child
            if not self.seen(child) and self.space.contains(child):
                return Proposal(child, "neighbour")
        return self.fresh(rng)
