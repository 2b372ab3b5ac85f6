"""What other shapes of a family teach about a new one: their trials as prior data of its model.

Times of another shape are of no use, but how much a tile gained or lost against that shape's default is: log(time / default) is what the
surrogate models, and features are relative to the shape. So a trial of a neighbour stands beside the observations as it is, with a weight
that falls with the distance between the shapes (the sum of the logarithms of their extents' ratios). The nearest shapes come first; of
each, its fastest trials and a spread of the others, since a model that has seen only what is good believes that everything is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.search.searcher import Prior
from tensorlang.schedules.spaces.space import spelling

SHAPES: Final = 3
FASTEST: Final = 20
OTHERS: Final = 20
NEAREST_WEIGHT: Final = 0.5


def priors(
    trials: Iterable[Trial],
    family: str,
    extents: Sequence[int],
    target: str,
    threads: int,
    cache: str = "warm",
    *,
    space: str | None = None,
) -> list[Prior]:
    """Prior data for the task of these extents, from the trials of other extents of its family.

    `target` is the fingerprint of the target; only trials of the same, of as many threads and of the same cache policy count. `space` is
    the name of the strategy, if that has to agree too.
    """
    shapes: dict[tuple[int, ...], list[Trial]] = defaultdict(list)
    for trial in trials:
        task = trial.task
        alike = (task.get("family"), trial.target.get("fingerprint"), trial.threads, trial.cache) == (family, target, threads, cache)
        own = task.get("extents")
        if not (alike and trial.time is not None and isinstance(own, list) and len(own) == len(extents) and own != list(extents)):
            continue
        strategy = trial.fields.get("strategy")
        if space is None or (isinstance(strategy, dict) and strategy.get("name") == space):
            shapes[tuple(own)].append(trial)
    nearest = sorted(shapes, key=lambda own: (distance(own, extents), own))[:SHAPES]
    return [prior for own in nearest for prior in _of_shape(shapes[own], NEAREST_WEIGHT * math.exp(-distance(own, extents) / 2))]


def distance(first: Sequence[int], second: Sequence[int]) -> float:
    """The sum of the logarithms, to base 2, of the ratios of extents."""
    return sum(abs(math.log2(max(a, 1) / max(b, 1))) for a, b in zip(first, second, strict=True))


def _of_shape(trials: list[Trial], weight: float) -> list[Prior]:
    default = min((trial.time for trial in trials if trial.time and trial.source == "default"), default=None)
    if default is None:
        return []
    ranked = sorted(trials, key=lambda trial: (trial.time or math.inf, spelling(trial.config)))
    rest = ranked[FASTEST:]
    chosen = ranked[:FASTEST] + rest[:: max(1, len(rest) // OTHERS)][:OTHERS]
    return [Prior(trial.config, math.log((trial.time or default) / default), weight) for trial in chosen]
