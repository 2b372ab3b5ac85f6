"""Where intermediates are computed: inside their consumer's row, written into it, or whole.

An intermediate that every consumer reads with the consumer's own outermost indices is computed inside those loops, so that it stays in
cache and nothing is computed twice; a pointwise intermediate that is read once for each element is written into its consumer.
"""

from __future__ import annotations

from tensorlang.ir import Axis
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis import StageInfo, readers, size, stages_of
from tensorlang.schedules.strategies.roles import roles_of


def inline_pointwise(s: Schedule) -> None:
    """Write pointwise intermediates that are read once for each element into their readers."""
    changed = True
    while changed:
        changed = False
        infos = {info.name: info for info in stages_of(s.nest)}
        for name, info in infos.items():
            uses = readers(s.nest, info.store.buffers)
            if len(uses) != 1 or info.reduced or not s.can("compute_inline", name):
                continue
            reader = infos.get(uses[0][0])
            if reader is not None and _reads_once(reader, uses[0][1]):
                s.compute_inline(name)
                changed = True
                break


def _reads_once(reader: StageInfo, index: tuple[object, ...]) -> bool:
    """Does the reader use each element at most once: every one of its loops is an index of the read?"""
    axes = [part.name for part in index if isinstance(part, Axis)]
    return len(axes) == len(index) and set(axes) == {loop.loop for loop in reader.loops}


def raise_contractions(s: Schedule) -> Schedule:
    """The schedule with every contraction that stands inside an expression computed as a stage of its own."""
    for name in s.stages():
        owner, _, number = name.rpartition(".")
        if owner in s.stages() and number.isdigit() and s.can("compute_root", name):
            trial = s.copy()
            trial.compute_root(name)
            if any(roles_of(info) for info in stages_of(trial.nest) if info.name == name):
                s = trial
    return s


def compute_in_rows(s: Schedule, result: StageInfo) -> tuple[str, ...]:
    """Move the intermediates that follow the rows of `result` into its outermost loop that repeats; the stages that moved."""
    depth = next((position for position, loop in enumerate(result.outer) if size(loop) > 1), len(result.outer))
    if depth + 1 >= len(result.outer):
        return ()
    row = result.outer[depth].loop
    moved: list[str] = []
    infos = {info.name: info for info in stages_of(s.nest)}
    inside = {result.name}
    for name in reversed(list(infos)):
        info = infos[name]
        if name in inside or not info.outer:
            continue
        uses = readers(s.nest, info.store.buffers)
        if not uses or any(stage not in inside for stage, _ in uses):
            continue
        if all(_follows(infos.get(stage), index, depth) for stage, index in uses) and s.can("compute_at", name, row):
            s.compute_at(name, row)
            inside.add(name)
            moved.append(name)
    return tuple(moved)


def _follows(reader: StageInfo | None, index: tuple[object, ...], depth: int) -> bool:
    """Are the leading indices the reader's own outermost loops?"""
    return (
        reader is not None
        and len(reader.outer) > depth < len(index)
        and all(part == Axis(loop.loop) for part, loop in zip(index[: depth + 1], reader.outer, strict=False))
    )
