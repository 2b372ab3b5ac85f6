"""Cycles of the core alone: what it issues in the loops that are unrolled and vectorised, and chains of results that wait for one another.

A *body* is what runs between two steps of a serial loop: statements under unrolled and vector loops. LLVM reads what stands there twice
once, and keeps what the serial loop does not move out of it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from operator import add
from typing import Final, NamedTuple

from tensorlang.schedules.legality.code_size import NEAR
from tensorlang.schedules.model import carried, forwarding, recurrences, row_ends, scatters
from tensorlang.schedules.model.beside import overlapped
from tensorlang.schedules.model.conditions import MASK_REGISTERS, condition_slots, cut_share, masked_load_slots, registers_of_masks
from tensorlang.schedules.model.cycles import Cycles
from tensorlang.schedules.model.latencies import FORWARDED
from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.parts import Loop, Part, Statement, copies_along, paths, statements
from tensorlang.schedules.model.tiles import Tile, tiles
from tensorlang.schedules.model.touched import (
    crossings,
    elements_of,
    evict,
    held_for_copies,
    interleaving,
    is_woven,
    places,
    repeats,
    shared,
    sliding,
    spanned,
)
from tensorlang.schedules.model.walks import UNROLLED, LinearAccess

STEP: Final = 2.0
"""Slots of a step of a serial loop: its counter, and the comparison with the jump. Beside those of its body, where that has some left."""
ENTRY: Final = 4.0
"""Cycles to begin and leave a loop: its first addresses, and its end where that is predicted wrongly; ends of short loops seldom are."""
PREFETCHED: Final = 4
"""Lines of a run that are waited for before the hardware fetches the next ones ahead."""

PICKED: Final = 32
"""Bits of elements that can be gathered, and loaded under a mask."""
BESIDE: Final = 2.5
"""The exponent by which work and waiting for operands overlap: functions of a Zen 4 take 0.8 to 1.2 of what it gives."""
NEAR_CHAIN: Final = 5.0
"""The exponent by which work and a chain of sums overlap: those of 7 x 7 in tiles whose chain is as long as they take 1.1 of either."""
SCALAR: Final = 0.5
"""The share of a vector's time that the divider takes for one number: 3.5 of 6 cycles on a Zen 4, 3 to 5 of 10 on Intel's (Fog)."""
PLACED: Final = 16
"""Bytes of which the addresses of operands are multiples, by the ABI's promise of `malloc`; NumPy's large arrays begin just so."""


def issued(parts: tuple[Part, ...], machine: Machine) -> dict[int, Cycles]:
    """The cycles of each statement, by its place in the program."""
    found: dict[int, Cycles] = {}
    for place, cycles in _issued(parts, machine, 1.0, ()):
        found[place] = found.get(place, Cycles()) + cycles
    return found


def _issued(parts: tuple[Part, ...], machine: Machine, times: float, around: tuple[Loop, ...]) -> Iterator[tuple[int, Cycles]]:
    step, bodies = STEP if around else 0.0, list[tuple[Statement, Cycles]]()
    for part in parts:
        if _is_body(part):
            for statement, path in paths((part,)):
                bodies.append((statement, _body(statement, path, around, machine, times, step)))
                yield statement.place, bodies[-1][1]
                step = 0.0
        elif isinstance(part, Loop):
            own = 0.0 if any(map(_is_body, part.body)) else part.trips * STEP / machine.ports.issue
            steps = (own + ENTRY) * times
            yield next(statements(part.body)).place, Cycles(steps, 0.0)
            waits = [*forwarding.waits(part, machine), *row_ends.waits(part, machine)]
            yield from ((place, Cycles(waited * times * part.trips, 0.0)) for place, waited in waits)
            inside = list(_issued(part.body, machine, times * part.trips, (*around, part)))
            yield from inside
            if (chain := carried.chain(part, machine)) is not None:
                busy = sum(cycles.arithmetic for _, cycles in inside) + sum(waited for _, waited in waits) * times * part.trips
                if (left := chain.cycles * times * part.trips - busy) > 0:
                    yield chain.place, Cycles(left, idle=left)
    if around and len(bodies) > 1:
        yield from overlapped(bodies, machine.ports.window / machine.ports.issue * times)


def _is_body(part: Part) -> bool:
    return isinstance(part, Statement) or (part.kind in UNROLLED and all(map(_is_body, part.body)))


def _body(statement: Statement, path: tuple[Loop, ...], around: tuple[Loop, ...], machine: Machine, times: float, step: float) -> Cycles:
    """The cycles of one statement in a body that runs `times` times."""
    ports, serial = machine.ports, around[-1] if around else None
    chained = math.prod(loop.trips for loop in takewhile(lambda loop: loop.name not in statement.moving, reversed(around)))
    vector = next((loop for loop in path if loop.kind != "unroll"), None)
    products = [loop for loop in path if loop.kind == "tensor" and loop is not vector]  # what an instruction adds in each lane
    lanes = machine.lanes(statement.bits)
    often = machine.often(statement.bits * (1.0 if vector is None else min(float(lanes), vector.trips)))
    copies = {
        loop.name: max(1, math.ceil((loop.trips / lanes if loop is vector else loop.trips) - 1e-9)) for loop in path if loop not in products
    }
    anew, lane = serial is not None and serial.name in statement.moving, "" if vector is None else vector.name
    moves: list[_Moves] = []
    lines: list[tuple[str, float, float]] = []
    split: dict[str, float] = {}
    waiting, uses, farthest, moved, handed, guarded = 0.0, 0.0, 1.0, 0.0, 0.0, 0.0
    masked_load = masked_load_slots(statement, copies, vector, around, machine)
    unread: dict[object, float] = {}
    for access in statement.accesses:
        offsets, moving = access.taps, access.steps()
        stride = 0.0 if serial is None else moving.get(serial.name, 0.0)
        vectors = elements_of(access, offsets, copies, lane)
        if vectors > 1 and not access.writes:
            place, most = places(access, offsets, copies, lane)
            vectors = min(vectors, unread.setdefault(place, most))
            unread[place] -= vectors
        own = recurrences.own_store(statement, access.buffer.name) if statement.carried and not access.writes else None
        if own is not None and own.terms == access.terms:  # what the body wrote itself is in registers
            vectors = elements_of(access, {*offsets, *own.taps}, copies, lane) - elements_of(own, own.taps, copies, lane)
        apart = 0.0 if vector is None else abs(moving.get(vector.name, 0.0))
        if apart and any(abs(moving.get(loop.name, 0.0)) == 1 for loop in products):  # products lie side by side, those of a lane first
            apart = 1.0
        each, shuffles, again, picked, run = 1.0, 0.0, 1.0, 0.0, None if vector is None or apart != 1 else vector
        repeated = apart < 1 and repeats(access, lane)
        if access.writes and scatters.in_turn(statement, vector):
            each, run = min(float(lanes), vector.trips if vector is not None else 1.0), None
            again = often / ports.narrow
        elif vector is not None and not access.writes and access.is_told(lane):
            each, run, again = min(float(lanes), vector.trips), None, ports.loads * often / ports.gathers
            if access.element * 8 < PICKED:  # nothing gathers these: a place comes out of a register, what stands there goes into one
                again = often / ports.narrow
                shuffles = 2 * vectors * each * again
        elif apart not in (0.0, 1.0) and not repeated:
            stored = access.writes and not access.reads
            beside = [loop for loop in path if loop is not vector and abs(moving.get(loop.name, 0.0)) == 1]
            woven = next((loop for loop in beside if stored and loop.trips == apart and is_woven(round(apart))), None)
            run = woven or next((loop for loop in beside if stored and loop.trips >= NEAR), None)
            wide = lanes if vector is None else min(float(lanes), vector.trips)
            if run is not None and statement.carried:  # the next body reads what was stored so a moment ago, across again
                handed = FORWARDED * machine.caches[0].latency + 2 * math.log2(max(1.0, wide)) * machine.latencies.shuffle
            if woven is not None:  # the rows fill what lies between lanes, and are stored as vectors one after the other
                shuffles = vectors * interleaving(round(apart))
                moving = {name: step for name, step in moving.items() if vector is None or name != vector.name}
            elif run is not None:  # the rows that lie side by side are turned in registers, and stored as runs of so many elements
                each = wide / min(wide, run.trips)
                shuffles = vectors * (math.log2(wide / each) + each - 1)
                if statement.touched > 1:  # what registers hold is written while the next tile is summed
                    placed = PLACED if access.buffer.memory == "argument" else machine.line
                    crossing = crossings(access, moving, run.name, offsets, wide / each, machine.line, placed)
                    split[access.buffer.name] = crossing * machine.line / (wide / each * access.element)
                    if evict(lanes, round(apart) * access.element, machine):
                        again = machine.caches[1].latency * ports.stores
            elif apart <= NEAR and not access.writes:
                each, farthest, shuffles = spanned(access, offsets, copies, moving, apart), max(farthest, 2 * apart), vectors * apart
            else:
                each = min(float(lanes), vector.trips if vector is not None else 1.0)
                again = often / ports.narrow  # they are single numbers
                shuffles = vectors * each * again
                picked = 0.0 if access.writes else vectors * each * ports.loads * often / ports.gathers
        if vector is not None and apart == 0 and not access.writes:
            again = often / ports.narrow  # one number for all lanes
        if vector is not None and repeated:  # as a pixel for each of its channels, in a run of both
            # without masks each half of a register has a load of its own, and what is narrower one for each power of two
            whole_load = machine.vector_bits in MASK_REGISTERS and access.element * 8 >= PICKED
            each = 1.0 if whole_load else 2.0
            shuffles = vectors * each
        loaded_at: Collection[tuple[int, ...]] = offsets
        if vector is not None and run is vector and copies[lane] > 1 and _slides(access, statement, machine):
            found = sliding(offsets, lanes, copies[lane], access.element)
            loaded_at, shuffles = found.loads, shuffles + vectors * (1 - found.share)
            vectors *= found.share
        in_lanes = vector is not None and not access.writes and (run is vector or repeated)
        waiting += shared(statement, moving, copies, vectors) if anew or in_lanes else 0.0
        if in_lanes and (more := held_for_copies(path, moving, copies, lane)):
            waiting += more
            uses = max(uses, math.prod(copies.values()) / copies_along(copies, moving))
        touched = vectors * each * min(1.0, machine.vector_bits / 8 / machine.line)
        lines.append((access.buffer.name, touched, touched * min(1.0, abs(stride) * access.element / machine.line)))
        done, kept = vectors * each * again, 0.0
        if serial is not None and serial.name not in moving:
            kept, done = done if access.reads else 0.0, done / serial.trips
            vectors /= serial.trips
        elements = vectors * (min(float(lanes), vector.trips) if vector is not None and apart else 1.0)
        moved += elements * access.element * (access.reads + access.writes)
        if run is not None:
            whole = lanes if vector is None else min(float(lanes), vector.trips)
            parts = ports.narrow / often  # in which a unit takes a vector: one that lies inside of a line is no slower
            done *= 1 + crossings(access, moving, run.name, loaded_at, whole / each / parts, machine.line) / (1 if access.reads else parts)
        guarded += done if apart and not access.writes else 0.0
        loaded = done + (touched if access.asked else 0.0)
        if access.writes and scatters.in_turn(statement, vector):  # the address of each lane
            loaded = 2 * done
        moves.append(_Moves(moving.keys(), loaded if access.reads else 0.0, done if access.writes else 0.0, shuffles, kept, picked))
    masks = farthest * condition_slots(statement, copies, vector, around, machine) + masked_load * guarded
    body = _Body(statement, copies, vector, chained, tuple(moves), waiting, uses, masks, step, often, handed, machine, (around, path))
    first, *rest = tiles(path, copies, vector, lanes)
    tile_cost = body.cost(first)
    held = ports.window / (tile_cost.slots + STEP)  # bodies that the window holds
    ahead = held * max(tile_cost.arithmetic, tile_cost.memory)
    asked: dict[str, float] = {}
    for name, now, later in lines:
        asked[name] = asked.get(name, 0.0) + now + later * held
    hints = {access.buffer.name for access in statement.accesses if access.asked}
    new = {hint: sum(later for name, _, later in lines if name == hint) for hint in hints}
    hinted = {name: max(tile_cost.arithmetic, tile_cost.memory) / many for name, many in new.items() if many}
    cost = tile_cost.times(first.share)
    for tile in rest:
        cost = cost.plus(body.cost(tile).times(tile.share))
    if statement.told:
        jumped, passed_on = scatters.jumped(statement, vector, copies), scatters.passed_on(statement, vector, copies, around, path, machine)
        cost = cost._replace(arithmetic=cost.arithmetic + jumped, memory=cost.memory + passed_on)
    cost = cost.times(times)
    return Cycles(cost.arithmetic, cost.memory, moved * times, ahead, asked, split, hinted, cost.idle, cost.slots, cost.busy)


def _slides(access: LinearAccess, statement: Statement, machine: Machine) -> bool:
    """Are its registers as long as lines, and taken out of neighbouring ones where they are read a few elements on?"""
    whole = access.element * 8 == statement.bits and machine.vector_bits == 8 * machine.line
    return whole and not access.writes and bool(access.terms)


class _Moves(NamedTuple):
    """What accesses that move alike take in a body: loads, stores, shuffles, and of the loads those that registers may keep."""

    loops: Collection[str]
    loads: float
    stores: float
    shuffles: float
    kept: float
    picked: float = 0.0
    """Loads by which lanes are picked out of memory one by one, of what a mask has on."""


class _Cost(NamedTuple):
    """Of a body: cycles of arithmetic, or of a chain; of loads and stores; its slots; cycles in which all units wait for the chain.

    `busy`: cycles of each kind of unit, and of issuing.
    """

    arithmetic: float
    memory: float
    slots: float
    idle: float
    busy: tuple[float, ...]

    def times(self, share: float) -> _Cost:
        """That of so many bodies."""
        arithmetic, memory, slots, idle, busy = self
        return _Cost(arithmetic * share, memory * share, slots * share, idle * share, tuple(cycles * share for cycles in busy))

    def plus(self, other: _Cost) -> _Cost:
        """That of both."""
        arithmetic, memory, slots, idle, busy = other
        both = self.arithmetic + arithmetic, self.memory + memory, self.slots + slots, self.idle + idle
        return _Cost(*both, tuple(map(add, self.busy, busy)))


@dataclass(frozen=True, slots=True)
class _Body:
    """A statement under unrolled and vector loops, `copies` of it by loop.

    It adds to one sum in `chained` runs of the body, one after the other; `waiting` registers hold what later turns read again, of which
    some has so many `uses` in a body that LLVM rather stores sums; the loop around it takes `step` slots each time; units take what is so
    wide `often` as often as a whole vector; a result that the next body waits for takes `handed` cycles to come there.
    """

    statement: Statement
    copies: Mapping[str, int]
    vector: Loop | None
    chained: float
    moves: tuple[_Moves, ...]
    waiting: float
    uses: float
    masks: float
    step: float
    often: float
    handed: float
    machine: Machine
    loops: tuple[tuple[Loop, ...], tuple[Loop, ...]]
    """Those around it, and those of its copies."""

    def cost(self, tile: Tile) -> _Cost:
        """What it takes on a tile."""
        statement, vector, ports, copies = self.statement, self.vector, self.machine.ports, tile.copies
        loads = stores = shuffles = kept = 0.0
        for moves in self.moves:
            part = 1.0
            if copies is not self.copies:
                part = math.prod(copies[name] / count for name, count in self.copies.items() if name in moves.loops)
            loads, stores = loads + (moves.picked if tile.masked and moves.picked else moves.loads) * part, stores + moves.stores * part
            shuffles, kept = shuffles + moves.shuffles * part, kept + moves.kept * part
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
        done = max(busy, issue, self._divider(copies))
        memory = max(loads / ports.loads, stores / ports.stores) / often
        both = (done**NEAR_CHAIN + chain**NEAR_CHAIN) ** (1 / NEAR_CHAIN) if statement.combines else max(done, chain)
        return _Cost(both, memory, slots, max(0.0, chain - done), (*units, issue))

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
