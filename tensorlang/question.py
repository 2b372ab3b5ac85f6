"""Can conditions hold? Asked of the reads of a definition: by isl, by a look at every point, and by examples that are seen to occur."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tensorlang.extent import products
from tensorlang.ir import Axis, Compare, Expr
from tensorlang.polyhedra import find
from tensorlang.simplify import simplify


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


def possible(question: Question) -> dict[Expr, int] | None:
    """A point at which the conditions may hold, empty where none is proposed; None where they are proved to hold nowhere."""
    plain = replace(question, conditions=tuple(map(simplify, question.conditions)))
    point = find(*plain.facts(), exact=plain.exact())
    if point is None:
        return None
    from tensorlang.witness import impossible  # noqa: PLC0415 - the evaluator is needed only to refuse

    return None if impossible(plain) else point


def witness(question: Question, proposed: Mapping[Expr, int]) -> Witness | None:
    """An example that was seen to occur, near the proposed point if there; None where none was found."""
    from tensorlang.witness import search  # noqa: PLC0415 - the evaluator is needed only to refuse

    return search(question, proposed)
