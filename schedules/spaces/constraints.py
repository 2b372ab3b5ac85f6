"""Predicates on points, which say which of them are feasible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tensorlang.errors import TuningError
from tensorlang.schedules.spaces.feasible import Config


@dataclass(frozen=True, slots=True)
class Constraint:
    """A predicate on points; the label stands for it in print and in the fingerprint."""

    label: str
    holds: Callable[[Config], bool]

    def admits(self, config: Config) -> bool:
        """What the predicate says of a point. Raises `TuningError` where it reads a knob that the point does not have."""
        try:
            return bool(self.holds(config))
        except KeyError as error:
            name = error.args[0] if error.args else None
            if not isinstance(name, str) or name in config:
                raise
            advice = f"not every point has that knob: write .get({name!r}, ...)"
            raise TuningError(f"constraint {self.label!r} reads {name!r}; {advice}") from error
