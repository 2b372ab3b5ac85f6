"""What the cost model reads of a program: loops that run more than once, and statements with what each iteration computes and touches.

`program` makes them of a nest, `sketch` changes them as the steps of a schedule would.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from tensorlang.schedules.model.walks import LinearAccess

INSTRUCTION: Final = 1.0
"""Slots of an instruction that computes a tile: `vpdpbusd` is issued like a multiply-add."""
SLOTS: Final[Mapping[str, float]] = dict.fromkeys(("maddusd", "maddsud", "maddssd"), 3.5)
"""Slots of those that are several, where multiply-adds go: two products, and twice as much that all vector units take, 3 or 4 of them."""


def slots_of(instruction: str | None) -> float:
    """Issue slots of the instruction of that name, without its loads."""
    return SLOTS.get(instruction or "", INSTRUCTION)


class Divided(NamedTuple):
    """Divisions and square roots of floats, as so many of 32-bit numbers; in each iteration of `loops` they are of others.

    `chosen`: the loops of a condition whose seldom side they stand on, which is computed where a vector has lanes of both.
    """

    loops: frozenset[str]
    divisions: float
    roots: float
    chosen: frozenset[str] = frozenset()


class Chosen(NamedTuple):
    """Operations of a choice by a condition on `loops`, and of its seldom side.

    A vector has them whose lanes differ; where the condition is `woven`, as of odd and even, that is each.
    """

    loops: frozenset[str]
    operations: float
    woven: bool = False


class Apart(NamedTuple):
    """Operations of a statement that follow `loops`, fewer than its result does: LLVM moves them out of those that they do not follow."""

    loops: frozenset[str]
    operations: float


class Statement(NamedTuple):
    """One instance of a stage: issue slots of its arithmetic, its accesses to memory, the loops that its result moves with.

    Accesses that move alike are one. In each iteration of the loops `moving` the result is another one.

    `combines`: it adds to what the last iteration left, by `joining` operations (a product is added by the instruction that makes it);
    `bits` of its widest element decide how many lanes a vector has; `conditions`: the loops that each condition on loops alone asks;
    `carried`: what it reads of its own results, by buffer and offsets, with the latencies until its next one (see `recurrences`); `edges`:
    the operations that choose by these conditions, and what only their seldom sides have; `divided`: what the divider has to do; `apart`:
    the operations, some of the others, that follow fewer loops than the statement; how many operations are `sums`, and how many are
    `light`: neither sums nor products; how many `results` it has, each in registers of its own, and the operations of the `longest` way to
    combine one of them; `told`: the loops in which data tell where it writes, `sure` those that move its element besides; `jumps`:
    conditions on data that say whether it does; `depth`: the latencies from what it reads to its values; `held`: the registers that its
    functions want, and `waiting`: do its operands wait in registers, as sums of a tile do?
    """

    stage: str
    place: int
    operations: float
    accesses: tuple[LinearAccess, ...]
    moving: frozenset[str]
    combines: bool
    joining: float
    bits: int
    conditions: tuple[frozenset[str], ...] = ()
    carried: tuple[tuple[str, tuple[int, ...], float], ...] = ()
    edges: tuple[Chosen, ...] = ()
    divided: tuple[Divided, ...] = ()
    apart: tuple[Apart, ...] = ()
    sums: float = 0.0
    light: float = 0.0
    results: int = 1
    longest: float = 0.0
    told: frozenset[str] = frozenset()
    sure: frozenset[str] = frozenset()
    jumps: int = 0
    depth: float = 0.0
    held: float = 0.0
    waiting: bool = False

    @property
    def touched(self) -> int:
        """How many elements it reads and writes."""
        return sum(len(access.taps) for access in self.accesses)

    def over(self, follow: Callable[[frozenset[str]], frozenset[str]], **others: Any) -> Statement:
        """The statement with its conditions and operations over what loops become, and with `others` of its fields.

        Not its accesses, nor what its result moves with.
        """
        parts: tuple[Divided | Apart | Chosen, ...] = (*self.divided, *self.apart, *self.edges)
        every = {*self.conditions, *(part.loops for part in parts), *(part.chosen for part in self.divided), self.told, self.sure}
        now = {loops: follow(loops) for loops in every}  # a stage that others were written into asks of the same loops many times
        return self._replace(
            conditions=tuple([now[loops] for loops in self.conditions]),
            divided=tuple([part._replace(loops=now[part.loops], chosen=now[part.chosen]) for part in self.divided]),
            apart=tuple([part._replace(loops=now[part.loops]) for part in self.apart]),
            edges=tuple([part._replace(loops=now[part.loops]) for part in self.edges]),
            told=now[self.told],
            sure=now[self.sure] if self.told else self.sure,
            **others,
        )


class Loop(NamedTuple):
    """A loop that runs more than once; `trips` may be a fraction where the last tile is not whole.

    `tiles`: where it runs through one tile of a loop that was split, how many of them there are, the last one a part of one; less than 1
    where the only one is a part. `ragged`: conditions cut it off, elsewhere in each turn of the loops around; of one that runs through
    tiles that are cut so, `tiles` is the share of whole ones. `slots`: those of the instruction that computes a tile, of a loop of one.
    """

    name: str
    trips: float
    kind: str
    body: tuple[Part, ...]
    tiles: float = 1.0
    ragged: bool = False
    slots: float = 1.0


Part: TypeAlias = "Loop | Statement"


def statements(parts: Iterable[Part]) -> Iterator[Statement]:
    """The statements within, in program order."""
    for part in parts:
        if isinstance(part, Loop):
            yield from statements(part.body)
        else:
            yield part


def copies_along(copies: Mapping[str, int], loops: Collection[str]) -> int:
    """How many of the copies of a statement, counted by loop, differ in some loops."""
    return math.prod(count for name, count in copies.items() if name in loops)


def paths(parts: Iterable[Part], around: tuple[Loop, ...] = ()) -> Iterator[tuple[Statement, tuple[Loop, ...]]]:
    """The statements within, in program order, each with the loops around it, outermost first."""
    for part in parts:
        if isinstance(part, Loop):
            yield from paths(part.body, (*around, part))
        else:
            yield part, around
