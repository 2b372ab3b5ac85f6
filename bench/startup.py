"""What a user waits for before the first call: the import, and the first build.

Each sample is a process of its own that holds nothing else, since a second import in one process costs nothing.
"""

from __future__ import annotations

import os
import statistics
import tempfile

from bench import child
from bench.measure import Figure, Pairs

IMPORT = """
import time
start = time.perf_counter()
import {name}
print(time.perf_counter() - start)
"""

BUILD = """
import time
import islpy, llvmlite.binding
import numpy as np
import tensorlang as tl
a = np.ones((512, 512), "float32")
A, B = tl.placeholder((512, 512), name="A"), tl.placeholder((512, 512), name="B")
product, again = tl.ops.matmul(A, B), tl.ops.matmul(A, B)
build = tl.build  # imports aside: the facade loads them here
marks = [time.perf_counter()]
kernel = build(product)
marks.append(time.perf_counter())
build(again)
marks.append(time.perf_counter())
kernel(a, a)
marks.append(time.perf_counter())
print([later - earlier for earlier, later in zip(marks, marks[1:])])
"""

PROCESSES = 9
"""Fresh processes for a figure of building."""


def figures(pairs: int = 21) -> list[Figure]:
    """Import against import, of the package and of what `autotune --help` and wrong usage load."""
    samples: dict[str, list[float]] = {"tensorlang": [], "tensorlang.autotune.cli.main": [], "numpy": []}
    for _ in range(pairs):
        for name, found in samples.items():
            found.append(child.run("-c", IMPORT.format(name=name)))
    numpy = tuple(samples.pop("numpy"))
    bounds = {"tensorlang": 2.0, "tensorlang.autotune.cli.main": 3.0}
    imports = {name: Pairs(tuple(found), numpy) for name, found in samples.items()}
    return [
        Figure(f"import {name}: time of import numpy", pairs.time_ratio, bounds[name], "at most", "x", pairs.facts())
        for name, pairs in imports.items()
    ]


def builds() -> list[Figure]:
    """From a definition to a kernel: compiled, found in memory, and found in a file of an earlier process."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = [child.run("-c", BUILD, env={**os.environ, "TENSORLANG_CACHE": "off"}) for _ in range(PROCESSES)]
        kept = [child.run("-c", BUILD, env={**os.environ, "TENSORLANG_CACHE": folder}) for _ in range(PROCESSES + 1)][1:]
    found = {
        "a first build of the process, default matmul 512": ([first for first, _, _ in compiled], 120.0),
        "the same build again": ([again for _, again, _ in compiled], 5.0),
        "a first build, from a file": ([first for first, _, _ in kept], 5.0),
        "the first call": ([call for _, _, call in compiled], 60.0),
    }
    return [
        Figure(name, statistics.median(samples) * 1e3, bound, "at most", "ms", {"samples": samples, "min_ms": min(samples) * 1e3})
        for name, (samples, bound) in found.items()
    ]
