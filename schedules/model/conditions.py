"""What the conditions on loops that choose what a statement reads take: jumps, masks, and the registers and steps of masked loads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.parts import Loop, Statement, copies_along

BRANCH: Final = 2.0
"""Slots of a condition that is the same for a whole vector: a comparison and a jump."""
EDGES: Final = 2.0
"""Steps of a loop at the edges of what conditions ask for: the first and the last one."""
MASKS: Final = {512: 2.0, 256: 8.0, 128: 24.0}
"""Slots of the mask of a vector and of what it guards, by the bits of vectors: AVX-512 has registers for masks; AVX2 compares the loop's
value in all lanes and loads under that; with 128 bits a masked load is one for each lane, and a jump."""
KNOWN_MASK: Final = 1.0
"""Slots of a mask that is the same in each run of a body: it is loaded, or in a register."""
MASK_REGISTERS: Final = (512,)
"""Bits of vectors that have registers for masks, which keep parts of vectors while sums are added. Others are blended with the sum before:
a slot, a cycle, a register. Neither is done where the same lanes are off in every run (`emission.idle_lanes`)."""
HELD: Final = 2.0
"""Registers of a masked load and of its mask, where there are none for masks; an instruction that adds takes a plain load itself."""
MASKED_LOAD: Final = 2.0
"""Slots of a masked load more than of a plain one, where there are no registers for masks: two steps, and no operand of a sum."""


def registers_of_masks(statement: Statement, vector: Loop | None, machine: Machine) -> float:
    """Vector registers that masked loads take, beside those of what is loaded."""
    return HELD if machine.vector_bits not in MASK_REGISTERS and _of_lanes(statement, vector) else 0.0


def condition_slots(
    statement: Statement, copies: Mapping[str, int], vector: Loop | None, around: tuple[Loop, ...], machine: Machine
) -> float:
    """Slots of the conditions on loops that choose what a statement reads.

    What is the same in all lanes is asked once, and known in the middle of loops (`interiors`) and at edges of one iteration.
    """
    serial, masks = around[-1] if around else None, _of_lanes(statement, vector)
    others = Counter(loops for loops in statement.conditions if loops not in masks)
    same = [(loops, _at_edges(loops, statement, around), many) for loops, many in others.items()]
    joined = same if machine.vector_bits not in MASK_REGISTERS else []

    def steps(loops: frozenset[str]) -> float:
        return serial.trips if serial is not None and serial.name not in loops else 1.0

    def several(loops: frozenset[str]) -> int:
        return copies_along(copies, loops)

    slots = max((BRANCH / steps(loops) for loops, *_ in same), default=0.0)
    for loops, many in masks.items():
        if _is_known(loops, around):
            slots += many * KNOWN_MASK * several(loops) / steps(loops)
            beside = (KNOWN_MASK * share * several(loops | more) / steps(loops | more) * count for more, share, count in joined)
            slots += many * sum(beside)
        else:
            each = MASKS.get(machine.vector_bits, MASKS[128]) * cut_share(loops, statement, around, vector)
            slots += many * each * several(loops) / steps(loops)
    return slots


def masked_load_slots(
    statement: Statement, copies: Mapping[str, int], vector: Loop | None, around: tuple[Loop, ...], machine: Machine
) -> float:
    """Slots of a load more than where no condition asks for lanes: those of the vectors at the ends of rows."""
    if vector is None or machine.vector_bits in MASK_REGISTERS:
        return 0.0
    ends = min(1.0, EDGES / copies.get(vector.name, 1))
    shares = (ends if _is_known(loops, around) else cut_share(loops, statement, around, vector) for loops in _of_lanes(statement, vector))
    return MASKED_LOAD * max(shares, default=0.0)


def _of_lanes(statement: Statement, vector: Loop | None) -> Counter[frozenset[str]]:
    """The conditions that ask for the loop of the lanes, and how many ask alike."""
    return Counter() if vector is None else Counter(loops for loops in statement.conditions if vector.name in loops)


def _is_known(loops: frozenset[str], around: tuple[Loop, ...]) -> bool:
    """Is a condition the same in each run of a body: does it ask for none of the loops around?"""
    return not any(loop.name in loops for loop in around)


def cut_share(loops: frozenset[str], statement: Statement, around: tuple[Loop, ...], vector: Loop | None) -> float:
    """The share of vectors that a condition cuts in two: where it follows other loops, those that its boundaries pass through on their way.

    Of `j > t`, with a row in one vector, that is each of them, at all `t`; with a row in eight, an eighth for each boundary.
    """
    assert vector is not None, "it asks for lanes"
    row = max(vector.trips * max(1.0, vector.tiles), *(loop.trips for loop in around if loop.name in loops), 1.0)
    return max(_at_edges(loops, statement, around), min(1.0, EDGES * vector.trips / row))


def _at_edges(loops: frozenset[str], statement: Statement, around: tuple[Loop, ...]) -> float:
    """The share of steps at the edges of loops that a condition asks, the first and the last one; of a window's, half of the taps there."""
    asked = [loop for loop in around if loop.name in loops]
    inside = any(loop.name not in statement.moving for loop in asked)
    tiles = math.prod(loop.trips for loop in asked if loop.name in statement.moving)
    return min(1.0, EDGES / tiles) * (0.5 if inside else 1.0) if asked else 0.0
