"""Operands of dot products in blocks of the products that a lane adds: what is strided in an image becomes contiguous.

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

import math

from tensorlang.ir import Axis, Buffer, Load
from tensorlang.schedules.model.program import program as parts_of
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.stages import StageInfo, label, readers, stages_of, tensor_of
from tensorlang.schedules.strategies.contractions.contraction import Contraction
from tensorlang.schedules.strategies.contractions.dot_products import DotProducts, strided_dot_kernels
from tensorlang.schedules.strategies.loops.thread_loop import seconds_in_lanes
from tensorlang.schedules.strategies.processor import Processor


def interleave_operands(s: Schedule, machine: Processor, constants: frozenset[str]) -> Schedule:
    """The schedule with the operands in blocks that dot products read in their rows, where that is legal and cheapest by the model."""
    for stage in stages_of(s.nest):
        found = (kernel for kernel in strided_dot_kernels(stage, machine) if _source(kernel).name not in constants)
        kernels = {(_source(kernel).name, kernel.along.loop, kernel.products): kernel for kernel in found}
        blocked = [trial for kernel in kernels.values() if (trial := _interleaved(s, kernel)) is not None]
        s = min((s, *blocked), key=lambda trial: _seconds(trial, stage.name, machine, constants)) if blocked else s
    return s


def _seconds(s: Schedule, name: str, machine: Processor, constants: frozenset[str]) -> float:
    """What a contraction takes by the model in its cheapest roles, with the stages that make its operands; infinity where it is none."""
    stages, plain = stages_of(s.nest), parts_of(s.nest)
    stage = next(info for info in stages if info.name == name)
    product = Contraction.of(stage, machine, 1, plain, constants)
    if product is None:
        return math.inf
    read = {tensor_of(load).name for load in stage.loads}
    makers = (info for info in stages if info is not stage and not info.reduced and read & {buffer.name for buffer in info.store.buffers})
    return product.search.tile_seconds() + sum(seconds_in_lanes(info, info.loops[-1], plain, machine) for info in makers)


def _row(kernel: DotProducts) -> Load:
    """The load of the rows, which every such kernel has."""
    (row,) = kernel.roles.row_operands
    return row


def _source(kernel: DotProducts) -> Buffer:
    return tensor_of(_row(kernel))


def _producer(s: Schedule, kernel: DotProducts) -> StageInfo | None:
    """The stage that makes the operand for this product only, element by element."""
    buffer = _source(kernel)
    makers = [info for info in stages_of(s.nest) if buffer in info.store.buffers]
    users = {stage for stage, _ in readers(s.nest, (buffer,))}
    alone = len(makers) == 1 and users == {kernel.roles.stage.name} and not makers[0].reduced and makers[0].store.reducer is None
    return makers[0] if alone and all(Axis(loop.loop) in makers[0].store.index for loop in makers[0].loops) else None


def _interleaved(s: Schedule, kernel: DotProducts) -> Schedule | None:
    """The schedule with the operand in blocks; None where another layout, or another order of the loops that write it, is not legal."""
    s, stage = s.copy(), kernel.roles.stage
    place = _row(kernel).index.index(Axis(kernel.along.loop))
    producer = _producer(s, kernel)
    if producer is None:
        name, at, before = _source(kernel).name, stage.loops[0].loop, set(s.stages())
        if not s.can("cache_read", name, at=at):
            return None
        s.cache_read(name, at=at)
        producer = next(info for info in stages_of(s.nest) if info.name not in before)
    written = producer.store.index[place]
    names = [f"i{axis}" for axis in range(len(producer.store.index))]
    places = [*names[:place], f"{names[place]} // {kernel.products}", *names[place + 1 :], f"{names[place]} % {kernel.products}"]
    layout = f"lambda {', '.join(names)}: ({', '.join(places)})"
    if not s.can("transform_layout", producer.name, layout):
        return None
    s.transform_layout(producer.name, layout)
    split = next(loop.loop for loop in producer.loops if written == Axis(loop.loop))
    blocks, products = _split(s, split, kernel.products)
    order = [*(blocks if loop.loop == split else loop.loop for loop in producer.loops), products]
    if not s.can("reorder", *order):
        return None
    s.reorder(*order)
    _split(s, kernel.along.loop, kernel.products)
    return s


def _split(s: Schedule, loop: str, width: int) -> tuple[str, str]:
    outer, inner = s.split(loop, width, "peel", (f"{label(loop)}_b", f"{label(loop)}_p"))
    return outer, inner
