"""Windows from windows of half the length: what a reduction over an axis combines, of two or a few pieces of powers of two.

    Y[y] = max over b in range(13) of F[y + b]      ->      W2[x] = max(F[x], F[x + 1]);  W4[x] = max(W2[x], W2[x + 2])
                                                            W8[x] = max(W4[x], W4[x + 4]);  Y[y] = max(W8[y], W8[y + 5])

Where an operation combines a value with itself to that value, two pieces that overlap are a window of any length; of others the pieces are
those of its binary number. A window whose length depends on other loops of the reduction, as that of each row of a disc, is one for each
iteration of these: all share the pieces (the sparse tables of Bender and Farach-Colton, "The LCA Problem Revisited", 2000).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from typing import Final, NamedTuple

from tensorlang.algebra.bounds import Bounds
from tensorlang.ir import Axis, Binary, Const, Expr, For, Param, Reducer
from tensorlang.schedules.rewriting.edit import literal_extent

MOST_PIECES: Final = 128
"""Pieces of an element, at most: an expression has them all."""
MOST_ITERATIONS: Final = 4096
"""Iterations of a reduction whose windows are looked at one by one."""


class Piece(NamedTuple):
    """What 2^`level` iterations of the loop combine, from where the loops of the reduction stand."""

    level: int
    at: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Windows:
    """The pieces of the windows of a reduction along a loop, by the operation of one component."""

    reducer: Reducer
    pieces: tuple[Piece, ...]

    @property
    def levels(self) -> int:
        """How often lengths are doubled."""
        return max((piece.level for piece in self.pieces), default=0)

    def combined(self, left: Expr, right: Expr) -> Expr:
        """Two states as one."""
        (result,) = self.reducer.results
        return _over_states(result, left, right)

    def all_of(self, parts: Iterable[Expr]) -> Expr:
        """All of some states as one; the identity for none."""
        found = list(parts)
        return reduce(self.combined, found) if found else self.reducer.identities[0]


def windows_of(reducer: Reducer, along: For, loops: Sequence[For], asked: Sequence[Expr], *, overlap: bool) -> Windows | None:
    """The windows along one of the loops of a reduction, of iterations in which all that is asked holds; None where that is not known.

    Pieces may `overlap` where a value may be combined as often as one likes.
    """
    if len(reducer.results) != 1 or not isinstance(reducer.results[0], Binary):
        return None
    others = [loop for loop in loops if loop is not along]
    ends = {loop.loop: _range(loop) for loop in (*others, along)}
    if any(end is None for end in ends.values()) or prod(literal_extent(loop) or 0 for loop in loops) > MOST_ITERATIONS:
        return None
    pieces = list[Piece]()
    for values in product(*(ends[loop.loop] or () for loop in others)):
        at = dict(zip((loop.loop for loop in others), values, strict=True))
        wanted = [_counts(asked, {**at, along.loop: value}) for value in ends[along.loop] or ()]
        if None in wanted:
            return None
        first = next(iter(ends[along.loop] or ()), 0)
        for start, length in _runs(wanted):
            pieces += (Piece(level, {**at, along.loop: first + place}) for level, place in _cut(start, length, overlap=overlap))
        if len(pieces) > MOST_PIECES:
            return None
    return Windows(reducer, tuple(pieces))


def _range(loop: For) -> range | None:
    match loop.lo, loop.hi:
        case Const(lo), Const(hi):
            return range(int(lo), int(hi))
        case _:
            return None


def _counts(asked: Sequence[Expr], at: Mapping[str, int]) -> bool | None:
    """Do all conditions hold where loops stand? None where that is not known."""
    known = Bounds({Axis(name): (value, value) for name, value in at.items()})
    found = [known.values(cond) for cond in asked]
    return None if any(low != high for low, high in found) else all(low for low, _ in found)


def _runs(wanted: Sequence[bool | None]) -> Iterator[tuple[int, int]]:
    """Starts and lengths of what follows one another."""
    start = 0
    while start < len(wanted):
        end = start
        while end < len(wanted) and wanted[end]:
            end += 1
        if end > start:
            yield start, end - start
        start = end + 1


def _cut(start: int, length: int, *, overlap: bool) -> Iterator[tuple[int, int]]:
    """The levels and starts of pieces of a window."""
    level = length.bit_length() - 1
    if overlap:
        yield level, start
        if length > 1 << level:
            yield level, start + length - (1 << level)
        return
    while length:
        level = length.bit_length() - 1
        yield level, start
        start, length = start + (1 << level), length - (1 << level)


def _over_states(result: Expr, left: Expr, right: Expr) -> Expr:
    match result:
        case Param("a0", _):
            return left
        case Param("b0", _):
            return right
        case Binary(op, one, other):
            return Binary(op, _over_states(one, left, right), _over_states(other, left, right))
        case _:
            return result
