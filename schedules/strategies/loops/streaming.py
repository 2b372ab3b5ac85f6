"""Streaming stores of results that are too large for the caches: no line is fetched to be overwritten, and none is evicted for it."""

from __future__ import annotations

from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.stages import StageInfo
from tensorlang.schedules.strategies.processor import Processor


def streams_by_default(stage: StageInfo, machine: Processor) -> bool | None:
    """Is a result stored past the caches by default? None where that is no choice: sums, intermediates, and what the near caches hold."""
    return None if stage.store.reducer is not None or not may_stream(stage, machine) else (stage.written() or 0) > machine.l3


def may_stream(stage: StageInfo, machine: Processor) -> bool:
    """Is it a choice to store a result past the caches: is it an output that the near ones do not hold?"""
    (buffer, *others), size = stage.store.buffers, stage.written()
    return not others and buffer.memory == "argument" and size is not None and size > machine.l2


def stream(s: Schedule, stage: StageInfo) -> None:
    """Store the result of a stage past the caches, where that is legal."""
    name = stage.store.buffers[0].name
    if s.can("stream_stores", name):
        s.stream_stores(name)
