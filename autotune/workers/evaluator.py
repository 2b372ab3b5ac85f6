"""Where candidates are built, checked and timed: what a session needs of it, whether here or on a cluster.

A session keeps up to `capacity` candidates in flight and takes their outcomes in whatever order they come. An evaluator owns every
deadline, never lets a candidate reach the process that it runs in, and leaves nothing running when it is closed.
"""

from __future__ import annotations

from typing import Any, Protocol

from tensorlang.autotune.workers.runner import Outcome


class Evaluator(Protocol):
    """Where candidates are built, checked and timed, each in a process that may die of it. Deadlines are its own business."""

    @property
    def capacity(self) -> int:
        """How many candidates are worth having in flight."""
        ...

    @property
    def machine(self) -> dict[str, Any] | None:
        """The machine that measures, as `host.machine` says it; None if that is not known before `open`."""
        ...

    def open(self, task: dict[str, Any]) -> None:
        """Take the task (`session.worker_request`), before the first candidate. Raises `TuningError` where nothing can be measured."""
        ...

    def submit(self, key: str, candidate: dict[str, Any]) -> None:
        """Send a candidate on its way: {"config", "incumbent", "trusted"}; `key` names it in the answer."""
        ...

    def next(self, until: float | None = None) -> tuple[str, Outcome] | None:
        """The next candidate that is finished, in any order; None if there is none before `until` (of `time.monotonic`).

        Raises `TuningError` where no process can be started any more.
        """
        ...

    def paired(self, candidates: list[dict[str, Any]], until: float | None = None) -> Outcome:
        """Time the finalists ({"config", "schedule", "trusted"}) in turns, in fresh processes; `place` tells which one failed.

        `told["rows"]` has one row a finalist: "samples" in the order of rounds, all processes one after the other; "runs", the number of
        samples in each process; "number", "schedule". Sampling ends by `until` after at least a few rounds. Nothing may be in flight.
        """
        ...

    def close(self) -> None:
        """Kill what runs. May be called at any time, also twice."""
        ...
