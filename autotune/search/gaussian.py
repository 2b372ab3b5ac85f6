"""A small Gaussian process: time over features whose relevance is known, each observation with a noise of its own.

Why own code: scikit-optimize's process searches its parameters by restarted gradient ascent at every fit (0.4 s a proposal at 50
observations, 5 s at 200), needs one length for each feature, which ten observations cannot tell, and contracts three operands where it
predicts deviations. Here relevance is told (see `surrogate`), so one length and one noise are left, and a table of both is
compared by the likelihood of the observations (Rasmussen and Williams, 2006, section 5.4.1) in a few milliseconds. NumPy alone is used:
loading SciPy's linear algebra would cost a short job more than all its models.
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
COMPARED: Final = 64
"""Observations by which length and noise are chosen, about."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process conditioned on observations at `points`; `factor` is the inverse of the Cholesky factor of their covariance."""

    points: Array
    length: float
    factor: Array
    weights: Array
    middle: float
    spread: float
    amplitude: float

    def predict(self, candidates: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at each candidate."""
        reduced = self.factor @ nearness(self.points, candidates, self.length)
        rest = np.maximum(1 - np.einsum("ij,ij->j", reduced, reduced), 1e-9)
        return self.middle + self.spread * (self.weights @ reduced), self.spread * self.amplitude * np.sqrt(rest)


def condition(points: Array, values: Array, doubts: Array) -> Process:
    """The likeliest process of the table given these observations; `doubts` are variances to add to the noise of each.

    Of many observations every second, third, ... compares the table: that takes the cube of their number for each entry.
    """
    some = slice(None, None, -(-len(points) // COMPARED))
    chosen = max(
        ((length, noise) for length in LENGTHS for noise in NOISES),
        key=lambda entry: _conditioned(points[some], values[some], doubts[some], *entry)[0],
    )
    return _conditioned(points, values, doubts, *chosen)[1]


def _conditioned(points: Array, values: Array, doubts: Array, length: float, noise: float) -> tuple[float, Process]:
    """The process with this length and noise, and the logarithm of its likelihood."""
    middle, spread = float(values.mean()), float(values.std()) + 1e-6
    lower = np.linalg.cholesky(nearness(points, points, length) + np.diag(noise + doubts / spread**2))
    factor = np.asarray(np.linalg.inv(lower), dtype=np.float64)
    weights = factor @ ((values - middle) / spread)
    amplitude = float(weights @ weights) / len(points) + 1e-12
    fit = -0.5 * len(points) * np.log(amplitude) - float(np.log(np.diag(lower)).sum()) - 0.5 * np.log(length) ** 2
    return fit, Process(points, length, factor, weights, middle, spread, amplitude**0.5)


def _distances(first: Array, second: Array) -> Array:
    squares = (first**2).sum(1)[:, None] + (second**2).sum(1)[None] - 2 * first @ second.T
    distances: Array = np.sqrt(np.maximum(squares, 0.0))
    return distances


def nearness(first: Array, second: Array, length: float) -> Array:
    """How much each point of the first says of each of the second, from 0 to 1."""
    return _kernel(_distances(first, second) / length)


def _kernel(distance: Array) -> Array:
    """Matérn's with smoothness 5/2."""
    scaled = np.sqrt(5.0) * distance
    return np.asarray((1 + scaled + scaled**2 / 3) * np.exp(-scaled))
