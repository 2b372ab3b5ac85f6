"""The worker's side of a build: candidates of one task, compiled, and as bytes for the process that measures them."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import msgspec

from tensorlang.autotune.measurement.arrays import Array
from tensorlang.autotune.workers.channel import Channel
from tensorlang.autotune.workers.protocol import Blob, Candidate, Compiling, Facts, Request, WorkerTask


class Wrong(Exception):  # noqa: N818 - an outcome
    """A kernel whose result is not the reference's, or that wrote where it must not; the message says which."""


class Built(Protocol):
    """What is measured: a kernel, or a test's stand-in for one."""

    def bind(self, *arguments: Array, out: Any, **dims: int) -> Callable[[], object]:
        """A call without arguments on these arrays."""
        ...

    def cost(self, **dims: int) -> Mapping[str, float]:
        """Operations and bytes of one call."""
        ...


class Kernels(Protocol):
    """What makes kernels: a module, named by `WorkerTask.builder` beside the function that builds; as `candidate` has them."""

    def warm(self, task: WorkerTask) -> None:
        """Import what building needs, before this process is confined to some of its cores."""
        ...

    def save(self, kernel: Built) -> bytes:
        """A built kernel as bytes."""
        ...

    def load(self, task: WorkerTask, data: bytes) -> Built:
        """The kernel in the bytes."""
        ...


class Builder:
    """Builds candidates of a task."""

    def __init__(self, task: WorkerTask, channel: Channel[Request]) -> None:
        self.task = task
        self.channel = channel
        name, function = task.builder.split(":")
        module = importlib.import_module(name)
        self.kernels = cast("Kernels", module)
        self._build: Callable[[WorkerTask, Candidate, Callable[[str], None]], Built] = getattr(module, function)

    def make(self, candidate: Candidate, place: int = 0) -> tuple[Built, Facts]:
        """A candidate, built, and what is known of it."""
        start = time.perf_counter()
        self.channel.send(Compiling(place))
        told: list[str] = []
        made = self._build(self.task, candidate, told.append)
        return made, Facts(schedule=told[-1] if told else None, compile_s=time.perf_counter() - start)

    def build(self, candidate: Candidate) -> Facts:
        """What is known of a candidate, its kernel included."""
        start = time.perf_counter()
        made, facts = self.make(candidate)
        kernel = Blob(self.kernels.save(made))
        return msgspec.structs.replace(facts, kernel=kernel, compile_s=time.perf_counter() - start)


def pin(cores: Sequence[int]) -> None:
    """Confine this process to some cores; to none in particular if there are none."""
    if cores and hasattr(os, "sched_setaffinity") and os.sched_getaffinity(0) != set(cores):
        os.sched_setaffinity(0, cores)
