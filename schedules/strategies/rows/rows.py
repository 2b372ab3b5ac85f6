"""Stages without reuse: pointwise expressions, and reductions along rows.

Pointwise stages and reductions whose operands lie contiguous along the output's last axis run as vectors over that axis; reductions
over contiguous data keep vector partial results. Both are bound by memory, so the knobs are how many elements are in flight and how
the work is shared by threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, lcm, prod
from typing import Any

from tensorlang.errors import ScheduleError
from tensorlang.ir import Axis, For
from tensorlang.ir.traverse import axes_of, reads_data
from tensorlang.schedules.directive import Directive
from tensorlang.schedules.directives.loop_kinds import Unroll, Vectorize
from tensorlang.schedules.directives.peel import Peel
from tensorlang.schedules.faults import TOO_MUCH_CODE, Fault
from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.placement.local_copies import tile_name
from tensorlang.schedules.rewriting.edit import find_loop, literal_extent
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Flag, Knob, Sizes
from tensorlang.schedules.strategies.analysis.peeled_ends import ends_that_ask
from tensorlang.schedules.strategies.analysis.roles import componentwise
from tensorlang.schedules.strategies.analysis.short_axes import Run, run_of
from tensorlang.schedules.strategies.analysis.stages import StageInfo, divisors, is_literal, size, standing, tail_of
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.loops.around_lanes import planes_around, rows_around
from tensorlang.schedules.strategies.loops.blocked_sums import BLOCK, rounds, sum_in_blocks, sum_in_lanes
from tensorlang.schedules.strategies.loops.phases import MOST_PHASES, TOGETHER, Phases, vectorize_phases
from tensorlang.schedules.strategies.loops.prefetching import ASKING, DISTANCE, ask_ahead, leaps_across, operands_from_afar, prefetch_knob
from tensorlang.schedules.strategies.loops.streaming import KNOB as STREAM, stream, streams_by_default
from tensorlang.schedules.strategies.loops.thread_loop import outer_loop_knob, parallelize, seconds_in_lanes, worth_threads
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.lanes import lane_loop, longer_loop, worth_lanes

MAX_LANES = 128
"""Elements in flight, at most."""
SHORT_LANES = MAX_LANES // 4
"""Lanes of a vector in a run of short axes where whole ones of bytes are too many: three have to be in flight for three channels."""
IN_TURN = 2
"""Elements in the place of a vector where two of them may be written to the same place: a step of a loop takes as long as two of them."""


@dataclass(frozen=True, slots=True)
class RowVectors:
    """The vector loop of a stage without reuse."""

    stage: StageInfo
    vector: For | None
    lanes: int
    threads: int
    streamed: bool | None = None
    shared: bool = False
    """Do threads share it by default?"""
    blocks: bool = True
    """May a sum along rows be added up in blocks? Not where it is known to be short."""
    far: tuple[str, ...] = ()
    """Operands that may be asked for ahead."""
    run: Run | None = None
    """The loops that `vector`, the innermost of them, is one run with."""
    phases: Phases = TOGETHER
    """Remainders of the vector loop that decide what is chosen."""
    apart: bool | None = None
    """Is it faster one element at a time? None where lanes lie side by side, and nobody asks."""
    wanted: int | None = None
    """Vectors in flight, where the model was asked for them."""
    ends: tuple[int, int] = (0, 0)
    """Elements at both ends of the vector loop that ask where to read, as no other does."""
    tall: tuple[int, ...] = ()
    """Numbers of rows that may be computed side by side, since they read some of the same."""
    rows: int = 1
    """The one that the model names."""
    planes: str = ""
    """The loop over planes that may stand side by side, since they read some of the same."""
    beside: bool = False
    """Does the model say that they do?"""

    @classmethod
    def of(cls, stage: StageInfo, machine: Processor, threads: int, plain: Sequence[Part]) -> RowVectors:
        """Any stage can be run this way; `plain` is the program before it is scheduled, as the cost model reads it."""
        lanes = machine.lanes(stage.widest)
        vector = lane_loop(stage, lanes, machine)
        vector = vector if vector is None or worth_lanes(stage, vector, plain, machine) else None
        run = None
        if vector is not None and size(vector) < lanes:
            run = run_of(stage, lanes, MAX_LANES, peels=True)
            if run is None and lanes > SHORT_LANES and (run := run_of(stage, SHORT_LANES, MAX_LANES, peels=True)) is not None:
                lanes = SHORT_LANES
            vector = longer_loop(stage, vector, lanes, plain, machine) if run is None else run.loops[-1]
        shared = threads > 1 and bool(stage.outer) and worth_threads(stage, vector, plain, machine, threads)
        phases = TOGETHER if vector is None or run is not None else Phases.of(stage, vector, lanes)
        streams = streams_by_default(stage, machine, lambda past: seconds_in_lanes(stage, vector, plain, machine, streams=past))
        found = cls(stage, vector, lanes, threads, streams, shared, run=run, phases=phases)
        if run is not None or phases.pay or phases.chosen:
            return found
        return replace(found._asking_for_lanes(plain, machine), ends=found._ends_apart)

    @property
    def _ends_apart(self) -> tuple[int, int]:
        """Those of its rows, where a vector is left between them."""
        stage, vector = self.stage, self.vector
        if vector is None or stage.reduced or stage.conditional:
            return 0, 0
        ends = ends_that_ask(stage, vector)
        return ends if size(vector) - sum(ends) >= self.lanes else (0, 0)

    def _asking_for_lanes(self, plain: Sequence[Part], machine: Processor) -> RowVectors:
        """The same, where lanes are picked out of memory one by one: then it depends on what else an element takes."""
        stage, vector = self.stage, self.vector
        if vector is None or stage.reduced or stage.is_idle or all(stage.moves(load, vector) in (0, 1) for load in stage.loads):
            return self
        sketch = Sketch.of(plain, stage.name)
        alone = estimated(numbered(sketch.parts()), machine.core).seconds
        sketch.mark(sketch.split(vector.loop, self.lanes, self.lanes)[1], "vector")
        return replace(self, apart=alone < OTHER_WAY * estimated(numbered(sketch.parts()), machine.core).seconds)

    @property
    def told(self) -> bool:
        """Do data tell which elements the iterations of the vector loop write, so that several may write one?"""
        axis, index = "" if self.vector is None else self.vector.loop, self.stage.store.index
        moved = any(axis in axes_of(part) and reads_data(part) for part in index)
        return moved and Axis(axis) not in index

    @property
    def may_be_reordered(self) -> bool:
        """Is it elements in lanes of one loop, without sums or conditions, so that other loops may have the lanes or stand inside?"""
        stage = self.stage
        return self.vector is not None and self.run is None and not (stage.reduced or stage.is_idle or stage.conditional)

    def asking_ahead(self, machine: Processor) -> RowVectors:
        """The same, where operands from afar may be asked for ahead."""
        return replace(self, far=operands_from_afar(self.stage, self.vector, machine))

    @property
    def name(self) -> str:
        """What logs call it."""
        return "rows"

    @property
    def reduces(self) -> bool:
        """Is the vector loop a loop of the reduction?"""
        return self.vector is not None and self.vector in self.stage.reduced

    @property
    def may_stand_inside(self) -> bool:
        """May lanes of elements stand inside a sum? Not of one that tells the range of a loop around it, which would lose that range."""
        told = self.stage.ragged
        reduced = {loop.loop for loop in self.stage.reduced}
        return bool(reduced) and not self.reduces and (told.keys.isdisjoint(reduced) or told.bounded <= reduced)

    @property
    def ragged(self) -> bool:
        """Does data tell the range of the vector loop?"""
        return self.vector is not None and self.vector.loop in self.stage.ragged.bounded

    @property
    def extent(self) -> int:
        """Iterations of the vector loop, or of the run that it is part of."""
        return self.run.size if self.run is not None else 1 if self.vector is None else size(self.vector)

    @property
    def _sums_ranges(self) -> bool:
        """Does a sum go through ranges that data tell? These are mostly short ones, and no blocks of what they are within."""
        return not self.stage.ragged.bounded.isdisjoint(loop.loop for loop in self.stage.reduced)

    @property
    def literal(self) -> bool:
        """Is their number a literal?"""
        return self.run.literal if self.run is not None else self.vector is not None and is_literal(self.vector) and not self.ragged

    @property
    def period(self) -> int:
        """The fewest vectors after which lanes are at the same places of a digit (`i % 3`) again: so many have places that are known."""
        if self.run is not None and self.run.period > 1:
            return self.run.counts(self.lanes, MAX_LANES)[0]
        if self.vector is None or self.stage.reduced or not is_literal(self.vector):
            return 1
        found = lcm(*(by // gcd(by, self.lanes) for by in divisors(self.stage, self.vector, decided=True) if by < self.lanes))
        return found if found * self.lanes <= min(MAX_LANES, size(self.vector)) else 1

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """Vectors in flight, unrolling, whether results pass the caches by, how far ahead operands are asked for, threads."""
        found: list[Knob] = []
        if self.vector is not None:
            found.append(Sizes(f"{prefix}vectors", self.counts))
            if self.apart is not None:
                found.append(Flag(f"{prefix}lanes"))
            if self.may_stand_inside:
                found.append(Flag(f"{prefix}inside"))
            if self.phases.count > 1:
                found.append(Flag(f"{prefix}phases"))
            if any(self.ends):
                found.append(Flag(f"{prefix}ends"))
            if self.tall:
                found.append(Choice(f"{prefix}rows", (1, *self.tall)))
            if self.planes:
                found.append(Flag(f"{prefix}planes"))
            if self.streamed is not None:
                found.append(Flag(f"{prefix}{STREAM}"))
            if self.far:
                found.append(prefetch_knob(prefix, self.stage, self.vector))
        if self.threads > 1 and self.stage.outer:
            found.append(outer_loop_knob(prefix))
        return tuple(found)

    def default(self, prefix: str = "") -> dict[str, Any]:
        """Four vectors in flight for reductions, two for the rest, short rows at once; threads where the work is worth it."""
        config: dict[str, Any] = {}
        if self.vector is not None:
            counts, extent = self.counts, self.extent
            wanted = 1 if self.ragged else (8 if self._long(4 * self.lanes) else 4) if self.stage.reduced else 2
            if self.stage.store.reducer is not None and componentwise(self.stage.store.reducer):  # each has partial results of its own
                wanted = -(-wanted // len(self.stage.store.buffers))
            whole = [count for count in counts if count * self.lanes == extent]
            usual = self.period if self.period > 1 else max(whole or (count for count in counts if count <= wanted))
            config[f"{prefix}vectors"] = self.wanted or usual
            if self.apart is not None:
                config[f"{prefix}lanes"] = not self.apart
            if self.may_stand_inside:
                config[f"{prefix}inside"] = True
            if self.phases.count > 1:
                config[f"{prefix}phases"] = self.phases.pay
            if any(self.ends):
                config[f"{prefix}ends"] = True
            if self.tall:
                config[f"{prefix}rows"] = self.rows
            if self.planes:
                config[f"{prefix}planes"] = self.beside
            if self.streamed is not None:
                config[f"{prefix}{STREAM}"] = self.streamed
            if self.far:
                config[f"{prefix}{ASKING}"] = DISTANCE if leaps_across(self.stage, self.vector, self.far) else 0
        if self.threads > 1 and self.stage.outer:
            config[f"{prefix}parallel"] = "outer" if self.shared else "none"
        return config

    @property
    def _loses_digits(self) -> bool:
        """Does each lane add up parts of a sum that is rounded, of no range that data tell?"""
        return self.reduces and rounds(self.stage.store) and not self._sums_ranges

    def _long(self, lanes: int) -> bool:
        """Is this a sum whose lanes would add up more than a block?"""
        if not self._loses_digits:
            return False
        extents = [literal_extent(loop) for loop in self.stage.reduced]
        return None in extents or prod(extent or 0 for extent in extents) > BLOCK * lanes

    @property
    def counts(self) -> tuple[int, ...]:
        """How many vectors may be in flight: powers of two, and as many as a short row has."""
        extent = self.extent
        if self.run is not None and self.run.period > 1:
            return self.run.counts(self.lanes, MAX_LANES)
        most = max(1, min(-(-extent // self.lanes), MAX_LANES // self.lanes))
        short, period = range(1, most + 1), self.period
        return tuple(count for count in short if count & (count - 1) == 0 or count * self.lanes == extent or count == period)

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads.

        Where vectors in flight are too much code, there is one of them; where that is too much, the schedule tells of it.
        """
        before, vectors = len(s.directives), f"{prefix}vectors"
        refused = self._appended(s, config, prefix, alone=alone)
        if refused is not None and config[vectors] > 1:
            s.undo(len(s.directives) - before)
            refused = self._appended(s, {**config, vectors: 1}, prefix, alone=alone)
        if refused is not None:
            s.faults += (Fault.of(self.stage.name, refused),)

    def _appended(self, s: Schedule, config: Mapping[str, Any], prefix: str, *, alone: bool) -> ScheduleError | None:
        """Append the directives of a point; the refusal of lanes that are too much code."""
        refused = None
        outermost = next(iter(standing(s.nest, self.stage)), None)
        if (
            self.vector is not None
            and config.get(f"{prefix}lanes", True)
            and size(find_loop(s.nest, self.vector.loop)) > 1
            and s.can("split", self.vector.loop, self.lanes)
        ):
            width = min(config[f"{prefix}vectors"] * self.lanes, max(MAX_LANES, self.period * self.lanes))
            width = max(width, self.phases.count * self.lanes) if config.get(f"{prefix}phases") else width
            width = width if self.run is None or not self.run.literal else min(width, self.run.size)
            if config.get(f"{prefix}ends") and literal_extent(find_loop(s.nest, self.vector.loop)) == size(self.vector):  # a whole row
                s.attempt(Peel(self.vector.loop, *self.ends))
            lanes, joined = self._joined(s)
            outermost = lanes if outermost in joined else outermost
            if in_turn := self._may_meet(s, lanes, width):
                width = IN_TURN * config[f"{prefix}vectors"]
            long = self.blocks and self._loses_digits
            partial = f"{self.stage.store.buffers[0].name}_rf"
            reading = partial if long and self._sum_in_lanes(s, width) else self.stage.name
            if reading != partial:
                outer, inner = s.split(lanes, width, tail_of(self.literal, "mask"))
                if outermost == lanes:
                    outermost = outer
                if self.may_stand_inside and config.get(f"{prefix}inside", False):
                    self._move_inside(s, outer, inner)
                outermost = rows_around(s, config.get(f"{prefix}rows", 1), outer, inner) or outermost
                if config.get(f"{prefix}planes"):
                    outermost = planes_around(s, self.stage.name, self.planes, inner, outermost)
                if not (config.get(f"{prefix}phases") and vectorize_phases(s, inner, self.phases.count)):
                    refused = _too_much(s, Unroll(inner) if in_turn else Vectorize(inner))
            if config.get(f"{prefix}{STREAM}"):
                stream(s, self.stage)
            if config.get(f"{prefix}{ASKING}"):
                ask_ahead(s, reading, self.far, config[f"{prefix}{ASKING}"], self.extent, width)
        if alone and config.get(f"{prefix}parallel", "none") == "outer" and outermost is not None:
            parallelize(s, outermost, self.threads)
        return refused

    def _may_meet(self, s: Schedule, loop: str, width: int) -> bool:
        """May lanes write to the same place, as a scatter's where data tells it?"""
        if not self.stage.scatters:
            return False
        if self.told:
            return True
        trial = s.copy()
        return not trial.can("vectorize", trial.split(loop, width, tail_of(self.literal, "mask"))[1])

    def _joined(self, s: Schedule) -> tuple[str, tuple[str, ...]]:
        """The loop that the run became, and those that it was; where strips are cut from one of them what is left of it is joined.

        Where ends of it ask, and it does not stand whole, so that they are not peeled off, nothing is.
        """
        assert self.vector is not None
        fused, joined, standing = self.vector.loop, [self.vector.loop], s.loops(self.stage.name)
        run = () if self.run is None else self.run.loops
        if self.run is not None and any(self.run.ends):
            whole = run[0].loop in standing and literal_extent(find_loop(s.nest, run[0].loop)) == size(run[0])
            run = run if whole and s.attempt(Peel(run[0].loop, *self.run.ends)) else ()
        for loop in reversed(run[:-1]):
            name = loop.loop if loop.loop in standing else f"{loop.loop}_i"
            if name not in standing or not s.can("fuse", name, fused):
                break
            fused = s.fuse(name, fused)
            joined.append(name)
        return fused, tuple(joined)

    def _sum_in_lanes(self, s: Schedule, lanes: int) -> bool:
        """Sum in vectors and in blocks, where the loops are long and that is legal; else leave the schedule as it was."""
        assert self.vector is not None
        loops = [*(loop.loop for loop in self.stage.reduced if loop is not self.vector), self.vector.loop]
        before = len(s.directives)
        try:
            done = sum_in_lanes(s, self.stage, loops, lanes)
        except ScheduleError as error:
            if error.code != TOO_MUCH_CODE:
                raise
            done = False
        if not done:
            s.undo(len(s.directives) - before)
        return done

    def _move_inside(self, s: Schedule, outer: str, inner: str) -> None:
        """Put the vector loop inside the reduction and keep its results in registers."""
        reduced = [loop.loop for loop in self.stage.reduced]
        own = s.loops(self.stage.name)
        beside = own.index(outer) > min(map(own.index, reduced))  # a scatter's elements may be told by its inner loops
        order = [*([outer] if beside else []), *reduced, inner]
        if s.can("reorder", *order):
            s.reorder(*order)
            self._write_out(s, [] if beside else [loop for loop in own[own.index(outer) + 1 :] if loop not in order])
            target = self.stage.store.buffers[0].name
            if s.can("accumulate", target, at=outer):
                tile = tile_name(s.nest, target)
                s.accumulate(target, at=outer)
                if self.run is not None and all(map(is_literal, self.stage.reduced)) and prod(map(size, self.stage.reduced)) < self.lanes:
                    for loop in reduced:
                        s.unroll(loop)
                    return
                if rounds(self.stage.store) and not self._sums_ranges:
                    sum_in_blocks(s, tile, reduced, BLOCK)

    def _write_out(self, s: Schedule, loops: Sequence[str]) -> None:
        """Write out loops around vectors, of all of which results are kept: in registers only if each has a name."""
        extents = [literal_extent(find_loop(s.nest, loop)) for loop in loops]
        if prod(extent or MAX_LANES for extent in extents) <= MOST_PHASES:
            for loop in loops:
                s.unroll(loop)


def _too_much(s: Schedule, step: Directive) -> ScheduleError | None:
    """Apply a directive if it is accepted; the refusal of one that makes too much code."""
    error = None if s.attempt(step) else s.can(step).error
    return error if error is not None and error.code == TOO_MUCH_CODE else None
