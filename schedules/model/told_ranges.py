"""How long the ranges are that data tell, on average: seldom all that their axes can be (`rewriting.ragged`).

    for v: for e: if ptr[v] <= e: if e < ptr[v + 1]: ...          e runs E / V times for each v

A tile of such a range stands at a multiple of its length, wherever the range begins: one more is begun than it fills. Where what tells it
changes inside its loop, as between lanes that are rows, the loop runs over all that the range can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from tensorlang.algebra.bounds import Bounds, conjuncts
from tensorlang.ir import Axis, For, If, Nest, SplitRelation
from tensorlang.ir.integers import ASSUMED_EXTENT
from tensorlang.ir.relations import depends_on
from tensorlang.ir.traverse import axes_of, reads_data, statements
from tensorlang.schedules.rewriting.edit import loops
from tensorlang.schedules.rewriting.ragged import ragged


@dataclass(frozen=True, slots=True)
class ToldRanges:
    """The axes whose ranges data tell, with the iterations to count with."""

    lengths: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, nest: Nest, bounds: Bounds) -> ToldRanges:
        """Those of a nest, of whose axes the bounds are known."""
        asked = [part for stmt in statements(nest.body) if isinstance(stmt, If) for part in conjuncts((stmt.cond,)) if reads_data(part)]
        found: dict[str, float] = {}
        for name in ragged(asked).bounded:
            own = ragged(part for part in asked if name in axes_of(part))
            if _is_told_inside(nest, name, own.keys):
                continue
            sizes = [_extent(bounds, axis) for axis in (name, *own.keys)]
            known = prod(size or 0 for size in sizes[1:]) if None not in sizes else None
            found[name] = own.length(name, sizes[0] or ASSUMED_EXTENT, known)
        return cls(found)

    def trips(self, loop: For, split: SplitRelation | None) -> float | None:
        """How often a loop runs that is such an axis, or over its tiles or through one of them; None for others, and lanes of a tile."""
        length = self.lengths.get(loop.loop if split is None else split.parent)
        if split is None or length is None:
            return length
        tiles = self._tiles(length, split)
        if loop.loop == split.outer:
            return tiles
        return length / tiles if loop.kind == "serial" else None

    def whole(self, split: SplitRelation) -> float:
        """The share of the tiles that are begun, of those of such an axis, which run whole."""
        length = self.lengths[split.parent]
        return max(0.0, length / split.factor - 1) / self._tiles(length, split)

    @staticmethod
    def _tiles(length: float, split: SplitRelation) -> float:
        return length / split.factor + 1 - 1 / split.factor


def _is_told_inside(nest: Nest, name: str, keys: frozenset[str]) -> bool:
    """Does a loop inside one of an axis change what tells its range?"""
    told = [Axis(key) for key in keys]
    own = (loop for loop in loops(nest.body) if depends_on(nest, [Axis(name)], {loop.loop}))
    return any(depends_on(nest, told, {inside.loop for inside in loops(loop.body)}) for loop in own)


def _extent(bounds: Bounds, axis: str) -> int | None:
    """How many values an axis has, where literals tell."""
    ends = bounds.known.get(Axis(axis))
    return None if ends is None else ends[1] - ends[0] + 1
