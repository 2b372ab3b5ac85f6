"""What workers build: a candidate's schedule, from a configuration or from directives, and its kernel; and the kernel as bytes.

This module runs only in disposable processes (see `worker`); the tuner never imports it. Operands that `tl.buffer` bound are arguments
like any other here: one compiled candidate is a few kilobytes whatever they hold, and the worker that measures feeds their values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from tensorlang.autotune.workers.builder import Built
from tensorlang.autotune.workers.packed import Packed
from tensorlang.autotune.workers.protocol import MOST_TABLE, Candidate, WorkerTask


def build(task: WorkerTask, candidate: Candidate, tell: Callable[[str], None]) -> Built:
    """The kernel of a candidate; the empty point is the default. `tell` is given the schedule as JSON before anything is compiled."""
    from tensorlang.codegen.kernel.build import build as compiled  # noqa: PLC0415 - the compiler is the slow import
    from tensorlang.codegen.runtime.threads import set_threads  # noqa: PLC0415
    from tensorlang.codegen.target import target  # noqa: PLC0415
    from tensorlang.schedules.schedule import Schedule  # noqa: PLC0415
    from tensorlang.schedules.strategies import choose  # noqa: PLC0415

    set_threads(task.threads)
    outputs = _rebuilt_outputs(_HashedDefinition(task.definition, task.fingerprint))
    constants = _names(outputs, task.constants)
    machine = target(task.target)
    if candidate.schedule is not None:
        schedule = Schedule.from_json(outputs, candidate.schedule)
    else:
        assert candidate.config is not None, "a candidate is a schedule or a point"
        program = _program(outputs, task)
        strategy = choose(program, machine, task.threads, constants)
        schedule = strategy.schedule(candidate.config or strategy.default)
        if program.bound:
            schedule = Schedule.from_json(outputs, schedule.to_json())
    tell(schedule.to_json())
    kernel = compiled(schedule, target=machine)
    return Packed.of(kernel, task.constants) if constants else kernel


def _program(outputs: Any, task: WorkerTask) -> Any:
    """The program for its strategy, which may look at what small tables hold."""
    import numpy as np  # noqa: PLC0415 - as the definitions

    from tensorlang.lowering.program import lower_program  # noqa: PLC0415

    program, tables = lower_program(outputs), dict[str, Any]()
    for place, blob in task.bound.items():
        spec = task.inputs[place]
        if len(blob.data) <= MOST_TABLE:
            tables[program.nest.inputs[place].name] = np.frombuffer(blob.data, spec.dtype.numpy).reshape(spec.shape)
    return replace(program, bound=tables)


def save(kernel: Any) -> bytes:
    """A built kernel as bytes with their digest."""
    from tensorlang.codegen.cache.archive import encode  # noqa: PLC0415

    return kernel.encoded() if isinstance(kernel, Packed) else encode(kernel.program)


def load(task: WorkerTask, data: bytes) -> Built:
    """The kernel in the bytes. Raises `BuildError` where they are damaged, or not for this machine."""
    from tensorlang.codegen.cache.archive import decode  # noqa: PLC0415
    from tensorlang.codegen.kernel.kernel import Kernel  # noqa: PLC0415
    from tensorlang.codegen.runtime.threads import set_threads  # noqa: PLC0415

    set_threads(task.threads)
    return Packed.decoded(data) if task.constants else Kernel(decode(data))


def _names(outputs: Any, places: tuple[int, ...]) -> frozenset[str]:
    """The arguments in these places, by their names in a nest."""
    if not places:
        return frozenset()
    from tensorlang.autotune.task import placeholders  # noqa: PLC0415 - the definitions are a slow import
    from tensorlang.definition.naming import tensor_names  # noqa: PLC0415
    from tensorlang.definition.tensor import definitions  # noqa: PLC0415

    names = tensor_names(definitions(outputs))
    return frozenset(names[tensor.definition] for place, tensor in enumerate(placeholders(outputs)) if place in places)


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
