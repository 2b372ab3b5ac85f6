"""Where intermediates are computed: inside their consumer's row, written into it, or whole.

An intermediate that every consumer reads with the consumer's own outermost indices is computed inside those loops, so that it stays in
cache and nothing is computed twice; a pointwise intermediate that is read once for each element is written into its consumer.
"""

from __future__ import annotations

from collections.abc import Container
from math import prod
from typing import Final

from tensorlang.ir import Axis, Expr, For, Store
from tensorlang.ir.traverse import depth
from tensorlang.schedules.directive import Directive
from tensorlang.schedules.directives.compute_at import ComputeAt
from tensorlang.schedules.directives.compute_inline import ComputeInline
from tensorlang.schedules.directives.compute_root import ComputeRoot
from tensorlang.schedules.directives.reuse import Reuse
from tensorlang.schedules.legality.accesses import accesses
from tensorlang.schedules.rewriting.edit import path_to, stage_of
from tensorlang.schedules.rewriting.quotients_of_loops import coordinates_of
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.roles import roles_of
from tensorlang.schedules.strategies.analysis.sliding import sliding
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_dear, is_literal, readers, size, stage_named, stages_of, tensor_of
from tensorlang.schedules.strategies.processor import Processor

DEEP: Final = 64
"""How deep expressions are made: more arithmetic on an element than this hides what it costs to store and load it."""


def inline_pointwise(s: Schedule) -> None:
    """Write pointwise intermediates that are read once for each element into their readers.

    One pass goes through the stages in program order. What it writes into a reader moves the reads of that stage alone, so the passes
    end when one finds nothing; all but the last take a stage each at least, and a chain of any length takes two.
    """
    changed = True
    while changed:
        changed = False
        infos = {info.name: info for info in stages_of(s.nest)}
        uses: dict[str, list[tuple[str, tuple[Expr, ...]]]] = {}
        for access in accesses(s.nest.body):
            if not access.writes:
                uses.setdefault(access.buffer.name, []).append((access.stage, access.index))
        depths = {name: max(map(depth, info.store.values)) for name, info in infos.items()}
        moved: set[str] = set()
        for name, info in infos.items():
            found = [use for buffer in info.store.buffers for use in uses.get(buffer.name, ())]
            if info.reduced or len(found) != 1 or found[0][0] in moved:
                continue
            reader = infos.get(found[0][0])
            deep = depths.get(name, 0) + depths.get(found[0][0], 0)
            if reader is None or deep > DEEP or not reads_once(reader, found[0][1]) or _repeats(reader, info):
                continue
            if s.attempt(ComputeInline(name)):
                depths[reader.name] = deep
                moved.add(name)
        changed = bool(moved)


def _repeats(reader: StageInfo, info: StageInfo) -> bool:
    """Would loops around the reader, as the steps of a scan, compute it again and again, which costs more than to load it?"""
    again = prod(size(loop) for loop in reader.around if loop not in info.around)
    return again > 1 and (len(info.loads) > 1 or any(map(is_dear, info.store.values)))


def reads_once(reader: StageInfo, index: tuple[object, ...]) -> bool:
    """Does the reader use each element at most once: every one of its loops is an index of the read?"""
    axes = [part.name for part in index if isinstance(part, Axis)]
    return len(axes) == len(index) and set(axes) == {loop.loop for loop in reader.loops}


