"""Windows that are written out as sums of integers, and those of them whose weights are a product: `u[a] * v[b]` of `F[y + a, x + b]`.

    F[y, x] + 2 * F[y, x + 1] + F[y, x + 2]                     v[0] * (u[0] * F[y, x] + u[1] * F[y + 1, x] + ...)
    + 2 * F[y + 1, x] + 4 * F[y + 1, x + 1] + ...       =       + v[1] * (u[0] * F[y, x + 1] + ...) + ...

Integers wrap, so a sum may be put together in any order, and factors taken out of it; of floats it would be another number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final

from tensorlang.ir import Axis, Binary, Expr
from tensorlang.ir.dtype import INT64
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.traverse import dtype_of, map_children, reads_data

Offsets = tuple[int, ...]
LEAST: Final = 4
"""Terms of the smallest window that can be a product of two."""


@dataclass(frozen=True, slots=True)
class Window:
    """`sum(weight * part)` over places of one expression that are so far along some `loops`, in order."""

    part: Expr
    loops: tuple[str, ...]
    weights: Mapping[Offsets, int]


@dataclass(frozen=True, slots=True)
class Product:
    """A window as one along the first loop, `first`, of windows along the `rest` of them, and what is `left` beside."""

    window: Window
    first: Mapping[int, int]
    rest: Mapping[Offsets, int]
    left: Mapping[Offsets, int]

    @property
    def steps(self) -> int:
        """The terms that are added up for an element."""
        return len(self.first) + len(self.rest) + len(self.left)


def windows(value: Expr, loops: Sequence[str]) -> tuple[list[Window], Linear]:
    """The windows over data that an integer sum is made of, along these loops, and what else is in it."""
    form, other = linear(value), Linear()
    found: dict[Expr, dict[tuple[tuple[str, int], ...], int]] = {}
    for atom, weight in form.terms.items():
        offsets: dict[str, int] = {}
        part = _standing(atom, frozenset(loops), offsets) if reads_data(atom) else None
        if part is None:
            other = other.plus(Linear(0, {atom: weight}))
        else:
            found.setdefault(part, {})[tuple((loop, offsets.get(loop, 0)) for loop in loops)] = weight
    made = []
    for part, places in found.items():
        moved = [loop for at, loop in enumerate(loops) if len({place[at][1] for place in places}) > 1]
        weights = {tuple(offset for loop, offset in place if loop in moved): weight for place, weight in places.items()}
        fixed = {loop: offset for loop, offset in next(iter(places)) if loop not in moved}
        made.append(Window(shifted(part, fixed), tuple(moved), weights))
    return made, other.plus(Linear(form.constant))


def product_of(window: Window) -> Product | None:
    """The window as a product with the fewest steps; None where none is fewer than the window has."""
    if len(window.loops) < 2 or len(window.weights) < LEAST:
        return None
    rows: dict[int, dict[Offsets, int]] = {}
    for (first, *rest), weight in window.weights.items():
        rows.setdefault(first, {})[tuple(rest)] = weight
    found = (_with_row(window, rows, row) for row in {tuple(sorted(_reduced(row).items())) for row in rows.values()})
    best = min(found, key=lambda product: (product.steps, sorted(product.rest.items())))
    return best if best.steps < len(window.weights) and len(best.first) > 1 else None


def shifted(expr: Expr, offsets: Mapping[str, int]) -> Expr:
    """An expression so far along loops."""
    if isinstance(expr, Axis):
        return expression(Linear(offsets[expr.name], {expr: 1})) if offsets.get(expr.name) else expr
    return map_children(expr, lambda part: shifted(part, offsets))


def _standing(expr: Expr, loops: Collection[str], offsets: dict[str, int]) -> Expr | None:
    """The expression where it is 0 along the loops, and how far along each it was; None where it is not so far everywhere."""
    failed = False

    def still(part: Expr) -> Expr:
        nonlocal failed
        if dtype_of(part) == INT64 and isinstance(part, Axis | Binary):
            form = linear(part)
            own = [atom for atom in form.terms if isinstance(atom, Axis) and atom.name in loops]
            if own and len(form.terms) == 1 and form.terms[own[0]] == 1:
                failed |= offsets.setdefault(own[0].name, form.constant) != form.constant
                return own[0]
        return map_children(part, still)

    found = still(expr)
    return None if failed else found


def _reduced(row: Mapping[Offsets, int]) -> dict[Offsets, int]:
    """A row without the factor that its weights have in common."""
    common = gcd(*row.values())
    return {place: weight // common for place, weight in row.items()}


def _with_row(window: Window, rows: Mapping[int, Mapping[Offsets, int]], row: Collection[tuple[Offsets, int]]) -> Product:
    """The product of one row and how often the others contain it, where that leaves fewer terms than they have."""
    rest, first, left = dict(row), dict[int, int](), dict[Offsets, int]()
    for at, weights in rows.items():
        best, least = 0, dict(weights)
        for factor in dict.fromkeys(_factors(weights, rest)):
            beside = {place: weights.get(place, 0) - factor * rest.get(place, 0) for place in {**weights, **rest}}
            beside = {place: weight for place, weight in beside.items() if weight}
            if len(beside) + 1 < len(least) + (best != 0):
                best, least = factor, beside
        if best:
            first[at] = best
        left.update({(at, *place): weight for place, weight in least.items()})
    return Product(window, first, rest if first else {}, left)


def _factors(weights: Mapping[Offsets, int], rest: Mapping[Offsets, int]) -> Iterator[int]:
    for place, weight in weights.items():
        if place in rest and weight % rest[place] == 0:
            yield weight // rest[place]
