"""Which work is done side by side: stages, each of one lane, or of several that need nothing of each other.

A kernel on several threads has to share its loops out, wait for the last thread, and do alone what is no loop. Kernels that need nothing of
each other can have a thread each instead, without waiting, as long as they take about the same time. So lanes are made of those that are
ready at one moment and long enough to be worth a start of threads, where no lane has much more than its share; everything else is one
after the other, and uses the threads by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tensorlang.graph.execution.ordering import Work
from tensorlang.graph.execution.steps import KernelStep

Lane = list[Work]
Stage = list[Lane]

WORTH: Final = 20e-6
"""Seconds of work from which another thread is worth its start."""
BALANCE: Final = 0.75
"""The longest lane in the time of all of them, at most: less is saved beyond it than threads inside of kernels would save."""
FLOPS: Final = 2e10
BYTES: Final = 1e10
"""What a thread does in a second, roughly: to compare kernels with each other, and with the start of a thread. The cost model knows better,
and takes longer to ask than many a graph takes to run."""


def in_turn(work: Sequence[Work]) -> list[Stage]:
    """One after the other."""
    return [[[one]] for one in work]


def side_by_side(work: Sequence[Work], threads: int, dims: Mapping[str, int]) -> list[Stage]:
    """Stages for so many threads, where dims have these sizes."""
    left = list(work)
    to_come = {name for one in work for name in one.writes}
    seconds: dict[int, float] = {}
    stages: list[Stage] = []
    while left:
        ready = [one for one in left if all(place.memory not in to_come for place in one.reads)]
        if len(ready) > 1:
            seconds |= {id(one): _seconds(one, dims) for one in ready if id(one) not in seconds}
        chosen = [[ready[0]]] if len(ready) == 1 else _chosen(ready, threads, seconds)
        stages.append(chosen)
        done = {id(one) for lane in chosen for one in lane}
        left = [one for one in left if id(one) not in done]
        to_come -= {name for lane in chosen for one in lane for name in one.writes}
    return stages


def _seconds(work: Work, dims: Mapping[str, int]) -> float:
    """What a kernel takes on one thread, roughly."""
    if not isinstance(work.step, KernelStep):
        return 0.0
    kernel = work.step.kernel
    cost = kernel.cost(**{name: dims[name] for name in kernel.program.signature.dims})
    return cost["flops"] / FLOPS + cost["bytes"] / BYTES


def _chosen(ready: Sequence[Work], threads: int, seconds: Mapping[int, float]) -> Stage:
    """The first that is short, so that what waits for it is ready as well; else all of them, dealt out.

    The longest first, each goes to the lane that has least. Where lanes are not balanced, the first is done alone.
    """
    short = [one for one in ready if seconds[id(one)] < WORTH]
    if short:
        return [[short[0]]]
    lanes: Stage = [[] for _ in range(min(threads, len(ready)))]
    times = [0.0] * len(lanes)
    for one in sorted(ready, key=lambda one: -seconds[id(one)]):
        place = times.index(min(times))
        lanes[place].append(one)
        times[place] += seconds[id(one)]
    return lanes if max(times) <= BALANCE * sum(times) else [[ready[0]]]
