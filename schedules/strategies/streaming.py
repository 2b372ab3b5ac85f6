"""Results that are too large for the caches pass them by (`stream_stores`): nobody would find them there, no line is read to be lost."""

from __future__ import annotations

from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis import StageInfo
from tensorlang.schedules.strategies.machine import Machine


def streamed(stage: StageInfo, machine: Machine) -> bool | None:
    """Does a result go past the caches by default? None where that is no choice: sums, intermediates, and what the near caches hold."""
    (buffer, *others), size = stage.store.buffers, stage.written()
    if others or stage.store.reducer is not None or buffer.memory != "argument" or size is None or size <= machine.l2:
        return None
    return size > machine.l3


def stream(s: Schedule, stage: StageInfo) -> None:
    """Let the stores of a stage pass the caches by."""
    name = stage.store.buffers[0].name
    if s.can("stream_stores", name):
        s.stream_stores(name)
