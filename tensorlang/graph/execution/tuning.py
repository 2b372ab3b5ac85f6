"""`tune`: the kernels of a graph, tuned into a log that `compile(database=log)` then reads.

    graph ──▶ groups of nodes ──▶ those that differ ──▶ by the time that their calls are predicted to take ──▶ `autotune.tune` of each

A model is a few different layers, each many times: what is equal but for names and the bits of weights is tuned once. The greatest share of
the predicted time comes first, so that a run that ends early has tuned what matters most; what takes next to nothing is left alone. A run
over the same log goes on where the last one stopped, as `tune` does. Weights are fixed, so that each is packed before it is timed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import tensorlang as tl
from tensorlang.graph.execution.grouping import Group, groups
from tensorlang.graph.fusion.weighing import seconds, structure
from tensorlang.graph.ir import Graph, dims_in

LEAST: Final = 0.01
"""The share of the predicted time below which a kernel is left as it is."""


@dataclass(frozen=True, slots=True)
class TunedKernel:
    """A kernel of a graph: what it computes, how often it is called, its share of the predicted time, and what tuning it gave.

    `result` is what `autotune.tune` returned, None where it refused: `error` says why.
    """

    name: str
    calls: int
    share: float
    result: Any
    error: str = ""

    def __str__(self) -> str:
        gain = self.error or f"{self.result.speedup or 1.0:.2f} times as fast as by default"
        return f"{self.name}: {self.calls} {'call' if self.calls == 1 else 'calls'}, {self.share:.0%} of the time, {gain}"


def tuned(
    graph: Graph,
    log: Any,
    trials: int,
    target: str,
    threads: int | None,
    minutes: float | None,
    dims: Mapping[str, int],
    progress: Callable[[TunedKernel], object] | None,
) -> tuple[TunedKernel, ...]:
    """Tune what differs, the greatest share first. Raises `BuildError` for a target, `TuningError` for `minutes`."""
    if minutes is not None and not (isinstance(minutes, (int, float)) and 0 < minutes < math.inf):
        raise tl.TuningError(f"minutes= is a positive number, or None, not {minutes!r:.60}")
    equal: dict[Hashable, list[Group]] = {}
    for group in groups(graph, target):
        equal.setdefault(structure(group), []).append(group)
    costs = [(len(same) * seconds(same[0], target), same) for same in equal.values()]
    whole = sum(cost for cost, _ in costs if cost < math.inf)
    waiting = sorted((one for one in costs if LEAST * whole <= one[0] < math.inf), key=lambda one: -one[0])
    end = None if minutes is None else time.monotonic() + 60 * minutes
    found: list[TunedKernel] = []
    for place, (cost, same) in enumerate(waiting):
        budget = None
        if end is not None:
            budget = (end - time.monotonic()) * cost / sum(other for other, _ in waiting[place:])
            if budget <= 0:
                break
        made = _tuned(same, cost / whole, dims, trials=trials, log=log, target=target, threads=threads, budget=budget)
        found.append(made)
        if progress is not None:
            progress(made)
    return tuple(found)


def _tuned(same: list[Group], share: float, dims: Mapping[str, int], **settings: Any) -> TunedKernel:
    from tensorlang.autotune import tune  # noqa: PLC0415 - nothing of the tuner is loaded before

    group = same[0]
    _, results = group.define()
    constants = tuple(value.name for value in group.weights())
    spoken = dims_in(value.shape for value in (*group.inputs, *group.results))
    own = {name: size for name, size in dims.items() if name in spoken}
    try:
        result = tune(results, constants=constants, dims=own or None, **settings)
    except tl.TuningError as error:
        return TunedKernel(str(group), len(same), share, None, str(error))
    return TunedKernel(str(group), len(same), share, result)
