"""Asking for operands ahead, where they come from beyond the near caches and are read in vectors, row after row.

The hardware fetches runs of lines by itself, but begins anew at each page, and does nothing while a row is computed with that is in cache:
a softmax reads a row in one of three passes. A stage may ask for what it reads some vectors later, or at the same place of the next row,
which is what it reads a row of vectors later, as rows follow one another in memory.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from tensorlang.ir import Buffer, Const, For
from tensorlang.schedules.rewriting.edit import find_loop
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, size, tensor_of
from tensorlang.schedules.strategies.processor import Processor

FOLLOWED: Final = 2048
"""Bytes between two loads of an instruction that prefetchers no longer follow, half a page (Intel's optimization manual, 2.5.5.4)."""
ASKING: Final = "prefetch"
"""The knob: how far ahead."""
NEXT_ROW: Final = "row"
DISTANCE: Final = 16
"""Steps of the loop over vectors: at some twenty cycles a step as long as memory takes to answer, 300 to 400 cycles."""


def operands_from_afar(stage: StageInfo, vector: For | None, machine: Processor) -> tuple[str, ...]:
    """The arguments larger than the second-level cache that a stage reads along the loop `vector`."""
    if vector is None or not is_literal(vector):
        return ()
    along = [tensor_of(load) for load in stage.loads if stage.stride(load, vector) == 1]
    return tuple(dict.fromkeys(buffer.name for buffer in along if buffer.memory == "argument" and bytes_of(buffer) > machine.l2))


def bytes_of(buffer: Buffer) -> int:
    """Those of a buffer of literal extents, else 0."""
    extents = [int(extent.value) if isinstance(extent, Const) else 0 for extent in buffer.shape]
    return buffer.dtype.bytes * prod(extents)


def leaps_across(stage: StageInfo, vector: For | None, operands: tuple[str, ...]) -> bool:
    """Does a reduction step so far in one of these operands, across the lanes, that the hardware does not follow?"""
    steps = [loop for loop in stage.reduced if loop is not vector]
    if not steps or vector in stage.reduced:
        return False
    read = [load for load in stage.loads if tensor_of(load).name in operands]
    return any(abs(stage.stride(load, steps[-1]) or 0) * tensor_of(load).dtype.bytes >= FOLLOWED for load in read)


def prefetch_knob(prefix: str, stage: StageInfo, vector: For) -> Choice:
    """How far ahead operands are asked for: not at all, by steps of the loop over vectors, or by a row."""
    rows = any(size(loop) > 1 for loop in stage.outer if loop is not vector)
    return Choice(f"{prefix}{ASKING}", [0, DISTANCE, *([NEXT_ROW] if rows else [])])


def ask_ahead(s: Schedule, stage: str, operands: tuple[str, ...], ahead: Any, row: int, width: int) -> None:
    """Let the innermost loop over vectors of a stage ask for its operands; a `row` has so many elements, a vector `width`."""
    serial = [name for name in s.loops(stage) if find_loop(s.nest, name).kind == "serial"] if stage in s.stages() else []
    distance = -(-row // width) if ahead == NEXT_ROW else int(ahead)
    for operand in operands if serial else ():
        if s.can("prefetch", operand, serial[-1], distance):
            s.prefetch(operand, serial[-1], distance)
