"""Loads of what has just been stored, by vectors that no single store holds.

A store waits in a buffer until it may go to L1. A load that lies inside one of those that wait has its bytes from there; one that needs
bytes of several waits until they are in L1, and what follows in the iteration waits with it, so that iterations no longer overlap (Fog,
"The microarchitecture of Intel, AMD and VIA CPUs", on store forwarding; Intel's Optimization Reference Manual, 3.6.4). So rows of a padded
image that are made just before they are read at every offset take twice the time; a plane of it, made longer ago than the buffer reaches,
takes nothing more.

    for y: for x: P[x] = ...;   for x: for s: C[y, x] += P[x + s] * w[s]            # P[x + 1] lies on two stores
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.parts import Loop, Statement, paths
from tensorlang.schedules.model.walks import LinearAccess

HELD: Final = 56
"""Stores that wait at once: 56 on Skylake, 72 on Ice Lake, 64 on Zen 3 (Fog)."""
STALL: Final = 3.0
"""Latencies of L1 until a load that failed has its bytes: 11 to 15 cycles (Fog's tables)."""


class _Vector(NamedTuple):
    """How an access walks memory inside a loop: the dimension and the loop of its lanes ("": it has none), and how many these are."""

    dimension: int
    loop: str
    lanes: float


class _Store(NamedTuple):
    access: LinearAccess
    vector: _Vector


def waits(loop: Loop, machine: Machine) -> Iterator[tuple[int, float]]:
    """The statements of a loop, by their places, that wait in each iteration for what one before them stored, and for how many cycles."""
    if len(loop.body) == 1:
        return
    stored: dict[str, _Store] = {}
    for part in loop.body:
        inside = list(paths((part,)))
        for statement, path in inside:
            if any(_fails(access, statement, path, stored, machine) for access in statement.accesses):
                yield statement.place, STALL * machine.caches[0].latency + min(_chain(statement, path, machine), _overlap(machine))
        for statement, path in inside:
            lanes = machine.lanes(statement.bits)
            count = math.prod(math.ceil(one.trips / lanes) if one.kind == "vector" else one.trips for one in path)
            for access in statement.accesses:
                if access.writes and count <= HELD:
                    stored[access.buffer.name] = _Store(access, _vector(access, path, lanes))


def _chain(statement: Statement, path: tuple[Loop, ...], machine: Machine) -> float:
    """Cycles from the first operand to the last sum."""
    added = (one.trips for one in path if one.kind != "vector" and one.name not in statement.moving)
    return machine.ports.latency * math.prod(added) if statement.combines else 0.0


def _overlap(machine: Machine) -> float:
    """Cycles by which iterations overlap at most: half of what the window holds, since the other half is the iteration itself."""
    return machine.ports.window / machine.ports.issue / 2


def _vector(access: LinearAccess, path: tuple[Loop, ...], lanes: int) -> _Vector:
    loop = next((one for one in path if one.kind == "vector"), None)
    for place, (terms, stride) in enumerate(zip(access.terms, access.strides, strict=True)):
        if loop is not None and loop.name in terms and abs(terms[loop.name].coefficient) * stride == access.element:
            return _Vector(place, loop.name, min(lanes, loop.trips))
    return _Vector(len(access.terms) - 1, "", 1.0)


def _fails(access: LinearAccess, statement: Statement, path: tuple[Loop, ...], stored: dict[str, _Store], machine: Machine) -> bool:
    """Does a load need bytes of more than one store that waits?"""
    store = stored.get(access.buffer.name)
    if store is None or not access.reads or access.writes:
        return False
    own = _vector(access, path, machine.lanes(statement.bits))
    if not own.loop or own.lanes > store.vector.lanes:
        return bool(own.loop)
    place, lanes = own.dimension, store.vector.lanes
    inside, stored_at = {one.name for one in path} - {own.loop}, store.access.taps[0][place]
    steps = [term.coefficient for name, term in access.terms[place].items() if name in inside]
    return any(step % lanes for step in (*steps, *(tap[place] - stored_at for tap in access.taps)))
