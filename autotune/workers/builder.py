"""The worker's side of a build: candidates of one task, compiled, and as bytes for the process that measures them."""

from __future__ import annotations

import importlib
import os
import time
from typing import Any

from tensorlang.autotune.workers.protocol import Channel


class Wrong(Exception):  # noqa: N818 - an outcome
    """The kernel computed something else."""


class Maker:
    """Builds candidates of a task: `module` has `build`, which may compile, and `save` and `load` for what it built."""

    def __init__(self, task: dict[str, Any], channel: Channel) -> None:
        self.task = task
        self.channel = channel
        name, function = task["builder"].split(":")
        self.module = importlib.import_module(name)
        self._build = getattr(self.module, function)

    def make(self, candidate: dict[str, Any], place: int = 0) -> tuple[Any, dict[str, Any]]:
        """A candidate, built, and what is known of it."""
        start = time.perf_counter()
        self.channel.send({"phase": "compiling", "place": place})
        told: dict[str, Any] = {}
        made = self._build(self.task, candidate, lambda schedule: told.update(schedule=schedule))
        told["compile_s"] = time.perf_counter() - start
        return made, told

    def build(self, candidate: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """A candidate as bytes, and what is known of it."""
        start = time.perf_counter()
        made, told = self.make(candidate)
        saved: bytes = self.module.save(made)
        return {**told, "status": "ok", "compile_s": time.perf_counter() - start}, saved


def pin(cores: list[int]) -> None:
    """Confine this process to some cores; to none in particular if the list is empty."""
    if cores and hasattr(os, "sched_setaffinity") and os.sched_getaffinity(0) != set(cores):
        os.sched_setaffinity(0, cores)
