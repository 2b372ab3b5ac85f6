"""Kinds of programs, and what each is to reach beside the best of all peers, by default and tuned."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from bench.programs.known import MODULES


class Goal(NamedTuple):
    """The geometric mean of the ratios of a family, and the least of them."""

    mean: float
    least: float = 0.0

    def __str__(self) -> str:
        return f"{self.mean:.1f}" + (f", none below {self.least:.2f}" if self.least else "")

    def kept(self, ratios: Iterable[float]) -> bool:
        """Do ratios reach it?"""
        found = list(ratios)
        return statistics.geometric_mean(found) >= self.mean and min(found) >= self.least


class Family(NamedTuple):
    """The names of programs of a kind, and the goals of their defaults and of what the tuner finds."""

    title: str
    names: tuple[str, ...]
    default: Goal
    tuned: Goal


_STENCILS: Final = ("jacobi", "heat", "seidel", "fdtd", "horizontal_diffusion", "reaction", "alternating_directions", "two_grids")


_MODULES: Final = {module.__name__.rpartition(".")[2]: module for module in MODULES}


def _names(modules: str) -> tuple[str, ...]:
    programs = (program for name in modules.split() for program in _MODULES[name].PROGRAMS)
    return tuple(program.name for program in programs if program.name not in _STENCILS)


FAMILIES: Final = (
    Family("images", _names("images pictures photographs pyramids cameras"), Goal(0.9, 0.7), Goal(1.1, 0.95)),
    Family("stencils in time", (*_STENCILS, *_names("fields")), Goal(1.2), Goal(1.5)),
    Family("recurrences, scans, scatters", _names("recurrences fronts sequences counts"), Goal(1.0), Goal(1.2)),
    Family(
        "definitions without a strategy",
        _names("arrays linear outside models solvers attention convolutions matrices filters places expressions"),
        Goal(1.2, 0.8),
        Goal(1.4, 0.95),
    ),
)


def summary(ratios: dict[str, float], *, tuned: bool) -> Iterator[tuple[str, ...]]:
    """A line for each family that took part: its goal, how many programs, their geometric mean, the least, and whether that is kept."""
    for family in FAMILIES:
        found = [ratios[name] for name in family.names if name in ratios]
        if found:
            goal = family.tuned if tuned else family.default
            mean, least = f"{statistics.geometric_mean(found):.2f}", f"{min(found):.2f}"
            yield family.title, str(goal), str(len(found)), mean, least, "yes" if goal.kept(found) else "**no**"
