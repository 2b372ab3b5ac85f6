"""Sketches of stages that others are computed in: a producer in the expressions of its reader, or in one of the loops around it.

    for i: P[i] = f(X[i])                        for i_o: for j: P[j] = f(X[4 i_o + j])            # what the loops inside `i_o` read
    for i_o: for i_i: for k:              ->              for i_i: for k: C[...] += P[i_i + k]
        C[4 i_o + i_i] += P[4 i_o + i_i + k]

The region is as in `compute_at`: of each dimension what the inner loops reach, beginning where the outer ones say.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from operator import add
from typing import Final, NamedTuple

from tensorlang.schedules.model.parts import Loop, Statement
from tensorlang.schedules.model.sketch import Sketch, made_of
from tensorlang.schedules.model.walks import LinearAccess, Term, Terms, TermsKey, added, follow, gathered
from tensorlang.system.lazy import cached_property

MOST_READS: Final = 512
"""What a stage may read once others are written into it: each stage of a sorting network that is doubles it, and the code."""


def copied(sketch: Sketch, buffer: str) -> Sketch:
    """The statement that copies all that a stage reads of a buffer, as a producer that stands before it; the stage reads the copy."""
    use = next(access for access in sketch.statement.accesses if access.buffer.name == buffer and not access.writes)
    names = [f"{buffer}_copy.{place}" for place in range(len(use.extents))]
    terms: tuple[Terms, ...] = tuple({name: Term(1.0)} for name in names)
    read = use._replace(terms=terms, taps=((0,) * len(names),), told=())
    write = read._replace(buffer=replace(use.buffer, name=f"{buffer}_copy", memory="heap"), reads=False, writes=True)
    statement = Statement(f"{buffer}_copy", 0, 0.0, (read, write), frozenset(names), False, 0.0, 8 * use.element)
    accesses = tuple(
        access._replace(buffer=write.buffer) if access.buffer.name == buffer and not access.writes else access
        for access in sketch.statement.accesses
    )
    sketch.statement = sketch.statement._replace(accesses=accesses)
    return Sketch(statement, [Loop(name, extent, "serial", ()) for name, extent in zip(names, use.extents, strict=True)])


def inlined(sketch: Sketch, producer: Sketch) -> None:
    """Compute the producer anew wherever the stage reads what it makes: at the cost of infinity where that is too much to be counted."""
    if math.isinf(sketch.statement.operations):
        return
    made = _written(producer, [sketch])
    reads = [access for access in producer.statement.accesses if access is not made]
    found, more = list[LinearAccess](), list[Statement]()
    for access in sketch.statement.accesses:
        if access.buffer.name != made.buffer.name:
            found.append(access)
            continue
        axes = {name: terms for walked, terms in zip(made.terms, access.terms, strict=True) for name in walked}
        more += [producer.statement.over(partial(_where_read, axes=axes))] * len(access.taps)
        shifts = [{name: float(at) for walked, at in zip(made.terms, tap, strict=True) for name in walked} for tap in access.taps]
        unknown = {name for place in access.told for name in made.terms[place]}
        for read in reads:
            taps = dict.fromkeys(tap for shift in shifts for tap in _shifted(read, shift))
            terms = tuple([follow(part, axes) for part in read.terms])
            told = [place for place, walk in enumerate(read.terms) if place in read.told or not unknown.isdisjoint(walk)]
            found.append(read._replace(terms=terms, taps=tuple(taps), told=tuple(told)))
    sketch.statement = _with_all(sketch.statement, more)._replace(accesses=gathered(found, _where))  # what several copies read alike once
    if more and sketch.statement.touched > MOST_READS:
        sketch.statement = sketch.statement._replace(operations=math.inf)


def _where(terms: Sequence[Terms]) -> TermsKey:
    """Terms as a key, in an order of their own."""
    return tuple([tuple(sorted(part.items())) for part in terms])


def _with_all(statement: Statement, more: Sequence[Statement]) -> Statement:
    """A statement that computes others as well."""
    every = (statement, *more)
    return statement._replace(
        operations=sum(part.operations for part in every),
        sums=sum(part.sums for part in every),
        light=sum(part.light for part in every),
        conditions=tuple(chain.from_iterable(part.conditions for part in every)),
        divided=tuple(chain.from_iterable(part.divided for part in every)),
        apart=tuple(chain.from_iterable(part.apart for part in every)),
        edges=tuple(chain.from_iterable(part.edges for part in every)),
    )


def computed_at(
    readers: Sequence[Sketch],
    producer: Sketch,
    at: str,
    *,
    around: Collection[str] = (),
    kept: bool = False,
    told: Collection[int] = (),
) -> Sketch | None:
    """The producer of what its readers read inside `at`, whose steps may be taken before it is `put`; they read it in local storage.

    `at` is a loop of one reader ("": around all of them); the others were computed at it before. Loops `around` it in which the producer
    stands too, as those over the steps of a scan, are no longer its own. Storage that is `kept` outlives the iterations of `at`, each of
    which adds what the one before has not computed; of the dimensions `told` data tell what is read, so that it may be anything. None
    where reads follow the outer loops in different ways.
    """
    made = [access for access in producer.statement.accesses if access.writes]
    names = {access.buffer.name for access in made}
    inside = [
        {loop.name: reader.first.get(loop.name, loop.trips) for loop in (reader.inside(at) if at and _has(reader, at) else reader.loops)}
        for reader in readers
    ]
    turns = next((trips for reader in readers for name, trips in _trips(reader) if name == at), 1.0) if kept else 1.0
    box = _box(made, list(zip(readers, inside, strict=True)), at if kept else "", turns, told)
    if box is None:
        return None
    for reader, own in zip(readers, inside, strict=True):
        reader.statement = reader.statement._replace(accesses=gathered(box.read(reader.statement.accesses, names, own)))
    axes, shifts, trips = box.axes, box.shifts, box.trips
    accesses = (box.own(access) if access.buffer.name in names else _moved(access, axes, shifts) for access in producer.statement.accesses)
    statement = producer.statement.over(partial(made_of, axes=axes), accesses=gathered(accesses))
    loops = (loop._replace(trips=trips.get(loop.name, loop.trips)) for loop in producer.loops if loop.name not in around)
    first = {at: turns, **{name: side.reach for own, side in zip(made[0].terms, box.sides, strict=True) for name in own}}
    return Sketch(statement, [loop for loop in loops if loop.trips > 1 or loop.name not in trips], first=first)


def _where_read(loops: frozenset[str], axes: Mapping[str, Terms]) -> frozenset[str]:
    """The reader's loops of which the producer's are made: others are no loops where it is inlined."""
    return made_of(loops.intersection(axes), axes)


class _Side(NamedTuple):
    """One dimension of a box: the outer loops that it follows, where it begins, its extent, how far an iteration moves it."""

    outer: Terms
    low: float
    reach: float
    step: float


@dataclass(frozen=True)
class _Box:
    """What is read inside a loop of tensors that are made together, the first of which is `made`, and the storage that holds each of them.

    It does so for `turns` iterations of the loop `kept`, or for one ("").
    """

    made: LinearAccess
    sides: tuple[_Side, ...]
    kept: str
    turns: float

    @property
    def axes(self) -> dict[str, Terms]:
        """The producer's loops, as made of the outer ones and of their own part in the box."""
        return {
            name: added((side.outer, 1), ({name: Term(1.0)} if side.reach > 1 else {}, 1))
            for own, side in zip(self.made.terms, self.sides, strict=True)
            for name in own
        }

    @property
    def shifts(self) -> dict[str, float]:
        """Where the producer's loops begin beside that."""
        return {name: side.low for own, side in zip(self.made.terms, self.sides, strict=True) for name in own}

    @cached_property
    def trips(self) -> dict[str, float]:
        """How often the producer's loops run, on average: the first iteration computes the box, others what the one before has not."""
        still = bool(self.kept) and not any(side.step for side in self.sides)
        found: dict[str, float] = {}
        for place, (own, side) in enumerate(zip(self.made.terms, self.sides, strict=True)):
            trips = min(side.reach, side.step + (side.reach - side.step) / self.turns) if side.step else side.reach
            found |= dict.fromkeys(own, trips / self.turns if still and place == 0 else trips)
        return found

    def own(self, access: LinearAccess) -> LinearAccess:
        """How the producer writes the storage of one of the tensors, or reads it, as a recurrence does."""
        moving: list[Terms] = [{name: term for name, term in own.items() if self.trips[name] > 1} for own in access.terms]
        return self._stored(access, moving, access.taps)

    def read(self, accesses: Iterable[LinearAccess], names: Collection[str], inside: Collection[str]) -> Iterator[LinearAccess]:
        """The accesses of a reader whose loops `inside` move the box's elements, those of the tensors `names` in the storage."""
        for access in accesses:
            if access.buffer.name not in names:
                yield access
                continue
            terms: list[Terms] = [{name: term for name, term in own.items() if name in inside} for own in access.terms]
            taps = [tuple([int(at - side.low) for at, side in zip(tap, self.sides, strict=True)]) for tap in access.taps]
            yield self._stored(access, terms, taps)

    @cached_property
    def _extents(self) -> tuple[float, ...]:
        """Those of the storage."""
        return tuple(min(side.reach + side.step * (self.turns - 1), most) for side, most in zip(self.sides, self.made.extents, strict=True))

    def _stored(self, access: LinearAccess, terms: Sequence[Terms], taps: Iterable[tuple[int, ...]]) -> LinearAccess:
        buffer, extents, strides = replace(access.buffer, memory="heap"), self._extents, [float(access.element)]
        for extent in reversed(extents[1:]):
            strides.append(strides[-1] * extent)
        moved = [
            added((own, 1), ({self.kept: Term(side.step)} if side.step else {}, 1)) for own, side in zip(terms, self.sides, strict=True)
        ]
        return access._replace(buffer=buffer, extents=extents, strides=tuple(reversed(strides)), terms=tuple(moved), taps=tuple(taps))


