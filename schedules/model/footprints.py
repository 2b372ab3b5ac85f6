"""What part of each buffer a scope touches: its box, the lines or pages of it, and the sets of a cache that these fall into.

A scope is the body of a loop, once or in all iterations. Accesses that move alike outside of it share one box, whichever loops inside they
follow: a tile that is loaded by one statement and stored by another is one footprint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tensorlang.schedules.model.program import Access, Loop, Part, statements


class Side(NamedTuple):
    """A dimension of a box: its first element, how far it spans, how many elements of it are touched."""

    first: float
    span: float
    touched: float


class Units(NamedTuple):
    """Lines or pages: how many, and the rows of runs of neighbours as (how many, bytes between them)."""

    total: float
    rows: tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class Box:
    """The part of a buffer that is touched; `place` is the first statement that does."""

    access: Access
    sides: tuple[Side, ...]
    elements: float
    reads: bool
    writes: bool
    streams: bool
    place: int

    @property
    def name(self) -> str:
        """The buffer's name."""
        return self.access.buffer.name

    def units(self, size: int) -> Units:
        """The lines, or pages, of so many bytes that the box touches."""
        element, extents, strides = self.access.element, self.access.extents, self.access.strides
        if not self.sides:
            return Units(1.0, ())
        last = len(self.sides) - 1
        while last > 0 and self.sides[last].span >= extents[last]:  # rows that are whole follow one another
            last -= 1
        side, stride = self.sides[last], strides[last]
        whole = math.prod(extents[last + 1 :])
        run = min(side.span, extents[last]) * stride if last < len(self.sides) - 1 else side.span * element
        dense = side.touched * whole * element
        rows = tuple((row.touched, int(step)) for row, step in zip(self.sides[:last], strides[:last], strict=True) if row.touched > 1)
        number = math.prod(count for count, _ in rows)
        apart = min((step for _, step in rows), default=0)
        if rows and apart < size:  # several rows in one unit
            total = number * apart / size
        elif run <= element:
            total = number
        else:
            aligned = apart % size == 0 and run % size == 0
            total = number * (run / size if aligned else 1 + (run - element) / size)
            total = min(total, number * dense / element)  # elements further apart than a unit
        held = math.prod(extents) * element
        return Units(max(1.0, min(total, held / size + 1)), rows)


def sets_used(units: Units, line: int, sets: int) -> float:
    """The different sets of a cache that the lines of a box fall into: few where the rows are a power of two apart."""
    number = math.prod(count for count, _ in units.rows)
    starts = 1.0
    for count, step in units.rows:
        starts *= min(count, sets * line // math.gcd(step, sets * line))
    return min(float(sets), starts * max(1.0, units.total / max(1.0, number)))


@dataclass(frozen=True)
class Scope:
    """A loop, or a whole program (`loop` is None): the boxes of one iteration and of all of them, and the scopes inside."""

    loop: Loop | None
    parts: tuple[Part, ...]
    once: tuple[Box, ...]
    whole: tuple[Box, ...]
    inner: tuple[Scope, ...]

    @property
    def trips(self) -> float:
        """How often the body runs each time the loop is begun."""
        return 1.0 if self.loop is None else self.loop.trips


def scope(parts: tuple[Part, ...], loop: Loop | None = None) -> Scope:
    """The scopes of a program, or of the body of a loop."""
    inner = tuple(scope(part.body, part) for part in parts if isinstance(part, Loop))
    trips = _trips(parts)
    accesses = [(access, statement.place) for statement in statements(parts) for access in statement.accesses]
    once = boxes(accesses, trips)
    return Scope(loop, parts, once, once if loop is None else boxes(accesses, {**trips, loop.name: loop.trips}), inner)


def boxes(accesses: Iterable[tuple[Access, int]], trips: Mapping[str, float]) -> tuple[Box, ...]:
    """The boxes that accesses touch while the loops of `trips` run, in order of the statements (the second of each pair)."""
    found: dict[tuple[object, ...], Box] = {}
    for access, place in accesses:
        outside = tuple(tuple(sorted((name, term) for name, term in terms.items() if name not in trips)) for terms in access.terms)
        box = _box(access, place, trips)
        old = found.get((access.buffer.name, outside))
        found[access.buffer.name, outside] = box if old is None else _union(old, box)
    return tuple(found.values())


def _trips(parts: Iterable[Part]) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in parts:
        if isinstance(part, Loop):
            found[part.name] = part.trips
            found |= _trips(part.body)
    return found


def _box(access: Access, place: int, trips: Mapping[str, float]) -> Box:
    sides = []
    for offset, terms, extent in zip(access.offsets, access.terms, access.extents, strict=True):
        span = count = 1.0
        for name, (coefficient, period) in terms.items():
            times = trips.get(name, 1.0)
            if times > 1:
                span += min(abs(coefficient) * (times - 1), period - 1)
                count *= min(times, period) if abs(coefficient) >= 1 else max(1.0, times * abs(coefficient))
        span = min(span, max(extent, 1.0))
        sides.append(Side(float(offset), span, min(span, count)))
    elements = math.prod(side.touched for side in sides)
    return Box(access, tuple(sides), elements, access.reads, access.writes, access.streams, place)


def _union(one: Box, other: Box) -> Box:
    sides = []
    for left, right, extent in zip(one.sides, other.sides, one.access.extents, strict=True):
        first = min(left.first, right.first)
        span = min(max(left.first + left.span, right.first + right.span) - first, max(extent, 1.0))
        more = span - max(left.span, right.span)
        sides.append(Side(first, span, min(span, max(left.touched, right.touched) + max(more, 0.0))))
    elements = min(math.prod(side.touched for side in sides), one.elements + other.elements)
    written = one.writes or other.writes
    streams = written and all(box.streams for box in (one, other) if box.writes)
    return Box(one.access, tuple(sides), elements, one.reads or other.reads, written, streams and not (one.reads or other.reads), one.place)
