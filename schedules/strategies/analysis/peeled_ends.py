"""Ends of a row whose elements ask where to read, as neighbours beyond a border do: clamped, mirrored, chosen, or at the other end.

    for j in range(n): Y[i, j] = X[i, (j - 1) % n] + X[i, j]    ->    the first element, and a run of all others

A tile of lanes in which one element asks is computed one by one, or gathered (`lowering.passes.interiors`). Where the elements that ask are
few they are peeled off, and no tile has any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import takewhile
from typing import Final, TypeAlias

from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Compare, Const, Expr, For, const
from tensorlang.ir.dtype import BOOL, INT64
from tensorlang.ir.integers import COMPARE, known_value
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.traverse import dtype_of, rewrite, substitute
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, size

Answer: TypeAlias = Callable[[int], int]
EITHER: Final = 0
"""The answer of an extremum of two that are the same."""
MOST: Final = 4
"""Elements at an end of a row that may be peeled off: so many times is the statement written out, twice."""


def ends_that_ask(stage: StageInfo, vector: For) -> tuple[int, int]:
    """How many elements at the beginning and at the end of a row ask otherwise than those in its middle; (0, 0) where they are too many.

    A choice around a read is no question: lanes that do not choose it are off.
    """
    if not _is_row(stage, vector):
        return 0, 0
    _, answers = _questions((part for load in stage.loads for part in load.index), vector)
    return _most(answers, size(vector))


def interior(stage: StageInfo, loop: For) -> tuple[tuple[int, int], StageInfo]:
    """The elements at both ends of a loop that ask where to read or what to choose, and the stage as all others find it."""
    if not _is_row(stage, loop):
        return (0, 0), stage
    values, answers = _questions(stage.store.values, loop, middle=True)
    return _most(answers, size(loop)), replace(stage, store=replace(stage.store, values=tuple(map(simplify, values))))


def _is_row(stage: StageInfo, loop: For) -> bool:
    """Is it whole and an axis of the result? That of a strip begins where the strip does."""
    return is_literal(loop) and isinstance(loop.lo, Const) and loop in stage.outer


def _ends(answer: Answer, count: int) -> tuple[int, int] | None:
    """How many elements at both ends of so many have another answer than the middle; None where they are too many."""
    middle, places = answer(count // 2), range(min(count // 2, MOST + 1))

    def differs(at: int) -> bool:
        return answer(at) not in (middle, EITHER)

    first, last = (sum(1 for _ in takewhile(differs, end)) for end in (places, (count - 1 - at for at in places)))
    return (first, last) if max(first, last) <= MOST else None


def _most(answers: Iterable[Answer], count: int) -> tuple[int, int]:
    found = [ends for answer in answers if (ends := _ends(answer, count)) is not None]
    return max((first for first, _ in found), default=0), max((last for _, last in found), default=0)


def _questions(exprs: Iterable[Expr], vector: For, *, middle: bool = False) -> tuple[list[Expr], list[Answer]]:
    """Expressions, and what they ask of the place in a row alone; of a question inside another one, the answer in the middle stands for it.

    `middle`: the expressions as all but a few elements at the ends find them, conditions too, and no other questions.
    """
    assert isinstance(vector.lo, Const)
    axis, lo, half = Axis(vector.loop), int(vector.lo.value), size(vector) // 2
    found: dict[Expr, Answer] = {}

    def answered(node: Expr) -> Expr:
        match node:
            case Compare(_, left, right) | Binary("min" | "max", left, right) if dtype_of(left) == INT64:
                form = linear(Binary("sub", left, right))
            case Binary("mod", left, Const(by)) if dtype_of(left) == INT64 and by > 0:
                form = linear(left)
            case _:
                return node
        if form.terms.keys() != {axis} and (node.op == "mod" or _value(form, axis, lo) is None):
            return node
        answer = _of_place(form, axis, lo, _answer(node))
        if middle and _ends(answer, size(vector)) is None:
            return node
        found[node] = answer
        if isinstance(node, Compare):
            return Const(answer(half) > 1, BOOL) if middle else node
        if node.op == "mod":
            if any(answer(at) != answer(half) for at in (min(MOST, half), max(half, 2 * half - 1 - MOST))):
                return node  # it turns again and again
            by = int(node.right.value) if isinstance(node.right, Const) else 1
            return expression(form.plus(Linear(-by * ((form.constant + form.terms[axis] * (lo + half)) // by))))
        return node.left if (answer(half) <= EITHER) == (node.op == "min") else node.right

    return [rewrite(part, answered) for part in dict.fromkeys(exprs)], list(found.values())


def _answer(node: Expr) -> Answer:
    """The answer to a question by the difference of its sides, or the turn of a remainder by what it is of."""
    match node:
        case Compare(op, _, _):
            return lambda number: int(COMPARE[op](number, 0)) + 1
        case Binary("mod", _, Const(by)):
            return lambda number: number // int(by) + (number >= 0)  # no turn is EITHER
        case _:
            return lambda number: (number > 0) - (number < 0)


def _of_place(form: Linear, axis: Axis, lo: int, answer: Answer) -> Answer:
    """The answer at a place of a row, of a form over its axis, or over quotients and remainders of that."""
    if form.terms.keys() == {axis}:
        factor = form.terms[axis]
        return lambda at: answer(form.constant + factor * (lo + at))
    return lambda at: answer(_value(form, axis, lo + at) or 0)


def _value(form: Linear, axis: Axis, at: int) -> int | None:
    """The value of a form at a place; None where it follows anything else."""
    return known_value(substitute(expression(form), {axis.name: const(at)}), {})
