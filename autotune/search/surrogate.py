"""The models of the Bayesian search: time from features, and the probability that a candidate is valid.

scikit-optimize's regression trees are used, its `Optimizer` is not: it repeats points, cannot be told failures, does not sample
constrained spaces, and its expected improvement is flat, so that the search is random without a word, where times are seconds (`xi` is
absolute). Times are therefore modelled as log(time / reference), where a difference of 0.01 is one per cent.

A Gaussian process interpolates, but has to be told which features matter: a relevant feature counts for more of the distance. How
relevant each is, is told by its correlation with the times, which takes no time; or by trees, which also see what matters only where
something else holds, but take two seconds to load and a twentieth of one to fit. On the recorded logs (`python -m bench.search`) the
difference is within that between seeds, so trees are asked only where measuring takes much longer than they do (`bayesian`).

Observations of another shape may be given beside those of this one, at a discount: a weight below 1 for the relevance, more noise for the
process. They stand for the whole landscape at first and give way to what is measured here.
"""

from __future__ import annotations

import importlib
import math
import warnings
from dataclasses import dataclass
from typing import Final

import numpy as np

from tensorlang.autotune.search.gaussian import Array, Process, condition, nearness

TREES: Final = 20
LEAST_NOISE: Final = 0.01
FAILURES_TO_LEARN: Final = 3
UNTOLD: Final = 0.2
"""The share of relevance that all features have alike, whatever the observations say."""
DOUBT: Final = 0.05
"""The variance of log(time / reference) that a weight of one half adds to the noise of an observation."""
VICINITY: Final = 0.5
"""How far the failure of a point tells something of others: the features are as wide as 1 all together."""
HOPE: Final = 0.05
"""By how much a candidate is taken for valid from the start: a share of what one observation right there would say."""

_erf = np.vectorize(math.erf, otypes=[np.float64])  # SciPy's takes longer to load than a short job may spend on all its models


@dataclass(frozen=True, slots=True)
class Prediction:
    """For each candidate: mean and deviation of log(time / reference), the probability of validity, and the score to maximise."""

    mean: Array
    deviation: Array
    valid: Array
    score: Array


@dataclass(frozen=True, slots=True)
class Validity:
    """A vote on whether candidates are valid: points that were and points that failed count the more the nearer they are."""

    relevance: Array
    held: Array
    failed: Array

    @classmethod
    def of(cls, held: Array, failed: Array) -> Validity:
        """Fitted to points that were valid and others that failed."""
        outcomes = np.repeat([1.0, 0.0], [len(held), len(failed)])
        relevance = stretch(correlation(np.vstack([held, failed]), outcomes, np.ones(len(outcomes))))
        return cls(relevance, held * relevance, failed * relevance)

    def predict(self, candidates: Array) -> Array:
        """The probability for each candidate."""
        good, bad = (nearness(points, candidates * self.relevance, VICINITY).sum(axis=0) for points in (self.held, self.failed))
        return np.asarray((good + HOPE) / (good + bad + HOPE))


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A fitted model. `best` is the least logarithm among valid observations; `validity` is None where too few failed."""

    times: Process
    relevance: Array
    validity: Validity | None
    best: float

    def predict(self, candidates: Array, offsets: Array | float = 0.0) -> Prediction:
        """Expected improvement over the best, times the probability of validity; `offsets` were taken from the logarithms before."""
        mean, deviation = self.times.predict(candidates * self.relevance)
        mean = mean + offsets
        valid = np.ones(len(candidates)) if self.validity is None else self.validity.predict(candidates)
        return Prediction(mean, deviation, valid, improvement(mean, deviation, self.best) * valid)


def fit(features: Array, logs: Array, weights: Array, failed: Array, relevance: Array, best: float | None = None) -> Surrogate:
    """Fit to valid points and failed ones.

    `features` are standardised, `logs` are log(time / reference), `weights` are 1 for what was measured here and less for what only
    speaks for it; `relevance` is by how much each feature is stretched; `best` is the least log time that was measured here.
    """
    doubts = DOUBT * (1 / np.maximum(weights, 1e-3) - 1)
    validity = Validity.of(features, failed) if len(failed) >= FAILURES_TO_LEARN else None
    return Surrogate(condition(features * relevance, logs, doubts), relevance, validity, float(logs.min()) if best is None else best)


def improvement(mean: Array, deviation: Array, best: float) -> Array:
    """The expected improvement over `best` of normal variables (Jones, Schonlau and Welch, 1998, equation 15), for minimisation."""
    gap = best - mean
    z = gap / deviation
    return np.asarray(np.maximum(gap * (1 + _erf(z / math.sqrt(2))) / 2 + deviation * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi), 0.0))


def stretch(shares: Array) -> Array:
    """By how much each feature is to be stretched: the root of its share in what the observations explain."""
    alike = np.full(len(shares), 1 / max(len(shares), 1))
    told = float(shares.sum())
    return np.asarray(np.sqrt(UNTOLD * alike + (1 - UNTOLD) * (shares / told if told > 0 else alike)))


def correlation(features: Array, values: Array, weights: Array) -> Array:
    """The share of the variance of `values` that each feature alone accounts for, less what chance gives."""
    offsets = features - np.average(features, axis=0, weights=weights)
    gaps = values - np.average(values, weights=weights)
    both = (weights * gaps) @ offsets
    alone = (weights @ offsets**2) * float(weights @ gaps**2)
    shares = both**2 / np.maximum(alone, 1e-12)
    return np.asarray(np.maximum(shares - 1 / max(len(values) - 1, 1), 0.0))


def importance(features: Array, logs: Array, weights: Array, noise: float, seed: int) -> Array:
    """The share of each feature in what scikit-optimize's trees explain; `noise` is the standard deviation that samples showed."""
    from skopt.learning import ExtraTreesRegressor  # noqa: PLC0415 - loaded on use: see above

    least = max(noise, LEAST_NOISE) ** 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trees = ExtraTreesRegressor(n_estimators=TREES, min_samples_leaf=1, min_variance=least, n_jobs=1, random_state=seed)
        return np.asarray(np.nan_to_num(trees.fit(features, logs, sample_weight=weights).feature_importances_))


def preload() -> None:
    """Import the trees, which takes a second or two, before they are needed."""
    importlib.import_module("skopt.learning")
