"""Clamps of indices that do nothing where they are read, by the conditions around them, and choices that ask what is asked around them.

    max(N[l - 1 - k, min(i + k + 1, n - 1)] for k < l if i + l < n)    ->    N[l - 1 - k, i + k + 1]
    select(j < n, X[min(j, n - 1)], Y[max(j - n, 0)])                  ->    select(j < n, X[j], Y[j - n])
    select(j < n, 2 * select(j < n, X[j], Y[0]), 0)                    ->    select(j < n, 2 * X[j], 0)

A clamp keeps loops from being runs of memory. What a `where=` says decides some of them, for every iteration that it lets through, and what
a choice asks decides others on its sides: then the index is the side that it always is. A value that Python holds, and that is used on one
side of a choice, asks again what that choice has asked. Conditions that stand apart, as between the middle
and the edges of an image, are a matter of code generation, which parts such loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tensorlang.algebra.bounds import Bounds, negated
from tensorlang.algebra.extrema import NeverGreater, by_intervals, is_clamp, side_of
from tensorlang.algebra.polyhedra import find
from tensorlang.ir import Binary, Compare, Expr, Load, Select
from tensorlang.ir.numbering import Numbering
from tensorlang.ir.traverse import children, map_children, nodes, reads_data, rewrite

DEPTH: Final = 8
"""Choices inside one another that are looked into."""


def settled(value: Expr, conditions: Sequence[Expr], ranges: Sequence[Expr]) -> Expr:
    """The value with each extremum of its indices as the side that it is under conditions that decide it, in the `ranges` of axes."""
    value = _asked_once(value)
    if not any(map(is_clamp, nodes(value))):
        return value
    facts = (*ranges, *conditions)
    if conditions:
        value = _indices(value, lambda one, other: find(*facts, Compare("gt", one, other)) is None)
    return _sides(value, facts, Bounds().under(facts), DEPTH)


def plain(order: Expr, ranges: Sequence[Expr]) -> Expr:
    """An order of indices without an end that all of them keep to: `max(i - 63, 0) <= j` is `i - 63 <= j` where j begins at 0.

    What is linear says which tiles of a product are needed, and where a loop begins.
    """
    known = Bounds().under(ranges)
    match order:
        case Compare("le" | "lt" as op, Binary("max", one, other), index):
            for side, rest in ((one, other), (other, one)):
                if known.values(side)[1] + (op == "lt") <= known.values(index)[0]:
                    return plain(replace(order, left=rest), ranges)
        case Compare("le" | "lt" as op, index, Binary("min", one, other)):
            for side, rest in ((one, other), (other, one)):
                if known.values(index)[1] + (op == "lt") <= known.values(side)[0]:
                    return plain(replace(order, right=rest), ranges)
        case _:
            pass
    return order


def _asked_once(value: Expr) -> Expr:
    """The value without choices that stand on a side of one that asks the same."""
    choices = [node for node in nodes(value) if isinstance(node, Select)]
    if len(choices) < 2:
        return value
    numbering = Numbering()
    asked = Counter(numbering.number(choice.cond) for choice in choices)
    again = [number for number, times in asked.items() if times > 1]
    return _decided(value, numbering, frozenset(again), {}, {}) if 0 < len(again) <= DEPTH else value


def _decided(value: Expr, numbering: Numbering, again: Container[int], known: Mapping[int, bool], done: dict[object, Expr]) -> Expr:
    """The value where the answers to some questions are `known`, of those that are asked `again`; parts that were looked at are `done`."""
    key = (id(value), tuple(known.items()))
    if key not in done:
        if not isinstance(value, Select):
            found = map_children(value, lambda part: _decided(part, numbering, again, known, done))
        elif (number := numbering.number(value.cond)) in known:
            found = _decided(value.yes if known[number] else value.no, numbering, again, known, done)
        else:
            sides = [{**known, number: answer} if number in again else known for answer in (True, False)]
            yes, no = (_decided(side, numbering, again, facts, done) for side, facts in zip((value.yes, value.no), sides, strict=True))
            cond = _decided(value.cond, numbering, again, known, done)
            same = cond is value.cond and yes is value.yes and no is value.no
            found = value if same else replace(value, cond=cond, yes=yes, no=no)
        done[key] = found
    return done[key]


def _indices(value: Expr, never_greater: NeverGreater) -> Expr:
    """The value with the extrema in its indices decided where one operand is never greater than the other."""

    def index(node: Expr) -> Expr:
        return rewrite(node, chosen) if isinstance(node, Load) else node

    def chosen(node: Expr) -> Expr:
        return side_of(node, never_greater) if isinstance(node, Binary) and is_clamp(node) else node

    return rewrite(value, index)


def _sides(value: Expr, facts: Sequence[Expr], known: Bounds, depth: int) -> Expr:
    """The value with the sides of its choices settled by what each choice asks, beside the `facts`, which say what is `known`."""
    changed: dict[int, Expr] = {}
    for choice in _choices(value) if depth else ():
        sides = [
            _side(side, (*facts, asked), known.under([asked]), depth, exactly=_asks_remainder(choice.cond))
            for side, asked in ((choice.yes, choice.cond), (choice.no, negated(choice.cond)))
        ]
        if sides[0] is not choice.yes or sides[1] is not choice.no:
            changed[id(choice)] = replace(choice, yes=sides[0], no=sides[1])
    return rewrite(value, lambda node: changed.get(id(node), node)) if changed else value


def _side(side: Expr, facts: Sequence[Expr], known: Bounds, depth: int, *, exactly: bool) -> Expr:
    """One side of a choice; `exactly`: intervals do not tell what is asked, since an even number below 64 is below 63."""
    near = by_intervals(known)

    def never_greater(one: Expr, other: Expr) -> bool:
        return near(one, other) or (exactly and find(*facts, Compare("gt", one, other)) is None)

    return _sides(_indices(side, never_greater), facts, known, depth - 1)


def _asks_remainder(cond: Expr) -> bool:
    """Is it asked of remainders, as of even and odd elements?"""
    return any(isinstance(node, Binary) and node.op == "mod" for node in nodes(cond)) and not reads_data(cond)


def _choices(value: Expr) -> Iterator[Select]:
    """The outermost choices of a value that read memory at clamped places."""
    waiting, seen = [value], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if not isinstance(node, Select):
            waiting += children(node)
        elif any(map(is_clamp, nodes(node))):
            yield node
