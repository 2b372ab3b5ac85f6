"""Tables whose elements wait for the ones above and to the left, an anti-diagonal at a time: no element of one waits for another of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from bench.programs.whole.dialects import scanned

Lanes: TypeAlias = tuple[Any, ...]
"""A vector for each table."""


def tables(xp: Any, given: Any, first: Lanes, border: Callable[[Any], Any], cell: Callable[[Lanes, Lanes, Lanes, Any], Lanes]) -> Lanes:
    """Tables of `cell(corner, above, left, given)`, and of `border(diagonal)` in the row and the column before the first.

    A lane for each row, and `first` for each table a vector of these lanes, for its type. Raises `NoFormError`.
    """
    height, width = given.shape[0] + 1, given.shape[1] + 1
    lane = xp.arange(height)

    def step(state: tuple[Lanes, Lanes], diagonal: Any, part: Any) -> tuple[tuple[Lanes, Lanes], Lanes]:
        before, last = state
        made = cell(_lower(xp, before), _lower(xp, last), last, part)
        outside = (lane == 0) | (lane >= diagonal)
        now = tuple(xp.where(outside, border(diagonal), table) for table in made)
        return (last, now), now

    slanted = _slanted(xp, xp.concat([given[:1], given], axis=0), height, width)
    _, found = scanned(xp, step, (first, first), xp.arange(height + width - 1, dtype=xp.int32), slanted.T)
    return tuple(_straight(xp, table.T, height, width)[1:, 1:] for table in found)


def _lower(xp: Any, lanes: Lanes) -> Lanes:
    """Each lane has what the one above had; the first is the border, and may have anything."""
    return tuple(xp.concat([x[:1], x[:-1]]) for x in lanes)


def _slanted(xp: Any, x: Any, height: int, width: int) -> Any:
    """Row i moved to the right by i and one more, the column of the border: rows of one element more, read as rows of one less."""
    spare = xp.zeros((height, height + 1), dtype=x.dtype)
    flat = xp.reshape(xp.concat([spare[:, :1], x, spare[:, 1:]], axis=1), (-1,))
    return xp.reshape(flat[: height * (height + width - 1)], (height, height + width - 1))


def _straight(xp: Any, x: Any, height: int, width: int) -> Any:
    """The same backwards: row i moved to the left by i."""
    flat = xp.concat([xp.reshape(x, (-1,)), xp.zeros(height, dtype=x.dtype)])
    return xp.reshape(flat, (height, height + width))[:, :width]
