"""Chains through several statements of a loop: an iteration that reads what the one before it stored last begins when that is there.

    for i: for j: s = 0; for k < j: s += L[i, k] * L[j, k];   L[i, j] = (A[i, j] - s) / L[j, j]        # L[i, j - 1] is the last of s

From the store on the way is: to the load (later where the load lies on several stores, see `forwarding`), through the sum and what is made
of it, to the next store. All else overlaps with it, so that an iteration takes the longer of the way and of its work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from tensorlang.schedules.model.forwarding import STALL
from tensorlang.schedules.model.latencies import ADDED, FORWARDED
from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.parts import Loop, Statement, paths
from tensorlang.schedules.model.row_ends import added_lanes, made, wanted
from tensorlang.schedules.model.walks import LinearAccess


class Chain(NamedTuple):
    """The cycles from iteration to iteration of a loop, and the place of the statement that ends it."""

    place: int
    cycles: float


class _Placed(NamedTuple):
    statement: Statement
    path: tuple[Loop, ...]

    @property
    def lanes(self) -> float:
        """How many elements an instruction of it takes."""
        return next((one.trips for one in self.path if one.kind == "vector"), 1.0)


def chain(loop: Loop, machine: Machine) -> Chain | None:
    """The longest chain of a loop through more than one statement, if there is one."""
    if loop.kind != "serial":
        return None
    placed = [_Placed(*found) for found in paths(loop.body)]
    return max(_chains(placed, loop, machine), key=lambda one: one.cycles, default=None)


def _chains(placed: list[_Placed], loop: Loop, machine: Machine) -> Iterator[Chain]:
    for last, writer in enumerate(placed):
        for store in writer.statement.accesses:
            if not store.writes or store.buffer.memory == "register":
                continue
            for first, reader in enumerate(placed[:last]):
                distance = min(_distances(reader, store, loop), default=None)
                way = None if distance is None else _way(placed[first : last + 1], machine)
                if distance is not None and way is not None:
                    yield Chain(writer.statement.place, (way + _late(reader, writer, machine)) / distance)


def _distances(reader: _Placed, store: LinearAccess, loop: Loop) -> Iterator[float]:
    """After how many iterations a statement reads what a later one of the loop stores."""
    inside = {one.name for one in reader.path}
    for load in reader.statement.accesses:
        if load.reads and not load.writes and load.buffer.name == store.buffer.name:
            apart = [_apart(load, store, place, loop.name, inside) for place in range(len(store.terms))]
            if None not in apart:
                yield max((distance for distance in apart if distance), default=1.0)


def _apart(load: LinearAccess, store: LinearAccess, place: int, loop: str, inside: set[str]) -> float | None:
    """The same along one dimension: 0 where any number will do, None where the two never meet."""
    read, written = load.terms[place], store.terms[place]
    if place in load.told or read.keys() & inside:
        return 0.0
    if read != written:
        return 0.0 if read.keys() - {loop} == written.keys() - {loop} else None
    if loop not in written:
        return 0.0 if any(tap[place] == store.taps[0][place] for tap in load.taps) else None
    each, period, _ = written[loop]
    steps = [(store.taps[0][place] - tap[place]) / each for tap in load.taps]
    return 0.0 if period < math.inf else min((step for step in steps if step >= 1), default=None)  # in a ring any number


def _way(placed: list[_Placed], machine: Machine) -> float | None:
    """Cycles from what the first of some statements reads to what the last writes, by way of those between; None where there is no way."""
    first, *others = placed
    found = dict.fromkeys(made(first.statement), _latency(first, machine))
    cycles: float | None = None
    for other in others:
        before = [found[name] for name in wanted(other.statement) if name in found]
        cycles = max(before) + _latency(other, machine) if before else None
        if cycles is not None:
            found |= {name: max(cycles, found.get(name, 0.0)) for name in made(other.statement)}
    return cycles


def _latency(placed: _Placed, machine: Machine) -> float:
    """Cycles from an operand to the value that is made of it; of a sum, to the number that its lanes are added to."""
    statement, lanes = placed.statement, added_lanes(placed.statement, placed.path, machine)
    ways = statement.depth * machine.ports.latency + (ADDED * machine.ports.latency if statement.combines else 0.0)
    across = math.log2(lanes) * (machine.latencies.shuffle + machine.ports.latency) if lanes > 1 else 0.0
    stored = any(access.writes and access.buffer.memory != "register" for access in statement.accesses)
    return ways + across + (FORWARDED * machine.caches[0].latency if stored else 0.0)


def _late(reader: _Placed, writer: _Placed, machine: Machine) -> float:
    """Cycles that a load waits more than for the store of what it wants, where it wants bytes of several."""
    return STALL * machine.caches[0].latency if reader.lanes > writer.lanes else 0.0