def _box(
    made: Sequence[LinearAccess], readers: Sequence[tuple[Sketch, Mapping[str, float]]], kept: str, turns: float, told: Collection[int]
) -> _Box | None:
    """What readers, each with the trips of its loops inside, read of tensors that are made together.

    None where they follow the outer loops in different ways, or read nothing that is counted.
    """
    first, names = made[0], {access.buffer.name for access in made}
    uses = [(use, own) for reader, own in readers for use in reader.statement.accesses if use.buffer.name in names]
    if not uses:
        return None
    inside = {name for _, own in readers for name in own}
    sides: list[_Side] = []
    for place, whole in enumerate(first.extents):
        if place in told:
            sides.append(_Side({}, 0.0, whole, 0.0))
            continue
        outer = [{loop: term for loop, term in use.terms[place].items() if loop not in inside} for use, _ in uses]
        if any(other != outer[0] for other in outer):
            return None
        ends = [_ends(use.terms[place], own, [tap[place] for tap in use.taps]) for use, own in uses]
        low = min(first for first, _ in ends)
        reach = min(1 + max(last for _, last in ends) - low, whole)
        sides.append(_Side(outer[0], low, reach, abs(outer[0][kept].coefficient) if kept in outer[0] else 0.0))
    return _Box(first, tuple(sides), kept, turns)


