"""How accesses walk memory: an index as a sum of terms of loops, and the runs of neighbours that an order of loops makes of it.

A term is `coefficient * loop`, with a period where the loop was fused from several (`x % 56` repeats).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Final, NamedTuple, TypeAlias

from tensorlang.ir import Buffer, Expr
from tensorlang.ir.traverse import reads_data
from tensorlang.schedules.rewriting.quotients_of_loops import is_rounded

MOST_STREAMS: Final = 64
"""Places beside which nothing is a run on any machine."""
NEXT_LINE: Final = 64
"""Bytes from the end of what is touched to the begin of what is touched next, below which both lie on one line or on neighbouring ones on
every machine: a prefetcher sees lines."""
HINTED: Final = 2.0
"""Times as many places that are followed where hints begin each run: a Zen 4 reads 16 rows so as it reads 8 without."""
DENSE: Final = 4
"""Times as far apart as they are long, at most, that pieces of a page are one run: a Zen 4 reads 8 rows of 64 bytes, 256 apart, column by
column at 9 cycles a line, as it reads one after the other, and 512 apart at 20."""
PAGE: Final = 4096
"""Bytes beyond which prefetchers begin anew on every machine."""
UNROLLED: Final = ("unroll", "vector", "tensor")
"""Kinds of loops whose iterations stand beside one another in the code."""
Around: TypeAlias = "tuple[str, float, str]"
"""A loop around an access: its name, its trips and its kind."""


class Run(NamedTuple):
    """The `bytes` of neighbours that are touched in turn, in the order of time, beside those at no more than so many other `places`.

    These are multiples of `apart` bytes from one another.
    """

    places: float
    bytes: float
    apart: int = 0


class Followed(NamedTuple):
    """What prefetchers follow at once: so many places in different pages, and of those whose lines go into the same sets so many `ways`.

    A line that is brought ahead is gone before it is wanted, where more come meanwhile than its set holds: `period` bytes from one
    another lines go into the same set.
    """

    places: float
    ways: float
    period: int

    def at_once(self, apart: int) -> float:
        """Of places so many bytes from one another, how many are followed."""
        shared = math.gcd(apart, self.period)
        return min(self.places, self.ways * self.period / max(shared, NEXT_LINE))


Runs: TypeAlias = "tuple[Run, ...]"
"""Of an access, the fewest places first."""


class Term(NamedTuple):
    """How an index follows a loop: by `coefficient` an iteration, beginning again after `period` elements; `told`: as data say."""

    coefficient: float
    period: float = math.inf
    told: bool = False


Terms: TypeAlias = dict[str, Term]
TermsKey: TypeAlias = tuple[tuple[tuple[str, Term], ...], ...]


class LinearAccess(NamedTuple):
    """The reads, or writes, of an iteration that move alike, such as all taps of a window: an index by dimension, as terms of loops.

    `taps` are the literals beside these, of each of them once. `extents` are the buffer's, those that only a call tells guessed; `strides`
    the bytes between neighbours along each dimension; `runs` say how far it follows neighbours (`alone`); `asked`: hints ask for what it
    touches ahead, `early`: for what it touches in the next turn of the loops around; `told`: the dimensions along which data tell the
    place, so that the terms say no more than which loops move it.
    """

    buffer: Buffer
    element: int
    extents: tuple[float, ...]
    strides: tuple[float, ...]
    taps: tuple[tuple[int, ...], ...]
    terms: tuple[Terms, ...]
    reads: bool
    writes: bool
    streams: bool = False
    runs: Runs = (Run(1.0, math.inf),)
    asked: bool = False
    told: tuple[int, ...] = ()
    early: bool = False

    def is_told(self, loop: str) -> bool:
        """Do data tell where an iteration of a loop moves it?"""
        return any(self.terms[place][loop].told for place in self.told if loop in self.terms[place])

    def alone(self, begun: float, streams: Followed) -> float:
        """The share of what is touched that no prefetcher brings: the first `begun` bytes of each run.

        Of more places than it follows it does so many some of the time: a Zen 4 reads rows by 25, 19 and 14 GB/s, 8, 16 and 32 at once.
        """
        share = 1.0
        for places, run, apart in self.runs:
            left, followed = min(1.0, begun / run), min(1.0, streams.at_once(apart) * (HINTED if self.asked else 1.0) / places)
            share = min(share, followed * left + (1 - followed) * share)
        return share

    def bytes_of(self, loop: str) -> float:
        """Bytes that it moves in memory an iteration of a loop, in either direction."""
        return abs(sum([terms[loop].coefficient * stride for terms, stride in zip(self.terms, self.strides, strict=True) if loop in terms]))

    def over(self, terms: tuple[Terms, ...], runs: Runs) -> LinearAccess:
        """The access over other terms: many are made, and `_replace` takes four times as long."""
        return LinearAccess(
            self.buffer,
            self.element,
            self.extents,
            self.strides,
            self.taps,
            terms,
            self.reads,
            self.writes,
            self.streams,
            runs,
            self.asked,
            self.told,
            self.early,
        )

    def steps(self) -> dict[str, float]:
        """Elements that it moves in memory an iteration of each loop; a loop that is divided counts where it begins anew."""
        found: dict[str, float] = {}
        for terms, stride in zip(self.terms, self.strides, strict=True):
            for name, (coefficient, _, _) in terms.items():
                step = coefficient * stride / self.element if abs(coefficient) >= 1 or stride == self.element else 0.0
                found[name] = found.get(name, 0.0) + step
        return found


def key_of(terms: Iterable[Terms]) -> TermsKey:
    """Terms as a key: all taps of a window have the same."""
    return tuple([tuple(part.items()) for part in terms])


def gathered(accesses: Iterable[LinearAccess], where: Callable[[Sequence[Terms]], TermsKey] = key_of) -> tuple[LinearAccess, ...]:
    """Accesses, those to one tensor as one that move alike, as `where` they do says."""
    found: dict[tuple[object, ...], LinearAccess] = {}
    for access in accesses:
        key = access.buffer.name, access.writes, where(access.terms)
        old = found.get(key)
        found[key] = access if old is None else old._replace(taps=tuple(dict.fromkeys((*old.taps, *access.taps))))
    return tuple(found.values())


def each_told(accesses: Iterable[LinearAccess]) -> tuple[LinearAccess, ...]:
    """Accesses, of which those that data tell from one another are at places of their own: `T[X[i]]` and `T[X[i + 1]]` are two."""
    found, seen = list[LinearAccess](), dict[tuple[object, ...], int]()
    for access in accesses:
        again = 0
        if access.told:
            key = access.buffer.name, key_of(access.terms), access.taps
            again = seen[key] = seen.get(key, -1) + 1
        found.append(access if not again else access._replace(taps=tuple(_further(tap, access.told[0], again) for tap in access.taps)))
    return tuple(found)


def _further(tap: tuple[int, ...], place: int, by: int) -> tuple[int, ...]:
    return (*tap[:place], tap[place] + by, *tap[place + 1 :])


def added(*parts: tuple[Terms, float]) -> Terms:
    """The sum of terms, each times a factor. One that begins again joins one that carries on: together they are one walk."""
    total: Terms = {}
    for terms, factor in parts:
        for name, (coefficient, period, told) in terms.items():
            _join(total, name, Term(coefficient * factor, period * abs(factor), told))
    return _moving(total)


def follow(terms: Terms, axes: Mapping[str, Terms]) -> Terms:
    """Terms of loops, some of which are made of others."""
    total: Terms = {}
    for name, (coefficient, period, told) in terms.items():
        size = abs(coefficient)
        own, made = period / size, axes.get(name)
        if made is None:
            _join(total, name, Term(1.0 * coefficient, own * size, told))
        else:
            for inner, (factor, again, before) in made.items():
                _join(total, inner, Term(factor * coefficient, min(again, own) * size, told or before))
    return _moving(total)


def _join(total: Terms, name: str, term: Term) -> None:
    old = total.get(name)
    if old is None:
        total[name] = term
    elif math.isinf(old.period) == math.isinf(term.period):
        total[name] = Term(old.coefficient + term.coefficient, max(old.period, term.period), old.told or term.told)
    else:
        total[name] = Term(max(old.coefficient, term.coefficient, key=abs), math.inf, old.told or term.told)


def _moving(total: Terms) -> Terms:
    """Terms without those of no coefficient."""
    return {name: term for name, term in total.items() if term[0]} if 0 in [term[0] for term in total.values()] else total


def runs_of(access: LinearAccess, around: Sequence[Around]) -> Runs:
    """How far an access follows neighbours in loops, given outermost first. What is unrolled is one moment, in whatever order."""
    run, places, apart, found = float(access.element), 1.0, 0, list[Run]()
    walked = [(access.bytes_of(name), trips, kind) for name, trips, kind in reversed(around)]
    body = list(takewhile(lambda loop: loop[2] in UNROLLED, walked))
    for step, trips, _ in (*sorted(body), *walked[len(body) :]):
        if step < run + NEXT_LINE or (step <= DENSE * max(run, NEXT_LINE) and step * trips <= PAGE):  # no whole line lies between
            run += step * (trips - 1)
        else:
            found.append(Run(places, run, apart))
            places, apart = places * trips, math.gcd(apart, int(step))
            if places > MOST_STREAMS:
                return tuple(found)
    return (*found, Run(places, run, apart))


def nearest(place: int, period: int) -> int:
    """A place in a ring as steps from its beginning, either way: `(i - 1) % n` is the neighbour of `i`."""
    return (place + period // 2) % period - period // 2


def told_by(expr: Expr, terms: Terms) -> Terms:
    """The terms of an index, which say no more than which loops move it where data or floats tell where it is."""
    return {name: term._replace(told=True) for name, term in terms.items()} if reads_data(expr) or is_rounded(expr) else terms