def raise_contractions(s: Schedule, machine: Processor) -> Schedule:
    """The schedule with every contraction or window that stands inside an expression computed as a stage of its own.

    So is every sum that is too short to fill lanes, which those of the elements around it then do, whose windows overlap, or which is the
    same for several elements, as that of a row by which all of it is divided. One that a sum before has computed already is read.
    """
    names, raised = frozenset(s.stages()), dict[frozenset[str], list[str]]()
    for name in s.stages():
        around = owner(name, names)
        place = None if around == name else place_before(s, name, around)
        if place is not None:
            trial = s.copy()
            trial.apply(place)
            info = stage_named(trial.nest, name)
            if not info.ragged.bounded.isdisjoint(loop.loop for loop in info.outer):  # all that ranges of data are within would be kept
                continue
            again = _times(info) < _times(stage_named(s.nest, name))
            if again or roles_of(info) or sliding(info) or overlaps(info) or _is_short(info, machine.lanes(info.widest)):
                s = trial
                alike = raised.setdefault(frozenset(tensor_of(load).name for load in info.loads), [])
                if not any(s.attempt(Reuse(name, other)) for other in alike):
                    alike.append(name)
    return s


def _times(info: StageInfo) -> int:
    """How often a sum is computed."""
    return info.turns * prod(map(size, info.outer))


def overlaps(info: StageInfo) -> bool:
    """Does a loop of a reduction move something that is read in proportion with one over its elements, clamped or not?"""
    for load in info.loads:
        quotients, found = coordinates_of(load, info.loops)
        sizes = {loop.loop: size(loop) for loop in quotients.loops(info.loops)}
        elements = {loop.loop for loop in quotients.loops(info.outer)}
        for part in found:
            reach = 1 + sum(abs(weight) * (sizes[loop] - 1) for loop, weight in part.weights)
            if reach < prod(sizes[loop] for loop in part.loops) and elements & set(part.loops) and not elements.issuperset(part.loops):
                return True
    return False


def _is_short(info: StageInfo, lanes: int) -> bool:
    """Has a sum fewer iterations along each of its loops than a vector has lanes, and do its results fill them?"""
    return all(is_literal(loop) and size(loop) < lanes for loop in info.reduced) and prod(map(size, info.outer)) >= lanes


def place_before(s: Schedule, name: str, around: str) -> Directive | None:
    """What computes a sum before the stage in whose expression it stands.

    Of all loops; or in those that this stage stands in (a scan); or in its own outermost one in which that is legal (a recurrence whose
    rows need whole rows before them).
    """
    if s.can("compute_root", name):
        return ComputeRoot(name)
    path = path_to(s.nest.body, lambda part: isinstance(part, Store) and part.stage == around)
    loops = [part.loop for part in path if isinstance(part, For)]
    others = [loop for loop in loops if stage_of(loop) != around]
    own = [loop for loop in loops if stage_of(loop) == around]
    return next((ComputeAt(name, loop) for loop in (*others[-1:], *own[:-1]) if s.can("compute_at", name, loop)), None)


def followers(s: Schedule, result: StageInfo, depth: int) -> tuple[str, ...]:
    """The stages that are only read by `result`, or by one another, at the element of its loops down to `depth`; the last one first.

    Reductions inside of expressions are parts of their stages.
    """
    infos = {info.name: info for info in stages_of(s.nest)}
    found: list[str] = []
    for name in reversed(list(infos)):
        info = infos[name]
        uses = [(owner(stage, infos), index) for stage, index in readers(s.nest, info.store.buffers)]
        inside = {result.name, *found}
        if name in inside or owner(name, infos) != name or not info.outer or not uses or any(stage not in inside for stage, _ in uses):
            continue
        if all(_follows(infos.get(stage), index, depth) for stage, index in uses):
            found.append(name)
    return tuple(found)


def owner(stage: str, stages: Container[str]) -> str:
    """The stage itself, or that in whose expression it stands (`mean` of `mean.1`)."""
    around, _, number = stage.rpartition(".")
    return owner(around, stages) if number.isdigit() and around in stages else stage


def _follows(reader: StageInfo | None, index: tuple[object, ...], depth: int) -> bool:
    """Are the leading indices the reader's own outermost loops?"""
    return (
        reader is not None
        and len(reader.outer) > depth < len(index)
        and all(part == Axis(loop.loop) for part, loop in zip(index[: depth + 1], reader.outer, strict=False))
    )
