"""The estimate: seconds of a call, what bounds it, and the bytes that each level of memory gives.

Each statement has times for its resources: its arithmetic, its loads and stores with the lines that L1 is sent meanwhile, the lines of each
further level, walks of page tables. How far they overlap is the machine's: `(sum of t ** overlap) ** (1 / overlap)`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from tensorlang.ir import Nest
from tensorlang.schedules.model.cycles import Cycles
from tensorlang.schedules.model.footprints import scope
from tensorlang.schedules.model.fused_rows import rows_apart
from tensorlang.schedules.model.issue import issued
from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.movement import CacheTraffic, Key, cache_geometries, cache_traffic, shared, tlb_geometry
from tensorlang.schedules.model.parts import Part, statements
from tensorlang.schedules.model.program import program
from tensorlang.schedules.model.window import Taken, beside_others, together

WALKERS: Final = 4
"""Walks of page tables at once: 2 on Intel's cores from Broadwell, 4 from Golden Cove, 6 on AMD's from Zen 3. A Zen 4 takes 45 cycles for
rows of L3 in pages that its TLB has not, and 20 where it has them; a walk there takes 135."""
SPLIT: Final = 4
"""Stores across two lines whose lines are waited for at once: a Granite Rapids takes 16 cycles for one that comes from L3, whether the
core has 16 of them open or few, and stores inside of lines are not noticed (transposed 1040x1040, at five alignments)."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one call of a program costs.

    `bound`: the resource that takes most time ("arithmetic", "L1", "L2", "L3", "memory", "pages"); `bytes`: what each level of memory gives
    and takes back (L1: what is loaded and stored); `stages`: seconds of each; `shares`: seconds of each resource if nothing else took time.
    """

    seconds: float
    bound: str
    bytes: Mapping[str, float] = field(default_factory=dict)
    stages: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        told = sorted(((value, name) for name, value in self.shares.items() if value), reverse=True)
        moved = ", ".join(f"{amount / 1e6:.3g} MB from {name}" for name, amount in self.bytes.items() if amount)
        lines = [f"{self.seconds * 1e6:.4g} us, bound by {self.bound}", *(f"    {name:<11}{value * 1e6:12.4g} us" for value, name in told)]
        return "\n".join([*lines, f"moved: {moved}"] if moved else lines)


def levels(machine: Machine) -> tuple[str, ...]:
    """The names of the levels of memory, nearest first."""
    return (*(f"L{level + 1}" for level in range(len(machine.caches))), "memory")


def estimate(nest: Nest, machine: Machine, dims: Mapping[str, int] | None = None) -> Estimate:
    """What a scheduled nest costs on one core of a machine, called again and again on the same operands.

    `dims` are extents that only a call tells; those that are not given are guessed.
    """
    return estimated(program(nest, dims), machine)


def estimated(parts: Sequence[Part], machine: Machine, beside: float = 0.0) -> Estimate:
    """What loops and statements cost that are numbered in the order of the program.

    They may be a part of one, of which the rest touches so many bytes `beside` between two runs.
    """
    return beside_neighbours(parts, machine, (machine.kept,), beside)[0]


def beside_neighbours(parts: Sequence[Part], machine: Machine, kept: Sequence[float], beside: float = 0.0) -> tuple[Estimate, ...]:
    """The same for neighbours who leave so much of the last level, each share of it in turn: all the rest is counted once."""
    parts = tuple(parts)
    top = scope(rows_apart(parts))
    core = issued(parts, machine)
    *near, last = zip(levels(machine)[1:], _levels_below(machine), cache_geometries(machine), strict=True)
    sent = {name: (level, cache_traffic(top, cache, beside)) for name, level, cache in near}
    past = {box.name for box in top.once if box.streams}  # what is read again comes back
    walks = cache_traffic(top, tlb_geometry(machine), beside)
    found = []
    for share in kept:
        name, level, cache = last
        whole = {**sent, name: (level, cache_traffic(top, replace(cache, kept=shared(share)), beside))}
        found.append(_together(parts, machine, core, whole, walks, past))
    return tuple(found)


def _together(
    parts: Sequence[Part],
    machine: Machine,
    core: Mapping[int, Cycles],
    sent: Mapping[str, tuple[Level, CacheTraffic]],
    walks: CacheTraffic,
    past: Collection[str],
) -> Estimate:
    """The estimate from what the core issues, what each level is `sent`, the walks, and the buffers that are stored `past` the caches."""
    names = levels(machine)
    shares = dict.fromkeys(("arithmetic", *names, "pages"), 0.0)
    taken: dict[int, Taken] = {}
    for statement in statements(parts):
        place, own = statement.place, core.get(statement.place, Cycles())
        streamed = {access.buffer.name for access in statement.accesses if access.streams and access.buffer.name in past}
        cycles, waits = {"arithmetic": own.arithmetic, "L1": own.loads}, 0.0
        for name, (level, traffic) in sent.items():
            cycles[name], waited = _cycles(traffic, place, machine, level, own, streamed)
            shares[name] += waited / machine.hertz
            waits += waited
        cycles["pages"], waited = _walked(walks, place, machine, own, sent.values())
        shares["pages"] += waited / machine.hertz
        sent_past = _sent_past(sent[names[-1]][1], place, machine, streamed)
        for name, value in cycles.items():
            shares[name] += (together((value, sent_past), machine.memory.both) if name == names[-1] else value) / machine.hertz
        near = _near(cycles.pop("L1"), cycles.pop(names[1]), sent[names[1]][1].share_alone(place, own.asked), machine)
        arithmetic, memory = cycles.pop("arithmetic"), cycles.pop(names[-1])
        taken[place] = Taken(arithmetic, (near, *cycles.values()), memory, sent_past, waits + waited, own.slots, own.busy)
    stages: dict[str, float] = {}
    for statement, whole in beside_others(parts, taken, machine):
        stages[statement.stage] = stages.get(statement.stage, 0.0) + whole / machine.hertz
    given = {names[0]: sum(own.moved for own in core.values())}
    given |= {name: traffic.total * machine.line for name, (_, traffic) in sent.items()}
    return Estimate(sum(stages.values()), max(shares, key=lambda name: shares[name]), given, stages, shares)


class Level(NamedTuple):
    """What gives lines to a cache: cycles a line, cycles until the first; whether it is memory, which takes streams by itself."""

    each: float
    latency: float
    last: bool


def _levels_below(machine: Machine) -> tuple[Level, ...]:
    """What is below each cache, nearest first."""
    caches = (Level(machine.line / cache.bandwidth, cache.latency, last=False) for cache in machine.caches[1:])
    return (*caches, Level(machine.line / machine.memory.bandwidth, machine.memory.latency, last=True))


def _cycles(
    traffic: CacheTraffic, place: int, machine: Machine, level: Level, core: Cycles, streamed: Collection[str]
) -> tuple[float, float]:
    """Cycles in which a level gives what a statement wants from it, and meanwhile takes what it writes; and those in which the core waits.

    Lines that no prefetcher brings are waited for, as many at once as the core asks for, while the level sends others and the core does
    what else its window holds; what is streamed is not fetched before. Loads and stores that go into few neighbours share what may be
    outstanding.
    """
    each = level.each
    given = taken = waited = 0.0
    alone = {buffer: traffic.alone.get((place, buffer), 0.0) for buffer in core.asked}
    stored = {buffer: 0.0 if buffer in core.split else traffic.stored.get((place, buffer), 0.0) for buffer in core.asked}
    for buffer in core.asked:
        if buffer in streamed:
            continue
        ahead, back = (kind.get((place, buffer), 0.0) for kind in (traffic.ahead, traffic.back))
        given += (ahead + alone[buffer]) * each
        taken += back * each
        waited += sum(_waited(own, buffer, other, machine, level, core) for own, other in ((alone, stored), (stored, alone)))
        if buffer in core.split:
            at_once = min(SPLIT, max(1.0, core.asked[buffer]))
            waited += (ahead + alone[buffer]) * core.split[buffer] * _wait(level.latency, at_once, 0.0, core)
    return together((given, taken), machine.memory.back) if level.last else max(given, taken), waited


def _sent_past(traffic: CacheTraffic, place: int, machine: Machine, streamed: Collection[str]) -> float:
    """Cycles in which memory takes what a statement stores past the caches."""
    return sum(traffic.back.get((place, buffer), 0.0) for buffer in streamed) * machine.line / machine.memory.streaming


def _waited(own: Mapping[str, float], buffer: str, other: Mapping[str, float], machine: Machine, level: Level, core: Cycles) -> float:
    """Cycles in which the core waits for the lines of a buffer that come one by one, beside those of the other side that do."""
    lines = own[buffer]
    if not lines:
        return 0.0
    if buffer in core.hinted:
        return lines * max(0.0, level.latency / machine.outstanding - max(level.each, core.hinted[buffer]))
    beside = sum(core.asked[name] * min(1.0, many / lines) for name, many in other.items())
    at_once = max(1.0, core.asked[buffer] * min(1.0, machine.outstanding / (core.asked[buffer] + beside)))
    return lines * _wait(level.latency, at_once, level.each, core)


def _walked(
    walks: CacheTraffic, place: int, machine: Machine, core: Cycles, sent: Collection[tuple[Level, CacheTraffic]]
) -> tuple[float, float]:
    """Cycles in which page tables are walked for a statement, several at once; and those in which the core waits for a walk and its line.

    The line is asked for when the walk has ended, so the two are waited for one after the other; lines that come one by one are waited for
    already (`_waited`).
    """
    each = machine.pages.walk / WALKERS
    total = waited = 0.0
    for buffer, asked in core.asked.items():
        key = place, buffer
        total += walks.incoming(key)
        alone = walks.alone.get(key, 0.0)
        if alone:
            at_once = min(WALKERS, max(1.0, asked))
            line, one_by_one = _latency(key, sent), sum(traffic.alone.get(key, 0.0) for _, traffic in sent)
            waited += alone * _wait(machine.pages.walk + line, at_once, each, core)
            waited -= min(alone, one_by_one) * _wait(line, at_once, each, core)
    return total * each, waited


def _latency(key: Key, sent: Collection[tuple[Level, CacheTraffic]]) -> float:
    """Cycles until a line is there that L1 does not have, on the average: each level gives what those below do not."""
    lines = [traffic.incoming(key) for _, traffic in sent]
    waited = sum(level.latency * max(0.0, own - further) for (level, _), own, further in zip(sent, lines, [*lines[1:], 0.0], strict=True))
    return waited / max(1.0, lines[0])


def _near(loads: float, lines: float, alone: float, machine: Machine) -> float:
    """Cycles in which L1 gives operands and takes lines, of which a share comes `alone`: not ahead of the loads that want them.

    These loads are issued again when the line is there. Lines that come ahead pass through the same ports as operands, so they overlap with
    them by half the exponent of other resources: on Intel's cores, whose exponent is 2, not at all.
    """
    exponent = max(1.0, machine.overlap / 2)
    return max(lines, together((loads + lines * alone, lines * (1 - alone)), exponent))


def _wait(latency: float, at_once: float, each: float, core: Cycles) -> float:
    """Cycles that a core waits for one of those that it asks for together, of which one comes in `each` cycles, behind its other work."""
    return max(0.0, latency / at_once - max(each, core.ahead / at_once))
