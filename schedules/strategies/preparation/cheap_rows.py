"""Intermediates of a row that take less to be computed again than to be kept.

    for c: h[c] = (s[c] - mu) * inv                         for c: total += y[c] * ((s[c] - mu) * inv)
    for c: total += y[c] * h[c]                 ->          for c: dx[c] = g[c] - (s[c] - mu) * inv * total
    for c: dx[c] = g[c] - h[c] * total

What is kept is stored in a pass over the row of its own and takes a place in the first-level cache; computed again it costs the arithmetic,
and loads of what it reads in place of its own. The cost model tells, of the row as it is with each innermost loop in lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tensorlang.schedules.directives.compute_inline import ComputeInline
from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.parts import Loop, Part
from tensorlang.schedules.model.program import program
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_dear, stages_of
from tensorlang.schedules.strategies.processor import Processor

LOOKED_AT: Final = 8
"""Stages that are looked at: with each of them the others are placed anew."""
CHEAPER: Final = 0.98
"""The share of a program's time below which a stage is computed again."""


def compute_cheap_again(
    s: Schedule, best: Schedule, names: Iterable[str], finished: Callable[[Schedule], Schedule | None], machine: Processor
) -> Schedule:
    """The schedule with those of the stages written into their readers that are predicted to be faster so, the last ones first, `finished`.

    Stages are written into others before they are placed, which is what `finished` does, None where nothing is; `best` is what it made
    of the schedule as it is.
    """
    infos, seconds = {info.name: info for info in stages_of(s.nest)}, _in_lanes(best, machine)
    for name in [name for name in names if _is_cheap(infos[name])][:LOOKED_AT]:
        trial = s.copy()
        if not trial.attempt(ComputeInline(name)):
            continue
        made = finished(trial)
        if made is not None and (less := _in_lanes(made, machine)) < CHEAPER * seconds:
            s, best, seconds = trial, made, less
    return best


def _is_cheap(info: StageInfo) -> bool:
    """Is it a pointwise intermediate without functions and divisions?"""
    return info.is_pointwise_intermediate and not any(map(is_dear, info.store.values))


def _in_lanes(s: Schedule, machine: Processor) -> float:
    """Seconds of a program whose innermost loops have the lanes."""
    return estimated(_vectors(program(s.nest)), machine.core).seconds


def _vectors(parts: Sequence[Part]) -> tuple[Part, ...]:
    return tuple(_innermost(part) if isinstance(part, Loop) else part for part in parts)


def _innermost(loop: Loop) -> Loop:
    inside = any(isinstance(part, Loop) for part in loop.body)
    return loop._replace(body=_vectors(loop.body)) if inside else loop._replace(kind="vector")
