"""The end of a row: what is made of the sum of a row cannot begin before its lanes are added to one another.

    for i:
        for k_o: vector k_i: S[i] += X[i, k]                # 16 lanes: 4 shuffles and 4 additions, one after the other
        for j_o: vector j_i: Y[i, j] = X[i, j] / S[i]       # and a division

Where other rows are added meanwhile nobody waits. Where what reads the sum follows it in the same row, the core has no more to do than its
window holds of the next row: short rows overlap, and long ones do not mind. So a loop over stages one after the other takes less time for
what stays in a cache, and more for each of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.parts import Divided, Loop, Statement, paths

BEYOND: Final = 0.75
"""The part of the window that holds what comes after a row whose sum is waited for: the last of the row itself is in it too. Rows of 128 to
300 take 15 to 24 cycles more on a Zen 4 than where it were all of it."""


def waits(loop: Loop, machine: Machine) -> Iterator[tuple[int, float]]:
    """The statements of a loop, by their places, that wait in each iteration for a sum before them, and for how many cycles."""
    if len(loop.body) == 1:
        return
    found = list(paths(loop.body))
    pending: dict[str, float] = {}
    slots = sum(_slots(statement, path, machine) for statement, path in found)
    overlap = 1 + BEYOND * machine.ports.window / max(1.0, slots)
    for statement, path in found:
        asked = [name for name in dict.fromkeys(wanted(statement)) if name in pending]
        waited = max((pending.pop(name) for name in asked), default=0.0)
        divided = sum(part.divisions * machine.latencies.division + part.roots * machine.latencies.root for part in _once(statement, path))
        if waited and any(one.name in statement.moving for one in path):
            yield statement.place, (waited + divided) / overlap
            waited = 0.0
        lanes = added_lanes(statement, path, machine)
        if lanes > 1:
            waited = math.log2(lanes) * (machine.latencies.shuffle + machine.ports.latency)
        elif waited:
            waited += divided
        if waited:
            pending |= dict.fromkeys(made(statement), waited)


def _slots(statement: Statement, path: tuple[Loop, ...], machine: Machine) -> float:
    """What a statement issues in an iteration, about."""
    lanes = machine.lanes(statement.bits)
    each = statement.operations - sum(part.operations for part in statement.apart) + statement.touched
    return each * math.prod(one.trips / lanes if one.kind == "vector" else one.trips for one in path)


def added_lanes(statement: Statement, path: tuple[Loop, ...], machine: Machine) -> float:
    """The lanes of a sum that is one number in an iteration; 1 where it is none, or has no lanes."""
    if not statement.combines or any(one.name in statement.moving for one in path):
        return 1.0
    vector = next((one for one in path if one.kind == "vector"), None)
    return 1.0 if vector is None else min(float(machine.lanes(statement.bits)), vector.trips)


def _once(statement: Statement, path: tuple[Loop, ...]) -> tuple[Divided, ...]:
    """What is divided once for all loops inside."""
    inner = {one.name for one in path}
    return tuple(part for part in statement.divided if not part.loops & inner)


def made(statement: Statement) -> tuple[str, ...]:
    """What a statement writes; of a sum in a register, the stage that it stands in."""
    written = tuple(access.buffer.name for access in statement.accesses if access.writes)
    return written or (statement.stage.rpartition(".")[0],)


def wanted(statement: Statement) -> tuple[str, ...]:
    """What it reads, and the sums in its own expression."""
    return (*(access.buffer.name for access in statement.accesses if access.reads and not access.writes), statement.stage)
