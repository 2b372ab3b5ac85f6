"""A small Gaussian process: time over features whose relevance is known, each observation with a noise of its own.

Why own code: scikit-optimize's process searches its parameters by restarted gradient ascent at every fit (0.4 s a proposal at 50
observations, 5 s at 200), needs one length for each feature, which ten observations cannot tell, and contracts three operands where it
predicts deviations. Here relevance comes from trees (see `surrogate`), so one length and one noise are left, and a table of both is
compared by the likelihood of the observations (Rasmussen and Williams, 2006, section 5.4.1) in about a millisecond.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LENGTHS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
NOISES: Final = (1e-3, 1e-2, 1e-1)
"""Variances, as shares of that of the observations."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process conditioned on observations at `points`; `factor` is the Cholesky factor of their covariance."""

    points: Array
    length: float
    factor: Array
    weights: Array
    middle: float
    spread: float
    amplitude: float

    def predict(self, candidates: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at each candidate."""
        reduced = _solved(self.factor, _kernel(_distances(self.points, candidates) / self.length))
        rest = np.maximum(1 - np.einsum("ij,ij->j", reduced, reduced), 1e-9)
        return self.middle + self.spread * (self.weights @ reduced), self.spread * self.amplitude * np.sqrt(rest)


def condition(points: Array, values: Array, doubts: Array) -> Process:
    """The likeliest process of the table given these observations; `doubts` are variances to add to the noise of each."""
    middle, spread = float(values.mean()), float(values.std()) + 1e-6
    normal = (values - middle) / spread
    distances = _distances(points, points)
    best: tuple[float, Process] | None = None
    for length in LENGTHS:
        covariance = _kernel(distances / length)
        for noise in NOISES:
            factor = np.asarray(np.linalg.cholesky(covariance + np.diag(noise + doubts / spread**2)), dtype=np.float64)
            weights = _solved(factor, normal)
            amplitude = float(weights @ weights) / len(points) + 1e-12
            fit = -0.5 * len(points) * np.log(amplitude) - float(np.log(np.diag(factor)).sum()) - 0.5 * np.log(length) ** 2
            if best is None or fit > best[0]:
                best = fit, Process(points, length, factor, weights, middle, spread, amplitude**0.5)
    assert best is not None
    return best[1]


def _solved(lower: Array, right: Array) -> Array:
    """The solution of a triangular system."""
    from scipy.linalg import solve_triangular  # noqa: PLC0415 - a third of a second, and most points are proposed without a model

    return np.asarray(solve_triangular(lower, right, lower=True, check_finite=False))


def _distances(first: Array, second: Array) -> Array:
    squares = (first**2).sum(1)[:, None] + (second**2).sum(1)[None] - 2 * first @ second.T
    distances: Array = np.sqrt(np.maximum(squares, 0.0))
    return distances


def _kernel(distance: Array) -> Array:
    """Matérn's with smoothness 5/2."""
    scaled = np.sqrt(5.0) * distance
    return np.asarray((1 + scaled + scaled**2 / 3) * np.exp(-scaled))
