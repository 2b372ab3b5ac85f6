"""What a nest waits for: the time that it would save on a machine without one of its limits, and the operand and loop that run into it.

A cause is judged by what is left without it: the same nest is estimated on a machine whose page walks are free, whose caches have no sets,
whose memory answers at once, and so on. Times overlap, so what two causes cost together is neither the sum of both nor, where they hide
behind one another, the most of them. Waits hide behind work, so a nest may even wait the longer without a limit: that is no cause.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from tensorlang.ir import Nest
from tensorlang.schedules.model.estimate import estimated, levels
from tensorlang.schedules.model.footprints import scope
from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.movement import CacheGeometry, CacheTraffic, Key, cache_geometries, cache_traffic, tlb_geometry
from tensorlang.schedules.model.parts import Loop, Part, Statement, paths
from tensorlang.schedules.model.program import program
from tensorlang.schedules.model.walks import LinearAccess

Kind = Literal["arithmetic", "divisions", "chain", "shuffles", "loads", "L2", "L3", "memory", "latency", "conflicts", "pages"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
FREE: Final = 1e9
"""Units a cycle, and entries of a TLB, that no nest runs out of."""


@dataclass(frozen=True, slots=True)
class Stride:
    """Neighbouring iterations of a loop take an access to a buffer so many bytes `apart`.

    `places`: the pages, or sets of a cache (`of` says which), that it comes to before a loop that moves it less begins its next iteration;
    `room`: how many of these the machine has. `reused`: a loop around reads the same again.
    """

    buffer: str
    loop: str
    apart: int
    places: int
    of: str
    room: int
    reused: bool
    written: bool


@dataclass(frozen=True, slots=True)
class Cause:
    """A limit of the machine, the seconds that a call would save without it, and the access that runs into it (None: no single one)."""

    kind: Kind
    seconds: float
    stride: Stride | None = None


def causes(nest: Nest, machine: Machine, dims: Mapping[str, int] | None = None) -> tuple[float, tuple[Cause, ...]]:
    """The seconds that a call takes by the model, and what it would save without each limit, the dearest first."""
    parts = program(nest, dims)
    whole = estimated(parts, machine).seconds
    found = [Cause(kind, whole - estimated(parts, without(machine, kind)).seconds) for kind in KINDS]
    dear = sorted((cause for cause in found if cause.seconds > 0), key=lambda cause: -cause.seconds)
    return whole, tuple(replace(cause, stride=_stride(parts, machine, cause.kind)) for cause in dear)


def without(machine: Machine, kind: Kind) -> Machine:
    """The machine without one of its limits."""
    ports, caches = machine.ports, machine.caches
    match kind:
        case "arithmetic":
            return replace(machine, ports=replace(ports, arithmetic=FREE, issue=FREE))
        case "divisions":
            return replace(machine, ports=replace(ports, divisions=FREE, roots=FREE))
        case "chain":
            return replace(machine, ports=replace(ports, latency=0.0))
        case "shuffles":
            return replace(machine, ports=replace(ports, shuffles=FREE))
        case "loads":
            return replace(machine, ports=replace(ports, loads=FREE, stores=FREE))
        case "L2" | "L3":
            place = levels(machine).index(kind) if kind in levels(machine) else -1
            return replace(machine, caches=tuple(replace(c, bandwidth=FREE) if n == place else c for n, c in enumerate(caches)))
        case "memory":
            return replace(machine, memory=replace(machine.memory, bandwidth=FREE, streaming=FREE))
        case "latency":
            fast = tuple(replace(cache, latency=0.0) for cache in caches)
            return replace(machine, caches=fast, memory=replace(machine.memory, latency=0.0))
        case "conflicts":  # one set that holds as much
            return replace(machine, caches=tuple(replace(cache, ways=max(1, cache.size // machine.line)) for cache in caches))
        case "pages":
            return replace(machine, pages=replace(machine.pages, entries=int(FREE)))


def _stride(parts: tuple[Part, ...], machine: Machine, kind: Kind) -> Stride | None:
    """The access that misses most because of a limit, by the loop that takes it furthest at a time."""
    if kind == "pages":
        geometry = tlb_geometry(machine)
        return _worst(parts, machine, cache_traffic(scope(parts), geometry), geometry, "pages")
    if kind == "conflicts":
        open_sets = cache_geometries(without(machine, "conflicts"))
        names, top = levels(machine), scope(parts)
        lost = [
            (_minus(cache_traffic(top, own), cache_traffic(top, free)), own, f"sets of {name}")
            for name, own, free in zip(names, cache_geometries(machine), open_sets, strict=False)
        ]
        more, geometry, of = max(lost, key=lambda item: item[0].total)
        return _worst(parts, machine, more, geometry, of)
    if kind == "latency":
        waited = CacheTraffic(alone=cache_traffic(scope(parts), cache_geometries(machine)[-1]).alone)
        return _worst(parts, machine, waited, cache_geometries(machine)[-1], "lines")
    return None


def _amounts(traffic: CacheTraffic) -> dict[Key, float]:
    return {key: traffic.incoming(key) for key in (*traffic.ahead, *traffic.alone)}


def _minus(one: CacheTraffic, other: CacheTraffic) -> CacheTraffic:
    """What comes in more often, whichever way."""
    return CacheTraffic(ahead={key: max(0.0, value - other.incoming(key)) for key, value in _amounts(one).items()})


def _worst(parts: Sequence[Part], machine: Machine, traffic: CacheTraffic, geometry: CacheGeometry, of: str) -> Stride | None:
    amounts = _amounts(traffic)
    for (place, buffer), amount in sorted(amounts.items(), key=lambda item: -item[1]):
        if amount <= 0:
            break
        for statement, path in paths(parts):
            if statement.place == place:
                found = _far_walk(statement, path, buffer, machine, geometry, of)
                if found is not None:
                    return found
    return None


def _far_walk(statement: Statement, path: Sequence[Loop], buffer: str, machine: Machine, geometry: CacheGeometry, of: str) -> Stride | None:
    """How an access to a buffer walks from line to line, or from page to page."""
    for access in (access for access in statement.accesses if access.buffer.name == buffer):
        walk = _leaving(access, path, geometry.unit if of == "pages" else machine.line)
        if walk:
            apart, number = int(abs(access.steps()[walk[0].name]) * access.element), math.prod(loop.trips for loop in walk)
            around = geometry.sets * geometry.unit
            reached = around // math.gcd(apart, around)
            by_sets = geometry.sets > 1 and of not in ("lines", "pages")
            places, room = (min(number, reached), geometry.sets) if by_sets else (number, geometry.ways * min(geometry.sets, reached))
            return Stride(buffer, walk[0].name, apart, round(places), of, room, _is_reused(access, path), access.writes)
    return None


def _leaving(access: LinearAccess, path: Sequence[Loop], least: float) -> list[Loop]:
    """The neighbouring loops, innermost first, each of which takes an access at least so many bytes on."""
    steps = {name: abs(step) * access.element for name, step in access.steps().items()}
    found: list[Loop] = []
    for loop in (loop for loop in reversed(path) if loop.trips > 1):
        if steps.get(loop.name, 0.0) >= least:
            found.append(loop)
        elif found:
            break
    return found


def _is_reused(access: LinearAccess, path: Sequence[Loop]) -> bool:
    """Does a loop around it read the same again?"""
    return any(loop.name not in _terms_of(access) for loop in path if loop.trips > 1)


def _terms_of(access: LinearAccess) -> frozenset[str]:
    """The loops that move an access."""
    return frozenset(name for terms in access.terms for name in terms)
