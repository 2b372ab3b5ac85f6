"""Cases of a test that are too many for each run: the test command takes some of them, and `make test-slow` the others.

few(values, 4)                              four, spread evenly over the list
crossed({"tail": [...], "m, n": [...]})     every combination; in each run as many as it takes to have every value, or `count`
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from typing import Any

import pytest


def few(values: Iterable[Any], count: int) -> list[Any]:
    """Parameters, of which `count` are in each run."""
    every = list(values)
    kept = {place * len(every) // count for place in range(count)}
    return [value if place in kept else pytest.param(value, marks=pytest.mark.slow) for place, value in enumerate(every)]


def crossed(axes: Mapping[str, Iterable[Any]], count: int | None = None) -> pytest.MarkDecorator:
    """Parametrizes by every combination of values of these parameters, several of which may share an axis: "m, n".

    With a `count` so many are in each run, of values that are spread over each axis.
    """
    lists, rng = {names: list(values) for names, values in axes.items()}, random.Random(0)
    orders = [rng.sample(range(len(values)), len(values)) for values in lists.values()]
    kept = {tuple(order[turn % len(order)] for order in orders) for turn in range(count or max(map(len, orders)))}
    cases = []
    for combination in itertools.product(*(range(len(values)) for values in lists.values())):
        values: list[Any] = []
        for (names, offered), place in zip(lists.items(), combination, strict=True):
            values += offered[place] if "," in names else [offered[place]]
        cases.append(pytest.param(*values, marks=() if combination in kept else pytest.mark.slow))
    return pytest.mark.parametrize(",".join(lists), cases)
