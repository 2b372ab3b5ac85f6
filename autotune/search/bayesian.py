"""Bayesian search over a feasible space: surrogate, candidates, expected improvement.

Candidates (see `candidates`) are scored at once; the best unseen one is proposed. Failed points teach the validity model and not the
times. One proposal in twenty is uniform, whatever the model says, and the first few fill the space. A point in flight is believed to take
the time that was predicted for it (kriging believer), so that the next proposal keeps away from it.

A proposal must cost little beside the trial that it leads to: ten milliseconds where a trial takes a few hundred. So the trees of the
surrogate are loaded once the trials have taken a minute, and asked again when the trials since have taken fifty times as long as trees do.
How long trials took is told with their outcomes, so that the same outcomes lead to the same proposals, on any machine.

What neighbours of the task have measured is prior data: it stands beside the observations at a discount, and replaces the first points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from tensorlang.autotune.search.candidates import Candidates, Points
from tensorlang.autotune.search.forecast import Forecast, Trend
from tensorlang.autotune.search.gaussian import Array
from tensorlang.autotune.search.searcher import Observation, Prior, Proposal, Searcher
from tensorlang.autotune.search.surrogate import Prediction, Surrogate, correlation, fit, importance, preload, stretch
from tensorlang.schedules.spaces.space import Config, Space, spelling
from tensorlang.system.lazy import cached_property

if TYPE_CHECKING:
    from tensorlang.schedules.strategies.point_costs import PointCosts

ELITES: Final = 8
FIRST: Final = 4
EXPLORE: Final = 0.05
LEAST_VALID: Final = 0.5
PRIORS: Final = 120
MODELLED: Final = 160
"""Observations that the process is conditioned on, at most: its cost is their number squared for each candidate."""
TREES_AFTER_S: Final = 60.0
"""Seconds of trials after which trees are loaded, which takes one or two."""
TREES_AGAIN_S: Final = 2.5
"""Seconds of trials after which trees are asked again, which takes a twentieth of one."""


class Bayesian(Searcher):
    """Expected improvement of a Gaussian process over relevant features, times the probability of validity."""

    def __init__(
        self,
        space: Space,
        default: Config,
        *,
        seed: int = 0,
        seeds: Iterable[Config] = (),
        priors: Iterable[Prior] = (),
        costs: PointCosts | None = None,
    ) -> None:
        super().__init__(space, default, seed=seed, seeds=seeds, priors=priors)
        self._candidates = Candidates(self.space, seed)
        self._costs = costs
        self._asked_trees: tuple[int, Array] | None = None

    def prepare(self, trials: int) -> None:
        """Find the first candidates, unless the trials or the points of the space are used up before a model is asked."""
        if min(trials, self.space.total) > self._initial():
            self._candidates.rows(self._pool)
            if self._patience():
                preload()

    def propose(self, rng: np.random.Generator) -> Proposal | None:
        """The unseen candidate of the highest score."""
        valid = [observation for key, observation in self.history.items() if observation.time is not None and key != self._outside]
        if len(valid) + len(self._told) < 2 or self._seen < self._initial():
            return self._promising() or self._spread(rng)
        if rng.random() < EXPLORE:
            return self._spread(rng)
        elites = [elite.config for elite in self.elites(ELITES)]
        near = self._candidates.near(elites) | self._candidates.crossed(rng, elites)
        points = {key: config for key, config in (self._candidates.uniform(self._seen) | self._pool | near).items() if not self._known(key)}
        if not points:
            return self.fresh(rng)
        score, seen, logs = self._scored(valid, points)
        at = int(np.argmax(score)) if score.any() else int(np.argmin(seen.mean))
        values = {"mean": seen.mean[at], "deviation": seen.deviation[at], "valid": seen.valid[at], "score": seen.score[at]}
        key, config = list(points.items())[at]
        told = {name: round(float(value), 6) for name, value in values.items()} | self._seconds(logs, at)
        return Proposal(config, "neighbour" if key in near else "model", told)

    @property
    def _seen(self) -> int:
        return len(self.history) + len(self.pending)

    def _known(self, key: str) -> bool:
        return key in self.history or key in self.pending

    @cached_property
    def _outside(self) -> str | None:
        """The default where it is no point of the space, as beside a template: its time is a scale, its features mean nothing."""
        return None if self.space.contains(self.default) else spelling(self.default)

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
        known = {key: observation.config for key, observation in self.history.items()} | _configs(self.pending)
        known.pop(self._outside or "", None)
        if not known:
            return Proposal(points[0], "random")
        rows = self._candidates.rows({spelling(config): config for config in points})
        gaps = np.abs(rows[:, None] - self._candidates.rows(known)[None])
        return Proposal(points[int(np.argmax(gaps.sum(axis=2).min(axis=1)))], "random")

    # What the cost model says ---------------------------------------------------------------------------------------------------

    @cached_property
    def _forecast(self) -> Forecast | None:
        """The cost model, where it tells points of the space apart."""
        found = None if self._costs is None else Forecast(self._costs, self._candidates, self.seed)
        return found if found is not None and found.usable else None

    @property
    def _pool(self) -> Points:
        return {} if self._forecast is None else self._forecast.pool

    def _promising(self) -> Proposal | None:
        """The unseen point of the pool that the cost model likes best."""
        forecast = self._forecast
        for key, config in self._pool.items():
            if forecast is not None and not self._known(key):
                return Proposal(config, "model", self._seconds(forecast.logs({key: config}, ()), 0))
        return None

    @staticmethod
    def _seconds(logs: Array | None, at: int) -> dict[str, float]:
        return {} if logs is None else {"seconds": float(f"{math.exp(logs[at]):.4g}")}

    def _scored(self, valid: Sequence[Observation], points: Points) -> tuple[Array, Prediction, Array | None]:
        """The score of each point, what is expected there, and what the cost model says, which is asked about the most promising only."""
        rows, forecast = self._candidates.rows(points), self._forecast
        if forecast is None:
            seen = self._model(valid)[0].predict(rows)
            return _of_valid(seen), seen, None
        _, count = forecast.payable(self.history.values())
        model, trend = self._model(valid)
        logs = forecast.logs(points, ())
        score = _of_valid(seen := model.predict(rows, trend.at(logs)))
        if count:
            keys = list(points)
            promising = (keys[place] for place in np.argsort(-score, kind="stable") if keys[place] not in forecast.pool)
            logs = forecast.logs(points, set(islice(promising, count)))
            score = _of_valid(seen := model.predict(rows, trend.at(logs)))
        return score, seen, logs

    # The model -------------------------------------------------------------------------------------------------------------------

    def _model(self, valid: Sequence[Observation]) -> tuple[Surrogate, Trend]:
        """The surrogate of everything that is known, of what is left where the cost model was followed as far as it is worth."""
        reference = self.history.get(spelling(self.default))
        scale = (reference.time if reference else None) or (valid[0].time if valid else None) or 1.0
        told = self._told
        middle = float(np.mean([_log(observation, scale) for observation in valid] or [prior.log for prior in told]))
        least = min((_log(observation, scale) for observation in valid), default=0.0)
        chosen = _instructive(valid)
        flying = {key: proposal for key, proposal in self.pending.items() if key != self._outside}
        believed = [(proposal.prediction or {}).get("mean", middle) for proposal in flying.values()]
        points = {spelling(observation.config): observation.config for observation in chosen} | _configs(flying)
        beside = {spelling(prior.config): prior.config for prior in told}
        rows = np.vstack([self._candidates.rows(points), self._candidates.rows(beside)])
        logs = np.array([*(_log(observation, scale) for observation in chosen), *believed, *(prior.log for prior in told)])
        weights = np.array([*(1.0 for _ in points), *(prior.weight for prior in told)])
        logs = _winsorised(logs)
        predicted = np.concatenate([self._predicted(points), self._predicted(beside)])
        trend = Trend.of(predicted, logs, weights) if self._forecast is not None else Trend(0.0, 0.0)
        logs = logs - trend.at(predicted)
        shares = self._trees(scale, trend)
        relevance = stretch(correlation(rows, logs, weights) if shares is None else shares)
        failed = [observation for key, observation in self.history.items() if observation.time is None and key != self._outside]
        return fit(rows, logs, weights, self._features(failed[-MODELLED:]), relevance, least), trend

    def _predicted(self, points: Points) -> Array:
        """What the cost model says of points that were measured or are in flight."""
        if self._forecast is None:
            return np.zeros(len(points))
        count, _ = self._forecast.payable(self.history.values())
        return self._forecast.logs(points, set(list(points)[:count]))

    def _features(self, observations: Sequence[Observation]) -> Array:
        return self._candidates.rows({spelling(observation.config): observation.config for observation in observations})

    def _patience(self) -> int:
        """How many of the first observations the trees were last asked about; 0 while measuring has not taken long enough."""
        count, spent, due = 0, 0.0, TREES_AFTER_S
        for number, observation in enumerate(self.history.values(), 1):
            spent += observation.seconds
            if spent >= due:
                count, due = number, spent + TREES_AGAIN_S
        return count

    def _trees(self, scale: float, trend: Trend) -> Array | None:
        """What the trees say of the relevance of features; None while they are not worth their time."""
        count = self._patience()
        first = list(self.history.items())[:count]
        valid = [observation for key, observation in first if observation.time is not None and key != self._outside]
        if len(valid) < 2:
            return None
        if self._asked_trees is None or self._asked_trees[0] != count:
            logs = _winsorised(np.array([_log(observation, scale) for observation in valid]))
            noise = float(np.median([observation.noise for observation in valid]))
            logs = logs - trend.at(self._predicted({spelling(observation.config): observation.config for observation in valid}))
            self._asked_trees = count, importance(self._features(valid), logs, np.ones(len(valid)), noise, self.seed + count)
        return self._asked_trees[1]


def _of_valid(seen: Prediction) -> Array:
    """The scores of candidates that are likely to be valid; 0 for others."""
    return np.where(seen.valid >= LEAST_VALID, seen.score, 0.0)


def _configs(flying: dict[str, Proposal]) -> Points:
    return {key: proposal.config for key, proposal in flying.items()}


def _log(observation: Observation, scale: float) -> float:
    return math.log((observation.time or scale) / scale)


def _instructive(valid: Sequence[Observation]) -> list[Observation]:
    """The observations that the process is conditioned on: of many the fastest half, and others evenly from among the rest."""
    if len(valid) <= MODELLED:
        return list(valid)
    ranked = sorted(range(len(valid)), key=lambda place: (valid[place].time or 0.0, place))
    rest = ranked[MODELLED // 2 :]
    places = ranked[: MODELLED // 2] + [rest[step * len(rest) // (MODELLED // 2)] for step in range(MODELLED // 2)]
    return [valid[place] for place in sorted(places)]


def _winsorised(logs: Array) -> Array:
    """Slow points made alike, from as far above the median as the best is below it: how slow they are says nothing of the fast ones."""
    middle = float(np.median(logs))
    return np.asarray(np.minimum(logs, 2 * middle - logs.min() + 1e-9))
