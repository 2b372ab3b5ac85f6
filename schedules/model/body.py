"""What a body takes on a tile: slots and units that compute, chains that wait, loads and stores; the larger of them, not their sum.

A *body* is what runs between two steps of a serial loop, `copies` of a statement under unrolled and vector loops (see `issue`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import takewhile
from operator import add
from typing import Final, NamedTuple

from tensorlang.schedules.model import recurrences
from tensorlang.schedules.model.conditions import MASK_REGISTERS, cut_share, registers_of_masks
from tensorlang.schedules.model.latencies import FORWARDED
from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.parts import Loop, Statement, copies_along
from tensorlang.schedules.model.tiles import Tile

STEP: Final = 2.0
"""Slots of a step of a serial loop: its counter, and the comparison with the jump. Beside those of its body, where that has some left."""
BESIDE: Final = 2.5
"""The exponent by which work and waiting for operands overlap: functions of a Zen 4 take 0.8 to 1.2 of what it gives."""
NEAR_CHAIN: Final = 5.0
"""The exponent by which work and a chain of sums overlap: those of 7 x 7 in tiles whose chain is as long as they take 1.1 of either."""
SCALAR: Final = 0.5
"""The share of a vector's time that the divider takes for one number: 3.5 of 6 cycles on a Zen 4, 3 to 5 of 10 on Intel's (Fog)."""


class Moves(NamedTuple):
    """What accesses that move alike take in a body: loads, stores, shuffles, and of the loads those that registers may keep."""

    loops: Collection[str]
    loads: float
    stores: float
    shuffles: float
    kept: float
    picked: float = 0.0
    """Loads by which lanes are picked out of memory one by one, of what a mask has on."""
    alone: float = 0.0
    """Cycles of lanes that LLVM gathers by several operations each, in units that compute: 11 of 16 ms for 31 million on a Zen 4."""


class Cost(NamedTuple):
    """Of a body: cycles of arithmetic, or of a chain; of loads and stores; its slots; cycles in which all units wait for the chain.

    `busy`: cycles of each kind of unit, and of issuing.
    """

    arithmetic: float
    memory: float
    slots: float
    idle: float
    busy: tuple[float, ...]

    def times(self, share: float) -> Cost:
        """That of so many bodies."""
        arithmetic, memory, slots, idle, busy = self
        return Cost(arithmetic * share, memory * share, slots * share, idle * share, tuple(cycles * share for cycles in busy))

    def plus(self, other: Cost) -> Cost:
        """That of both."""
        arithmetic, memory, slots, idle, busy = other
        both = self.arithmetic + arithmetic, self.memory + memory, self.slots + slots, self.idle + idle
        return Cost(*both, tuple(map(add, self.busy, busy)))


@dataclass(frozen=True, slots=True)
class Body:
    """A statement under unrolled and vector loops, `copies` of it by loop.

    It adds to one sum in `chained` runs of the body, one after the other; `waiting` registers hold what later turns read again, of which
    some has so many `uses` in a body that LLVM rather stores sums; the loop around it takes `step` slots each time; units take what is so
    wide `often` as often as a whole vector; a result that the next body waits for takes `handed` cycles to come there.
    """

    statement: Statement
    copies: Mapping[str, int]
    vector: Loop | None
    chained: float
    moves: tuple[Moves, ...]
    waiting: float
    uses: float
    masks: float
    step: float
    often: float
    handed: float
    machine: Machine
    loops: tuple[tuple[Loop, ...], tuple[Loop, ...]]
    """Those around it, and those of its copies."""

    def cost(self, tile: Tile) -> Cost:
        """What it takes on a tile."""
        statement, vector, ports, copies = self.statement, self.vector, self.machine.ports, tile.copies
        loads = stores = shuffles = kept = alone = 0.0
        for moves in self.moves:
            part = 1.0
            if copies is not self.copies:
                part = math.prod(copies[name] / count for name, count in self.copies.items() if name in moves.loops)
            loads, stores = loads + (moves.picked if tile.masked and moves.picked else moves.loads) * part, stores + moves.stores * part
            shuffles, kept, alone = shuffles + moves.shuffles * part, kept + moves.kept * part, alone + moves.alone * part
        number = math.prod(copies.values())
        each = statement.operations - sum(part.operations * (1 - self._at_edges(part.loops, woven=part.woven)) for part in statement.edges)
        work = max(self._once(copies), each * number - self._moved_out(copies, number))
        if vector is not None and vector.kind == "tensor":
            work = vector.slots * number
        chain, free = 0.0, self.machine.registers - 1 - self.waiting
        if statement.combines and vector is not None and vector.name not in statement.moving:
            joined = copies_along(copies, statement.moving) / self.chained
            halved = self._halvings * joined
            work, shuffles = work + halved * statement.joining, shuffles + halved * statement.results
        if statement.combines:
            kept_apart = statement.moving if vector is None else statement.moving | {vector.name}
            sums = copies_along(copies, kept_apart)
            blended = 0.0
            if tile.ragged and vector is not None and self.machine.vector_bits not in MASK_REGISTERS:
                blended = sums / copies.get(vector.name, 1)
            latency = ports.latency + max(0.0, statement.longest - 1) + min(1.0, blended)
            held = sums * statement.results + blended + registers_of_masks(statement, vector, self.machine)
            if not any(access.writes for access in statement.accesses):  # sums in registers: what these do not hold goes to memory and back
                free -= held
                updates = number / sums
                spilled = max(0.0, -free) * (updates if self.uses > updates else 1.0)
                loads, stores = loads + spilled, stores + spilled
                if held > self.machine.registers - 1:  # else rows that wait are loaded again, and no sum waits
                    latency += FORWARDED * self.machine.caches[0].latency
            loads += max(0.0, kept - max(0.0, free))
            work += blended
            chain = number / sums * latency
            slots = work + loads + stores + shuffles + STEP  # the window holds the beginning of the next tile, which depends on nothing
            chain /= 1 + ports.window / (slots * self.chained)
        elif statement.waiting:  # what its functions want beside sums that wait is loaded for each of these
            loads += number * min(statement.held, max(0.0, number + statement.held - self.machine.registers))
        if statement.carried:
            before, within = recurrences.chains(statement, *self.loops, copies)
            within /= 1 + ports.window / (work + loads + stores + shuffles + STEP)
            chain = max(chain, ports.latency * before + (self.handed if before else 0.0), ports.latency * within)
        work += self.masks / 2
        slots = work + self.masks / 2 + loads + stores + shuffles
        often = max(self.often, ports.narrow if tile.half else 1.0)
        units = [cycles / often for cycles in self._in_units(work, shuffles)]
        issue = (slots + self.step) / ports.issue
        busy = (max(units) ** BESIDE + self._waiting(slots) ** BESIDE) ** (1 / BESIDE)
        done = max(busy, issue, self._divider(copies)) + alone
        memory = max(loads / ports.loads, stores / ports.stores) / often
        both = (done**NEAR_CHAIN + chain**NEAR_CHAIN) ** (1 / NEAR_CHAIN) if statement.combines else max(done, chain)
        return Cost(both, memory, slots, max(0.0, chain - done), (*units, issue))

    @property
    def _halvings(self) -> float:
        """Operations that combine the lanes of a vector with one another, once before they join the result; halves may take less each."""
        lanes = self.machine.lanes(self.statement.bits)
        levels = math.log2(max(2.0, min(float(lanes), lanes if self.vector is None else self.vector.trips)))
        return 1 + (levels - 1) * self.often / self.machine.ports.narrow

    def _waiting(self, slots: float) -> float:
        """Cycles that operations wait for one another, where the scheduler is full of such that wait: each does for half of the way.

        AMD's windows are half made of a queue before the schedulers, out of which nothing is picked.
        """
        ports = self.machine.ports
        return slots * self.statement.depth * ports.latency / (ports.window if ports.units else 2 * ports.window)

    def _in_units(self, work: float, shuffles: float) -> tuple[float, float, float]:
        """Cycles of the units that compute with whole vectors: those that multiply and shuffle; of others that only add, and of all."""
        ports, statement = self.machine.ports, self.statement
        if not ports.units:
            return work / ports.arithmetic + shuffles / ports.shuffles, 0.0, 0.0
        whole = self.vector is not None and self.vector.kind == "tensor"  # an instruction that multiplies and adds goes where products go
        each = work / statement.operations if statement.operations and not whole else 0.0
        sums = each * statement.sums
        multiplied = max((work - sums - each * statement.light + shuffles) / ports.arithmetic, shuffles / ports.shuffles)
        return multiplied, sums / ports.arithmetic, (work + shuffles) / ports.units

    def _at_edges(self, loops: frozenset[str], *, woven: bool = False) -> float:
        """The share of vectors in which a condition chooses lane by lane; of steps with the seldom side, where all lanes are alike."""
        vector = self.vector
        if vector is None or vector.name not in loops:
            steps = max((loop.trips for part in self.loops for loop in part if loop.name in loops), default=math.inf)
            return 0.0 if woven else 1 / max(1.0, steps)
        return 1.0 if woven else cut_share(loops, self.statement, self.loops[0], vector)

    def _moved_out(self, copies: Mapping[str, int], number: float) -> float:
        """Operations that are not carried out in every copy, since they follow fewer loops."""
        parts = self.statement.apart
        return sum(own * (number - copies_along(copies, loops) / self._turns_without(loops)) for loops, own in parts)

    def _once(self, copies: Mapping[str, int]) -> float:
        """Operations that follow fewer loops, once for all copies, some of which has the side on which they stand."""
        chosen = (part for part in self.statement.edges if not part.loops <= copies.keys())
        share = min((self._at_edges(part.loops, woven=part.woven) or 1.0 for part in chosen), default=1.0)
        return share * sum(operations / self._turns_without(loops) for loops, operations in self.statement.apart)

    def _turns_without(self, loops: Collection[str]) -> float:
        """How often the body runs before one of these loops, of those around it, goes on: what follows them alone is computed once."""
        return math.prod(loop.trips for loop in takewhile(lambda loop: loop.name not in loops, reversed(self.loops[0])))

    def _divider(self, copies: Mapping[str, int]) -> float:
        """Cycles of the unit that divides, once for what serial loops do not change."""
        ports, total = self.machine.ports, 0.0
        for loops, divisions, roots, chosen in self.statement.divided:
            each = (divisions / ports.divisions + roots / ports.roots) * (self._at_edges(chosen) if chosen else 1.0)
            each *= copies_along(copies, loops)
            each /= self._turns_without(loops)
            total += each * (1.0 if self.vector is not None and self.vector.name in loops else SCALAR)
        return total
