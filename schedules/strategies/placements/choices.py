"""Where each stage of a program in rows is computed: what can be chosen, and the directives of a choice.

A stage is written into its readers (`inlined`), computed for a strip of rows of the one stage that ends up reading it (`strip`), or before
all of its readers (`whole`). What is computed in strips stays in the near caches; the rows at the edge of a strip are computed twice, or,
where the strip `slides`, once: each row of the result then adds the rows that the one before has not computed, in storage that the strip
keeps. These are the choices of Halide (Ragan-Kelley et al. 2013), with the groups of Mullapudi et al. 2016.

    h = f(X); v = g(h)        ->        for y_o: { h[rows that y_o reads] = f(X); for y_i: v[y] = g(h) }
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any, Final

from tensorlang.ir import Axis, For, Select
from tensorlang.ir.traverse import axes_of, depth, walk
from tensorlang.schedules.directives.compute_at import ComputeAt
from tensorlang.schedules.directives.compute_inline import ComputeInline
from tensorlang.schedules.directives.reorder import Reorder
from tensorlang.schedules.directives.reverse_compute_inline import ReverseComputeInline
from tensorlang.schedules.directives.store_at import StoreAt
from tensorlang.schedules.model.produced import MOST_READS
from tensorlang.schedules.rewriting.edit import find_loop, literal_extent
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Knob
from tensorlang.schedules.spaces.space import Space
from tensorlang.schedules.strategies.analysis.fusion import DEEP, owner, reads_once
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, readers, size, tail_of, tensor_of
from tensorlang.schedules.strategies.loops.phases import TOGETHER
from tensorlang.schedules.strategies.loops.thread_loop import of_threads
from tensorlang.schedules.strategies.placements.contractions import PlacedContraction
from tensorlang.schedules.strategies.placements.reads import Reads
from tensorlang.schedules.strategies.placements.strips import Strips
from tensorlang.schedules.strategies.placements.windows import PlacedWindow
from tensorlang.schedules.strategies.rows.rows import RowVectors
from tensorlang.schedules.strategies.rows.side_by_side import SideBySide
from tensorlang.schedules.strategies.rows.stage_strategy import RowStrategy
from tensorlang.schedules.strategies.rows.transpose import Transpose
from tensorlang.system.lazy import cached_property

INLINED: Final = "inlined"
STRIP: Final = "strip"
WHOLE: Final = "whole"
FUSED: Final = "fused"
"""In the tiles from which its one reader is computed."""
PLACEABLE: Final = RowVectors | SideBySide | PlacedWindow | PlacedContraction | Transpose
"""The ways to run a stage that can be placed."""


@dataclass(frozen=True, slots=True)
class Group:
    """A stage that is computed in strips of a loop, and the stages computed for each strip, readers before what they read.

    `inside`: loops of the result around `loop` that none of these follows, or along which they are in order, which move into the strip.
    """

    result: str
    loop: str
    rows: int
    slides: bool
    members: tuple[str, ...]
    inside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """A choice for each stage: those that are inlined, those whose reader is computed from their tiles, and the groups."""

    inlined: frozenset[str] = frozenset()
    fused: frozenset[str] = frozenset()
    groups: tuple[Group, ...] = ()

    @property
    def members(self) -> frozenset[str]:
        """The stages that are computed in strips of others."""
        return frozenset(name for group in self.groups for name in group.members)


@dataclass(frozen=True)
class Placements:
    """The stages of a program that can be placed, in program order, with what reads them, and the results that can have strips."""

    stages: Mapping[str, StageInfo]
    rows: Mapping[str, RowStrategy]
    places: Mapping[str, tuple[str, ...]]
    readers: Mapping[str, tuple[str, ...]]
    results: Mapping[str, tuple[str, ...]]
    reads: Reads = field(compare=False, repr=False)
    _plans: dict[tuple[Any, ...], PlacementPlan | None] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, s: Schedule, stages: Mapping[str, StageInfo], rows: Mapping[str, RowStrategy]) -> Placements | None:
        """What can be placed of a program whose stages all run in rows; None where that is nothing."""
        outputs = {buffer.name for buffer in s.nest.outputs}
        found = {name: _readers(s, info) for name, info in stages.items()}
        places: dict[str, tuple[str, ...]] = {}
        inside = {name: owner(name, stages) for name, info in stages.items() if not info.outer}  # sums in expressions
        parts = {part for name, around in inside.items() if around != name for part in (name, around)}
        for name, info in stages.items():
            if not found[name] or name in parts or not _is_placeable(info, rows[name]) or not outputs.isdisjoint(_made(info)):
                continue
            if not all(isinstance(part, Axis) for part in info.store.index):  # a state of a scan
                continue
            packed = any(isinstance(rows.get(reader), PlacedContraction) and _is_reused(info, stages[reader]) for reader in found[name])
            small = depth(info.store.values[0]) < DEEP and _written_out(info, found[name], stages) <= MOST_READS
            inlines = not packed and not info.reduced and small and s.can("compute_inline", name)
            strips = all(reader in stages and _is_placeable(stages[reader], rows[reader]) for reader in found[name])
            fuses = _is_fusible(info, rows[name], found[name], stages, rows)
            chosen = ((INLINED, inlines), (STRIP, strips), (FUSED, fuses), (WHOLE, True))
            places[name] = tuple(place for place, possible in chosen if possible)
        reads, placed = Reads(stages), {name for name, own in places.items() if STRIP in own}
        results = {name: reads.strip_loops(name, placed, _lanes(rows[name])) for name in stages}
        results = {name: loops for name, loops in results.items() if loops and name not in parts}
        return cls(stages, rows, places, found, results, reads) if results else None

    # What can be chosen -------------------------------------------------------------------------------------------------------

    def space(self, prefixes: Mapping[str, str]) -> Space:
        """How strips are cut, then the knobs of each stage, those of its rows with a prefix."""
        stages = (knob for name, prefix in prefixes.items() for knob in self._knobs(name, prefix))
        tiles = (rows.footprints(prefixes[name]) for name, rows in self.rows.items() if isinstance(rows, PlacedContraction))
        space = Space((*self.strips.knobs, *stages), footprints=tuple(part for found in tiles for part in found))
        for holds, label in self.strips.constraints(lambda c: any(c[f"{name}.at"] == STRIP for name in self.places)):
            space = space.where(holds, label)
        for name, prefix in prefixes.items():
            rows = self.rows[name]
            for holds, label in rows.constraints(prefix) if isinstance(rows, PlacedWindow | PlacedContraction) else ():
                space = space.where(holds, f"{name}: {label}")
        for stage in self.places:
            space = space.where(partial(self._is_held, stage), f"{stage} is computed in strips where these are of one stage")
        return space

    def _knobs(self, name: str, prefix: str) -> tuple[Knob, ...]:
        own = self.rows[name].knobs(prefix)
        if name not in self.places:
            return own
        inside = tuple(knob for knob in own if not of_threads(knob.name))
        opened = {INLINED: (), STRIP: inside, FUSED: inside, WHOLE: own}
        return (Choice(f"{name}.at", {place: opened[place] for place in self.places[name]}),)

    @cached_property
    def strips(self) -> Strips:
        """The knobs of all strips."""
        rows, pieces = ([size(self.loop(name)) for name in self.results if self._cuts_lanes(name) == cut] for cut in (False, True))
        return Strips(max(rows, default=0), max(pieces, default=0))

    def _cuts_lanes(self, result: str) -> bool:
        """Are the strips of a stage pieces of its rows?"""
        return self.loop(result).loop == _lanes(self.rows[result])

    def default(self, prefixes: Mapping[str, str], chosen: Mapping[str, Any]) -> dict[str, Any]:
        """The point with the places and strips that are `chosen`, and the default of each stage's rows."""
        found: dict[str, Any] = {}
        for name, prefix in prefixes.items():
            place = chosen.get(f"{name}.at", WHOLE)
            own = {} if place == INLINED else self.rows[name].default(prefix)
            found |= {knob: value for knob, value in own.items() if place == WHOLE or not of_threads(knob)}
        return {**found, **chosen}

    # What a choice means ------------------------------------------------------------------------------------------------------

    def plan(self, config: Mapping[str, Any]) -> PlacementPlan | None:
        """The groups of a point; None where a stage would be computed in strips of several stages, or of one that cannot have any."""
        key = tuple(config[name] for name in (*self.strips.none, *(f"{stage}.at" for stage in self.places)))
        if key not in self._plans:
            self._plans[key] = self._plan(config)
        return self._plans[key]

    def _plan(self, config: Mapping[str, Any]) -> PlacementPlan | None:
        place, members = {name: config[f"{name}.at"] for name in self.places}, dict[str, list[str]]()
        for name in reversed(list(place)):
            if place[name] == STRIP:
                holder = self.holder(name, place.__getitem__)
                if holder is None:
                    return None
                members.setdefault(holder, []).append(name)
        fused = frozenset(name for name in place if place[name] == FUSED)
        if any(place.get(self.readers[name][0]) == INLINED for name in fused):
            return None
        groups = tuple([self._group(result, self._with_fused(result, own, fused), config) for result, own in members.items()])
        if any(group.rows == prod(map(size, self.stages[group.result].outer)) for group in groups):
            return None  # one strip is all
        return PlacementPlan(frozenset(name for name in place if place[name] == INLINED), fused, groups)

    def _with_fused(self, result: str, members: list[str], fused: frozenset[str]) -> tuple[str, ...]:
        """The members of a group, readers first, with those from whose tiles one of them or the result is computed."""
        found, inside = list[str](), {result, *members}
        for name in reversed(list(self.places)):
            if name in inside or (name in fused and self.readers[name][0] in inside):
                found.append(name)
        return tuple(name for name in found if name != result)

    def _is_held(self, stage: str, config: Mapping[str, Any]) -> bool:
        match config[f"{stage}.at"]:
            case "strip":
                return self.holder(stage, lambda name: config[f"{name}.at"]) is not None
            case "fused":
                return config.get(f"{self.readers[stage][0]}.at") != INLINED
            case _:
                return True

    def _group(self, result: str, members: tuple[str, ...], config: Mapping[str, Any]) -> Group:
        """What is computed in the strips of a stage."""
        loop, pieces = self.loop(result), self._cuts_lanes(result)
        before = [other.loop for other in self.stages[result].outer]
        around, followed = before[: before.index(loop.loop)], self.results[result]
        inside = (other for other in around if other not in followed or self.reads.recurs(result, other))
        tiled = any(isinstance(self.rows[name], PlacedContraction) for name in (result, *members))  # of one row there are no tiles
        slides = not pieces and not tiled and config["slides"]
        return Group(result, loop.loop, min(config["piece" if pieces else "strip"], size(loop)), slides, members, tuple(inside))

    def holder(self, stage: str, place: Callable[[str], str]) -> str | None:
        """The one stage in whose strips another one is read, by the places of others; None where that is several, or has no strips."""
        found, pending = set[str](), [*self.readers[stage]]
        seen = set(pending)
        while pending:
            reader = pending.pop()
            if reader not in self.places or place(reader) == WHOLE:
                found.add(reader)
                if len(found) > 1:
                    return None
            else:
                further = [name for name in self.readers[reader] if name not in seen]
                seen.update(further)
                pending += further
        (result,) = found
        return result if result in self.results else None

    def loop(self, name: str) -> For:
        """The loop of a result that strips are cut from: the outermost that what they hold follows."""
        info = self.stages[name]
        return next(loop for loop in info.outer if loop.loop == self.results[name][0])

    # Directives ---------------------------------------------------------------------------------------------------------------

    def schedule(self, s: Schedule, config: Mapping[str, Any]) -> frozenset[str]:
        """Append the directives of a point that place stages; those that were placed in strips."""
        plan, moved = self.plan(config) or PlacementPlan(), set[str]()
        for name in self.places:
            if name in plan.inlined:
                s.attempt(ComputeInline(name))
        for group in plan.groups:
            at = kept = group.loop
            if group.rows > 1 or group.inside:
                loop = self.loop(group.result)
                kept, row = s.split(group.loop, group.rows, tail_of(is_literal(loop), "mask"))
                at = row if group.slides else kept
                if group.inside:
                    s.attempt(Reorder((kept, row, *group.inside) if group.slides else (kept, *group.inside, row)))
            for name in group.members:
                if s.attempt(ComputeAt(name, at)):
                    moved.add(name)
                    if group.slides and name not in plan.fused:  # of a tile nothing is kept for the next row
                        s.attempt(StoreAt(name, kept))
        return frozenset(moved)

    def fuse(self, s: Schedule, name: str, config: Mapping[str, Any]) -> None:
        """Compute the reader of a stage from its tiles, where the point says so."""
        if config.get(f"{name}.at") == FUSED:
            s.attempt(ReverseComputeInline(self.readers[name][0]))

    def rows_in(self, s: Schedule, name: str, config: Mapping[str, Any]) -> RowStrategy:
        """The rows of a stage as they stand: where strips are cut from the loop of its lanes, this is what is left of it."""
        rows, loops = self.rows[name], s.loops(name)
        if isinstance(rows, SideBySide) and not {loop.loop for loop in rows.inside} <= set(loops):  # blocks are cut, too
            rows = rows.rows
        if isinstance(rows, PlacedWindow):
            plan = self.plan(config) or PlacementPlan()
            return replace(rows, slides=any(group.slides and name in group.members for group in plan.groups))
        if isinstance(rows, Transpose):
            return rows.standing(s)
        lanes = _lanes(rows)
        if not isinstance(rows, RowVectors | SideBySide) or lanes is None or lanes in loops:
            return rows
        rest = find_loop(s.nest, next(loop for loop in loops if loop == f"{lanes}_i"))
        return replace(rows, across=rest) if isinstance(rows, SideBySide) else replace(rows, run=None, phases=TOGETHER, vector=rest)


