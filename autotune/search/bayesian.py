"""Bayesian search over a feasible space: surrogate, candidates, expected improvement.

The candidates of a proposal are all points of a small space; of a large one they are drawn from the space itself (uniform points,
neighbours of the fastest, crossings of them). They are encoded and scored at once; the best unseen one is proposed. Failed points teach
the validity model and not the times. One proposal in twenty is uniform, whatever the model says, and the first few fill the space. A point
in flight is believed to take the time that was predicted for it (kriging believer), so that the next proposal keeps away from it.

What neighbours of the task have measured is prior data: it stands beside the observations at a discount, and replaces the first points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from tensorlang.autotune.search.gaussian import Array
from tensorlang.autotune.search.searcher import Prior, Proposal, Searcher
from tensorlang.autotune.search.surrogate import fit, preload
from tensorlang.schedules.spaces.space import Config, spelling
from tensorlang.system.lazy import cached_property

LISTED: Final = 2_048
UNIFORM: Final = 400
ELITES: Final = 8
CROSSINGS: Final = 60
FIRST: Final = 4
EXPLORE: Final = 0.05
LEAST_VALID: Final = 0.5
PROBED: Final = 256
LEVELS: Final = 16
PRIORS: Final = 120


class Bayesian(Searcher):
    """Expected improvement of a Gaussian process over relevant features, times the probability of validity."""

    def prepare(self, trials: int) -> None:
        """Import the surrogates, unless the trials or the points of the space are used up before a model is asked."""
        if min(trials, self.space.total) > self._initial():
            preload()
            _ = self._scale, self._listed, self._told

    def propose(self, rng: np.random.Generator) -> Proposal | None:
        """The unseen candidate of the highest score."""
        valid = [observation for observation in self.history.values() if observation.time is not None]
        if len(valid) + len(self._told) < 2 or len(self.history) + len(self.pending) < self._initial() or rng.random() < EXPLORE:
            return self._spread(rng)
        configs, features, near = self._candidates(rng)
        if not configs:
            return None
        reference = self.history.get(spelling(self.default))
        scale = (reference.time if reference else None) or (valid[0].time if valid else None) or 1.0
        failed = [observation.config for observation in self.history.values() if observation.time is None]
        logs = [math.log((observation.time or scale) / scale) for observation in valid]
        told = self._told
        middle = float(np.mean(logs or [prior.log for prior in told]))
        flying = list(self.pending.values())
        believed = [proposal.prediction["mean"] if proposal.prediction else middle for proposal in flying]
        here = [*(observation.config for observation in valid), *(proposal.config for proposal in flying)]
        model = fit(
            np.vstack([self._rows(here), self._rows([prior.config for prior in told])]),
            _winsorised(np.array([*logs, *believed, *(prior.log for prior in told)])),
            np.array([*(1.0 for _ in here), *(prior.weight for prior in told)]),
            float(np.median([observation.noise for observation in valid])) if valid else 0.0,
            self._rows(failed),
            int(rng.integers(1 << 31)),
            min(logs, default=0.0),
        )
        seen = model.predict(features)
        score = np.where(seen.valid >= LEAST_VALID, seen.score, 0.0)
        at = int(np.argmax(score)) if score.any() else int(np.argmin(seen.mean))
        values = {"mean": seen.mean[at], "deviation": seen.deviation[at], "valid": seen.valid[at], "score": seen.score[at]}
        source = "neighbour" if spelling(configs[at]) in near else "model"
        return Proposal(configs[at], source, {name: round(float(value), 6) for name, value in values.items()})

    def _initial(self) -> int:
        """Points before the model is asked, the default among them; but never most of a small space."""
        return min(1 if self._told else FIRST, 1 + self.space.total // 2)

    @cached_property
    def _told(self) -> list[Prior]:
        """The prior data to use: the heaviest, of equals the fastest."""
        return sorted(self.priors, key=lambda prior: (-prior.weight, prior.log, spelling(prior.config)))[:PRIORS]

    def _spread(self, rng: np.random.Generator) -> Proposal | None:
        """Of a few uniform points the one farthest from all that were seen."""
        points = self.space.sample(rng, 16, exclude=self.history.keys() | self.pending.keys())
        if not points:
            return None
        known = [*(o.config for o in self.history.values()), *(p.config for p in self.pending.values())]
        if not known:
            return Proposal(points[0], "random")
        gaps = np.abs(self._rows(points)[:, None] - self._rows(known)[None])
        return Proposal(points[int(np.argmax(gaps.sum(axis=2).min(axis=1)))], "random")

    def _candidates(self, rng: np.random.Generator) -> tuple[list[Config], Array, frozenset[str]]:
        """Unseen points, their features, and the spellings of those that are neighbours of the fastest."""
        elites = [elite.config for elite in self.elites(ELITES) if self.space.contains(elite.config)]
        near = {spelling(config): config for elite in elites for config in self.space.neighbours(elite)}
        exclude = self.history.keys() | self.pending.keys()
        if self._listed is not None:
            keys, configs, rows = self._listed
            places = [place for place, key in enumerate(keys) if key not in exclude]
            return [configs[place] for place in places], rows[places], frozenset(near)
        if elites:
            pairs = rng.integers(len(elites), size=(CROSSINGS, 2))
            crossed = (self.space.mix(rng, elites[a], elites[b]) for a, b in pairs)
            near |= {spelling(config): config for config in crossed if self.space.contains(config)}
        found = {spelling(config): config for config in self.space.sample(rng, UNIFORM, exclude)} | near
        chosen = [config for key, config in found.items() if key not in exclude]
        return chosen, self._rows(chosen), frozenset(near)

    @cached_property
    def _listed(self) -> tuple[list[str], list[Config], Array] | None:
        """Every point of a small space, encoded once."""
        if not self.space.count.exact or self.space.count.feasible > LISTED:
            return None
        configs = list(self.space)
        return [spelling(config) for config in configs], configs, self._rows(configs)

    @cached_property
    def _scale(self) -> tuple[Array, Array, tuple[tuple[int, Array], ...]]:
        """Mean and reciprocal of the spread of each feature over the space (0 where it is constant), and the values of those with few."""
        rows = self.space.encode_all(self.space.sample(np.random.default_rng(0), PROBED))
        spread = rows.std(axis=0)
        values = ((place, np.unique(column)) for place, column in enumerate(rows.T))
        few = tuple((place, found) for place, found in values if 2 < len(found) <= LEVELS)
        return rows.mean(axis=0), np.where(spread > 1e-9, 1 / np.maximum(spread, 1e-9), 0.0), few

    def _rows(self, configs: Sequence[Config]) -> Array:
        """Standardised features, then one for each value of those with few: a tile of 8 rows may be fast where 6 and 10 are slow."""
        middle, scale, few = self._scale
        rows = self.space.encode_all(configs)
        levels = [rows[:, [place]] == values for place, values in few]
        return np.hstack([(rows - middle) * scale, *levels])


def _winsorised(logs: Array) -> Array:
    """Slow points made alike, from as far above the median as the best is below it: how slow they are says nothing of the fast ones."""
    middle = float(np.median(logs))
    return np.asarray(np.minimum(logs, 2 * middle - logs.min() + 1e-9))
