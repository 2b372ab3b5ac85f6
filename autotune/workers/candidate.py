"""What workers build: a candidate's schedule, from a configuration or from directives, and its kernel; and the kernel as bytes.

This module runs only in disposable processes (see `worker`); the tuner never imports it. Operands that `tl.buffer` bound are arguments
like any other here: one compiled candidate is a few kilobytes whatever they hold, and the worker that measures feeds their values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tensorlang.autotune.workers.builder import Built
from tensorlang.autotune.workers.protocol import Candidate, WorkerTask


def build(task: WorkerTask, candidate: Candidate, tell: Callable[[str], None]) -> Built:
    """The kernel of a candidate; the empty point is the default. `tell` is given the schedule as JSON before anything is compiled."""
    from tensorlang.codegen.kernel.build import build as compiled  # noqa: PLC0415 - the compiler is the slow import
    from tensorlang.codegen.runtime.threads import set_threads  # noqa: PLC0415
    from tensorlang.codegen.target import target  # noqa: PLC0415
    from tensorlang.schedules.schedule import Schedule  # noqa: PLC0415
    from tensorlang.schedules.strategies import choose  # noqa: PLC0415

    set_threads(task.threads)
    outputs = _rebuilt_outputs(_HashedDefinition(task.definition, task.fingerprint))
    machine = target(task.target)
    if candidate.schedule is not None:
        schedule = Schedule.from_json(outputs, candidate.schedule)
    else:
        assert candidate.config is not None, "a candidate is a schedule or a point"
        strategy = choose(outputs, machine, task.threads)
        schedule = strategy.schedule(candidate.config or strategy.default)
    tell(schedule.to_json())
    kernel: Built = compiled(schedule, target=machine)
    return kernel


def save(kernel: Any) -> bytes:
    """A built kernel as bytes with their digest."""
    from tensorlang.codegen.cache.archive import encode  # noqa: PLC0415

    return encode(kernel.program)


def load(task: WorkerTask, data: bytes) -> Built:
    """The kernel in the bytes. Raises `BuildError` where they are damaged, or not for this machine."""
    from tensorlang.codegen.cache.archive import decode  # noqa: PLC0415
    from tensorlang.codegen.kernel.kernel import Kernel  # noqa: PLC0415
    from tensorlang.codegen.runtime.threads import set_threads  # noqa: PLC0415

    set_threads(task.threads)
    return Kernel(decode(data))


def warm(task: WorkerTask) -> None:
    """Import what `load` and, where it compiles, `build` need, and look at the machine, before it is confined to some of its cores."""
    from tensorlang.codegen.kernel import kernel  # noqa: F401, PLC0415
    from tensorlang.codegen.target import target  # noqa: PLC0415

    if task.compiles:
        from tensorlang.codegen.kernel import build  # noqa: F401, PLC0415
        from tensorlang.schedules import strategies  # noqa: F401, PLC0415

    target(task.target)


class _HashedDefinition:
    """A definition that hashes by its fingerprint, so that one worker rebuilds it once."""

    def __init__(self, definition: dict[str, Any], fingerprint: str) -> None:
        self.definition = definition
        self.fingerprint = fingerprint

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HashedDefinition) and self.definition == other.definition

    def __hash__(self) -> int:
        return hash(self.fingerprint)


@lru_cache(maxsize=4)
def _rebuilt_outputs(frozen: _HashedDefinition) -> Any:
    from tensorlang.serialization.rebuild import rebuild  # noqa: PLC0415

    return rebuild(frozen.definition)
