"""The models of the Bayesian search: time from features, and the probability that a candidate is valid.

scikit-optimize's regression trees and acquisition function are used, its `Optimizer` is not: it repeats points, cannot be told failures,
does not sample constrained spaces, and its expected improvement is flat, so that the search is random without a word, where times are
seconds (`xi` is absolute). Times are therefore modelled as log(time / reference), where a difference of 0.01 is one per cent.

Trees see within a few observations which features matter, but their predictions are steps. A Gaussian process interpolates, but has to be
told which features matter. So the trees give each feature its relevance, and the process, in which a relevant feature counts for more of
the distance, gives mean and deviation. On the recorded logs this needed fewer trials than either alone (`python -m bench.search`).

Observations of another shape may be given beside those of this one, at a discount: a weight below 1 for the trees, more noise for the
process. They stand for the whole landscape at first and give way to what is measured here.
"""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensorlang.autotune.search.gaussian import Array, Process, condition

TREES: Final = 20
XI: Final = 0.0
LEAST_NOISE: Final = 0.01
FAILURES_TO_LEARN: Final = 3
UNTOLD: Final = 0.2
"""The share of relevance that all features have alike, whatever the trees say."""
DOUBT: Final = 0.05
"""The variance of log(time / reference) that a weight of one half adds to the noise of an observation."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """For each candidate: mean and deviation of log(time / reference), the probability of validity, and the score to maximise."""

    mean: Array
    deviation: Array
    valid: Array
    score: Array


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A fitted model. `best` is the least logarithm among valid observations."""

    times: Process
    relevance: Array
    validity: Any
    best: float

    def predict(self, candidates: Array) -> Prediction:
        """Expected improvement over the best, times the probability of validity."""
        from skopt.acquisition import gaussian_ei  # noqa: PLC0415 - loaded on use

        mean, deviation = self.times.predict(candidates * self.relevance)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gain = gaussian_ei(candidates, _Known(mean, deviation), y_opt=self.best, xi=XI)
            valid = self.validity.predict_proba(candidates)[:, 1] if self.validity is not None else np.ones(len(candidates))
        return Prediction(mean, deviation, valid, gain * valid)


@dataclass(frozen=True, slots=True)
class _Known:
    """Predictions already made, as the regressor that `gaussian_ei` asks."""

    mean: Array
    deviation: Array

    def predict(self, _: Array, return_std: bool = True) -> tuple[Array, Array]:
        assert return_std
        return self.mean, self.deviation


def fit(features: Array, logs: Array, weights: Array, noise: float, failed: Array, seed: int, best: float | None = None) -> Surrogate:
    """Fit to valid points and failed ones.

    `features` are standardised, `logs` are log(time / reference), `weights` are 1 for what was measured here and less for what only
    speaks for it; `noise` is the standard deviation that samples showed; `best` is the least log time that was measured here.
    """
    validity = None
    if len(failed) >= FAILURES_TO_LEARN:
        from sklearn.ensemble import ExtraTreesClassifier  # noqa: PLC0415 - loaded on use

        known = np.vstack([features, failed])
        validity = ExtraTreesClassifier(n_estimators=TREES, n_jobs=1, random_state=seed)
        validity.fit(known, np.repeat([1, 0], [len(features), len(failed)]))
    relevance = _relevance(features, logs, weights, max(noise, LEAST_NOISE), seed)
    doubts = DOUBT * (1 / np.maximum(weights, 1e-3) - 1)
    least = float(logs.min()) if best is None else best
    return Surrogate(condition(features * relevance, logs, doubts), relevance, validity, least)


def preload() -> None:
    """Import the libraries, which takes a second or two, before they are needed."""
    for library in ("sklearn.ensemble", "scipy.linalg", "skopt.acquisition", "skopt.learning"):
        importlib.import_module(library)


def _relevance(features: Array, logs: Array, weights: Array, noise: float, seed: int) -> Array:
    """By how much each feature is to be stretched: the root of its share in what the trees explain."""
    from skopt.learning import ExtraTreesRegressor  # noqa: PLC0415 - loaded on use

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trees = ExtraTreesRegressor(n_estimators=TREES, min_samples_leaf=1, min_variance=noise**2, n_jobs=1, random_state=seed)
        shares = np.asarray(trees.fit(features, logs, sample_weight=weights).feature_importances_)
    alike = np.full(len(shares), 1 / max(len(shares), 1))
    explained = np.nan_to_num(shares)
    return np.sqrt(UNTOLD * alike + (1 - UNTOLD) * (explained if explained.sum() > 0 else alike))
