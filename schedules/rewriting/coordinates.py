"""Which sums of loops an expression moves with: of `F[y + a, x + b]` these are `y + a` and `x + b`.

An expression is read as far as its index arithmetic is linear; the rest of it (a clamp, a quotient, a test) is a function of that. Loops
whose coefficients are in one proportion wherever they stand are one coordinate of it: `2 * y + a` of `y` and `a`, where that takes each
value from the first to the last. Other loops are coordinates for themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Self

from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Compare, Const, Expr, For
from tensorlang.ir.dtype import INT64
from tensorlang.ir.integers import ASSUMED_EXTENT
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.traverse import children, dtype_of, map_children, reads_data
from tensorlang.schedules.rewriting.edit import extent_of, literal_extent


@dataclass(frozen=True, slots=True)
class Coordinate:
    """`sum(weight * loop)`, its least value and how many there are up to the greatest; the weights have no common factor."""

    weights: tuple[tuple[str, int], ...]
    lo: Expr
    extent: Expr

    @classmethod
    def of(cls, weights: Sequence[tuple[For, int]]) -> Self:
        """The coordinate of some loops."""
        least, most = Linear(), Linear(1)
        for loop, weight in weights:
            first, last = linear(loop.lo), linear(loop.lo).plus(linear(extent_of(loop))).plus(Linear(-1))
            least = least.plus(first if weight > 0 else last, weight)
            most = most.plus(last if weight > 0 else first, weight)
        extent = simplify(expression(most.plus(least, -1)))
        return cls(tuple((loop.loop, weight) for loop, weight in weights), simplify(expression(least)), extent)

    @property
    def loops(self) -> tuple[str, ...]:
        """The loops that it is a sum of."""
        return tuple(loop for loop, _ in self.weights)

    @property
    def place(self) -> Expr:
        """How far it is from its least value, where the loops are."""
        form = linear(self.lo).times(-1)
        for loop, weight in self.weights:
            form = form.plus(Linear(0, {Axis(loop): weight}))
        return expression(form)

    def times(self, form: Mapping[str, int]) -> int | None:
        """How often it is contained in what a linear form has of its loops; None where these stand in another proportion."""
        found = {divmod(form.get(loop, 0), weight) for loop, weight in self.weights}
        return None if len(found) > 1 or any(rest for _, rest in found) else found.pop()[0]


def forms(expr: Expr) -> Iterator[dict[str, int]]:
    """The coefficients of axes in each linear part of an expression."""
    seen, waiting = set[int](), [expr]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        found = _linear(node)
        if found is None:
            waiting += children(node)
        else:
            yield _of_axes(found)
            waiting += (part for atom in found.terms for part in children(atom))


def coordinates(found: Iterable[Mapping[str, int]], loops: Sequence[For]) -> list[Coordinate]:
    """What forms move with of some loops, in the order of the loops; their extents are literals, or over dims."""
    rows = list(found)
    families: dict[tuple[int, ...], list[tuple[For, int]]] = {}
    for loop in loops:
        column = tuple(row.get(loop.loop, 0) for row in rows)
        if any(column):
            shared = gcd(*column) * (1 if next(filter(None, column)) > 0 else -1)
            families.setdefault(tuple(part // shared for part in column), []).append((loop, shared))
    return [coordinate for members in families.values() for coordinate in _of_family(members)]


def _of_family(members: Sequence[tuple[For, int]]) -> list[Coordinate]:
    """One coordinate of loops in proportion, where their sum takes each value between its ends; else one for each loop."""
    common = gcd(*(weight for _, weight in members))
    weights = [(loop, weight // common) for loop, weight in members]
    return [Coordinate.of(weights)] if _is_dense(weights) else [Coordinate.of([(loop, 1)]) for loop, _ in weights]


def _is_dense(weights: Sequence[tuple[For, int]]) -> bool:
    """Does a sum take each value between its ends? A loop of unknown extent has an iteration at least, where any of this matters."""
    reach = 1
    for loop, weight in sorted(weights, key=lambda pair: abs(pair[1])):
        if abs(weight) > reach:
            return False
        reach += abs(weight) * ((literal_extent(loop) or 1) - 1)
    return True


def places(known: Iterable[Coordinate]) -> int:
    """How many places coordinates have together, with a guess for extents known only at run time."""
    return prod(int(part.extent.value) if isinstance(part.extent, Const) else ASSUMED_EXTENT for part in known)


def fits(found: Iterable[Mapping[str, int]], known: Sequence[Coordinate], loops: Sequence[For]) -> bool:
    """Do forms move with nothing of some loops but the coordinates?"""
    own = {loop for coordinate in known for loop in coordinate.loops}
    others = [loop.loop for loop in loops if loop.loop not in own]
    return all(all(part.times(row) is not None for part in known) and not any(row.get(name) for name in others) for row in found)


def rewritten(expr: Expr, values: Mapping[Coordinate, Expr]) -> Expr:
    """An expression that moves with coordinates, over their values in place of the loops."""
    own = {loop for coordinate in values for loop in coordinate.loops}
    done: dict[int, Expr] = {}

    def over(node: Expr) -> Expr:
        if id(node) not in done:
            found = _linear(node)
            done[id(node)] = map_children(node, over) if found is None else replaced(node, found)
        return done[id(node)]

    def replaced(node: Expr, found: Linear) -> Expr:
        row, form = _of_axes(found), Linear(found.constant)
        for atom, factor in found.terms.items():
            if not (isinstance(atom, Axis) and atom.name in own):
                form = form.plus(linear(map_children(atom, over)), factor)
        for coordinate, value in values.items():
            form = form.plus(linear(value), coordinate.times(row) or 0)
        if not isinstance(node, Compare):
            return expression(form)
        return Compare(node.op, expression(Linear(0, form.terms)), expression(Linear(-form.constant)))

    return simplify(over(expr))


def _of_axes(form: Linear) -> dict[str, int]:
    return {atom.name: factor for atom, factor in form.terms.items() if isinstance(atom, Axis)}


def _linear(node: Expr) -> Linear | None:
    """The linear form of index arithmetic, and of what a comparison of it says: of `y < 3 - a` that is `y + a - 3`."""
    if isinstance(node, Compare):
        index = dtype_of(node.left) == INT64 and not reads_data(node)  # data may be so far apart that their difference wraps
        return linear(Binary("sub", node.left, node.right)) if index else None
    return linear(node) if dtype_of(node) == INT64 else None
