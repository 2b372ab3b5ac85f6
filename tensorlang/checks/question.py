"""Can conditions hold? What is asked of the reads of a definition, and the example that answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorlang.definition.extent import products
from tensorlang.ir import Axis, Compare, Expr


@dataclass(frozen=True, slots=True)
class Question:
    """Conditions on axes within ranges, what is to be `shown` where they hold, and the extents of the tensors that there are."""

    ranges: tuple[tuple[str, Expr, Expr], ...]
    conditions: tuple[Expr, ...]
    shown: tuple[Expr, ...]
    extents: tuple[Expr, ...]

    def facts(self) -> tuple[Expr, ...]:
        """Everything as conditions."""
        bounds = [bound for name, lo, hi in self.ranges for bound in (Compare("le", lo, Axis(name)), Compare("lt", Axis(name), hi))]
        return (*bounds, *self.conditions)

    def told(self) -> tuple[Expr, ...]:
        """Every expression that an answer depends on."""
        return (*self.conditions, *self.shown)

    def exact(self) -> tuple[Expr, ...]:
        """The extents in which dims are multiplied: a call in which one is no extent is refused, so these products do not wrap."""
        return products(self.extents)


@dataclass(frozen=True, slots=True)
class Witness:
    """A point that was seen: axes and dims by name, elements that were read as they are spelled, and the values of what was to be shown."""

    point: Mapping[str, int]
    data: Mapping[str, Any]
    value: tuple[int, ...]