def _written(producer: Sketch, readers: Sequence[Sketch]) -> LinearAccess:
    """What a producer makes: of several tensors, the first that is read."""
    read = {access.buffer.name for reader in readers for access in reader.statement.accesses}
    return next(access for access in producer.statement.accesses if access.writes and access.buffer.name in read)


def _trips(sketch: Sketch) -> Iterator[tuple[str, float]]:
    """The trips of a sketch's loops, and of those that it was computed at."""
    yield from ((loop.name, loop.trips) for loop in sketch.loops)
    yield from sketch.first.items()


def _has(sketch: Sketch, loop: str) -> bool:
    return any(found.name == loop for found in sketch.loops)


def _ends(terms: Terms, trips: Mapping[str, float], taps: Collection[int]) -> tuple[float, float]:
    """The first and the last element that loops of so many trips reach along a dimension, from some places of it."""
    ways = [term.coefficient * (trips[name] - 1) for name, term in terms.items() if name in trips]
    return min(taps) + sum(min(0.0, way) for way in ways), max(taps) + sum(max(0.0, way) for way in ways)


def _moved(access: LinearAccess, axes: Mapping[str, Terms], shifts: Mapping[str, float]) -> LinearAccess:
    """An access whose loops are made of others, and shifted."""
    return access._replace(terms=tuple([follow(terms, axes) for terms in access.terms]), taps=tuple(_shifted(access, shifts)))


def _shifted(access: LinearAccess, shifts: Mapping[str, float]) -> list[tuple[int, ...]]:
    """The taps of an access whose loops are shifted."""
    moves = [sum([term.coefficient * shifts.get(name, 0.0) for name, term in terms.items()]) for terms in access.terms]
    return [tuple(map(int, map(add, tap, moves))) for tap in access.taps]
