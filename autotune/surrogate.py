"""The models of the Bayesian search: time from features, and the probability that a candidate is valid.

scikit-optimize's regressors and acquisition function are used, its `Optimizer` is not: it repeats points, cannot be told failures, does
not sample constrained spaces, and its expected improvement is flat, so that the search is random without a word, where times are seconds
(`xi` is absolute). Times are therefore modelled as log(time / reference), where a difference of 0.01 is one per cent.

The spread of the regression trees stands for uncertainty. A leaf of one point would claim none, so `min_variance` is the noise that the
samples themselves showed.
"""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

TREES: Final = 50
XI: Final = 0.005
LEAST_NOISE: Final = 0.01
FAILURES_TO_LEARN: Final = 3


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

    times: Any
    validity: Any
    best: float

    def predict(self, candidates: Array) -> Prediction:
        """Expected improvement over the best, times the probability of validity."""
        from skopt.acquisition import gaussian_ei  # noqa: PLC0415 - loaded on use

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mean, deviation = self.times.predict(candidates, return_std=True)
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


def fit(features: Array, logs: Array, best: float, noise: float, failed: Array, seed: int) -> Surrogate:
    """Fit to valid points (features, log times) and failed ones; `best` is the least log time that was measured."""
    validity = None
    if len(failed) >= FAILURES_TO_LEARN:
        from sklearn.ensemble import ExtraTreesClassifier  # noqa: PLC0415 - loaded on use

        known = np.vstack([features, failed])
        validity = ExtraTreesClassifier(n_estimators=TREES, min_samples_leaf=2, n_jobs=1, random_state=seed)
        validity.fit(known, np.repeat([1, 0], [len(features), len(failed)]))
    return Surrogate(_regressor(features, logs, noise, seed), validity, best)


def preload() -> None:
    """Import the libraries, which takes a second or two, before they are needed."""
    for library in ("sklearn.ensemble", "skopt.acquisition", "skopt.learning"):
        importlib.import_module(library)


def _regressor(features: Array, logs: Array, noise: float, seed: int) -> Any:
    from skopt.learning import ExtraTreesRegressor  # noqa: PLC0415 - loaded on use

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        variance = max(noise, LEAST_NOISE) ** 2
        model = ExtraTreesRegressor(n_estimators=TREES, min_samples_leaf=1, min_variance=variance, n_jobs=1, random_state=seed)
        return model.fit(features, logs)
