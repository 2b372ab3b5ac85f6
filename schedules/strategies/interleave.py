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

from math import prod

from tensorlang.ir import Axis, Buffer, Const, Load
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis import StageInfo, label, readers, stages_of, tensor_of
from tensorlang.schedules.strategies.cost_model import COPY_CYCLES, TRANSPOSE_CYCLES, CostModel, cheapest
from tensorlang.schedules.strategies.dot_products import DotProducts, dot_kernels, strided_dot_kernels
from tensorlang.schedules.strategies.machine import Machine


def interleave_operands(s: Schedule, machine: Machine, constants: frozenset[str]) -> Schedule:
    """The schedule with the operands in blocks that dot products read in their rows, where that is legal and cheapest."""
    for stage in stages_of(s.nest):
        kernels = [kernel for kernel in strided_dot_kernels(stage, machine) if _source(kernel).name not in constants]
        models = [CostModel(kernel, machine, constants) for kernel in kernels]
        costs = [model.cycles + model.amortized(_copy_cycles(s, kernel)) for model, kernel in zip(models, kernels, strict=True)]
        plain = cheapest(dot_kernels(stage, machine), machine, constants)
        if costs and (plain is None or min(costs) < plain.cycles):
            s = _interleaved(s, kernels[costs.index(min(costs))]) or s
    return s


def _copy_cycles(s: Schedule, kernel: DotProducts) -> float:
    """Cycles of a copy that is made for the blocks alone."""
    if _producer(s, kernel) is not None:
        return 0.0
    extents = [int(extent.value) for extent in _source(kernel).shape if isinstance(extent, Const)]
    return (COPY_CYCLES if extents[-1] >= kernel.lanes else TRANSPOSE_CYCLES) * prod(extents)


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
