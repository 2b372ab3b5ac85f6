"""Answers: by isl, by a look at every point, and by examples that are seen to occur."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.simplify import simplify
from tensorlang.checks.question import Question, Witness
from tensorlang.ir import Expr


def possible(question: Question) -> dict[Expr, int] | None:
    """A point at which the conditions may hold, empty where none is proposed; None where they are proved to hold nowhere."""
    plain = replace(question, conditions=tuple(map(simplify, question.conditions)))
    point = find(*plain.facts(), exact=plain.exact())
    if point is None:
        return None
    from tensorlang.checks.counterexample import impossible  # noqa: PLC0415 - the evaluator is needed only to refuse

    return None if impossible(plain) else point


def witness(question: Question, proposed: Mapping[Expr, int]) -> Witness | None:
    """An example that was seen to occur, near the proposed point if there; None where none was found."""
    from tensorlang.checks.counterexample import search  # noqa: PLC0415 - the evaluator is needed only to refuse

    return search(question, proposed)
