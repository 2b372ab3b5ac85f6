"""Sums of any length that are short in a call: a version of the nest without blocks, for the extents at which no chain is long.

                                            if m <= 1024:
    for i in range(n):                          for i in range(n):
        for k in range(m):          ->              S[i] += A[i, k]             in lanes
            S[i] += A[i, k]                 else:
                                                for i in range(n):
                                                    S[i] += A[i, k]             in lanes and in blocks (`blocked_sums`)

Every row starts the partial sums of each level and adds them up, which costs more than the sum itself where a row has few elements. In a
version with so few that each lane adds at most a block, the error is that of a block. A sum along several axes of any length is short
where each of these is. Where a dim is bounded, one of the two versions may be all that there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.rules import conjunction
from tensorlang.ir import Binary, Compare, Const, Dim, Expr, If, Store, Unary, const
from tensorlang.ir.printer import text
from tensorlang.ir.traverse import walk
from tensorlang.schedules.directives.specialize import Specialize
from tensorlang.schedules.rewriting.copies import over
from tensorlang.schedules.rewriting.edit import extent_of, loops
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.loops.blocked_sums import BLOCK, rounds
from tensorlang.schedules.strategies.rows.rows import RowVectors

VECTORS: Final = 4
"""Vectors in flight in a short sum, at most."""


@dataclass(frozen=True, slots=True)
class RowSum:
    """A sum along rows, the point at which it is scheduled, and what holds where each of its lanes adds at most a block."""

    rows: RowVectors
    config: Mapping[str, Any]
    prefix: str
    alone: bool
    conditions: tuple[Expr, ...]

    @classmethod
    def of(cls, rows: RowVectors, config: Mapping[str, Any], prefix: str, *, alone: bool) -> RowSum | None:
        """The sum that a stage is; None where it has no blocks, or its length is not an extent over dims."""
        if rows.vector is None or not rows.reduces or rows.ragged or not rounds(rows.stage.store):
            return None
        extents = {loop.loop: extent_of(loop) for loop in rows.stage.reduced}
        unknown = {name: extent for name, extent in extents.items() if not isinstance(extent, Const)}
        if not unknown or not all(isinstance(part, (Dim, Const, Binary)) for extent in unknown.values() for part in walk(extent)):
            return None
        lanes = rows.lanes * min(config[f"{prefix}vectors"], VECTORS)
        most = BLOCK * lanes // prod(max(1, int(extent.value)) for extent in extents.values() if isinstance(extent, Const))
        further = [name for name in unknown if name != rows.vector.loop]
        if len(unknown) == 1:
            bounds = dict.fromkeys(unknown, most)
        else:  # a vector along the lanes, and a block of them along all others together
            bounds = dict.fromkeys(further, int((most // lanes) ** (1 / len(further)))) | {rows.vector.loop: lanes}
        conditions = tuple(Compare("le", extent, const(bounds[name])) for name, extent in unknown.items())
        return cls(rows, config, prefix, alone, conditions)

    def schedule(self, s: Schedule, names: Mapping[str, str], *, blocks: bool) -> None:
        """Append the directives of one version, whose loops are called by `names`."""
        stage, vector = self.rows.stage, self.rows.vector
        assert vector is not None
        renamed = tuple(replace(loop, loop=names.get(loop.loop, loop.loop)) for loop in stage.loops)
        store = over(stage.store, dict(names))
        assert isinstance(store, Store)
        own = replace(stage, store=store, loops=renamed)
        rows = replace(self.rows, stage=own, vector=renamed[stage.loops.index(vector)], blocks=blocks)
        vectors = self.config[f"{self.prefix}vectors"]
        config = {**self.config, f"{self.prefix}vectors": vectors if blocks else min(vectors, VECTORS)}
        rows.schedule(s, config, self.prefix, alone=self.alone)


def schedule_sums(s: Schedule, sums: Sequence[RowSum]) -> None:
    """Append the directives of sums: in two versions of the whole nest, or in one where the bounds of dims leave no other."""
    conditions = dict.fromkeys(condition for part in sums for condition in part.conditions)
    always = {held for held in conditions if find(Unary("not", held)) is None}
    asked = [held for held in conditions if held not in always]
    names: dict[str, str] = {}
    if asked and all(find(held) is not None for held in asked):
        s.apply(Specialize(text(conjunction(asked))))
        match s.nest.body:
            case If(_, special, generic) if generic is not None:
                names = {short.loop: other.loop for short, other in zip(loops(special), loops(generic), strict=True)}
        for part in sums:
            part.schedule(s, {}, blocks=False)
    for part in sums:
        part.schedule(s, names, blocks=not always.issuperset(part.conditions))
