"""Threads for what is left: loops of a finished nest that run on one thread, where several take less time.

A stage has threads by its own work. Stages that met in one loop, or that stand in the rows of one that does little, have more together;
and where iterations wait for the one before, as those of a recurrence do, threads may share what stands side by side in each of them:

    for k: for i: x[k, i] = f(x[k - 1, i])        ->        parallel i_o: for k: for i in the stretch of i_o: ...

Where iterations add to the same elements, as those of a histogram do, each thread has whole cells (`cells`) or partial results of its own
(`rfactor`), unless these are rounded, so that their order would change them.

Of a loop inside others threads fork and join in each of their iterations, but are awake still. Loops in a row that go through the same rows
are one then, so that threads fork once; where they cannot be, threads share both, so that a row stays in the cache of one core.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import ceil, prod
from typing import Final

from tensorlang.errors import ScheduleError
from tensorlang.ir import For, Stmt
from tensorlang.ir.traverse import substatements
from tensorlang.schedules.directives.fuse_loops import FuseLoops
from tensorlang.schedules.directives.loop_kinds import Parallel
from tensorlang.schedules.model.estimate import estimate, estimated
from tensorlang.schedules.model.parts import Loop, Part
from tensorlang.schedules.model.program import program
from tensorlang.schedules.rewriting.edit import find_loop, loops, loops_on, path_to_loop, stores
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.stages import partial_results, size
from tensorlang.schedules.strategies.loops.cells import share_cells
from tensorlang.schedules.strategies.loops.neighbours import neighbours, shared_bytes
from tensorlang.schedules.strategies.loops.thread_loop import AWAKE, WORTH_THREADS, parallelize, seconds_of_forks, sharing_pays
from tensorlang.schedules.strategies.processor import Processor

SHARED: Final = (frozenset({"parallel"}), frozenset({"parallel", "serial"}), frozenset({"serial"}))
"""Kinds of neighbouring loops that threads may share: two that are too little for that may be enough together."""
WORTH_ASKING: Final = 0.005
"""The share of a program's time, on one thread, which has to be saved for it to be proved that two loops may be one."""


def share_rest(s: Schedule, machine: Processor, threads: int) -> Schedule:
    """The schedule with threads for each loop that none shares yet, nor one around or inside it, where that is legal and pays."""
    s = s.copy()
    seconds = _seconds_of_loops(s, machine)
    waiting = list(_outermost(s.nest.body, 1))
    while waiting:
        name, turns = waiting.pop()
        loop = find_loop(s.nest, name)
        if size(loop) > 1 and not any(part.kind == "parallel" for part in loops(loop)):
            work = seconds.get(name, 0.0)
            fork = seconds_of_forks(machine.core, turns)
            if work * (1 - 1 / threads) <= fork:
                continue
            if sharing_pays(loop, work, threads, fork) and parallelize(s, name, threads):
                continue
            given = s, loop, work, threads, fork
            shared = share_cells(*given) or _in_stretches(*given) or _in_parts(*given, machine)
            if shared is not None:
                s = shared
                continue
        if loop.kind == "serial":
            waiting += _outermost(loop.body, turns * size(loop))
    return _in_one(s, machine, threads)


def _in_one(s: Schedule, machine: Processor, threads: int) -> Schedule:
    """The schedule with loops in a row that go through the same rows as one which threads share, where that saves forks or lines."""
    if next(neighbours(s.nest.body, 0, SHARED), None) is None:
        return s
    asked, seconds, each = set[tuple[str, str]](), estimate(s.nest, machine.core).seconds, _seconds_of_loops(s, machine)
    while (pair := next((pair for pair in neighbours(s.nest.body, 0, SHARED) if pair not in asked), None)) is not None:
        asked.add(pair)
        alone = [name for name in pair if find_loop(s.nest, name).kind == "serial"]
        turns = prod(size(loop) for loop in loops_on(path_to_loop(s.nest, pair[0]))[:-1])
        fork = turns * AWAKE * machine.core.fork
        work, begun = sum(each.get(name, 0.0) for name in alone), len(alone) < len(pair)  # threads share one of them already
        if not begun and not sharing_pays(find_loop(s.nest, pair[0]), work, threads, seconds_of_forks(machine.core, turns)):
            continue
        saved = work * (1 - 1 / threads) if alone else fork
        handed = turns * _handed_on(s, pair, machine, threads) if alone and turns > 1 else 0.0
        trial = s.copy()
        if saved + handed < WORTH_ASKING * seconds or not all(trial.attempt(Parallel(name)) for name in alone):
            continue
        fused = trial.copy()
        if fused.attempt(FuseLoops(*pair)):
            more = estimate(fused.nest, machine.core).seconds - seconds
            if more / threads < saved:
                s, seconds = fused, seconds + more
        elif saved + handed > fork and alone and begun:
            s = trial
    return s


