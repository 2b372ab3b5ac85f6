"""Stages that meet in one loop when all of them have their directives, and the vectors that let those of a row meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.space import Config
from tensorlang.schedules.strategies.analysis.fusion import owner
from tensorlang.schedules.strategies.analysis.stages import StageInfo
from tensorlang.schedules.strategies.loops.joined_rows import JOINED, join_rows
from tensorlang.schedules.strategies.loops.neighbours import fuse_neighbours
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.in_rows import InRows
from tensorlang.schedules.strategies.rows.rows import RowVectors
from tensorlang.schedules.strategies.rows.stage_strategy import RowStrategy

KNOB: Final = "together"
"""The flag of a program whose stages may meet."""


def met(s: Schedule, machine: Processor) -> Schedule:
    """The schedule with loops in one that go through the same rows, and in each row those along it, where the model says so."""
    return join_rows(fuse_neighbours(s, machine), machine)


def stages_of_a_row(stages: Iterable[StageInfo], in_rows: InRows | None, strategies: Mapping[str, RowStrategy]) -> dict[str, RowVectors]:
    """How the stages run that may be in one row, of the last stage or of loops that stand around them."""
    last = () if in_rows is None else (in_rows.last.name, *in_rows.names)
    names = {info.name for info in stages if info.around or owner(info.name, last) in last}
    return {name: rows for name, rows in strategies.items() if name in names and isinstance(rows, RowVectors)}


def meeting_that_pays(
    config: Config, apart: Schedule, made: Callable[[Config], Schedule], row: Mapping[str, RowVectors], machine: Processor
) -> tuple[Config, Schedule]:
    """The point whose stages meet as is best, and its schedule; without them meeting it is `apart`.

    `row`: how the stages of a row run, by the prefix of their knobs. Loops join that are as long, so the point with as many elements in
    flight in all of them is a candidate.
    """
    found = met(apart, machine)
    alike = {**config, **_alike(config, row)}
    if alike != config:
        other = made(alike)
        joined = met(other, machine)
        if joined is not other and _seconds(joined, machine) < JOINED * _seconds(found, machine):
            return {**alike, KNOB: True}, joined
    return {**config, KNOB: found is not apart}, found


def _alike(config: Config, row: Mapping[str, RowVectors]) -> dict[str, Any]:
    """As many elements in flight in each stage of a row as in the one that has most of them, where it may have so many."""
    known = {prefix: config[f"{prefix}vectors"] * rows.lanes for prefix, rows in row.items() if f"{prefix}vectors" in config}
    most = max(known.values(), default=0)
    return {f"{prefix}vectors": most // row[prefix].lanes for prefix in known if most // row[prefix].lanes in row[prefix].counts}


def _seconds(s: Schedule, machine: Processor) -> float:
    return estimate(s.nest, machine.core).seconds
