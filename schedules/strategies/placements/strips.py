"""How much strips have: rows, and pieces of rows where they are cut from the loop of the lanes.

Both have knobs of their own. What a filter of an image holds of a row is some kilobytes; what goes down the columns holds all of them,
a piece wide. All groups of stages that are cut alike have strips alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tensorlang.schedules.spaces.knobs import Flag, Knob, Sizes
from tensorlang.system.lazy import cached_property

ROWS: Final = (1, 2, 4, 8, 16, 32, 64, 128)
"""Rows of a strip that are worth trying."""
PIECE: Final = 64
"""Elements of the least piece of a row: as many of these are worth trying."""


@dataclass(frozen=True)
class Strips:
    """The knobs `strip` and `slides` of strips of up to so many `rows`, and `piece` of those of pieces of so many elements; 0: of none."""

    rows: int
    pieces: int

    @cached_property
    def knobs(self) -> tuple[Knob, ...]:
        """Those that there are."""
        rows = (Sizes("strip", _below(self.rows, 1)), Flag("slides")) if self.rows else ()
        return (*rows, *((Sizes("piece", _below(self.pieces, PIECE)),) if self.pieces else ()))

    def of(self, rows: int, *, slides: bool = False) -> dict[str, Any]:
        """The values for about so many rows, and as many of the least pieces."""
        sizes = {knob.name: knob.nearest(rows * (PIECE if knob.name == "piece" else 1)) for knob in self.knobs if isinstance(knob, Sizes)}
        return {**sizes, "slides": slides and sizes["strip"] > 1} if self.rows else sizes

    @cached_property
    def none(self) -> Mapping[str, Any]:
        """The values where there are no strips."""
        return self.of(1)

    def all(self) -> Iterator[dict[str, Any]]:
        """All rows, sliding or not, with as many of the least pieces."""
        return (self.of(rows, slides=slides) for rows in ROWS for slides in ((False, True) if self.rows else (False,)))

    def other_pieces(self) -> Iterator[dict[str, Any]]:
        """All pieces."""
        return ({knob.name: size} for knob in self.knobs if knob.name == "piece" for size in knob.values)

    def constraints(self, strips: Callable[[Mapping[str, Any]], bool]) -> Iterator[tuple[Callable[[Mapping[str, Any]], bool], str]]:
        """What holds of points, with labels; does a point have `strips`?"""
        if self.rows:
            yield lambda c: not c["slides"] or c["strip"] > 1, "strips of one row slide anyhow"
        none = {name: value for name, value in self.none.items() if name != "slides"}
        yield (
            lambda c: all(c[name] == value for name, value in none.items()) or strips(c),
            "sizes of strips are chosen where there are some",
        )


def _below(most: int, unit: int) -> tuple[int, ...]:
    return tuple(count * unit for count in ROWS if count == 1 or count * unit < most)