def _handed_on(s: Schedule, pair: tuple[str, str], machine: Processor, threads: int) -> float:
    """Seconds in which lines go from core to core and back, of tensors that threads go through in one loop and one thread in the other."""
    core = machine.core
    lines = shared_bytes(*(find_loop(s.nest, name) for name in pair)) / core.line * (1 - 1 / threads)
    return 2 * lines * (core.line / core.caches[-1].bandwidth + core.caches[-1].latency / core.outstanding) / core.hertz


def _outermost(stmt: Stmt, turns: int) -> Iterator[tuple[str, int]]:
    """The outermost loops within, each with how often it runs where `stmt` runs so often."""
    if isinstance(stmt, For):
        yield stmt.loop, turns
    else:
        for part in substatements(stmt):
            yield from _outermost(part, turns)


def _in_stretches(s: Schedule, loop: For, work: float, threads: int, fork: float) -> Schedule | None:
    """Each thread with all iterations of a loop for a stretch of the one loop inside it; None where that is not legal or does not pay."""
    inside = loop.body
    if not isinstance(inside, For) or inside.kind != "serial" or not sharing_pays(inside, work, threads, fork):
        return None
    trial = s.copy()
    with suppress(ScheduleError):
        stretch, own = trial.split(inside.loop, ceil(size(inside) / threads))
        trial.reorder(stretch, loop.loop, own)
        trial.parallel(stretch)
        return trial
    return None


def _in_parts(s: Schedule, loop: For, work: float, threads: int, fork: float, machine: Processor) -> Schedule | None:
    """Each thread with partial results of its own for a part of a reduction; None where that is not legal, rounds or does not pay."""
    found = list(stores(loop))
    rounded = any(buffer.dtype.is_floating for store in found for buffer in store.buffers)
    if len(found) != 1 or found[0].reducer is None or rounded or not sharing_pays(loop, work, threads, fork):
        return None
    trial, known = s.copy(), s.stages()
    with suppress(ScheduleError):
        part, _ = trial.split(loop.loop, ceil(size(loop) / threads))
        trial.rfactor(part)
        trial.parallel(trial.loops(partial_results(trial.stages(), known))[0])
        more = estimate(trial.nest, machine.core).seconds - estimate(s.nest, machine.core).seconds
        return trial if more + work / threads + fork <= WORTH_THREADS * work else None
    return None


def _seconds_of_loops(s: Schedule, machine: Processor) -> Mapping[str, float]:
    """What each loop that runs more than once takes on one thread in all its turns; a stage in several loops counts by its iterations."""
    parts = program(s.nest)
    known, places = estimated(parts, machine.core).stages, list(_places(parts, ()))
    counts = dict[str, float]()
    for stage, around in places:
        counts[stage] = counts.get(stage, 0.0) + prod(loop.trips for loop in around)
    found = dict[str, float]()
    for stage, around in places:
        own = known.get(stage, 0.0) * prod(loop.trips for loop in around) / max(1.0, counts[stage])
        for loop in around:
            found[loop.name] = found.get(loop.name, 0.0) + own
    return found


def _places(parts: tuple[Part, ...], around: tuple[Loop, ...]) -> Iterator[tuple[str, tuple[Loop, ...]]]:
    """The stage of each statement, with the loops around it."""
    for part in parts:
        if isinstance(part, Loop):
            yield from _places(part.body, (*around, part))
        else:
            yield part.stage, around
