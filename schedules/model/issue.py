"""Cycles of the core alone: what it issues in the loops that are unrolled and vectorised, and chains of results that wait for one another.

A *body* is what runs between two steps of a serial loop: statements under unrolled and vector loops. LLVM reads what stands there twice
once, and keeps what the serial loop does not move out of it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from itertools import takewhile
from typing import Final

from tensorlang.schedules.legality.code_size import NEAR
from tensorlang.schedules.model import carried, forwarding, recurrences, row_ends, scatters
from tensorlang.schedules.model.beside import overlapped
from tensorlang.schedules.model.body import STEP, Body, Moves
from tensorlang.schedules.model.conditions import MASK_REGISTERS, condition_slots, masked_load_slots
from tensorlang.schedules.model.cycles import Cycles
from tensorlang.schedules.model.latencies import FORWARDED
from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.parts import Loop, Part, Statement, copies_along, paths, statements
from tensorlang.schedules.model.tiles import tiles
from tensorlang.schedules.model.touched import (
    begins_anew,
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
    written_next,
)
from tensorlang.schedules.model.walks import UNROLLED, LinearAccess

ENTRY: Final = 4.0
"""Cycles to begin and leave a loop: its first addresses, and its end where that is predicted wrongly; ends of short loops seldom are."""
PREFETCHED: Final = 4
"""Lines of a run that are waited for before the hardware fetches the next ones ahead."""

PLACE: Final = 8
"""Operations that find where each lane reads behind a rest of an index: a Zen 4 takes 31 cycles for 16 elements of `x[3 * i % 5]`, of which
the gather takes 20."""
PICKED: Final = 32
"""Bits of elements that can be gathered, and loaded under a mask."""
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
    moves: list[Moves] = []
    lines: list[tuple[str, float, float]] = []
    split: dict[str, float] = {}
    waiting, uses, farthest, moved, handed, guarded = 0.0, 0.0, 1.0, 0.0, 0.0, 0.0
    masked_load = masked_load_slots(statement, copies, vector, around, machine)
    unread: dict[object, float] = {}
    for access in statement.accesses:
        offsets, moving = access.taps, access.steps()
        stride, vectors = 0.0 if serial is None else moving.get(serial.name, 0.0), elements_of(access, offsets, copies, lane)
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
        each, shuffles, again, picked, alone, run = 1.0, 0.0, 1.0, 0.0, 0.0, None if vector is None or apart != 1 else vector
        repeated = apart < 1 and repeats(access, lane)
        if access.writes and scatters.in_turn(statement, vector):
            each, run = min(float(lanes), vector.trips if vector is not None else 1.0), None
            again = often / ports.narrow
        elif vector is not None and not access.writes and access.is_told(lane):
            each, run, again = min(float(lanes), vector.trips), None, ports.loads * often / ports.gathers
            if access.element * 8 < PICKED:  # nothing gathers these: a place comes out of a register, what stands there goes into one
                again = often / ports.narrow
                shuffles = 2 * vectors * each * again
            elif ports.gathers < 1:
                alone = vectors * each / ports.gathers
        elif vector is not None and not access.writes and begins_anew(access, lane, min(float(lanes), vector.trips)):
            each, run, again = 2.0 ** math.ceil(math.log2(min(float(lanes), vector.trips))), None, ports.loads * often / ports.gathers
            alone = vectors * ((each / ports.gathers if ports.gathers < 1 else 0.0) + PLACE * often / ports.arithmetic)
        elif apart not in (0.0, 1.0) and not repeated:
            stored, apart_bytes = access.writes and not access.reads, round(apart) * access.element
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
                    if evict(lanes, apart_bytes, machine):
                        again = machine.caches[1].latency * ports.stores
            elif apart <= NEAR and not access.writes:
                each, farthest, shuffles = spanned(access, offsets, copies, moving, apart), max(farthest, 2 * apart), vectors * apart
            else:
                each = min(float(lanes), vector.trips if vector is not None else 1.0)
                again = often / ports.narrow  # they are single numbers
                shuffles = vectors * each * again
                rows = written_next(access, lane, lanes * copies.get(lane, 1), serial)
                if access.writes and evict(rows, apart_bytes, machine):
                    again = machine.caches[1].latency * ports.stores
                picked = 0.0 if access.writes else vectors * each * ports.loads * often / ports.gathers
        if vector is not None and apart == 0 and not access.writes:
            again = often / ports.narrow  # one number for all lanes
        if vector is not None and repeated:  # as a pixel for each of its channels, in a run of both
            # without masks each half of a register has a load of its own, and what is narrower one for each power of two
            whole_load = machine.vector_bits in MASK_REGISTERS and access.element * 8 >= PICKED
            each, shuffles = (1.0, vectors) if whole_load else (2.0, 2 * vectors)
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
        in_turn = access.writes and scatters.in_turn(statement, vector)
        loaded = 2 * done if in_turn else done + (touched if access.asked else 0.0)  # the address of each lane
        moves.append(Moves(moving.keys(), loaded if access.reads else 0.0, done if access.writes else 0.0, shuffles, kept, picked, alone))
    masks = farthest * condition_slots(statement, copies, vector, around, machine) + masked_load * guarded
    body = Body(statement, copies, vector, chained, tuple(moves), waiting, uses, masks, step, often, handed, machine, (around, path))
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
