"""Scatters, whose elements data tell: what an update waits for that finds its element just written, and jumps that data decide.

    for r: H[X[r]] += 1                                 # where X[r] is X[r - 1], a store and a load of it lie between the two sums
    for r_o: unroll r_i in range(4): H[r_i, X[r]] += 1  # four tables, so as long a wait for each four of them

How often that happens nobody knows before. Neighbours in images are alike, and of random bytes one in 256 is the one before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final

from tensorlang.schedules.model.latencies import ADDED, FORWARDED, INTEGER
from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.parts import Loop, Statement

AGAIN: Final = 0.1
"""The share of updates that wait for the one before: of the bytes of a photograph, counted on a Zen 4 at 1.87 cycles each and, where none
wait, at 1."""
JUMPED: Final = 5.0
"""Cycles of a jump that data decide: 20 where it is foretold wrongly, as half of them are at random and none where data are sorted."""

LANE: Final = 0.5
"""Cycles of a lane more than of an element: its number goes through the stack, and what it writes is taken out of a vector. Counts of bytes
take 1.5 a lane on a Zen 4, and 1 an element."""
MASKED_LANE: Final = 1.0
"""The same of a lane that may be off: of addresses, which have 64 bits, one that is off has another one."""


def in_turn(statement: Statement, vector: Loop | None) -> bool:
    """Do its lanes write one after the other, since data tell where?"""
    return vector is not None and vector.name in statement.told


def updates(statement: Statement, vector: Loop | None, copies: Mapping[str, int]) -> float:
    """Elements that a body writes, or vectors of them where lanes lie apart."""
    each = vector.trips / copies[vector.name] if vector is not None and in_turn(statement, vector) else 1.0
    return each * math.prod(copies.values())


def jumped(statement: Statement, vector: Loop | None, copies: Mapping[str, int]) -> float:
    """Cycles of jumps on data in a body; lanes have masks, and elements for those that are off."""
    return 0.0 if vector is not None else JUMPED * statement.jumps * updates(statement, vector, copies)


def passed_on(
    statement: Statement, vector: Loop | None, copies: Mapping[str, int], around: Sequence[Loop], path: Sequence[Loop], machine: Machine
) -> float:
    """Cycles in which a body waits for what goes through memory: the addresses of lanes, and elements that it has just written.

    Loops that move the element in another way keep updates apart.
    """
    write = next((access for access in statement.accesses if access.writes), None)
    if write is None:  # it combines into registers
        return 0.0
    each = 0.0 if not in_turn(statement, vector) else MASKED_LANE if statement.jumps else LANE
    if statement.combines:
        inside = takewhile(lambda loop: loop.name in statement.sure, (*reversed(path), *reversed(around)))
        apart = math.prod(loop.trips if loop.name in statement.told else copies.get(loop.name, loop.trips) for loop in inside)
        sum_of = machine.ports.latency * (ADDED if write.buffer.dtype.is_floating else INTEGER)
        each += AGAIN * (FORWARDED * machine.caches[0].latency + sum_of) / apart
    return each * updates(statement, vector, copies)
