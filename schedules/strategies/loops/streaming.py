"""Streaming stores of results that are too large for the caches: no line is fetched to be overwritten, and none is evicted for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorlang.schedules.model.movement import BEGINS
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.stages import StageInfo, tensor_of
from tensorlang.schedules.strategies.processor import Processor

KNOB: Final = "stream"
"""The knob that says whether a result is stored past the caches."""
WORTH_STREAMING: Final = 0.85
"""The share of the time with plain stores below which a result is stored past the caches that the last level might keep: who reads it next
finds none of it there."""
AS_FAST: Final = 1.03
"""The same of results of which a shared level may lose some: beside busy neighbours a blur of words took 380 us past the caches on a Zen 4
and 570 through them, where 270 were predicted of both. A stream takes as long in any neighbourhood."""


def streams_by_default(stage: StageInfo, machine: Processor, seconds: Callable[[bool], float] | None = None, axes: int = 1) -> bool | None:
    """Is a result stored past the caches by default? None where that is no choice: sums, intermediates, and what the near caches hold.

    It is where the last level does not hold it, and where what is read beside it leaves too little of that level: `seconds` tells what the
    stage takes by the cost model, stored past the caches or not.
    """
    if stage.store.reducer is not None or not may_stream(stage, machine, axes):
        return None
    if (stage.written() or 0) > machine.l3:
        return True
    share = AS_FAST if (stage.written() or 0) > machine.core.kept * BEGINS * machine.l3 else WORTH_STREAMING
    return seconds is not None and seconds(True) < share * seconds(False)


def may_stream(stage: StageInfo, machine: Processor, axes: int = 1) -> bool:
    """Is it a choice to store a result past the caches: is it an output that the near ones do not hold, in rows of whole registers?

    A row is what it stores one after the other, along its last axis or the last `axes`. What a stage reads again itself, as a recurrence
    does, stays.

    A part of a register is stored plainly, under a mask, and fetches the line that the rest of it has just sent away: rows of 28 numbers
    take a rectifier 34 times as long on a Zen 4, rows of 1,004 twice.
    """
    (buffer, *others), size = stage.store.buffers, stage.written()
    again = any(tensor_of(load) == buffer for load in stage.loads)
    if others or again or buffer.memory != "argument" or size is None or size <= machine.l2:
        return False
    row = stage.written(max(0, len(buffer.shape) - axes)) if buffer.shape else None
    return row is not None and (row == size or row % (machine.lanes(stage.widest) * buffer.dtype.bytes) == 0)


def stream(s: Schedule, stage: StageInfo) -> None:
    """Store the result of a stage past the caches, where that is legal."""
    name = stage.store.buffers[0].name
    if s.can("stream_stores", name):
        s.stream_stores(name)
