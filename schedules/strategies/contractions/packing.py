"""Packing an operand, the copy written so that both sides are walked along memory.

Where the panel lies along the source, its last loop is a vector. Where it lies across (a transposed operand, the weights of a
convolution by output channel), the copy goes in square tiles: vectors along the source, transposed in registers, stored along the panel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Final

from tensorlang.ir import Axis, Buffer, Const, Expr, For, FuseRelation, Load, Store, const
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.traverse import statements
from tensorlang.schedules.rewriting.region import expand
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, label as short, size, tail_of

MAX_UNROLLED: Final = 16
"""Vectors of a tile that is transposed in registers, at most."""


def pack(s: Schedule, operand: Buffer, at: str, lanes: int, along: str | None = None) -> None:
    """Pack `operand` (what moves `along` a loop) at the loop `at`, if that is legal, and schedule the copy for vectors of `lanes`."""
    if not s.can("pack", operand.name, at=at, along=along):
        return
    before = set(s.stages())
    s.pack(operand.name, at=at, along=along)
    (name,) = set(s.stages()) - before
    copy = _copy_stage(s, name)
    if copy is None or not copy.loops or len(copy.loads) != 1:
        return
    (load,) = copy.loads
    last = copy.loops[-1]
    if copy.stride(load, last) == 1 or size(last) < 2:
        _copy_along(s, last, lanes)
    elif copy.stride(copy.store, last) == 1:
        _copy_across(s, copy, load, lanes)


def _copy_stage(s: Schedule, name: str) -> StageInfo | None:
    """The copy as a stage, its loops innermost last."""
    wanted = set(s.loops(name))
    loops = tuple(part for part in statements(s.nest.body) if isinstance(part, For) and part.loop in wanted)
    stores = [part for part in statements(s.nest.body) if isinstance(part, Store) and part.stage == name]
    if len(stores) != 1:
        return None

    def over_loops(expr: Expr) -> Expr:
        return expand(s.nest, expr, [part.loop for part in loops])

    (store,) = stores
    values = tuple(_flat(s, value, over_loops) if isinstance(value, Load) else value for value in store.values)
    return StageInfo(name, replace(store, index=tuple(map(over_loops, store.index)), values=values), loops)


def _flat(s: Schedule, load: Load, over_loops: Callable[[Expr], Expr]) -> Load:
    """A load with its place in memory as its only index: there a fused loop is walked as one."""
    if not isinstance(load.buffer, Buffer):
        return replace(load, index=tuple(map(over_loops, load.index)))
    form, step = Linear(0), 1
    for place, extent in zip(reversed(load.index), reversed(load.buffer.shape), strict=True):
        form = form.plus(linear(over_loops(place)), step)
        if not isinstance(extent, Const):
            return replace(load, index=tuple(map(over_loops, load.index)))
        step *= int(extent.value)
    for part in s.nest.relations:
        if isinstance(part, FuseRelation) and isinstance(part.extent, Const):
            near, far = form.terms.get(Axis(part.inner), 0), form.terms.get(Axis(part.outer), 0)
            if near and far == near * int(part.extent.value):
                form = form.plus(Linear(0, {Axis(part.inner): near, Axis(part.outer): far}), -1).plus(Linear(0, {Axis(part.fused): near}))
    return Load(replace(load.buffer, shape=(const(step),)), (over_loops(expression(form)),))


def _copy_along(s: Schedule, last: For, lanes: int) -> None:
    """Vectors along the source and the panel."""
    loop = last.loop
    if size(last) > 4 * lanes:
        _, loop = s.split(loop, lanes, tail_of(is_literal(last), "mask"), (f"{short(loop)}_v", f"{short(loop)}_l"))
    if s.can("vectorize", loop):
        s.vectorize(loop)


def _copy_across(s: Schedule, copy: StageInfo, load: Load, lanes: int) -> None:
    """Vectors along the source, unrolled along the panel."""
    last = copy.loops[-1]
    others = [loop for loop in copy.loops if loop is not last and size(loop) > 1]
    chain = [loop for loop in others if copy.stride(load, loop) == 1]
    if not chain:
        return
    run = [chain[-1]]
    for loop in reversed(others[: others.index(chain[-1])]):
        if copy.stride(load, loop) != size(run[0]) * (copy.stride(load, run[0]) or 0):
            break
        run.insert(0, loop)
    around = [loop.loop for loop in copy.loops if loop is not last and loop not in run]
    first, *rest = (loop.loop for loop in run)
    for name in rest:
        if not s.can("fuse", first, name):
            return
        first = s.fuse(first, name)
    width = min(lanes, prod(map(size, run)))
    tail = tail_of(all(map(is_literal, run)), "mask")
    tiles, vector = s.split(first, width, tail, (f"{short(first)}_v", f"{short(first)}_l"))
    panel = last.loop
    if size(last) > MAX_UNROLLED:
        part, panel = s.split(panel, MAX_UNROLLED, tail_of(is_literal(last), "mask"), (f"{short(panel)}_u", f"{short(panel)}_r"))
        around.append(part)
    s.reorder(*around, tiles, panel, vector)
    s.vectorize(vector)
    s.unroll(panel)
