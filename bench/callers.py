"""The kernel library under many callers, and in a process that lives long: wrong elements of calls from threads, memory that stays.

Both are counted, not timed. Growth is that of a process's resident memory over kernels that are built, called once and dropped, after so
many others that every cache is full.
"""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import kernels


def wrong_calls(threads: int, calls: int) -> int:
    """How many of so many calls from each of so many threads gave an element that is not what one call alone gives."""
    f = kernels.compile(kernels.Spec("matmul", ((33, 31), (31, 29))), epilogue=lambda v, i, j: tl.maximum(v - 8.0, 0.0), threads=2)
    rng = np.random.default_rng(0)
    operands = [(rng.random((33, 31), np.float32), rng.random((31, 29), np.float32)) for _ in range(threads)]
    want = [f(*pair).tobytes() for pair in operands]
    wrong = [0] * threads

    def work(place: int) -> None:
        pair, out = operands[place], np.empty((33, 29), np.float32)
        call: Any = f.bind(*pair, out=out)
        for number in range(calls):
            out[...] = np.nan
            found = (f(*pair), f(*pair, out=out), call())[number % 3]
            wrong[place] += found.tobytes() != want[place]

    workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(wrong)


def growth(discarded: int, before: int) -> float:
    """Bytes by which the process grew for each of so many kernels that were dropped, after `before` others."""
    for number in range(before):
        _built_and_dropped(number)
    start = _resident()
    for number in range(before, before + discarded):
        _built_and_dropped(number)
    return (_resident() - start) / discarded


def _built_and_dropped(number: int) -> None:
    X = tl.placeholder((8,), name="x")
    kernel = kernels.compile(tl.compute((8,), lambda i: X[i] + float(number)), level="O0", threads=1)
    if kernel(np.zeros(8, np.float32))[0] != number:
        raise SystemExit(f"the kernel that adds {number} does not")


def _resident() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