def _lanes(rows: RowStrategy) -> str | None:
    """The loop whose iterations become lanes."""
    if isinstance(rows, SideBySide):
        return rows.across.loop
    return rows.vector.loop if isinstance(rows, RowVectors | PlacedWindow | PlacedContraction) and rows.vector is not None else None


def _readers(s: Schedule, info: StageInfo) -> tuple[str, ...]:
    """The other stages that read what a stage makes."""
    found = dict.fromkeys(stage.removesuffix(".init") for stage, _ in readers(s.nest, info.store.buffers))
    return tuple(name for name in found if name != info.name)


def _is_fusible(
    info: StageInfo, rows: RowStrategy, found: tuple[str, ...], stages: Mapping[str, StageInfo], all_rows: Mapping[str, RowStrategy]
) -> bool:
    """Can the one reader of tiles be computed from them: does it read them element by element, and nothing besides more than once?"""
    reader = stages.get(found[0]) if len(found) == 1 else None
    if reader is None or not isinstance(rows, PlacedWindow | PlacedContraction) or not rows.sums_whole:
        return False
    made = _made(info)
    reads = {load.index for load in reader.loads if tensor_of(load).name in made}
    order = [buffer.name for other in stages.values() for buffer in other.store.buffers]
    read = [tensor_of(load).name for load in reader.loads if tensor_of(load).name in order]
    if not made <= set(read) or max(read, key=order.index) not in made:  # it may read tiles in its index alone, as a scatter does
        return False  # what else it reads is there when the last of what it reads is complete
    whole = [literal_extent(loop) for loop in reader.outer] == [literal_extent(loop) for loop in info.outer]
    axes = tuple(Axis(loop.loop) for loop in reader.outer)
    return whole and reads == {axes} == {reader.store.index} and not reader.reduced and _is_placeable(reader, all_rows[reader.name])


