"""What a user waits for before the first call: the import, and the first build.

Each sample is a process of its own that holds nothing else, since a second import in one process costs nothing.
"""

from __future__ import annotations

import statistics

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
product = tl.ops.matmul(A, B)
build, schedule = tl.build, tl.Schedule  # imports aside: the facade loads them here
start = time.perf_counter()
schedule(product)
kernel = build(product)
built = time.perf_counter()
kernel(a, a)
print([built - start, time.perf_counter() - built])
"""


def figures(pairs: int = 21) -> list[Figure]:
    """Import against import, then the first build of a process."""
    samples: dict[str, list[float]] = {"tensorlang": [], "numpy": []}
    for _ in range(pairs):
        for name, found in samples.items():
            found.append(child.run("-c", IMPORT.format(name=name)))
    imports = Pairs(tuple(samples["tensorlang"]), tuple(samples["numpy"]))
    builds, calls = zip(*(child.run("-c", BUILD) for _ in range(5)), strict=True)
    facts = {"samples": builds, "first_call_seconds": statistics.median(calls)}
    return [
        Figure("import tensorlang: time of import numpy", imports.time_ratio, 2.0, "at most", "x", imports.facts()),
        Figure("first schedule and build, default matmul 512", statistics.median(builds), 0.3, "at most", "s", facts),
    ]
