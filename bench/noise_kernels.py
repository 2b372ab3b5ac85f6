"""Stand-ins for kernels whose speed is known beforehand: one unit of work, done as often as the configuration says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorlang.autotune.workers.protocol import Candidate, WorkerTask


class Kernel:
    """Doubles its input after so many units of work on what the first cache holds."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.units = int(config["units"])

    def bind(self, x: Any, *, out: Any) -> Callable[[], object]:
        """A call on these arrays."""
        work = np.linspace(0.5, 1.0, 4096, dtype=np.float32)
        units = range(self.units)

        def call() -> None:
            for _ in units:
                np.sqrt(work, out=work)
            np.multiply(x, 2, out=out)

        return call

    def cost(self) -> dict[str, float]:
        """Operations and bytes of a call."""
        return {"flops": 4096.0 * self.units, "bytes": 800.0}


def warm(task: WorkerTask) -> None:
    """Nothing has to be imported."""
    del task


def build(task: WorkerTask, candidate: Candidate, tell: Callable[[str], None]) -> Kernel:
    """The kernel of a configuration."""
    del task
    tell('{"steps": []}')
    assert candidate.config is not None
    return Kernel(candidate.config)


def save(kernel: Kernel) -> bytes:
    """The kernel as bytes."""
    return json.dumps({"units": kernel.units}).encode()


def load(task: WorkerTask, data: bytes) -> Kernel:
    """The kernel in the bytes."""
    del task
    return Kernel(json.loads(data))
