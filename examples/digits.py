"""Handwritten digits, read by a network that scikit-learn trained and tensorlang runs.

The forward pass is a definition with a batch of any size; the weights are arguments of the kernel. Both libraries read the same
held-out images and have to give the same digits.

    python examples/digits.py
"""

from __future__ import annotations

import argparse
import itertools
import sys
import timeit
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import tensorlang as tl

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Shares of right answers, the share of equal answers, and milliseconds for the held-out batch."""

    accuracy: float
    accuracy_sklearn: float
    agreement: float
    milliseconds: float
    milliseconds_sklearn: float


def network(widths: Sequence[int]) -> tuple[tl.Tensor, tl.Tensor]:
    """Probabilities and digits for a batch of images; `widths` from the pixels to the classes.

    The arguments are the images, then weights (out, in) and bias (out) of each layer.
    """
    batch = tl.dim("n")
    layer = tl.placeholder((batch, widths[0]), name="images")
    for depth, (fan_in, fan_out) in enumerate(itertools.pairwise(widths), start=1):
        weight = tl.placeholder((fan_out, fan_in), name=f"weight{depth}")
        bias = tl.placeholder((fan_out,), name=f"bias{depth}")
        layer = tl.ops.dense(layer, weight, bias)
        if depth < len(widths) - 1:
            layer = tl.ops.relu(layer)
    probability = tl.ops.softmax(layer)
    k = tl.reduce_axis(widths[-1], name="k")
    digit = tl.compute((batch,), lambda i: tl.argmax(probability[i, k], axis=k), name="digit")
    return probability, digit


def trained(pixels: Array, digits: Array, hidden: int) -> Any:
    """scikit-learn's classifier with one hidden layer, fitted."""
    return MLPClassifier(hidden_layer_sizes=(hidden,), learning_rate_init=0.005, max_iter=400, random_state=0).fit(pixels, digits)


def main(hidden: int = 64) -> Outcome:
    """Train, run both, compare.

    Raises `RuntimeError` where the probabilities are not scikit-learn's.
    """
    images, digits = load_digits(return_X_y=True)
    train, held, train_digits, held_digits = train_test_split(images.astype("float32") / 16, digits, random_state=0)
    model = trained(train, train_digits, hidden)
    forward = tl.compile(network((train.shape[1], hidden, len(model.classes_))))
    weights = [
        np.ascontiguousarray(array, "float32")
        for coefficients, intercept in zip(model.coefs_, model.intercepts_, strict=True)
        for array in (coefficients.T, intercept)
    ]
    probability, digit = forward(held, *weights)
    if not np.allclose(probability, model.predict_proba(held), atol=1e-5):
        raise RuntimeError("the probabilities are not those of scikit-learn")
    expected = model.predict(held)
    outcome = Outcome(
        float(np.mean(digit == held_digits)),
        float(np.mean(expected == held_digits)),
        float(np.mean(digit == expected)),
        1e3 * median(timeit.repeat(lambda: forward(held, *weights), number=1, repeat=21)),
        1e3 * median(timeit.repeat(lambda: model.predict(held), number=1, repeat=21)),
    )
    print(f"{len(held)} held-out digits      tensorlang   scikit-learn")
    print(f"right answers           {outcome.accuracy:11.2%} {outcome.accuracy_sklearn:14.2%}")
    print(f"milliseconds a batch    {outcome.milliseconds:11.3f} {outcome.milliseconds_sklearn:14.3f}")
    print(f"equal answers           {outcome.agreement:11.2%}")
    return outcome


def command(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; 1 where an answer differs."""
    parser = argparse.ArgumentParser(description="Classify handwritten digits with a network trained by scikit-learn.")
    parser.add_argument("--hidden", type=int, default=64, help="width of the hidden layer (default: %(default)s)")
    return 0 if main(parser.parse_args(arguments).hidden).agreement == 1 else 1


if __name__ == "__main__":
    sys.exit(command())
