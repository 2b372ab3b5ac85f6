"""Ends of a row whose elements ask where to read, as neighbours beyond a border do: clamped, mirrored, chosen, or at the other end.

    for j in range(n): Y[i, j] = X[i, (j - 1) % n] + X[i, j]    ->    the first element, and a run of all others

A tile of lanes in which one element asks is computed one by one, or gathered (`lowering.passes.interiors`). Where the elements that ask are
few they are peeled off, and no tile has any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Final, TypeAlias

from tensorlang.ir import Axis, Binary, Compare, Const, Expr, For, const
from tensorlang.ir.dtype import INT64
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
    """How many elements at the beginning and at the end of a row ask otherwise than those in its middle; (0, 0) where they are too many."""
    if (
        not is_literal(vector) or not isinstance(vector.lo, Const) or vector not in stage.outer
    ):  # that of a strip begins where the strip does
        return 0, 0
    count, found = size(vector), (0, 0)
    for answer in _questions(stage, vector):

        def differs(at: int, answer: Answer = answer, middle: int = answer(count // 2)) -> bool:
            return answer(at) not in (middle, EITHER)

        places = range(min(count // 2, MOST + 1))
        first = sum(1 for _ in takewhile(differs, places))
        last = sum(1 for _ in takewhile(differs, (count - 1 - at for at in places)))
        if max(first, last) <= MOST:
            found = max(found[0], first), max(found[1], last)
    return found


def _questions(stage: StageInfo, vector: For) -> Iterator[Answer]:
    """What indices ask of the place in a row alone; of a question inside another one, the answer in the middle stands for it.

    A choice around a read is no such question: lanes that do not choose it are off.
    """
    assert isinstance(vector.lo, Const)
    axis, lo, middle = Axis(vector.loop), int(vector.lo.value), size(vector) // 2
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
        found[node] = answer = _of_place(form, axis, lo, _answer(node))
        if isinstance(node, Compare):
            return node
        if node.op == "mod":
            if any(answer(at) != answer(middle) for at in (min(MOST, middle), max(middle, 2 * middle - 1 - MOST))):
                return node  # it turns again and again
            by = int(node.right.value) if isinstance(node.right, Const) else 1
            return expression(form.plus(Linear(-by * ((form.constant + form.terms[axis] * (lo + middle)) // by))))
        return node.left if (answer(middle) <= EITHER) == (node.op == "min") else node.right

    for part in dict.fromkeys(part for load in stage.loads for part in load.index):
        rewrite(part, answered)
    yield from found.values()


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
