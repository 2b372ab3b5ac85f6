"""All engines in one process, a call of each in turn: medians of processor time, and of the clock.

    python -m bench.models.latency FOLDER ROUNDS ENGINE...

On a machine that others use the clock says how long one waited for a processor; seconds of processor of all threads of this process do not.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.models import files
from bench.models.engines import ENGINES

TOLERANCE = 1e-4


def measured(folder: Path, rounds: int, engines: Sequence[str]) -> dict[str, Any]:
    """By engine: milliseconds, and how far the outputs are from those of torch, beside the largest element."""
    calls = {name: ENGINES[name](folder)() for name in engines}
    wanted = files.read(folder / "wanted.npz")
    errors = {}
    for name, call in calls.items():
        found = [np.asarray(one) for one in call()]
        errors[name] = max(float(np.abs(one - want).max() / np.abs(want).max()) for one, want in zip(found, wanted, strict=True))
        if errors[name] > TOLERANCE:
            raise SystemExit(f"{name} is {errors[name]:.1e} from torch on {folder.name}")
        call()
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    gc.collect()
    gc.disable()
    for turn in range(rounds):
        order = list(calls) if turn % 2 else list(reversed(calls))
        for name in order:
            wall, used = time.perf_counter(), time.process_time()
            calls[name]()
            samples[name].append((time.process_time() - used, time.perf_counter() - wall))
    return {
        "load": os.getloadavg()[0],
        "engines": {
            name: {
                "processor_ms": 1e3 * statistics.median(used for used, _ in own),
                "wall_ms": 1e3 * statistics.median(wall for _, wall in own),
                "error": errors[name],
            }
            for name, own in samples.items()
        },
    }


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])))
