"""Operands of dot products in blocks of the products that a lane adds: what lies apart in an image is laid side by side.

    x: uint8[64, 58, 58]                            x: uint8[16, 58, 58, 4]
    for c in range(64):                             for c_b in range(16):
        for y in range(58):                             for y in range(58):
            for z in range(58):             ->              for z in range(58):
                x[c, y, z] = f(c, y, z)                         for c_p in range(4):
                                                                    x[c // 4, y, z, c % 4] = f(c, y, z)

An intermediate (a padded image) is written so in the first place; an argument is copied, an image at a time. The windows of a convolution
then find the products of any pixel at one place, so nothing is unfolded.
"""

from __future__ import annotations

from math import prod

from tensorlang.errors import ScheduleError
from tensorlang.ir import Axis, Buffer, Const, Load
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis import StageInfo, label, readers, stages_of
from tensorlang.schedules.strategies.dots import Dots
from tensorlang.schedules.strategies.machine import Machine
from tensorlang.schedules.strategies.model import COPIED, TURNED


def interleaved(s: Schedule, machine: Machine, threads: int, constants: frozenset[str]) -> Schedule:
    """The schedule with the operands in blocks that dot products read in their rows, where that is the cheapest way to run them."""
    for stage in stages_of(s.nest):
        apart = Dots.apart(stage, machine, threads, constants)
        costs = [
            (kind.cost + kind.share(_copied(s, kind)), place) for place, kind in enumerate(apart) if _reads(kind).name not in constants
        ]
        plain = Dots.of(stage, machine, threads, constants)
        if costs and (plain is None or min(costs)[0] < plain.cost):
            try:
                s = _in_blocks(s.copy(), apart[min(costs)[1]])
            except ScheduleError:  # another order of the loops, or another layout, is not legal here
                continue
    return s


def _copied(s: Schedule, kind: Dots) -> float:
    """Cycles of a copy that is made for the blocks alone."""
    if _maker(s, kind) is not None:
        return 0.0
    extents = [int(extent.value) for extent in _reads(kind).shape if isinstance(extent, Const)]
    return (COPIED if extents[-1] >= kind.lanes else TURNED) * prod(extents)


def _read(kind: Dots) -> Load:
    row = kind.roles.row_operand
    assert row is not None
    return row


def _reads(kind: Dots) -> Buffer:
    buffer = _read(kind).buffer
    assert isinstance(buffer, Buffer)
    return buffer


def _maker(s: Schedule, kind: Dots) -> StageInfo | None:
    """The stage that makes the operand for this product only, element by element."""
    buffer = _reads(kind)
    makers = [info for info in stages_of(s.nest) if buffer in info.store.buffers]
    users = {stage for stage, _ in readers(s.nest, (buffer,))}
    alone = len(makers) == 1 and users == {kind.stage.name} and not makers[0].reduced and makers[0].store.reducer is None
    return makers[0] if alone and all(Axis(loop.loop) in makers[0].store.index for loop in makers[0].loops) else None


def _in_blocks(s: Schedule, kind: Dots) -> Schedule:
    """The schedule with the operand in blocks. Raises `ScheduleError`."""
    place = _read(kind).index.index(Axis(kind.products.loop))
    maker = _maker(s, kind)
    if maker is None:
        before = set(s.stages())
        s.cache_read(_reads(kind).name, at=kind.stage.loops[0].loop)
        maker = next(info for info in stages_of(s.nest) if info.name not in before)
    written = maker.store.index[place]
    names = [f"i{axis}" for axis in range(len(maker.store.index))]
    places = [*names[:place], f"{names[place]} // {kind.width}", *names[place + 1 :], f"{names[place]} % {kind.width}"]
    s.transform_layout(maker.name, f"lambda {', '.join(names)}: ({', '.join(places)})")
    split = next(loop.loop for loop in maker.loops if written == Axis(loop.loop))
    blocks, products = _split(s, split, kind.width)
    s.reorder(*(blocks if loop.loop == split else loop.loop for loop in maker.loops), products)
    _split(s, kind.products.loop, kind.width)
    return s


def _split(s: Schedule, loop: str, width: int) -> tuple[str, str]:
    outer, inner = s.split(loop, width, "peel", (f"{label(loop)}_b", f"{label(loop)}_p"))
    return outer, inner
