"""Results that go through the same rows, computed in one pass over them.

    for a: for c: h[a, c] = f(x[a, c])                      for c: dw[c] = 0
    for a: for c: dx[a, c] = g(h[a, c])             ->      for a:
    for c: for a: dw[c] += y[a, c] * h[a, c]                    for c: h[c] = f(x[a, c])
                                                                for c: dx[a, c] = g(h[c])
                                                                for c: dw[c] += y[a, c] * h[c]

Gradients of a layer are such: one has rows, others are sums over the rows. What both of them read is computed whole where each has loops of
its own; in one pass it is a row that stays near. The sums are added to in memory then, a row at a time. Windows and products are left
alone, whose operands are reused from registers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from operator import contains
from typing import Final

from tensorlang.errors import ScheduleError
from tensorlang.ir import Axis, For
from tensorlang.ir.dtype import dtype
from tensorlang.ir.printer import short
from tensorlang.schedules.directives.compute_at import ComputeAt
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.rewriting.edit import extent_of, stage_of
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.fusion import owner
from tensorlang.schedules.strategies.analysis.roles import roles_of
from tensorlang.schedules.strategies.analysis.sliding import sliding
from tensorlang.schedules.strategies.analysis.stages import (
    StageInfo,
    is_literal,
    partial_results,
    readers,
    size,
    stage_named,
    stages_of,
    tensor_of,
)
from tensorlang.schedules.strategies.preparation.cheap_rows import compute_cheap_again
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.in_rows import MOST

PARTS: Final = 16
"""Parts of the rows, each with sums of its own, so that threads can share them: as many for any number of threads up to this one."""
ROWS_OF_A_PART: Final = 4
"""Rows of a part, at least: with fewer, to add up the sums of parts is work beside the rows."""

SAVED: Final = 1 / 8
"""The share of the time of lines from beyond the first level, or of the work in full vectors, that a pass has to save for both ways to
be searched: of 29 programs none that saves less was faster."""
FLOAT: Final = dtype("float32")
FAR: Final = ("L2", "L3", "memory", "pages")
"""What the first level does not hold."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The axis that says the row, and its loops: itself, or one over parts and one within a part."""

    axis: str
    loops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Pass:
    """A schedule with the loops over the rows of some results joined, outermost first; and the stages that compute these results."""

    s: Schedule
    results: tuple[StageInfo, ...]
    rows: tuple[_Rows, ...] = ()


def in_one_pass(s: Schedule, machine: Processor, threads: int) -> Schedule | None:
    """The schedule with results in one pass, and what they need of a row there; None where no two of them need anything of the same.

    A row is one of the outermost loop of the first of them that leaves what is kept of it in the first-level cache. Threads share parts
    of the outermost rows, where that is a literal number.
    """
    results = tuple(info for info in _stages(s) if _is_result(s, info))
    for place, first in enumerate(results[:-1]):
        found, joined = None, _Pass(s, results[place:])
        for row in (loop for loop in first.outer if loop is not first.loops[-1]):
            deeper = _joined(joined, row, 1 if joined.rows else _parts(row, threads))
            placed = None if deeper is None else _placed(deeper)
            if deeper is None or placed is None:
                break
            joined, (found, kept) = deeper, placed
            if kept <= machine.l1:
                break
        if found is not None:
            return _with_cheap_ones(joined, found, machine) if _saves(s, found, machine) else None
    return None


def _with_cheap_ones(given: _Pass, found: Schedule, machine: Processor) -> Schedule:
    """The pass with those of its stages computed again where they are read that are cheaper so."""

    def finished(s: Schedule) -> Schedule | None:
        placed = _placed(replace(given, s=s))
        return None if placed is None else placed[0]

    names = [step.stage for step in found.directives[len(given.s.directives) :] if isinstance(step, ComputeAt)]
    return compute_cheap_again(given.s, found, names, finished, machine)


def _saves(apart: Schedule, passed: Schedule, machine: Processor) -> bool:
    """Is it worth a search? Before lanes and sizes are chosen the model knows what moves, and that vectors take a part of the work."""
    before, after = (estimate(each.nest, machine.core) for each in (apart, passed))
    far, left = (sum(each.shares[level] for level in FAR if level in each.shares) for each in (before, after))
    return far - left > SAVED * max(far, before.seconds / machine.lanes(FLOAT))


def _parts(row: For, threads: int) -> int:
    """In how many parts the rows are computed."""
    parts = max(PARTS, threads)
    return parts if threads > 1 and is_literal(row) and size(row) >= parts * ROWS_OF_A_PART else 1


def _stages(s: Schedule) -> list[StageInfo]:
    """The stages that stand in no other's expression."""
    infos = {info.name: info for info in stages_of(s.nest)}
    return [info for name, info in infos.items() if owner(name, infos) == name]


def _is_result(s: Schedule, info: StageInfo) -> bool:
    """Is it a result of rows, and neither a window nor a product?"""
    if not set(info.store.buffers) & set(s.nest.outputs) or info.is_idle or info.around:
        return False
    return sliding(info) is None and all(roles.row is None for roles in roles_of(info))


