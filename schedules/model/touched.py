"""Which vectors and lines the copies of a statement's accesses touch in a body: each of what they share once."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.parts import Loop, Statement, copies_along
from tensorlang.schedules.model.walks import LinearAccess

SHIFTED: Final = 4
"""Bytes by multiples of which one instruction takes a register out of two, on every processor whose registers are as long as lines."""
WAITING: Final = 64
"""Stores that wait until they are written, about (42 of a Haswell, 64 of a Zen 4, 112 of a Golden Cove)."""
MOST_WOVEN: Final = 6
"""Rows, no power of two, whose number squared in shuffles and stores is no more than to turn 8 rows of 16 lanes and store each column."""


def elements_of(access: LinearAccess, offsets: Collection[tuple[int, ...]], copies: Mapping[str, int], vector: str) -> float:
    """Different vectors that the copies of an access touch: neighbouring rows of a window are loaded once for all taps."""
    total, moving = 1, set[str]()
    for place, terms in enumerate(access.terms):
        own = [(terms[name].coefficient, count) for name, count in copies.items() if name in terms and count > 1]
        shifts = {offset[place] for offset in offsets}
        moving |= terms.keys()
        if vector in terms or len(own) + (len(shifts) > 1) < 2:
            total *= math.prod(count for _, count in own) * len(shifts)
        else:
            values: set[float] = set(shifts)
            for coefficient, count in own:
                values = {value + coefficient * index for value in values for index in range(count)}
            total *= len(values)
    return min(total, len(offsets) * copies_along(copies, moving))


def places(access: LinearAccess, offsets: Collection[tuple[int, ...]], copies: Mapping[str, int], vector: str) -> tuple[object, float]:
    """Where the copies of an access read, by the dimensions that others than they move along, and how many vectors there are in all.

    What goes through a block in several orders, as `A[i, j]` and `A[(j + 1) % 3, i]`, reads each of its elements once.
    """
    within, without = 1.0, list[object]()
    for place, (terms, extent) in enumerate(zip(access.terms, access.extents, strict=True)):
        if vector not in terms and terms.keys() <= copies.keys():
            within *= extent
        else:
            shifts = frozenset(offset[place] for offset in offsets)
            within *= len(shifts) * math.prod(copies.get(name, 1) for name in terms)
            without.append((place, shifts, tuple(terms.items())))
    return (access.buffer.name, *without), within


def repeats(access: LinearAccess, vector: str) -> bool:
    """Does each of several neighbouring lanes take the same element, and the next ones another one?"""
    return any(vector in terms and 0 < abs(terms[vector].coefficient) < 1 for terms in access.terms)


def begins_anew(access: LinearAccess, vector: str, lanes: float) -> bool:
    """Do so many lanes go around an end and begin anew, wherever they start, so that they are gathered: `x[3 * i % 5]`?

    Not those that follow one another: so do the channels of a run of pixels, which are known where bodies hold whole pixels.
    """
    own = [terms[vector] for terms in access.terms if vector in terms]
    return any(abs(term.coefficient) > 1 and abs(term.coefficient) * (lanes - 1) >= term.period for term in own)


def evict(rows: int, apart: int, machine: Machine) -> bool:
    """Do rows that are written side by side fall into so few sets of L1 that no line stays there until the next tile?

    Each of their stores then waits for its line from L2, one after the other.
    """
    cache = machine.caches[0]
    whole = cache.size // cache.ways
    return rows / min(rows, whole // math.gcd(apart, whole)) >= cache.ways


def written_next(access: LinearAccess, lane: str, lanes: float, around: Loop | None) -> int:
    """Elements along the dimension of lanes that are written one after the other: those of a body, and of a loop around that goes on there.

    No more than wait to be written at one time: what comes later finds the sets empty again.
    """
    further = [around.trips for terms in access.terms if around is not None and lane in terms and around.name in terms]
    return max(1, round(min(WAITING, lanes * max(further, default=1.0))))


def is_woven(rows: int) -> bool:
    """Are rows that fill what lies between their lanes put together to whole vectors, which are stored one after the other?

    Where a condition leaves no element, there are no rows.
    """
    return rows > 1 and (rows <= MOST_WOVEN or rows & (rows - 1) == 0)


def interleaving(rows: int) -> float:
    """Shuffles for each vector of rows that are woven into one: by steps of a transposition, or one row after the other."""
    return math.log2(rows) if rows & (rows - 1) == 0 else rows - 1.0


def shared(statement: Statement, moving: Mapping[str, float], copies: Mapping[str, int], vectors: float) -> float:
    """Vectors that wait in registers from one turn of the outermost unrolled loop of a reduction until the next turns read them again."""
    turns = next((count for name, count in copies.items() if count > 1 and name in moving and name not in statement.moving), 1)
    first = copies_along(copies, moving) / turns
    return 0.0 if turns == 1 else max(0.0, first - (vectors - first) / (turns - 1))


def held_for_copies(path: Sequence[Loop], moving: Collection[str], copies: Mapping[str, int], lane: str) -> float:
    """Vectors beyond those of one step that are read for the first of several copies, and wait for the next ones, which read them too.

    As the weights of all taps of a row, where copies along the row stand outside of the taps: LLVM reads each of them once.
    """
    loops = [loop.name for loop in path if copies.get(loop.name, 1) > 1]
    again = next((place for place, name in enumerate(loops) if name not in moving), len(loops))
    inside = [name for name in loops[again:] if name in moving]
    return max(0.0, copies_along(copies, inside) - copies.get(lane, 1)) if inside else 0.0


def crossings(
    access: LinearAccess,
    moving: Mapping[str, float],
    run: str,
    offsets: Collection[tuple[int, ...]],
    lanes: float,
    line: int,
    placed: int = 0,
) -> float:
    """The share of contiguous vectors that lie on two lines: of those at an offset that begin at all multiples of what all steps are.

    The buffer begins at a line, or at some multiple of `placed` bytes.
    """
    whole = int(lanes) * access.element
    steps = math.gcd(whole, placed, *(round(step) * access.element for name, step in moving.items() if name != run))
    begins = (round(sum(place * stride for place, stride in zip(offset, access.strides, strict=True))) for offset in offsets)
    return sum(max(0.0, min(whole, line) - math.gcd(steps, first)) for first in begins) / (line * len(offsets))


class Sliding(NamedTuple):
    """What a vector of several registers loads where a statement reads it again a few elements on (`emission.neighbours`).

    `loads`: the offsets of the registers that are loaded, each as often as it is; `shuffled`: how many others are taken out of two of them.
    """

    loads: tuple[tuple[int, ...], ...]
    shuffled: float

    @property
    def share(self) -> float:
        """Of all registers those that are loaded."""
        return len(self.loads) / (len(self.loads) + self.shuffled)


def shifts(element: int) -> int:
    """Elements of so many bytes by multiples of which a register is taken out of two."""
    return max(1, SHIFTED // element)


def loaded_whole(places: Collection[int], lanes: int) -> int:
    """Of vectors that begin at several places of a row, the one of which others are taken: at a line if one is, else in the middle."""
    ordered = sorted(places)
    middle = ordered[len(ordered) // 2]
    return min(ordered, key=lambda place: (place % lanes != 0, abs(place - middle)))


def sliding(offsets: Collection[tuple[int, ...]], lanes: int, registers: int, element: int) -> Sliding:
    """One vector of each row whole, of the others a few elements of so many bytes away the registers at its ends."""
    rows: dict[tuple[int, ...], list[int]] = {}
    for offset in offsets:
        rows.setdefault((*offset[:-1], offset[-1] % shifts(element)), []).append(offset[-1])
    loads, shuffled = list[tuple[int, ...]](), 0
    for (*row, _), places in rows.items():
        whole = loaded_whole(places, lanes)
        for place in places:
            held = registers - 1 if place != whole and abs(place - whole) < lanes else 0
            loads += [(*row, place)] * (registers - held)
            shuffled += held
    return Sliding(tuple(loads), shuffled)


def spanned(
    access: LinearAccess, offsets: Collection[tuple[int, ...]], copies: Mapping[str, int], moving: Mapping[str, float], apart: float
) -> float:
    """Loads for each vector of lanes that lie a few elements `apart`: those of all that lies between them, once for what is read there.

    In storage of ours a block may be read to its end; of an operand where the same statement reads all of it (`emission.spans`).
    """
    step, places = round(apart), {at[-1] for at in offsets}
    if step != apart or not step:  # several lanes take one element
        return apart
    if access.buffer.memory != "argument":
        beside = math.prod(count for name, count in copies.items() if abs(moving.get(name, 0.0)) == 1)
        places = {place + more for place in places for more in range(beside)}
        return step * len({place // step for place in places}) / len(places)
    blocks: dict[int, int] = {}
    for place in places:
        blocks[place // step] = blocks.get(place // step, 0) + 1
    return sum(step if count == step else step * count for count in blocks.values()) / len(places)
