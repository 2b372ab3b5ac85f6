"""What part of each buffer a scope touches: its box, the lines or pages of it, and the sets of a cache that these fall into.

A scope is the body of a loop, once or in all iterations. Accesses that move alike outside of it share one box, whichever loops inside they
follow: a tile that is loaded by one statement and stored by another is one footprint. Boxes are made from the inside out: one that a loop
does not move is the same box outside of the loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import NamedTuple

from tensorlang.schedules.model.parts import Loop, Part, Statement
from tensorlang.schedules.model.walks import LinearAccess
from tensorlang.system.frozen import frozen


class DimensionSpan(NamedTuple):
    """A dimension of a box: its first element, how far it spans, how many elements are reached, and from how many places of its loops.

    The buffer's end does not cut it yet.
    """

    first: float
    span: float
    reached: float
    places: float


class Units(NamedTuple):
    """Lines or pages: how many, and the rows of runs of neighbours as (how many, bytes between them), each of `run` bytes."""

    total: float
    rows: tuple[tuple[float, int], ...]
    run: float


@frozen
class BufferFootprint:
    """The part of a buffer that is touched; `place` is the first statement that does, or that asks for it; `name` the buffer's.

    Of what is written at all a share is `dirty`: of two states of which one is read and the other written, half. No more elements are
    touched than there are accesses, at `most` so many, of which `along` follow one another in memory wherever data say that they begin:
    where data tell a place in a volume, or a diagonal is followed, far fewer than the box has.
    """

    access: LinearAccess
    sides: tuple[DimensionSpan, ...]
    reads: bool
    writes: bool
    streams: bool
    place: int
    name: str
    dirty: float = 1.0
    most: float = math.inf
    along: float = 1.0
    counted: dict[int, Units] = field(default_factory=dict)

    def units(self, size: int) -> Units:
        """The lines, or pages, of so many bytes that the box touches."""
        found = self.counted.get(size)
        if found is None:
            found = self.counted[size] = self._units(size)
        return found

    def _units(self, size: int) -> Units:
        element, extents, strides = self.access.element, self.access.extents, self.access.strides
        if not self.sides:
            return Units(1.0, (), element)
        last = len(self.sides) - 1
        while last > 0 and self.sides[last].span >= extents[last]:  # rows that are whole follow one another
            last -= 1
        whole = math.prod(extents[last + 1 :])
        span = min(self.sides[last].span, max(extents[last], 1.0))
        run = span * strides[last] if last < len(self.sides) - 1 else span * element
        rows, number = list[tuple[float, int]](), 1.0
        for side, extent, step in zip(self.sides[:last], extents[:last], strides[:last], strict=True):
            count = min(side.span, side.reached, max(extent, 1.0))
            if count > 1:
                skipped = max(1, round((side.span - 1) / (count - 1)))  # windows at a stride read every other row
                rows.append((count, int(step) * skipped))
                number *= count
        apart = min([step for _, step in rows], default=0)
        if rows and apart < size:  # several rows in one unit
            total = number * apart / size
        elif run <= element:
            total = number
        else:
            aligned = apart % size == 0 and run % size == 0
            total = number * (run / size if aligned else 1 + (run - element) / size)
            places, reached = self.sides[last].places, self.sides[last].reached
            spread = places + (min(span, reached) - places) * element / size  # of places further apart than a unit
            total = min(total, number * whole * max(1.0, spread))
        held = math.prod(extents) * element
        most = self.most * min(1.0, 1 / self.along + element / size)  # each of so many runs in whole units, and a part of one more
        return Units(max(1.0, min(total, held / size + 1, most)), tuple(rows), run)

    def over(self, loop: Loop) -> BufferFootprint:
        """What all iterations of a loop touch of which this is one."""
        if all(loop.name not in terms for terms in self.access.terms):
            return self
        sides, dirty, along, last = list(self.sides), self.dirty, self.along, len(self.sides) - 1
        alone = all(loop.name not in terms for terms in self.access.terms[:last])
        for place, terms in enumerate(self.access.terms):
            if loop.name in terms:
                coefficient, period, told = terms[loop.name]
                dirty = dirty if period == math.inf else 1.0  # the states take turns
                first, span, reached, places = sides[place]
                each = abs(coefficient)
                times = min(loop.trips, period) if each >= 1 else max(1.0, loop.trips * each)
                sides[place] = DimensionSpan(first, span + min(each * (loop.trips - 1), period - 1), reached * times, places * times)
                if place == last and alone and not told and each <= 1:
                    along = min(along + each * (loop.trips - 1), period)
        most = self.most * loop.trips
        return BufferFootprint(self.access, tuple(sides), self.reads, self.writes, self.streams, self.place, self.name, dirty, most, along)

    def moves_with(self, other: BufferFootprint, inside: frozenset[str]) -> bool:
        """Do both move alike in the loops that are not `inside`?"""
        if self.access is other.access:
            return True
        pairs = zip(self.access.terms, other.access.terms, strict=True)
        return all(
            one == another or all(one.get(name) == another.get(name) for name in (one.keys() | another.keys()) - inside)
            for one, another in pairs
        )  # fmt: skip

    def joined(self, other: BufferFootprint) -> BufferFootprint:
        """What either touches, in the runs of the one that touches more: ends of rows that stand apart are no runs of their own."""
        sides, dirty = [], max(self.dirty, other.dirty)
        for left, right, extent in zip(self.sides, other.sides, self.access.extents, strict=True):
            if self.writes != other.writes and (left.first + left.span <= right.first or right.first + right.span <= left.first):
                dirty = min(dirty, (left if self.writes else right).span / (left.span + right.span))
            first = min(left.first, right.first)
            span = min(max(left.first + left.span, right.first + right.span) - first, max(extent, 1.0))
            more = span - max(left.span, right.span)
            reached = max(min(left.span, left.reached), min(right.span, right.reached)) + max(more, 0.0)
            sides.append(DimensionSpan(first, span, reached, max(left.places, right.places)))
        written = self.writes or other.writes
        streams = written and all(box.streams for box in (self, other) if box.writes)
        read = self.reads or other.reads
        most, along, access, place = self.most + other.most, min(self.along, other.along), self.access, self.place
        if other.most > self.most and other.access.runs[-1].bytes > access.runs[-1].bytes:
            access, place = access.over(access.terms, other.access.runs), other.place
        if other.access.early and not self.access.early:  # it has asked for them in the turn before
            access, place = other.access, other.place
        return BufferFootprint(access, tuple(sides), read, written, streams and not read, place, self.name, dirty, most, along)


def sets_used(units: Units, line: int, sets: int) -> float:
    """The different sets of a cache that the lines of a box fall into: few where the rows are a power of two apart."""
    starts = number = 1.0
    for count, step in units.rows:
        starts *= min(count, sets * line // math.gcd(step, sets * line))
        number *= count
    return min(float(sets), starts * max(1.0, units.total / max(1.0, number)))


@frozen
class LoopScope:
    """A loop, or a whole program (`loop` is None): the boxes of one iteration and of all of them, and the scopes inside.

    `inside`: the loops within, and this one; `places`: the statements that stand here, or in vector loops here, which are no scopes of
    their own.
    """

    loop: Loop | None
    once: tuple[BufferFootprint, ...]
    whole: tuple[BufferFootprint, ...]
    inner: tuple[LoopScope, ...]
    inside: frozenset[str]
    places: frozenset[int]
    counted: dict[tuple[int, bool], tuple[tuple[Units, ...], float]] = field(default_factory=dict)

    def units(self, size: int, *, streamed: bool) -> tuple[tuple[Units, ...], float]:
        """The lines, or pages, of so many bytes that each box of one iteration touches; their sum, with or without what is `streamed`."""
        key = size, streamed
        found = self.counted.get(key)
        if found is None:
            each = tuple([box.units(size) for box in self.once])
            total = sum([units.total for box, units in zip(self.once, each, strict=True) if streamed or not box.streams])
            found = self.counted[key] = each, total
        return found

    @property
    def trips(self) -> float:
        """How often the body runs each time the loop is begun."""
        return 1.0 if self.loop is None else self.loop.trips


def scope(parts: tuple[Part, ...], loop: Loop | None = None) -> LoopScope:
    """The scopes of a program, or of the body of a loop."""
    boxes: list[BufferFootprint] = []
    inner: list[LoopScope] = []
    within: list[LoopScope] = []
    places = set[int]()
    for part in parts:
        if isinstance(part, Statement):
            boxes += (_point(access, part.place) for access in part.accesses)
            places.add(part.place)
            continue
        found = scope(part.body, part)
        boxes += found.whole
        within.append(found)
        if part.kind not in ("vector", "tensor") or found.inner:
            inner.append(found)
        else:
            places |= found.places
    inside = frozenset().union(*(part.inside for part in within))
    once = within[0].whole if len(parts) == len(within) == 1 else _merged(boxes, inside)
    if loop is None:
        return LoopScope(loop, once, once, tuple(inner), inside, frozenset(places))
    inside |= {loop.name}
    return LoopScope(loop, once, _merged([box.over(loop) for box in once], inside), tuple(inner), inside, frozenset(places))


def _point(access: LinearAccess, place: int) -> BufferFootprint:
    """What one iteration touches: all between the first and the last tap."""
    sides = []
    for places, extent in zip(zip(*access.taps, strict=True), access.extents, strict=True):
        first = min(places)
        span = 1.0 if len(places) == 1 else float(min(max(places) - first + 1, max(extent, 1.0)))
        sides.append(DimensionSpan(float(first), span, span, 1.0))
    reads, writes, most = access.reads, access.writes, float(len(access.taps))
    return BufferFootprint(access, tuple(sides), reads, writes, access.streams, place, access.buffer.name, most=most)


def _merged(boxes: Sequence[BufferFootprint], inside: frozenset[str]) -> tuple[BufferFootprint, ...]:
    """Boxes, those of one buffer joined that move alike outside."""
    found: list[BufferFootprint] = []
    if len({box.name for box in boxes}) == len(boxes):
        return tuple(boxes)
    for box in boxes:
        for place, old in enumerate(found):
            if old.name == box.name and old.moves_with(box, inside):
                found[place] = old.joined(box)
                break
        else:
            found.append(box)
    return tuple(found)
