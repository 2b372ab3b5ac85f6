"""Streaming stores of results that are too large for the caches: no line is fetched to be overwritten, and none is evicted for it."""

from __future__ import annotations

from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis import StageInfo
from tensorlang.schedules.strategies.machine import Machine


def streams_by_default(stage: StageInfo, machine: Machine) -> bool | None:
    """Is a result stored past the caches by default? None where that is no choice: sums, intermediates, and what the near caches hold."""
    (buffer, *others), size = stage.store.buffers, stage.written()
    if others or stage.store.reducer is not None or buffer.memory != "argument" or size is None or size <= machine.l2:
        return None
    return size > machine.l3


def stream(s: Schedule, stage: StageInfo) -> None:
    """Store the result of a stage past the caches, where that is legal."""
    name = stage.store.buffers[0].name
    if s.can("stream_stores", name):
        s.stream_stores(name)
