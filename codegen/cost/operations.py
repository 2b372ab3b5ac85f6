"""The arithmetic of a statement: each of its values once, as it is emitted, and the choices under which it is made.

What a Python variable holds is in the tree of an expression as often as it is used, and is computed once. Equal values have one number
(`ir.numbering`); one that several sides of choices use is made where any of them is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Final, TypeAlias

from tensorlang.ir import Binary, Call, Compare, Expr, Load, Param, Select, Store, Unary
from tensorlang.ir.dtype import BOOL
from tensorlang.ir.numbering import Numbering
from tensorlang.ir.traverse import children, operands_first, reads_data

Conditions: TypeAlias = tuple[Expr, ...]
_Way: TypeAlias = frozenset[tuple[int, bool]]
"""Numbers of conditions, and whether they hold, under which a value is used."""

_ARITHMETIC: Final = frozenset({"add", "sub", "mul", "div", "floordiv", "mod", "min", "max", "fmin", "fmax"})
_MOST: Final = 64
"""Ways to one value that are told apart."""
_UNTOLD: Final = -1
"""The number of a condition of which nothing is known, so that it counts as if it held."""


def operations(store: Store) -> Iterator[tuple[str, Conditions, Expr]]:
    """The arithmetic of one execution of a statement: the name of each operation, the choices under which it is made, and its value.

    Indices, and conditions that speak of axes alone, are no arithmetic: they say where, not what.
    """
    roots = (*store.values, *(() if store.reducer is None else store.reducer.results))
    numbering, done = Numbering(), set[int]()
    numbered: dict[int, Expr] = {_UNTOLD: Param("untold", BOOL)}
    for node, _ in operands_first(roots, done):
        done.add(id(node))
        numbered.setdefault(numbering.number(node), node)
    ways: dict[int, list[_Way]] = {numbering.number(root): [frozenset()] for root in roots}
    for number in sorted(numbered, reverse=True):  # an operand has a smaller number than what is made of it
        if number not in ways:
            continue
        node, used = numbered[number], _fewest(ways[number])
        if (name := _operation(node)) is not None:
            yield name, _told(used, numbered), node
        for part, chosen in _uses(node, numbering):
            ways.setdefault(numbering.number(part), []).extend(way | chosen for way in used if not _excluded(way, chosen))


def _operation(node: Expr) -> str | None:
    match node:
        case Call(function):
            return function
        case Binary(op) if op in _ARITHMETIC:
            return op
        case Unary("neg" | "abs" as op):
            return op
        case _:
            return None


def _uses(node: Expr, numbering: Numbering) -> Iterator[tuple[Expr, _Way]]:
    """The operands of a node that are computed for it, and what it chooses them by."""
    match node:
        case Load():
            return
        case Compare() if not reads_data(node):
            return
        case Select(cond, yes, no):
            number = numbering.number(cond)
            yield cond, frozenset()
            yield yes, frozenset({(number, True)})
            yield no, frozenset({(number, False)})
        case _:
            for part in children(node):
                yield part, frozenset()


def _excluded(way: _Way, chosen: _Way) -> bool:
    """Does a condition of one hold only where it does not in the other?"""
    return any((number, not holds) in way for number, holds in chosen)


def _fewest(ways: Iterable[_Way]) -> list[_Way]:
    """The same ways, without those that others include: what both sides of a choice use is used without it."""
    waiting, kept = list(dict.fromkeys(ways)), list[_Way]()
    while waiting:
        way = waiting.pop(0)
        if any(other <= way for other in kept):
            continue
        joined = [way - {part} for part in way for other in kept if way ^ other == {part, (part[0], not part[1])}]
        kept = [other for other in kept if not way <= other]
        kept.append(way)
        waiting = joined + waiting
    return kept if len(kept) <= _MOST else [frozenset.intersection(*kept) | {(_UNTOLD, True)}]


def _told(ways: list[_Way], numbered: dict[int, Expr]) -> Conditions:
    """Ways as conditions that hold together: what all of them ask for, and that one of them is taken."""
    always = frozenset.intersection(*ways) if ways else frozenset[tuple[int, bool]]()
    rest = [[_condition(part, numbered) for part in sorted(way - always)] for way in ways]
    one = [reduce(lambda left, right: Binary("and", left, right), parts) for parts in rest if parts]
    either = (reduce(lambda left, right: Binary("or", left, right), one),) if len(one) > 1 else ()
    return (*(_condition(part, numbered) for part in sorted(always)), *either)


def _condition(part: tuple[int, bool], numbered: dict[int, Expr]) -> Expr:
    number, holds = part
    return numbered[number] if holds else Unary("not", numbered[number])
