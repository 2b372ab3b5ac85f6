"""What each knob did, by the trials of a log: the times of each of its values, and how much of their order the knob explains.

A search looks closer where it is fast, so the shares of knobs describe the trials of a log and not the whole space.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import numpy as np

from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.reporting.analysis import number
from tensorlang.schedules.spaces.space import spelling

MOST_LEVELS: Final = 10
INACTIVE: Final = "not active"
TRIALS_TO_TELL: Final = 12
TRIALS_OF_LEVEL: Final = 2
"""Valid trials, in all and for each value, below which an order of ranks is mostly chance."""


@dataclass(frozen=True, slots=True)
class KnobLevel:
    """A value of a knob, or a range of values: the ratios of its valid trials to the best time, and how many failed."""

    label: str
    ratios: tuple[float, ...]
    failed: int

    @property
    def middle(self) -> float | None:
        """The median ratio."""
        return median(self.ratios) if self.ratios else None


@dataclass(frozen=True, slots=True)
class Effect:
    """What a knob did. `share`: how much of the order of the trials by time its value alone accounts for; None: cannot tell."""

    name: str
    share: float | None
    levels: tuple[KnobLevel, ...]

    @property
    def explains(self) -> str:
        """The share in words."""
        return "too few trials to tell" if self.share is None else f"explains {self.share:.0%}"

    def __str__(self) -> str:
        told = sorted((level for level in self.levels if level.middle is not None), key=lambda level: level.middle or math.inf)
        share = self.explains
        if not told:
            return f"{self.name}: {share}"
        best, worst = told[0], told[-1]
        line = f"{self.name}: {share}; best at {best.label} (median {best.middle:.2f}x)"
        return line if best is worst else f"{line}, worst at {worst.label} ({worst.middle:.2f}x)"


def knob_effects(trials: Sequence[Trial]) -> list[Effect]:
    """What each knob did, the one that explains most first; none without a valid trial."""
    times = [trial.time for trial in trials if trial.time is not None]
    if not times:
        return []
    least = min(times)
    parts = [_parts(trial.config) for trial in trials]
    effects = []
    for name in dict.fromkeys(name for part in parts for name in part):
        values = [part.get(name, INACTIVE) for part in parts]
        label = _labels(values)
        groups: dict[str, list[float]] = defaultdict(list)
        failed: dict[str, int] = defaultdict(int)
        for trial, value in zip(trials, values, strict=True):
            if trial.time is None:
                failed[label(value)] += 1
            else:
                groups[label(value)].append(trial.time / least)
        places = dict.fromkeys(label(value) for value in sorted(values, key=_order))
        levels = tuple(KnobLevel(place, tuple(groups[place]), failed[place]) for place in places)
        held = [level.ratios for level in levels if level.ratios]
        enough = len(times) >= max(TRIALS_TO_TELL, TRIALS_OF_LEVEL * len(held))
        effects.append(Effect(name, explained(held) if enough else None, levels))
    return sorted(effects, key=lambda effect: -1.0 if effect.share is None else effect.share, reverse=True)


def explained(groups: Sequence[Sequence[float]]) -> float | None:
    """Epsilon squared of ranks: the share of the order that the group accounts for, less what chance gives; None if too few tell.

    Of ranks (Kruskal and Wallis), since one trial that met a busy machine would outweigh all others in a variance of times.
    """
    held = [group for group in groups if group]
    count = sum(map(len, held))
    if count <= len(held):
        return None
    if len(held) < 2 or len({value for group in held for value in group}) < 2:
        return 0.0
    _, places, ties = np.unique(np.concatenate(held), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(ties) - (ties - 1) / 2)[places] - (count + 1) / 2
    between = sum(part.sum() ** 2 / len(part) for part in np.split(ranks, np.cumsum([len(group) for group in held[:-1]])))
    statistic = (count - 1) * between / (ranks @ ranks)
    return max(0.0, float(statistic - len(held) + 1) / (count - len(held)))


def _parts(config: Mapping[str, Any]) -> dict[str, Any]:
    """A point with each split taken apart: every factor is a knob of its own."""
    parts: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, list) and len(value) > 1 and all(number(entry) is not None for entry in value):
            parts.update({f"{name}[{place}]": entry for place, entry in enumerate(value)})
        else:
            parts[name] = value
    return parts


def _labels(values: Sequence[Any]) -> Callable[[Any], str]:
    """How values are named; where there are many, numbers go by range and the rarest of others together."""
    kinds = {spelling(value): value for value in values}
    if len(kinds) <= MOST_LEVELS:
        return text_of
    numbers = sorted({value for value in kinds.values() if number(value) is not None})
    if len(numbers) >= len(kinds) - 1:
        size = math.ceil(len(numbers) / (MOST_LEVELS - 2))
        ranges = [numbers[place : place + size] for place in range(0, len(numbers), size)]
        names = {entry: text_of(some[0]) if len(some) == 1 else f"{some[0]} to {some[-1]}" for some in ranges for entry in some}
        return lambda value: names.get(value, text_of(value)) if number(value) is not None else text_of(value)
    counts: dict[str, int] = defaultdict(int)
    for value in values:
        counts[spelling(value)] += 1
    kept = set(sorted(counts, key=lambda key: (-counts[key], key))[: MOST_LEVELS - 1])
    return lambda value: text_of(value) if spelling(value) in kept else f"{len(kinds) - len(kept)} other values"


def text_of(value: Any) -> str:
    """A value of a knob in print."""
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            return " ".join(map(text_of, value))
        case _:
            return str(value)


def _order(value: Any) -> tuple[int, float, str]:
    size = number(value)
    return (2, 0.0, "") if value == INACTIVE else (1, 0.0, text_of(value)) if size is None else (0, size, "")
