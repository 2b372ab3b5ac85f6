"""Bayesian search over a feasible space: surrogate, candidates, expected improvement.

The candidates of a proposal are drawn from the space itself (uniform points, neighbours of the fastest, crossings of them), encoded and
scored at once; the best unseen one is proposed. Failed points teach the validity model and not the times. One proposal in twenty is
uniform, whatever the model says, and the first ones fill the space. A point in flight is believed to take the time that was predicted for
it (kriging believer), so that the next proposal keeps away from it.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tensorlang.autotune.search import Proposal, Searcher
from tensorlang.autotune.surrogate import Array, fit, preload
from tensorlang.schedules.space import Config, spelling

UNIFORM: Final = 500
ELITES: Final = 10
CROSSINGS: Final = 100
EXPLORE: Final = 0.05
LEAST_VALID: Final = 0.1


class Bayesian(Searcher):
    """Expected improvement of extremely randomised trees, times the probability of validity."""

    def prepare(self) -> None:
        """Import the surrogates, unless the space is used up before a model is asked."""
        if self.space.total > self._initial():
            preload()

    def propose(self, rng: np.random.Generator) -> Proposal | None:
        """The unseen candidate of the highest score."""
        valid = [observation for observation in self.history.values() if observation.time is not None]
        if len(valid) < 2 or len(self.history) + len(self.pending) < self._initial() or rng.random() < EXPLORE:
            return self._spread(rng)
        candidates = self._candidates(rng)
        if not candidates:
            return None
        reference = self.history.get(spelling(self.default))
        scale = (reference.time if reference else None) or valid[0].time or 1.0
        failed = [observation.config for observation in self.history.values() if observation.time is None]
        logs = [math.log((observation.time or scale) / scale) for observation in valid]
        flying = list(self.pending.values())
        believed = [proposal.prediction["mean"] if proposal.prediction else float(np.mean(logs)) for proposal in flying]
        model = fit(
            self._rows([*(observation.config for observation in valid), *(proposal.config for proposal in flying)]),
            np.array([*logs, *believed]),
            min(logs),
            float(np.median([observation.noise for observation in valid])),
            self._rows(failed),
            int(rng.integers(1 << 31)),
        )
        seen = model.predict(self._rows([config for config, _ in candidates]))
        score = np.where(seen.valid >= LEAST_VALID, seen.score, 0.0)
        at = int(np.argmax(score)) if score.any() else int(np.argmin(seen.mean))
        config, source = candidates[at]
        told = {"mean": seen.mean[at], "deviation": seen.deviation[at], "valid": seen.valid[at], "score": seen.score[at]}
        return Proposal(config, source, {name: round(float(value), 6) for name, value in told.items()})

    def _initial(self) -> int:
        """Points before the model is asked: more for a space with many knobs, but never most of a small one."""
        return min(max(8, len(self.space.knobs) + 2), 12, 1 + self.space.total // 2)

    def _spread(self, rng: np.random.Generator) -> Proposal | None:
        """Of a few uniform points the one farthest from all that were seen."""
        points = self.space.sample(rng, 16, exclude=self.history.keys() | self.pending.keys())
        if not points:
            return None
        seen = (*(o.config for o in self.history.values()), *(p.config for p in self.pending.values()))
        known = [config for config in seen if self.space.contains(config)]
        if not known:
            return Proposal(points[0], "random")
        rows, others = self._rows(points), self._rows(known)
        spread = np.maximum(np.ptp(np.vstack([rows, others]), axis=0), 1e-9)
        gaps = np.abs(rows[:, None] - others[None]) / spread
        return Proposal(points[int(np.argmax(gaps.sum(axis=2).min(axis=1)))], "random")

    def _candidates(self, rng: np.random.Generator) -> list[tuple[Config, str]]:
        elites = [elite.config for elite in self.elites(ELITES)]
        exclude = self.history.keys() | self.pending.keys()
        near = [config for elite in elites if self.space.contains(elite) for config in self.space.neighbours(elite)]
        pairs = rng.integers(len(elites), size=(CROSSINGS, 2))
        crossed = [self.space.mix(rng, elites[a], elites[b]) for a, b in pairs]
        found = {spelling(config): (config, "model") for config in self.space.sample(rng, UNIFORM, exclude)}
        for config in (*near, *(config for config in crossed if self.space.contains(config))):
            found.setdefault(spelling(config), (config, "neighbour"))
        return [entry for key, entry in found.items() if key not in exclude]

    def _rows(self, configs: list[Config]) -> Array:
        width = len(self.space.columns)
        return np.array([self.space.encode(config) for config in configs]).reshape(len(configs), width)
