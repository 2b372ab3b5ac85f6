"""The placement of stages that the cost model names.

Each group of stages is a sketch: what its result costs in strips, with the regions of its members in each. Groups are added up, and known
ones are not asked for again, so a descent through the places of stages and the sizes of strips asks for few. It begins where everything is
whole, and where everything is in strips that can be, and moves stages one by one and all of those at one kind of place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, Final

from tensorlang.ir.traverse import axes_of, reads_data
from tensorlang.schedules.model.estimate import Estimate, estimated
from tensorlang.schedules.model.parts import Part, statements
from tensorlang.schedules.model.produced import computed_at, inlined
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.rewriting.quotients_of_loops import is_rounded
from tensorlang.schedules.strategies.analysis.stages import StageInfo, size, tensor_of
from tensorlang.schedules.strategies.descent import Alternatives, descend
from tensorlang.schedules.strategies.loops.thread_loop import seconds_of_forks
from tensorlang.schedules.strategies.placements.choices import FUSED, INLINED, STRIP, WHOLE, Group, Placements
from tensorlang.schedules.strategies.placements.contractions import PlacedContraction
from tensorlang.schedules.strategies.placements.strips import ROWS
from tensorlang.schedules.strategies.placements.windows import PlacedWindow
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.planes import beside
from tensorlang.schedules.strategies.rows.reordered import joined
from tensorlang.schedules.strategies.rows.rows import RowVectors
from tensorlang.schedules.strategies.rows.side_by_side import SideBySide
from tensorlang.schedules.strategies.rows.transpose import Transpose
from tensorlang.system.lazy import cached_property

FIRST: Final = 32
"""Rows of the strips that the search begins with."""
IN_STRIPS: Final = 1.02
"""Times as long as without strips that a program may be predicted to take in them: these are hardly more code, and what the model does not
see of caches is better with them (non-local means: 0.96 predicted, 0.9 measured on a Zen 4; means of 5 x 5 bytes 1.00 and 0.86 to 0.92)."""
STRIPS_OF: Final = "{}_strips"
"""What sketches call the loop over the strips of a loop."""
ONE_WAY: Final = 4.0
"""The exponent by which what each of several threads does and what memory sends to all of them add up, as `overlap` is that of one core."""
MOST_ASKED: Final = 6000
"""Stages whose cost is asked for, each in each group, before the best point so far is taken: some five seconds."""


@dataclass(frozen=True)
class PlacementSearch:
    """The choices of a program, compared by the model.

    `plain` is the program before it is scheduled; `most` bounds the stages whose cost is asked for, each in each group.
    """

    placements: Placements
    plain: Sequence[Part]
    machine: Processor
    threads: int
    most: float = MOST_ASKED
    _known: dict[tuple[Any, ...], float] = field(default_factory=dict, compare=False, repr=False)
    _asked: list[int] = field(default_factory=list, compare=False, repr=False)
    _vectors: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    _stages: dict[tuple[str, frozenset[str]], Sketch] = field(default_factory=dict, compare=False, repr=False)
    _by_data: dict[str, frozenset[int]] = field(default_factory=dict, compare=False, repr=False)
    _inlined: dict[frozenset[str], Mapping[str, frozenset[str]]] = field(default_factory=dict, compare=False, repr=False)

    def default(self) -> dict[str, Any]:
        """The values of the knobs that place stages."""
        places = self.placements.places
        starts = [
            {name: next(place for place in order if place in own) for name, own in places.items()}
            for order in ((FUSED, WHOLE), (FUSED, STRIP, WHOLE), (STRIP, WHOLE), (FUSED, INLINED, WHOLE))
        ]
        starts = [start for at, start in enumerate(starts) if start not in starts[:at]]
        first = self.placements.strips.of(FIRST)
        steps = [*map(self._places, reversed(list(places))), self._together, self._strips, self._pieces]
        found = [
            descend(self.repaired({**first, **{f"{name}.at": place for name, place in start.items()}}), [*steps, *steps], self.seconds)
            for start in starts
        ]
        return min((other for point in found for other in (point, *self._apart(point))), key=self._preferred)

    def whole(self) -> dict[str, Any]:
        """The same with every stage whole, but for those that take the tiles of others."""
        places = {f"{name}.at": FUSED if FUSED in own else WHOLE for name, own in self.placements.places.items()}
        return self.repaired({**self.placements.strips.none, **places})

    def otherwise(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The same places in strips that do not slide, or that do, of the best size; itself where there are none."""
        if "slides" not in config or STRIP not in config.values():
            return dict(config)
        cuts = (self.placements.strips.of(rows, slides=not config["slides"]) for rows in ROWS)
        return min((self.repaired({**config, **cut}) for cut in cuts), key=self.seconds)

    def _preferred(self, config: Mapping[str, Any]) -> float:
        """What a point takes, and a little more where much is kept whole that strips would hold near."""
        whole = WHOLE in config.values() and STRIP not in config.values() and keep_much(self.placements.stages.values(), self.machine)
        return self.seconds(config) * (IN_STRIPS if whole else 1.0)

    def _apart(self, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Each group taken apart, its members whole: a descent moves them one by one, and there the first ones alone gain nothing."""
        plan = self.placements.plan(config)
        for group in plan.groups if plan is not None else ():
            yield self.repaired({**config, **{f"{name}.at": WHOLE for name in group.members if WHOLE in self.placements.places[name]}})

    def repaired(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The point that is meant: what cannot be in strips is whole."""
        place = {name: config[f"{name}.at"] for name in self.placements.places}
        for name in reversed(list(place)):
            if place[name] == FUSED and place.get(self.placements.readers[name][0]) == INLINED:
                place[name] = WHOLE
            if place[name] == STRIP and self.placements.holder(name, place.__getitem__) is None:
                place[name] = WHOLE
        none = self.placements.strips.none
        cut = {name: config[name] for name in none} if STRIP in place.values() else dict(none)
        if cut.get("strip") == 1:
            cut["slides"] = False
        return {**cut, **{f"{name}.at": value for name, value in place.items()}}

    def _places(self, name: str) -> Alternatives:
        """Elsewhere; the first stage that comes to strips tells how many rows these have."""

        def moved(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
            for place in self.placements.places[name]:
                yield from self._moved(config, [name], place)

        return moved

    def _together(self, config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Every stage at one kind of place goes to another one: alone, each would only take what it makes out of a cache of the others."""
        for here, there in permutations((INLINED, STRIP, WHOLE), 2):
            names = [name for name, own in self.placements.places.items() if config[f"{name}.at"] == here and there in own]
            yield from self._moved(config, names, there) if len(names) > 1 else ()

    def _moved(self, config: Mapping[str, Any], names: Sequence[str], place: str) -> Iterator[Mapping[str, Any]]:
        first = place == STRIP and not any(config[f"{name}.at"] == STRIP for name in self.placements.places)
        for cut in map(self.placements.strips.of, ROWS) if first else ({},):
            yield self.repaired({**config, **cut, **{f"{name}.at": place for name in names}})

    def _strips(self, config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        return (self.repaired({**config, **cut}) for cut in self.placements.strips.all())

    def _pieces(self, config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        return (self.repaired({**config, **cut}) for cut in self.placements.strips.other_pieces())

    # What it costs ----------------------------------------------------------------------------------------------------------

    def seconds(self, config: Mapping[str, Any]) -> float:
        """What a point takes by the cost model; infinity where it is none."""
        plan = self.placements.plan(config)
        if plan is None:
            return math.inf
        grouped, elsewhere = {group.result: group for group in plan.groups}, plan.inlined | plan.members
        total, written = 0.0, self._written(plan.inlined)
        for name in self.placements.stages:
            if name not in elsewhere:
                total += self._group(grouped.get(name) or Group(name, "", 1, False, ()), plan.fused, written)
        return total

    def _group(self, group: Group, fused: frozenset[str], written: Mapping[str, frozenset[str]]) -> float:
        """What a stage takes with what is computed in its strips, and with what is `written` into these stages."""
        stages = (group.result, *group.members)
        own = frozenset[str]().union(*[written[name] for name in stages])
        fused = frozenset([name for name in fused if name in stages or self.placements.readers[name][0] in stages])
        key = (group, own, fused)
        if key not in self._known:
            if sum(self._asked) > self.most:
                return math.inf
            self._asked.append(len(stages))
            sketch = self._sketch(group, own)
            if sketch is not None:
                sketch.forget({buffer.name for name in fused for buffer in self.placements.stages[name].store.buffers})
            self._known[key] = math.inf if sketch is None else self._shared(self._alone(sketch), group)
        return self._known[key]

    def _alone(self, sketch: Sketch) -> Estimate:
        """What a group takes by itself, between two runs of which the others touch the operands and results that it does not."""
        parts = numbered(sketch.parts())
        touched = {access.buffer.name for statement in statements(parts) for access in statement.accesses}
        beside = sum(size for name, size in self._arguments.items() if name not in touched)
        return estimated(parts, self.machine.core, beside)

    @cached_property
    def _arguments(self) -> dict[str, float]:
        """The bytes of the operands and results of the program."""
        every = (access for statement in statements(self.plain) for access in statement.accesses)
        return {read.buffer.name: read.element * math.prod(read.extents) for read in every if read.buffer.memory == "argument"}

    def _written(self, inlined: frozenset[str]) -> Mapping[str, frozenset[str]]:
        """Which of the stages that are inlined are written into each other one, also by way of one another."""
        if inlined not in self._inlined:
            found = dict.fromkeys(self.placements.stages, frozenset[str]())
            for name in sorted(inlined, key=self._order):
                found |= {reader: found.get(reader, frozenset()) | found[name] | {name} for reader in self.placements.readers[name]}
            self._inlined[inlined] = found
        return self._inlined[inlined]

    def _shared(self, alone: Estimate, group: Group) -> float:
        """What a group takes that threads share.

        The busiest one has so many of the strips, the last of which may be short; and what comes from memory comes to all by one way.
        """
        info, seconds = self.placements.stages[group.result], alone.seconds
        if self.threads == 1 or not info.outer:
            return seconds
        most = size(self.placements.loop(group.result)) if group.members else size(info.outer[0])
        rows = group.rows if group.members else 1
        share = min(1.0, math.ceil(math.ceil(most / rows) / self.threads) * rows / most)
        core = self.machine.core
        memory = alone.bytes["memory"] / (core.memory.bandwidth * core.hertz * min(self.threads, core.together))
        both = ((seconds * share) ** ONE_WAY + memory**ONE_WAY) ** (1 / ONE_WAY)
        return min(seconds, float(both) + seconds_of_forks(core, info.turns))

    def _sketch(self, group: Group, written_in: frozenset[str]) -> Sketch | None:
        """The loops of a group; None where the regions of its members cannot be told, or what is inlined is too much to be counted."""
        if any(math.isinf(self._stage(name, written_in).statement.operations) for name in (group.result, *group.members)):
            return None
        result = self._stage(group.result, written_in)
        at = ""
        if group.members:
            for made, name in zip(result.split(group.loop, group.rows), (STRIPS_OF.format(group.loop), group.loop), strict=True):
                result.rename(made, name)
            kept, row = STRIPS_OF.format(group.loop), group.loop  # stages know the loop inside a strip by its old name
            order = [loop.name for loop in result.loops if loop.name not in group.inside]
            place = order.index(row if group.slides else kept) + 1
            result.reorder(*order[:place], *group.inside, *order[place:])
            at = row if group.slides else kept
        names = [loop.name for loop in result.loops]
        readers, around = {group.result: result}, names[: names.index(at)] if at in names else ()
        for name in group.members:
            used = [readers[reader] for reader in self._readers(name, written_in) if reader in readers]
            whole = self._stage(name, written_in)
            member = computed_at(used, whole, at, around=around, kept=group.slides, told=self._told(name))
            if member is None or (self._recurs(name) and _is_whole(member, whole)):  # that is refused
                return None
            readers[name] = member
        result = self._scheduled(group.result, result, group, written_in)
        for name in reversed(list(readers)[1:]):
            result.put(self._scheduled(name, readers[name], group, written_in), at)
        return result

    def _gathers(self, name: str, planes: str = "") -> bool:
        """Do data tell what a stage reads, the same in all iterations of a loop over planes? LLVM gathers it for each of them."""
        loads = (load for load in self.placements.stages[name].loads if any(map(reads_data, load.index)))
        return any(not any(planes in axes_of(part) for part in load.index) for load in loads)

    def _told(self, name: str) -> frozenset[int]:
        """The dimensions of what a stage makes along which data, or floats, tell what its readers read, or it reads others of its own."""
        if name not in self._by_data:
            made = {buffer.name for buffer in self.placements.stages[name].store.buffers}
            reads = (load for info in self.placements.stages.values() for load in info.loads if tensor_of(load).name in made)
            indices = [(place, part) for load in reads for place, part in enumerate(load.index)]
            info = self.placements.stages[name]
            along = (place for place, axis in enumerate(info.store.index) if not axes_of(axis) <= info.followed)
            self._by_data[name] = frozenset(place for place, part in indices if reads_data(part) or is_rounded(part)).union(along)
        return self._by_data[name]

    def _recurs(self, name: str) -> bool:
        info = self.placements.stages[name]
        return len(info.followed) < len(info.outer)

    def _readers(self, name: str, written_in: frozenset[str]) -> Iterator[str]:
        """The stages that read a stage once others are inlined."""
        for reader in self.placements.readers[name]:
            if reader in written_in:
                yield from self._readers(reader, written_in)
            else:
                yield reader

    def _stage(self, name: str, written_in: frozenset[str]) -> Sketch:
        """A stage with what is written into it, its readers before what they read: one more than in a sketch that is known."""
        if (name, written_in) not in self._stages:
            if written_in:
                last = min(written_in, key=self._order)
                sketch, made = self._stage(name, written_in - {last}), self.placements.stages[last].store.buffers[0].name
                if any(access.buffer.name == made for access in sketch.statement.accesses):
                    inlined(sketch, Sketch.of(self.plain, last))
            else:
                sketch = Sketch.of(self.plain, name)
            self._stages[name, written_in] = sketch
        return self._stages[name, written_in].copy()

    @cached_property
    def _order(self) -> Callable[[str], int]:
        return {name: place for place, name in enumerate(self.placements.stages)}.__getitem__

    def _scheduled(self, name: str, sketch: Sketch, group: Group, written_in: frozenset[str]) -> Sketch:
        """The sketch of a stage of a group after the steps of its default point."""
        rows = self.placements.rows[name]
        if isinstance(rows, SideBySide):
            parted = bool(group.members) and name == group.result and group.loop != rows.across.loop  # others stand between its loops
            rows = rows if not parted and rows.fills_lanes(sketch) else rows.rows
        if isinstance(rows, PlacedContraction):
            return rows.sketch(sketch)
        if isinstance(rows, PlacedWindow):
            cut, around = bool(group.members) and name == group.result, set[str]()
            if group.slides:  # rows come one by one
                around = {group.loop} if cut else {loop.loop for loop in rows.window.stage.outer if loop is not rows.vector}
            rows.sketch(sketch, around)
        elif isinstance(rows, Transpose):
            if not (group.slides and name == group.result):  # others stand between its rows, one by one
                rows.sketch(sketch)
        elif isinstance(rows, SideBySide):
            rows.sketch(sketch, rows.lanes)
        elif isinstance(rows, RowVectors) and rows.vector is not None and any(loop.name == rows.vector.loop for loop in sketch.loops):
            if rows.streamed:
                sketch.stream()
            if name not in self._vectors:
                self._vectors[name] = rows.default()["vectors"]
            loop = joined(sketch, rows.run, rows.vector.loop, group.loop if group.slides and name == group.result else "")
            lanes = sketch.split(loop, max(self._vectors[name], rows.phases.count if rows.phases.pay else 1) * rows.lanes, rows.lanes)[1]
            if rows.phases.pay:
                lanes, phase = sketch.split(lanes, rows.phases.count)
                sketch.reorder(phase, lanes)
                sketch.mark(phase, "unroll")
            sketch.mark(lanes, "vector")
            if rows.beside and not self._gathers(name, rows.planes) and not any(map(self._gathers, written_in)):
                beside(sketch, rows.planes, lanes)
        return sketch


def keep_much(stages: Iterable[StageInfo], machine: Processor) -> bool:
    """Would the intermediates of stages together leave the near caches?"""
    sizes = [info.written() for info in stages if info.store.buffers[0].memory != "argument"]
    return None in sizes or sum(size or 0 for size in sizes) > machine.l2 // 2


def _is_whole(member: Sketch, made: Sketch) -> bool:
    """Is all of a stage computed at once in a group?"""
    return all(member.first.get(loop.name, loop.trips) >= loop.trips for loop in made.loops)
