"""Short loops that are written out beside lanes: small blocks side by side, or few results of the same operands.

    for b in range(20000):                          for b_o in range(1250):
        for i in range(3):                              unroll i in range(3): unroll j in range(3):
            for j in range(3):              ->              vector b_i in range(16):
                C[b, i, j] = f(A[b, ...])                       C[b, i, j] = f(A[b, ...])

A last axis of three fills three lanes. Where expressions go through a block in no order (`A[b, (j + 1) % 3, i]`), its axes are no one run
either. Blocks in lanes are whole vectors; each copy of the statement knows its element, and what no element changes, such as a determinant,
is computed once for all copies. Operands are read across memory, and results turned in registers when they are stored.

    for b in range(4): for i: for j: W[b, i, j] = f(b, X[2 i, 2 j], ...)    ->    for i: for j_o: unroll b: vector j_i: W[b, i, j] = ...

    for i in range(1000):                           for i_o in range(63):
        for a in range(3):                              for r: unroll a in range(3): vector i_i in range(16):
            F[i, a] = sum of f(P[i], P[r]) (P[r, a] - P[i, a])         ->          F_acc[a, i_i] += ...

A few sums over the same, as the components of a force, are computed together so: what they share once, and no lanes are added up.

Where a short loop stands outside of all others and moves nothing that is read, as that of the bands of a wavelet, each pass over the loops
inside reads everything again. Written out inside, all copies share what is loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, Final

from tensorlang.ir import For, Stmt
from tensorlang.schedules.legality.code_size import instructions
from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.rewriting.edit import find_loop, literal_extent
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Knob
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, size
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.loops.blocked_sums import BLOCK, accumulate_in_blocks
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.reordered import cheapest_order, schedule_reordered
from tensorlang.schedules.strategies.rows.rows import RowVectors

MOST_INSIDE: Final = 25
"""Elements of a block at most, as of a matrix of 5 x 5: so many copies of its statement are written out. Of 32 they take 1.7 times as long
as rows (parities of a Reed-Solomon coder on a Zen 4)."""
MOST_COPIED: Final = 2048
"""Instructions of these copies at most."""
FAR_BELOW: Final = 0.5
"""The share of a run's time, at most, that is worth it where other stages could be placed in the run."""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """A stage with so many `lanes` along the loop `across` and the short loops `inside` written out; or in `rows`, where there are none."""

    rows: RowVectors
    across: For
    inside: tuple[For, ...]
    lanes: int = 0

    @property
    def name(self) -> str:
        """What logs call it."""
        return "side_by_side"

    @property
    def stage(self) -> StageInfo:
        """The stage."""
        return self.rows.stage

    @classmethod
    def of(cls, rows: RowVectors, machine: Processor, plain: Sequence[Part], *, alone: bool = True) -> SideBySide | None:
        """The loops; None where none are short, or it is predicted to be as fast in rows.

        Where others stand beside a stage (not `alone`) that can be a run, it is one unless that is far slower: they can stand in its rows.
        """
        stage, vector = rows.stage, rows.vector
        if vector is None or stage.is_idle or stage.conditional or stage.scatters_within:
            return None
        if not stage.outer or not all(map(is_literal, stage.loops)):
            return None
        if stage.reduced and not rows.reduces and (rows.run or 2 * size(vector) >= rows.lanes):  # lanes are results already
            return None
        shared = alone and not stage.reduced and not rows.phases.pay
        for across, inside in (_blocks(stage.outer), *((_shared(stage),) if shared else ())):
            if not inside or size(across) < rows.lanes or _copied(stage, inside) > MOST_COPIED:
                continue
            found = cls(rows, across, inside)
            beside = found._sums_in_rows(plain) if rows.reduces else None
            share = OTHER_WAY if alone or stage.reduced or rows.may_be_reordered else FAR_BELOW
            lanes = cheapest_order(rows, plain, machine, found._counts, partial(found._sketched, plain), beside, share)
            if lanes is not None:
                return replace(found, lanes=lanes)
        return None

    @property
    def _counts(self) -> tuple[int, ...]:
        return (self.rows.lanes,) if self.stage.reduced else (self.rows.lanes // 2, self.rows.lanes)

    def _order(self, outer: str, inner: str, present: Collection[str]) -> list[str]:
        """The loops that are there in their order: an iteration of another stage may be all of some."""
        kept = [loop.loop for loop in self.stage.outer if loop not in (self.across, *self.inside) and loop.loop in present]
        return [*kept, outer, *(loop.loop for loop in (*self.stage.reduced, *self.inside)), inner]

    def _sums_in_rows(self, plain: Sequence[Part]) -> tuple[Part, ...]:
        """A sum along its lanes, with as many vectors in flight as rows have."""
        assert self.rows.vector is not None
        sketch, lanes = Sketch.of(plain, self.stage.name), self.rows.lanes
        sketch.mark(sketch.split(self.rows.vector.loop, self.rows.default()["vectors"] * lanes, lanes)[1], "vector")
        return numbered(sketch.parts())

    def _sketched(self, plain: Sequence[Part], lanes: int) -> tuple[Part, ...]:
        sketch = Sketch.of(plain, self.stage.name)
        self.sketch(sketch, lanes)
        return numbered(sketch.parts())

    def seconds(self, plain: Sequence[Part], machine: Processor) -> float:
        """What it takes by the cost model in a program that is `plain`."""
        return estimated(self._sketched(plain, self.lanes), machine.core).seconds

    def fills_lanes(self, sketch: Sketch) -> bool:
        """Are there as many blocks as lanes where the stage stands now?"""
        return any(loop.name == self.across.loop and loop.trips >= self.lanes for loop in sketch.loops)

    def sketch(self, sketch: Sketch, lanes: int) -> None:
        """Take the steps on a sketch of the stage."""
        outer, inner = sketch.split(self.across.loop, lanes, lanes)
        sketch.reorder(*self._order(outer, inner, [loop.name for loop in sketch.loops]))
        for loop in self.inside:
            sketch.mark(loop.loop, "unroll")
        sketch.mark(inner, "vector")
        if self.stage.reduced:
            sketch.accumulate(outer, loads=False)

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """How many blocks stand side by side; 0: lanes inside of them, by the knobs of rows."""
        return (Choice(f"{prefix}blocks", (0, *self._counts)), *self.rows.knobs(prefix))

    def default(self, prefix: str = "") -> dict[str, Any]:
        """As many as the model names."""
        return {f"{prefix}blocks": self.lanes, **self.rows.default(prefix)}

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads."""
        lanes = config[f"{prefix}blocks"]
        fills = lanes and lanes <= (literal_extent(find_loop(s.nest, self.across.loop)) or 0)  # elsewhere it may be one block in turn
        schedule_reordered(s, self.rows, config, prefix, partial(self._cut, s, lanes) if fills else None, alone=alone)

    def _cut(self, s: Schedule, lanes: int) -> str:
        """So many blocks in lanes, their elements written out; the outermost loop."""
        outer, inner = s.split(self.across.loop, lanes, "peel")
        order = self._order(outer, inner, s.loops(self.stage.name))
        s.reorder(*order)
        if self.stage.reduced:
            accumulate_in_blocks(s, self.stage.store, outer, [loop.loop for loop in self.stage.reduced], BLOCK)
        s.vectorize(inner)
        for loop in reversed(self.inside):
            s.unroll(loop.loop)
        return order[0]


def _blocks(outer: tuple[For, ...]) -> tuple[For, tuple[For, ...]]:
    """The loop over small blocks, and those of their elements."""
    short = 1
    while short < len(outer) and prod(map(size, outer[-short:])) <= MOST_INSIDE:
        short += 1
    return outer[-short], outer[len(outer) - short + 1 :]


def _shared(stage: StageInfo) -> tuple[For, tuple[For, ...]]:
    """The innermost loop, and a short one further out that moves nothing which is read."""
    still = (loop for loop in stage.outer[:-1] if all(stage.moves(load, loop) == 0 for load in stage.loads))
    short = [loop for loop in still if 1 < size(loop) <= MOST_INSIDE]
    return stage.outer[-1], tuple(short[:1]) if stage.loads else ()


def _copied(stage: StageInfo, inside: tuple[For, ...]) -> float:
    """The instructions of all copies."""
    written: Stmt = stage.store
    for loop in reversed(inside):
        written = replace(loop, kind="unroll", body=written)
    return instructions(written)
