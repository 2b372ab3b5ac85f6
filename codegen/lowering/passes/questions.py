"""What only edges ask, and what the answer is in the middle of the loops (see `interiors`).

A question is a comparison or an extremum of two indices whose difference is linear in the loops inside, or has a bound that is, where it is
over quotients and remainders by literals; or a remainder of such an index that hardly ever is another than in the middle, as of neighbours
in an image that goes on at its other end. The answer holds for a whole iteration of an outer loop where it holds with the loops inside at
the ends that are hardest for it. A question inside another one is answered first, and the test asks for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeAlias, cast

from tensorlang.algebra.bounds import interval
from tensorlang.algebra.rules import FALSE, TRUE
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Compare, Const, Dim, Expr, For, If, Select, Stmt, Store, Unary
from tensorlang.ir.dtype import INT64
from tensorlang.ir.integers import ARITHMETIC, COMPARE, EXTENT_OPERATORS
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.traverse import axes_of, dtype_of, expressions, nodes, reads_data, rewrite, substatements
from tensorlang.system.identity import Identity

MAX_QUESTIONS: Final = 64
KEPT: Final = 1024
"""Statements of which it is kept whether they ask: those of a nest of a hundred stages."""
USUAL: Final = 1024
"""Assumed of an extent that is known only at run time, to find the middle of a loop."""

Middle: TypeAlias = Mapping[str, int]
Loops: TypeAlias = Mapping[str, For]


@dataclass(frozen=True, slots=True)
class Answer:
    """What takes the place of a question, and forms that are negative wherever that is right, one for each place that asks."""

    value: Expr
    tests: tuple[Linear, ...]


@dataclass(slots=True)
class _Found:
    """The questions inside a loop: their answers, and those that have none."""

    answers: dict[Expr, Answer] = field(default_factory=dict)
    refused: set[Expr] = field(default_factory=set)


def is_question(node: Expr) -> bool:
    """Is it one whose answer may be the same in most iterations?"""
    if isinstance(node, Compare):
        return dtype_of(node.left) == INT64
    return isinstance(node, Binary) and dtype_of(node.left) == INT64 and (node.op in ("min", "max") or _wraps(node))


def _wraps(node: Expr) -> bool:
    """Is it a remainder by an extent, as of a neighbour in an image that goes on at its other end?"""
    match node:
        case Binary("mod", _, Const(by)):
            return by > 0
        case Binary("mod", _, Dim(_, least, _)):
            return least >= 0  # of 0 no index is within the first turn
        case _:
            return False


def asks(stmt: Stmt) -> bool:
    """Is there a question within a statement?"""
    return _asks(Identity((stmt,)))


@lru_cache(maxsize=KEPT)
def _asks(key: Identity) -> bool:
    """The same, kept: it is asked of each statement for every loop around it, and in each version."""
    (stmt,) = cast("tuple[Stmt]", key.parts)
    return any(map(asks, substatements(stmt))) or any(is_question(node) for expr in expressions(stmt) for node in nodes(expr))


def answers_of(loop: For, middle: Middle) -> dict[Expr, Answer]:
    """The questions inside a loop whose answers depend on it, and hold for whole iterations of it."""
    found = _Found()
    _search(loop.body, loop, {}, middle, found)
    useful = {node: answer for node, answer in found.answers.items() if node not in found.refused}
    return useful if len(useful) <= MAX_QUESTIONS else {}


def _search(stmt: Stmt, loop: For, inner: Loops, middle: Middle, found: _Found) -> None:
    if not asks(stmt):
        return
    lanes = {name for name, part in inner.items() if part.kind == "vector"}
    for expr in expressions(stmt):
        reads, written = _chooses_reads(expr), isinstance(stmt, Store) and any(expr is part for part in stmt.index)

        def visit(node: Expr, *, reads: bool = reads, written: bool = written) -> Expr:
            if not is_question(node):
                return node
            answer = None if node in found.refused else _answer(node, loop, inner, middle, reads=reads)
            before = found.answers.get(node)
            one = written and answer is not None and not axes_of(answer.value) & lanes  # all lanes would write one element
            if answer is None or one or isinstance(stmt, If) or (before is not None and before.value != answer.value):
                found.refused.add(node)
                return node
            found.answers[node] = Answer(answer.value, (*(before.tests if before is not None else ()), *answer.tests))
            return answer.value

        rewrite(expr, visit)
    if isinstance(stmt, For):
        middle, inner = inside(stmt, middle), {**inner, stmt.loop: stmt}
    for part in substatements(stmt):
        _search(part, loop, inner, middle, found)


def _chooses_reads(expr: Expr) -> bool:
    """Does a read hang on a choice in the expression?"""
    choices = (node for node in nodes(expr) if isinstance(node, Select))
    return any(reads_data(side) for choice in choices for side in (choice.yes, choice.no))


_LOW: Final = {"lt": 0, "ge": 0, "eq": 0, "ne": 0, "le": 1, "gt": 1, "min": 1, "max": 1}
"""A question to the sign of a difference d that is negative, or 0 where this is 1, has one answer for all d below that."""
_HIGH: Final = {"le": 0, "gt": 0, "eq": 0, "ne": 0, "lt": 1, "ge": 1, "min": 1, "max": 1}
"""The same for a positive difference."""


def _answer(node: Expr, loop: For, inner: Loops, middle: Middle, *, reads: bool) -> Answer | None:
    """The answer to a question in the middle of the loops, with its tests; None where it has none that is useful here.

    Useful is what differs between lanes, and a comparison on which a read hangs. `reads`: some choice between reads is in the expression.
    """
    assert isinstance(node, (Binary, Compare))
    if reads_data(node) or interval(node.left) is None or interval(node.right) is None:
        return None
    if isinstance(node, Binary) and _wraps(node):
        return _turn(node, loop, inner, middle)
    form = linear(Binary("sub", node.left, node.right))
    here = _middle_of(form, middle)
    if here is None or (here == 0 and node.op in ("eq", "ne")):
        return None
    low = here < 0 or (here == 0 and _LOW[node.op] == 1)
    above = _above(form.times(1 if low else -1).plus(Linear(-(_LOW if low else _HIGH)[node.op])))
    moving = _moving(above, loop, inner)
    if moving is None or not (_has_lanes(moving, inner) or (reads and isinstance(node, Compare))):
        return None
    test = _hardest(above, inner, 1)
    if test is None:
        return None
    condition = negative(test)
    if condition == FALSE or (condition != TRUE and Axis(loop.loop) not in test.terms):
        return None
    if isinstance(node, Compare):
        value: Expr = TRUE if COMPARE[node.op](here, 0) else FALSE
    else:
        value = node.left if low == (node.op == "min") else node.right
    return Answer(value, () if condition == TRUE else (test,))


def _turn(node: Binary, loop: For, inner: Loops, middle: Middle) -> Answer | None:
    """A remainder as the difference to the multiple that it has in the middle of the loops; None where that is another one mostly."""
    form, by = linear(node.left), linear(node.right)
    moving = _moving(form, loop, inner)
    here, size = _middle_of(form, middle), _middle_of(by, middle)
    most, least = _hardest(form, inner, 1), _hardest(form, inner, -1)
    if here is None or not size or most is None or least is None or not (moving and _has_lanes(moving, inner)):
        return None
    turns = here // size
    tests = most.plus(by, -turns - 1), least.plus(by, turns).plus(Linear(-1))
    asked = tuple(test for test in tests if negative(test) != TRUE)
    if any(Axis(loop.loop) not in test.terms for test in asked) or not is_most(loop, asked, middle):
        return None
    return Answer(expression(form.plus(by, -turns)), asked)


def _moving(form: Linear, loop: For, inner: Loops) -> list[str] | None:
    """The loops that a form moves with, of one and those inside; None where it is not linear in them."""
    moving = [atom for atom in form.terms if axes_of(atom) & (inner.keys() | {loop.loop})]
    names = [atom.name for atom in moving if isinstance(atom, Axis)]
    return names if len(names) == len(moving) else None


def _has_lanes(moving: Iterable[str], inner: Loops) -> bool:
    return any(name in inner and inner[name].kind == "vector" for name in moving)


def _above(form: Linear) -> Linear:
    """A form without quotients and remainders by literals, of the axes that they are of; where it is negative, `form` is.

    `f * (e // d)` is at most `f * e / d` for an f above 0, and `f * (e - d + 1) / d` below, so d times a form is less than one without.
    """
    for atom, factor in form.terms.items():
        rest = form.plus(Linear(0, {atom: factor}), -1)
        match atom:
            case Binary("floordiv", of, Const(by)) if by > 0:
                least = linear(of).plus(Linear(0 if factor > 0 else 1 - int(by)))
                return _above(rest.times(int(by)).plus(least, factor))
            case Binary("mod", _, Const(by)) if by > 0:
                return _above(rest.plus(Linear(max(0, factor) * (int(by) - 1))))
            case _:
                pass
    return form


def _hardest(form: Linear, inner: Loops, sign: int) -> Linear | None:
    """`sign` times a form where it is largest over the loops inside; None where their ends are not told by the loops around."""
    found = form.times(sign)
    for name in reversed(list(inner)):
        factor = found.terms.get(Axis(name), 0)
        if not factor:
            continue
        part = inner[name]
        end = linear(part.lo) if factor < 0 else linear(part.hi).plus(Linear(-1))
        if any(not isinstance(atom, (Axis, Dim)) for atom in end.terms):
            return None
        found = found.plus(Linear(0, {Axis(name): factor}), -1).plus(end, factor)
    return found


# The middle ----------------------------------------------------------------------------------------------------------------------


def inside(loop: For, middle: Middle) -> Middle:
    """The middle of the loops around, and of this one where it can be told."""
    ends = _number(loop.lo, middle), _number(loop.hi, middle)
    rest = {name: at for name, at in middle.items() if name != loop.loop}
    return rest if ends[0] is None or ends[1] is None else {**rest, loop.loop: (ends[0] + ends[1]) // 2}


def is_most(loop: For, forms: Iterable[Linear], middle: Middle, share: int = 2) -> bool:
    """Is one of so many parts of a loop's iterations inside, a half, where the loops around are in their middle?"""
    lo, hi = _number(loop.lo, middle), _number(loop.hi, middle)
    if lo is None or hi is None:
        return False
    first, end = lo, hi
    for form in forms:
        factor = form.terms[Axis(loop.loop)]
        rest = _middle_of(form.plus(Linear(0, {Axis(loop.loop): factor}), -1), middle)
        if rest is None:
            return False
        if factor > 0:  # factor * loop < -rest
            end = min(end, -(rest // factor))
        else:
            first = max(first, rest // -factor + 1)
    return share * (end - first) >= hi - lo


def _middle_of(form: Linear, middle: Middle) -> int | None:
    total = form.constant
    for atom, factor in form.terms.items():
        value = _number(atom, middle)
        if value is None:
            return None
        total += factor * value
    return total


def _number(expr: Expr, middle: Middle) -> int | None:
    """An index in the middle of the loops."""
    match expr:
        case Const(value):
            return int(value)
        case Axis(name):
            return middle.get(name)
        case Dim(_, least, most):
            return min(max(USUAL, least), most)
        case Unary("neg", operand):
            inner = _number(operand, middle)
            return None if inner is None else -inner
        case Binary(op, left, right) if op in EXTENT_OPERATORS:
            a, b = _number(left, middle), _number(right, middle)
            return None if a is None or b is None else ARITHMETIC[op](a, b)
        case _:
            return None


# Forms --------------------------------------------------------------------------------------------------------------------------


def negative(form: Linear) -> Expr:
    """`form < 0`, with its negative terms on the other side."""
    low = Linear(0, {atom: -factor for atom, factor in form.terms.items() if factor < 0})
    high = Linear(form.constant, {atom: factor for atom, factor in form.terms.items() if factor > 0})
    return simplify(Compare("lt", expression(high), expression(low)))