def _joined(given: _Pass, row: For, parts: int) -> _Pass | None:
    """The rows of the first of the results in one loop with those of the others that go through them; None where no other does."""
    first, *others = given.results
    read, around = _rows_read(given.s, first, row), {name for rows in given.rows for name in rows.loops}
    s, results = given.s.copy(), [first]
    try:
        rows = _divided(s, row, parts)
    except ScheduleError:  # the tail of the parts may be too much code
        return None
    for info in others:
        own = next((part for part in info.loops if extent_of(part) == extent_of(row) and _goes_through(info, part, read)), None)
        if own is None:
            continue
        inside = [part.loop for part in info.loops if part.loop not in around]
        trial = s.copy()
        with suppress(ScheduleError):
            if inside[0] != own.loop:
                trial.reorder(own.loop, *(name for name in inside if name != own.loop))
            theirs = _divided(trial, own, parts, is_sum=own in info.reduced)
            for one, other in zip(rows.loops, theirs.loops, strict=True):
                trial.fuse_loops(one, other)
            s, rows = trial, theirs
            results.append(stage_named(s.nest, stage_of(theirs.axis)))
    return _Pass(s, tuple(results), (*given.rows, rows)) if len(results) > 1 else None


def _divided(s: Schedule, row: For, parts: int, *, is_sum: bool = False) -> _Rows:
    """The rows in parts, of a sum over them with partial results of their own. Raises `ScheduleError` where that is refused."""
    if parts == 1:
        return _Rows(row.loop, (row.loop,))
    outer, inner = s.split(row.loop, ceil(size(row) / parts), "peel")
    if not is_sum:
        return _Rows(row.loop, (outer, inner))
    known = s.stages()
    s.rfactor(outer)
    stage = partial_results(s.stages(), known)
    axis, *loops = (f"{stage}.{short(name)}" for name in (row.loop, outer, inner))
    return _Rows(axis, tuple(loops))


def _rows_read(s: Schedule, info: StageInfo, row: For) -> Mapping[str, int]:
    """The tensors of which a stage, or one that makes what it reads, reads or writes the row of its iteration; and which axis that is."""
    makers = {buffer.name: other for other in stages_of(s.nest) for buffer in other.store.buffers}
    places = [axis for axis, part in enumerate(info.store.index) if part == Axis(row.loop)]  # none where data tell
    found = {buffer.name: axis for buffer in info.store.buffers for axis in places}
    left = [(info, row.loop)]
    while left:
        for name, axis in _read_at(*left.pop()):
            if name not in found:
                found[name] = axis
                place = makers[name].store.index[axis] if name in makers else None
                left += [(makers[name], place.name)] if isinstance(place, Axis) else []
    return found


def _read_at(info: StageInfo, loop: str) -> Iterator[tuple[str, int]]:
    """The tensors that a stage reads at an iteration of a loop, with the axis."""
    for load in info.loads:
        yield from ((tensor_of(load).name, axis) for axis, part in enumerate(load.index) if part == Axis(loop))


def _goes_through(info: StageInfo, loop: For, rows: Mapping[str, int]) -> bool:
    return any(rows.get(name) == axis for name, axis in _read_at(info, loop.loop))


def _placed(given: _Pass) -> tuple[Schedule, int] | None:
    """The schedule with what is read in the rows alone computed there, and the bytes that are kept of it; None where nothing is."""
    s, names, kept = given.s.copy(), {info.name for info in given.results}, 0
    placed = set[str]()
    for info in reversed(_stages(s)):
        if info.name in names or len(placed) == MOST:
            continue
        for depth in reversed(range(min(len(given.rows), len(info.outer)))):
            rows = given.rows[: depth + 1]
            if _read_in_rows(s, info, rows, placed) and s.attempt(ComputeAt(info.name, rows[-1].loops[-1])):
                placed.add(info.name)
                kept += info.written(len(rows)) or 0
                break
    return (s, kept) if placed else None


def _read_in_rows(s: Schedule, info: StageInfo, rows: Sequence[_Rows], placed: Collection[str]) -> bool:
    """Is a stage read within the loops of rows alone, at the row of their iterations?"""
    infos, uses = {other.name: other for other in stages_of(s.nest)}, readers(s.nest, info.store.buffers)
    if not uses or any(stage not in infos or len(index) < len(rows) for stage, index in uses):
        return False
    known = {stage: _axes_within(infos[stage], rows, is_placed=owner(stage, infos) in placed) for stage, _ in uses}
    return all(known[stage] and all(map(contains, known[stage], index)) for stage, index in uses)


def _axes_within(info: StageInfo, rows: Sequence[_Rows], *, is_placed: bool) -> list[tuple[Axis, ...]]:
    """What says each row in a stage: its axis, and a loop of the stage where that was placed; none outside of the loops of rows."""
    path = [part.loop for part in (*info.around, *info.loops)]
    if rows[-1].loops[-1] not in path:
        return []
    own = path[path.index(rows[-1].loops[-1]) + 1 :] if is_placed else []
    return [tuple(map(Axis, (each.axis, *own[place : place + 1]))) for place, each in enumerate(rows)]
