"""The point that a cost model names: a descent over groups of knobs, each put to the cheapest of its values while the others stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

GAIN: Final = 0.98
"""The share of a point's cost below which another one replaces it: differences smaller than this are below what the model can tell."""
OTHER_WAY: Final = 0.95
"""The share of the usual way's time below which another way to run the same replaces it: more code, and the model is not sure of less."""
CODE_COST: Final = 2e-4
"""The share of its time that a tile is charged for each vector operation of its code, which is built: a twentieth for 256 of them."""
Alternatives = Callable[[Mapping[str, Any]], Iterable[Mapping[str, Any]]]
"""What other values some knobs may take at a point."""


def descend(start: Mapping[str, Any], groups: Sequence[Alternatives], cost: Callable[[Mapping[str, Any]], float]) -> dict[str, Any]:
    """The cheapest point on the way from `start`: each group of knobs in turn takes its best values where they are worth it.

    The same start, groups and costs give the same point. Every different point is judged once.
    """
    known: dict[tuple[Any, ...], float] = {}

    def judged(point: Mapping[str, Any]) -> float:
        key = tuple(point.items())
        if key not in known:
            known[key] = cost(point)
        return known[key]

    best = dict(start)
    for alternatives in groups:
        cheapest = min(({**best, **changed} for changed in alternatives(best)), key=judged, default=best)
        if judged(cheapest) < GAIN * judged(best):
            best = cheapest
    return best