def _written_out(info: StageInfo, readers: tuple[str, ...], stages: Mapping[str, StageInfo]) -> int:
    """The loads of a stage in the one of its readers that reads it most often, if it is written into it."""
    made = _made(info)
    uses = (sum(tensor_of(load).name in made for load in stages[reader].loads) for reader in readers if reader in stages)
    return max(uses, default=0) * len(info.loads)


def _is_reused(info: StageInfo, reader: StageInfo) -> bool:
    """Does a contraction read elements of what a stage makes again and again, as the sum of a column does not? Choices are made once."""
    made = _made(info)
    chooses = any(isinstance(node, Select) for value in info.store.values for node in walk(value))
    return chooses or any(not reads_once(reader, load.index) for load in reader.loads if tensor_of(load).name in made)


def _made(info: StageInfo) -> frozenset[str]:
    """The tensors that a stage computes."""
    return frozenset(buffer.name for buffer in info.store.buffers)


def _is_placeable(info: StageInfo, rows: RowStrategy) -> bool:
    """Does a stage compute a box of one tensor, or of several those of a window, of what the box holds and of other tensors alone?"""
    own, around = _made(info), {loop.loop for loop in info.outer}
    return (
        isinstance(rows, PLACEABLE)
        and (len(own) == 1 or isinstance(rows, PlacedWindow))
        and not info.is_idle
        and bool(info.outer)
        and not info.ragged.bounded
        and all(isinstance(part, Axis) or not axes_of(part) & around for part in info.store.index)
        and around == {part.name for part in info.store.index if isinstance(part, Axis)}
        and bool(info.followed)
    )
