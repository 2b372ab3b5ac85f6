"""The loop of a nest that threads share: the one whose forks, load imbalance and serial work cost least.

A loop inside others forks and joins once for each of their iterations; threads that do not get the same number of its iterations wait
for one another; and panels that are packed outside of it are packed by one thread.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tensorlang.ir import For
from tensorlang.schedules.directives.fuse import Fuse
from tensorlang.schedules.directives.loop_kinds import Parallel
from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.machine import Machine
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.program import program
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.rewriting.edit import find_loop, loops
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice
from tensorlang.schedules.strategies.analysis.stages import StageInfo, size, stages_of
from tensorlang.schedules.strategies.processor import Processor

UNEVEN: Final = 1.05
"""Times the iterations of a loop that all threads could take meanwhile, above which it is one with the loop inside it."""
WORTH_THREADS: Final = 0.8
"""The share of the serial time that may be left, at most, for threads to be worth their cores."""
AWAKE: Final = 0.4
"""What a fork takes soon after another, as a share: threads wait awake for the next one (0.5 to 1 us on a Zen 4, 1.6 to 2.2 on a Zen 3)."""


def seconds_of_forks(core: Machine, forks: int) -> float:
    """What so many forks take, one soon after the other."""
    return core.fork * (1 + AWAKE * max(0, forks - 1))


@dataclass(frozen=True, slots=True)
class ThreadLoop:
    """A loop that threads may share.

    `name` is its value of the knob, `trips` its iterations, `forks` those of the loops around it, `serial` seconds of packing that stay
    outside of it, on one thread. `rest`: the part of an iteration that its last tile is, which is peeled and runs by itself.
    """

    name: str
    trips: int
    forks: int
    serial: float = 0.0
    rest: float = 0.0

    def seconds(self, work: float, threads: int, fork: float) -> float:
        """The time of `work` shared seconds, the serial ones and the forks, on so many threads."""
        longest = (math.ceil(self.trips / threads) + self.rest) / max(1.0, self.trips + self.rest)
        return work * longest + self.serial + self.forks * fork


def cheapest_thread_loop(loops: Iterable[ThreadLoop], work: float, packing: float, threads: int, fork: float) -> str:
    """The name of the loop to share, or "none".

    `work`: seconds on one thread; `packing`: seconds more, which are shared but for those serial to a loop; `fork`: seconds of a fork, as
    often as the stage runs.
    """
    costs = {loop.name: loop.seconds(work + packing - loop.serial, threads, fork) for loop in loops}
    name = min(costs, key=lambda name: costs[name], default="none")
    return name if name != "none" and costs[name] <= WORTH_THREADS * (work + packing) else "none"


def sharing_pays(loop: For, work: float, threads: int, fork: float) -> bool:
    """Is it worth so many seconds of forks that threads share a loop of so many seconds on one?"""
    return cheapest_thread_loop([ThreadLoop(loop.loop, size(loop), 1)], work, 0.0, threads, fork) == loop.loop


def worth_threads(stage: StageInfo, vector: For | None, plain: Sequence[Part], machine: Processor, threads: int) -> bool:
    """Does it pay to share the outermost loop of a stage that runs by itself, its loop `vector` in lanes?"""
    seconds = seconds_in_lanes(stage, vector, plain, machine)
    return sharing_pays(stage.outer[0], seconds, threads, seconds_of_forks(machine.core, stage.turns))


def seconds_in_lanes(
    stage: StageInfo, vector: For | None, plain: Sequence[Part], machine: Processor, *, vectors: int = 1, streams: bool = False
) -> float:
    """What a stage of the program `plain` takes by the cost model, its loop `vector` in `vectors` of lanes; 0 where it never runs."""
    try:
        sketch = Sketch.of(plain, stage.name)
    except KeyError:
        return 0.0
    if streams:
        sketch.stream()
    if vector is not None and any(loop.name == vector.loop for loop in sketch.loops):
        lanes = machine.lanes(stage.widest)
        sketch.mark(sketch.split(vector.loop, vectors * lanes, lanes)[1], "vector")
    return estimated(numbered(sketch.parts()), machine.core).seconds


def seconds_of_stages(s: Schedule, stages: Collection[str], machine: Processor, *, lanes: bool = True) -> float:
    """What stages take together by the cost model, the last loop of each in lanes or not."""
    plain = program(s.nest)
    found = [info for info in stages_of(s.nest) if info.name in stages]
    return sum(seconds_in_lanes(info, info.loops[-1] if lanes and info.loops else None, plain, machine) for info in found)


def outer_loop_knob(prefix: str = "") -> Choice:
    """Whether threads share the outermost loop of a stage."""
    return Choice(f"{prefix}parallel", ["none", "outer"])


def of_threads(knob: str) -> bool:
    """Does a knob of a stage say whether threads share a loop of it?"""
    return knob == "parallel" or knob.endswith(".parallel")


def parallelize(s: Schedule, loop: str, threads: int = 1) -> bool:
    """Let threads share a loop, unless iterations depend on one another or it stands inside another loop that threads share; is it so?

    Of few iterations some of so many `threads` would have none, or one less: three planes of an image occupy three threads, and two of
    them take as long as four. Such a loop is one with those inside it.
    """
    before = len(s.directives)
    if s.attempt(Parallel(_evened(s, loop, threads))):
        return True
    if len(s.directives) == before:
        return False
    s.undo(len(s.directives) - before)
    return s.attempt(Parallel(loop))


def _evened(s: Schedule, loop: str, threads: int) -> str:
    """A loop of which threads get about as many iterations each, made of one and those directly inside it that are not innermost."""
    outer = next((part for part in loops(s.nest.body) if part.loop == loop), None)  # a skewed loop has another name by now
    if outer is None:
        return loop
    while 0 < size(outer) * UNEVEN < math.ceil(size(outer) / threads) * threads:
        inner = outer.body
        if not (isinstance(inner, For) and inner.kind == "serial" and any(part.kind == "serial" for part in loops(inner.body))):
            break
        fused = Fuse(outer.loop, inner.loop)
        if not s.attempt(fused):
            break
        (name,) = fused.made()
        outer = find_loop(s.nest, name)
    return outer.loop
