"""What moves between the levels of memory: lines into each cache, and translations of pages.

Of nested loops, the outermost whose iteration a cache holds fetches each line once for all of its iterations; those outside fetch it again
(the layer condition: Stengel et al., "Quantifying performance bottlenecks of stencil computations using the Execution-Cache-Memory model",
2015). A cache that is nearly full keeps a part: what is held falls from all at one share of its size to nothing at another one, since no
cache replaces exactly what was used longest ago, and physical pages fall on its sets by chance. Lines that fall into few sets are held
only while these have ways for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tensorlang.schedules.model.footprints import BufferFootprint, LoopScope, sets_used
from tensorlang.schedules.model.issue import PREFETCHED
from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.walks import Followed

KEPT: Final = ((0.8, 1.6), (0.5, 1.2))
"""Shares of the near caches at which what is used again begins to be lost, and all is."""
BEGINS: Final = 1 / 8
"""The part of the share of the last one that others leave (`Machine.kept`) at which it begins."""


@dataclass(frozen=True, slots=True)
class CacheGeometry:
    """What holds units: lines in a cache, or translations in a TLB; `streams` says what is followed ahead of it at once.

    What is streamed passes by caches, and goes to memory from the `last`; its pages are translated like others (`translates`).
    """

    unit: int
    sets: int
    ways: int
    kept: tuple[float, float]
    streams: Followed
    translates: bool = False
    last: bool = False

    def passed_by(self, box: BufferFootprint) -> bool:
        """Is it what never comes here?"""
        return box.streams and not self.translates


Key: TypeAlias = tuple[int, str]


@dataclass(slots=True)
class CacheTraffic:
    """Units that come in, by statement and buffer: in runs that are fetched ahead, one by one, and those of both that go back.

    `stored`: of the first, those that come one by one for stores, which go on without them for as long as others may be outstanding.
    """

    ahead: dict[Key, float] = field(default_factory=dict)
    alone: dict[Key, float] = field(default_factory=dict)
    back: dict[Key, float] = field(default_factory=dict)
    stored: dict[Key, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """All units that pass, both ways."""
        return sum(self.ahead.values()) + sum(self.alone.values()) + sum(self.back.values())

    def incoming(self, key: Key) -> float:
        """The units of a buffer that come in for a statement, either way."""
        return self.ahead.get(key, 0.0) + self.alone.get(key, 0.0)

    def share_alone(self, place: int, buffers: Iterable[str]) -> float:
        """The share of what comes in for a statement that comes one by one."""
        keys = [(place, buffer) for buffer in buffers]
        alone, ahead = (sum(kind.get(key, 0.0) for key in keys) for kind in (self.alone, self.ahead))
        return alone / (alone + ahead) if alone else 0.0

    def add(self, box: BufferFootprint, cache: CacheGeometry, times: float, held: float = 0.0) -> None:
        """Count what a box moves; neighbours in runs of `held` bytes are there until all of them were wanted."""
        if cache.passed_by(box):
            return
        key, moved, begun = (box.place, box.name), box.units(cache.unit).total * times, float(PREFETCHED * cache.unit)
        alone = box.access.alone(begun, cache.streams)
        if not box.reads:
            self.stored[key] = self.stored.get(key, 0.0) + moved * (min(alone, begun / held) if held else alone)
            alone = 0.0
        self.alone[key] = self.alone.get(key, 0.0) + moved * alone
        self.ahead[key] = self.ahead.get(key, 0.0) + moved * (1 - alone)
        if box.writes:
            self.back[key] = self.back.get(key, 0.0) + moved * box.dirty


def cache_geometries(machine: Machine) -> tuple[CacheGeometry, ...]:
    """The caches of a machine, nearest first."""
    kept, streams = (*KEPT, shared(machine.kept)), followed(machine)
    return tuple(
        CacheGeometry(
            machine.line,
            max(1, cache.size // (cache.ways * machine.line)),
            cache.ways,
            kept[min(level, 2)],
            streams,
            last=cache is machine.caches[-1],
        )
        for level, cache in enumerate(machine.caches)
    )


def shared(kept: float) -> tuple[float, float]:
    """The shares of the last level at which what is used again begins to be lost, and all is, where others leave so much of it."""
    return kept * BEGINS, kept


def tlb_geometry(machine: Machine) -> CacheGeometry:
    """The last level of the TLB."""
    pages = machine.pages
    ways = pages.ways or pages.entries
    return CacheGeometry(pages.size, max(1, pages.entries // ways), ways, KEPT[0], followed(machine), translates=True)


def followed(machine: Machine) -> Followed:
    """What the prefetchers of a machine follow into its first level."""
    first = machine.caches[0]
    return Followed(machine.streams, first.ways, first.size // first.ways)


def cache_traffic(top: LoopScope, cache: CacheGeometry, beside: float = 0.0) -> CacheTraffic:
    """What comes into a cache while a program runs again and again: nothing, where it holds everything.

    Of a part of a program, what the rest touches in so many bytes `beside` comes between two runs.
    """
    found = CacheTraffic()
    _add_traffic(top, cache, 1.0, {}, found, beside / cache.unit)
    for box in top.once if cache.last else ():
        if cache.passed_by(box):  # whatever the caches would hold
            found.back[box.place, box.name] = found.back.get((box.place, box.name), 0.0) + box.units(cache.unit).total
    return found


def _add_traffic(
    here: LoopScope, cache: CacheGeometry, times: float, left: Mapping[str, float], found: CacheTraffic, beside: float = 0.0
) -> None:
    """Count what a loop fetches that is begun `times` times; `left` is the share of each buffer that no loop around it holds."""
    rest: dict[str, float] = {}
    held: dict[str, float] = {}
    neighbours: dict[str, float] = {}
    for box, share in zip(here.once, _lost(here, cache, beside), strict=True):
        name = box.name
        held[name] = 1 - share
        neighbours[name] = max(neighbours.get(name, 0.0), box.units(cache.unit).run)
        rest[name] = max(rest.get(name, 0.0), share * left.get(name, 1.0))
    if here.loop is not None:
        for box in here.whole:
            name = box.name
            share = held.get(name, 0.0) * left.get(name, 1.0)
            if share > 0:
                found.add(box, cache, times * share, neighbours[name])
    if max(rest.values(), default=0.0) < 1e-3:
        return
    runs = times * here.trips
    for inner in here.inner:
        _add_traffic(inner, cache, runs, rest, found)
    for box in here.once:
        if box.place in here.places and rest[box.name] > 0:
            found.add(box, cache, runs * rest[box.name])


def _lost(here: LoopScope, cache: CacheGeometry, beside: float) -> tuple[float, ...]:
    """The share of each box of one iteration that is gone before it is used again, as are so many units `beside`."""
    counted, own = here.units(cache.unit, streamed=cache.translates)
    total = own + beside
    least, most = cache.kept
    if total <= least * cache.ways:  # even if all fell into one set
        return (0.0,) * len(counted)
    evenly = min(1.0, max(0.0, (total / (cache.sets * cache.ways) - least) / (most - least)))
    if cache.sets == 1 or evenly == 1:
        return (evenly,) * len(counted)
    found = []
    for units in counted:
        lost = evenly
        if units.rows:
            used = sets_used(units, cache.unit, cache.sets)
            if used < min(units.total, cache.sets):
                full = (units.total / used + (total - units.total) / cache.sets) / cache.ways
                lost = max(lost, min(1.0, (full - least) / (most - least)))
        found.append(lost)
    return tuple(found)
