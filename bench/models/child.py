"""One engine in a process of its own: how long it takes to compile, and to the first result, and how much memory that takes at most.

python -m bench.models.child FOLDER ENGINE
"""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from pathlib import Path
from typing import Any

from bench.models.engines import ENGINES

CALLS = 3


def processor() -> float:
    """Seconds of processor of this process and of those that it has waited for."""
    return sum(
        one.ru_utime + one.ru_stime for one in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def peak() -> float:
    """Megabytes of memory that this process had at most: `ru_maxrss` begins with what its parent had."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def measured(folder: Path, engine: str) -> dict[str, Any]:
    """The facts of one engine."""
    before = peak()
    wall, used = time.perf_counter(), processor()
    compiled = ENGINES[engine](folder)
    read = processor()
    call = compiled()
    made = processor()
    call()
    first = {"wall": time.perf_counter() - wall, "processor": processor() - used, "compile": made - read}
    for _ in range(CALLS):
        call()
    return {**first, "peak_mb": peak(), "empty_mb": before}


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1]), sys.argv[2])))
