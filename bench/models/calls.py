"""What a call of a compiled graph costs besides its kernels, and what two threads gain where parts need nothing of each other.

python -m bench.models.calls
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorlang.graph import Builder, Graph

TINY = 50
"""Kernels of a graph that does nothing else."""
SIDE = 1024
"""Rows and columns of the products that run side by side."""
ROUNDS = 15
CALLS = 200


def chain(count: int = 2 * TINY) -> Graph:
    """Linear layers of four rows of eight numbers, one after the other, two of which are a kernel."""
    rng = np.random.default_rng(0)
    b = Builder("tiny")
    value = b.input((4, 8), name="x")
    for _ in range(count):
        value = b("linear", value, rng.random((8, 8), np.float32) * np.float32(0.3))
    return b.finish(value)


def overhead(rounds: int = ROUNDS) -> float:
    """A call of the graph of tiny kernels / these kernels, bound to their memory and called one by one; processor time, median."""
    compiled = chain().compile(threads=1)
    assert len(compiled.kernels) == TINY
    buffers = [np.ones((4, 8), np.float32), *(np.empty((4, 8), np.float32) for _ in compiled.kernels)]
    bound = [kernel.bind(source, out=out) for kernel, source, out in zip(compiled.kernels, buffers[:-1], buffers[1:], strict=True)]

    def one_by_one() -> None:
        for call in bound:
            call()

    one_by_one()
    np.testing.assert_array_equal(compiled(buffers[0])[0], buffers[-1])
    return _ratio(lambda: compiled(buffers[0]), one_by_one, time.thread_time, CALLS, rounds)


def side_by_side(rounds: int = ROUNDS) -> float:
    """Two products by `run_async` / the same two in sequence, each on one thread; by the clock, median."""
    rng = np.random.default_rng(0)
    b = Builder("product")
    compiled = b.finish(b("linear", b.input((SIDE, SIDE), name="x"), rng.random((SIDE, SIDE), np.float32))).compile(threads=1)
    given = [rng.random((SIDE, SIDE), np.float32) for _ in range(2)]

    def together() -> None:
        for future in [compiled.run_async(x) for x in given]:
            future.result()

    def in_sequence() -> None:
        for x in given:
            compiled(x)

    together()
    return _ratio(together, in_sequence, time.perf_counter, 3, rounds)


def _ratio(one: Callable[[], Any], other: Callable[[], Any], clock: Callable[[], float], calls: int, rounds: int) -> float:
    """The median of ratios of calls in turn."""

    def seconds(function: Callable[[], Any]) -> float:
        begin = clock()
        for _ in range(calls):
            function()
        return clock() - begin

    return statistics.median(seconds(one) / seconds(other) for _ in range(rounds))


if __name__ == "__main__":
    print(json.dumps({"overhead": overhead(), "side_by_side": side_by_side()}))
