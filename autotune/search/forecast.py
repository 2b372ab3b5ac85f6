"""What the cost model says of points, asked no more often than a search can pay.

Points of a pool, drawn by the seed, are asked about once; what was measured, and the few most promising candidates of each proposal,
are asked about besides, as many as a share of the time that trials take pays for. Of all other points the process through the pool says
what the model would say, about. Trials tell by their records how long they took, so what is asked depends on the seed and on what was
measured, and on no clock: a search that is resumed sees the same values.

The model is trusted as far as times bear it out: log(time) is regressed on log(predicted), and what is left is for the surrogate.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tensorlang.autotune.search.candidates import Candidates, Points
from tensorlang.autotune.search.gaussian import Array, Process, condition
from tensorlang.autotune.search.searcher import Observation
from tensorlang.autotune.search.surrogate import correlation, stretch
from tensorlang.errors import TensorlangError
from tensorlang.schedules.spaces.space import Config, spelling
from tensorlang.system.lazy import cached_property

if TYPE_CHECKING:
    from tensorlang.schedules.strategies.point_costs import PointCosts

POOL_S: Final = 0.25
"""Seconds for the pool: as long as one trial of a small operator."""
SHARE: Final = 0.03
"""The share of the time of trials that goes to predictions after that."""
MOST: Final = 64
"""Candidates of a proposal that are asked about, at most."""
TRUST: Final = 1.0
"""The slope of log(time) over log(predicted) that is expected before anything is measured."""
DOUBT: Final = 0.5
"""The standard deviation of that expectation."""
LEAST_SPREAD: Final = 0.1
"""What times differ by from a perfect prediction, at least, as a standard deviation of logarithms: noise, and what no model counts."""


@dataclass(frozen=True, slots=True)
class Trend:
    """By how much log(time) is expected to differ from its mean, given log(predicted)."""

    slope: float
    middle: float

    def at(self, logs: Array) -> Array:
        """The expected differences."""
        return np.asarray(self.slope * (logs - self.middle))

    @classmethod
    def of(cls, predicted: Array, logs: Array, weights: Array) -> Trend:
        """Bayesian linear regression with a normal prior on the slope (Bishop, 2006, section 3.3); a slope below 0 is none."""
        middle = float(np.average(predicted, weights=weights))
        offsets, gaps = predicted - middle, logs - float(np.average(logs, weights=weights))
        rest = gaps - TRUST * offsets
        spread = max(float(weights @ rest**2) / max(float(weights.sum()) - 1, 1.0), LEAST_SPREAD**2)
        held = spread / DOUBT**2
        slope = (float(weights @ (offsets * gaps)) + held * TRUST) / (float(weights @ offsets**2) + held)
        return cls(max(slope, 0.0), middle)


class Forecast:
    """The logarithms of predicted seconds."""

    def __init__(self, costs: PointCosts, candidates: Candidates, seed: int) -> None:
        self._costs = costs
        self._candidates = candidates
        self._seed = seed
        self._asked: dict[str, float | None] = {}
        self._guessed: dict[str, float] = {}
        self._lock = threading.Lock()  # the pool is asked about beside the first build

    @cached_property
    def pool(self) -> Points:
        """The points that are asked about first and have a prediction, the most promising first."""
        rng = np.random.default_rng([self._seed, 2])
        drawn = self._candidates.space.sample(rng, max(2, int(POOL_S / self._costs.each)))
        known = [(log, key, config) for config in drawn if (log := self.log(key := spelling(config), config)) is not None]
        return {key: config for _, key, config in sorted(known, key=lambda entry: entry[:2])}

    @property
    def usable(self) -> bool:
        """Does the model tell points apart?"""
        logs = [self._asked[key] for key in self.pool]
        return len(set(logs)) > 1

    def log(self, key: str, config: Config) -> float | None:
        """What the model says of a point; None where it has no schedule."""
        with self._lock:
            if key not in self._asked:
                try:
                    seconds = self._costs.seconds(config)
                except (TensorlangError, KeyError):  # a refused step; a space of the user's own has other knobs
                    seconds = math.inf
                self._asked[key] = math.log(seconds) if 0 < seconds < math.inf else None
            return self._asked[key]

    def payable(self, observations: Iterable[Observation]) -> tuple[int, int]:
        """How many of the points that were measured, and of candidates, a proposal after these outcomes asks about."""
        spent, count = 0.0, 0
        for count, observation in enumerate(observations, 1):  # noqa: B007 - counted
            spent += observation.seconds
        each = SHARE * spent / max(count, 1) / self._costs.each
        return int(each * count), min(MOST, int(each))

    def logs(self, points: Points, exact: Collection[str]) -> Array:
        """What the model says of points that are `exact` or of the pool, and what it would say of others, about."""
        missing = {key: config for key, config in points.items() if key not in self._guessed}
        if missing:
            guessed = self._process.predict(self._candidates.rows(missing) * self._relevance)[0]
            self._guessed.update(zip(missing, guessed.tolist(), strict=True))
        told = (self.log(key, config) if key in exact or key in self.pool else None for key, config in points.items())
        return np.array([self._guessed[key] if log is None else log for key, log in zip(points, told, strict=True)])

    @cached_property
    def _pooled(self) -> tuple[Array, Array]:
        return self._candidates.rows(self.pool), np.array([self._asked[key] for key in self.pool], dtype=np.float64)

    @cached_property
    def _relevance(self) -> Array:
        rows, logs = self._pooled
        return stretch(correlation(rows, logs, np.ones(len(logs))))

    @cached_property
    def _process(self) -> Process:
        rows, logs = self._pooled
        return condition(rows * self._relevance, logs, np.zeros(len(logs)))
