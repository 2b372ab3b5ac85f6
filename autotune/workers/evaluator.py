"""Where candidates are built, checked and timed: what a session needs of it, whether here or on a cluster.

A session keeps up to `capacity` candidates in flight and takes their outcomes in whatever order they come. An evaluator owns every
deadline, never lets a candidate reach the process that it runs in, and leaves nothing running when it is closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tensorlang.autotune.measurement.host import MachineFields
from tensorlang.autotune.workers.protocol import Candidate, Outcome, WorkerTask


class Evaluator(Protocol):
    """Where candidates are built, checked and timed, each in a process that may die of it. Deadlines are its own business."""

    @property
    def capacity(self) -> int:
        """How many candidates are worth having in flight."""
        ...

    @property
    def machine(self) -> MachineFields | None:
        """The machine that measures; None if that is not known before `open`."""
        ...

    def open(self, task: WorkerTask) -> None:
        """Take the task, before the first candidate. Raises `TuningError` where nothing can be measured."""
        ...

    def submit(self, key: str, candidate: Candidate) -> None:
        """Send a candidate on its way; `key` names it in the answer."""
        ...

    def next(self, until: float | None = None) -> tuple[str, Outcome] | None:
        """The next candidate that is finished, in any order; None if there is none before `until` (of `time.monotonic`).

        Raises `TuningError` where no process can be started any more.
        """
        ...

    def paired(self, candidates: Sequence[Candidate], until: float | None = None) -> Outcome:
        """Time the finalists in turns, in fresh processes; `place` tells which one failed.

        `rows` has one row a finalist: `samples` in the order of rounds, all processes one after the other, `runs`, `number`, `schedule`.
        Sampling ends by `until` after at least a few rounds. Nothing may be in flight.
        """
        ...

    def close(self) -> None:
        """Kill what runs. May be called at any time, also twice."""
        ...
