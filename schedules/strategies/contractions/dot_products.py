"""The micro-kernel of narrow operands in wide sums: an instruction adds several products in each lane (`directives.instructions`).

One loop of the reduction, `along`, runs in steps of the products that the instruction adds: the depth, or another one. The operand of the
lanes is always packed, the products of a lane contiguous; that of the rows is read in place, so `along` must be contiguous in its memory
(`interleave` makes it so where it is not).

    for j_o, k_o, i_o: for other reduction axes: for k_b: unroll i_i, j_v: C_acc[i_i, j_v, :] += A[i, 4 k_b :] . B_pack[k_b, j_v, :, :]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tensorlang.ir import Axis, Binary, Cast, Const, Expr, For, Load
from tensorlang.ir.dtype import DType
from tensorlang.schedules.directives.instructions import Instruction, shipped
from tensorlang.schedules.model.parts import slots_of
from tensorlang.schedules.model.sketch import Sketch
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.roles import Roles, roles_of
from tensorlang.schedules.strategies.analysis.stages import StageInfo, from_zero, label, size, tensor_of
from tensorlang.schedules.strategies.contractions.micro_kernel import ProductLoops, SketchedTile
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.stage_strategy import Constraint

PARTIAL_STEPS: Final = 10
"""Steps that take the time of one of which only a part may be read: an argument may end there, so elements are loaded one by one."""
LEAST_UTILIZATION: Final = 0.25
"""The share of the steps' time that has to be of use: below it, plain loops are as fast."""


@dataclass(frozen=True, slots=True)
class DotProducts:
    """Tiles by `instruction`, which adds as many `products` along the loop `along` in each of its lanes."""

    roles: Roles
    lanes: int
    instruction: str
    products: int
    along: For

    @property
    def name(self) -> str:
        """What logs call it."""
        return "dots"

    @property
    def slots(self) -> float:
        """Those of the instruction."""
        return slots_of(self.instruction)

    @property
    def panel_bytes(self) -> int:
        """Those of an element of the operand of the lanes."""
        return tensor_of(self.roles.operands[0]).dtype.bytes

    @property
    def utilization(self) -> float:
        """The share of the steps' time in which there are products to add: a part of a step takes as long as a whole one, or longer."""
        whole, part = divmod(size(self.along), self.products)
        checked = tensor_of(self.roles.row_operands[0]).memory == "argument"
        return size(self.along) / self.products / (whole + (0 if not part else PARTIAL_STEPS if checked else 1))

    @property
    def fixed_packing(self) -> bool:
        """The operand of the lanes is packed, that of the rows is read in place."""
        return True

    def constraints(self) -> Iterator[Constraint]:
        """The depth holds whole steps."""
        yield self._whole_steps, "the depth is whole steps"

    def _whole_steps(self, config: Mapping[str, Any]) -> bool:
        return self._divides(config["depth"])

    def _divides(self, depth: int) -> bool:
        return self.along is not self.roles.depth or depth % self.products == 0 or depth >= size(self.roles.depth)

    def split_vectors(self, s: Schedule, loop: str, vectors: int) -> tuple[list[str], str]:
        """A loop for each vector, that over the lanes of the instruction inside."""
        if vectors == 1:
            return [], loop
        outer, lanes = s.split(loop, self.lanes, "peel", (f"{label(loop)}_v", f"{label(loop)}_l"))
        return [outer], lanes

    def split_products(self, s: Schedule, depth: str) -> ProductLoops:
        """The loop `along` in steps, the products of a step inside."""
        along, in_depth = self.along.loop, self.along is self.roles.depth
        if not in_depth and size(self.along) == self.products:
            return ProductLoops(depth, [along], {along: ""})
        loop = depth if in_depth else along
        steps, products = s.split(loop, self.products, "peel", (f"{label(loop)}_b", f"{label(loop)}_p"))
        return ProductLoops(steps, [products], {}) if in_depth else ProductLoops(depth, [products], {along: steps})

    def packed_lanes(self, load: Load) -> int:
        """As many narrow elements as have the bytes of a vector of sums."""
        return self.lanes * self.roles.stage.store.buffers[0].dtype.bytes // tensor_of(load).dtype.bytes

    def compute(self, s: Schedule, lanes: str) -> None:
        """Replace the loops over lanes and products by the instruction; vectorize where sums start, are loaded and are stored."""
        target = self.roles.stage.store.buffers[0].name
        s.tensorize(lanes, self.instruction)
        for stage in (f"{target}_acc.init", f"{target}_acc.load", f"{target}_acc.store"):
            if stage in s.stages():
                s.vectorize(f"{stage}.{label(lanes)}")

    def sketched(self, sketch: Sketch, lanes: str, depth: str) -> SketchedTile:
        """The loops of the instruction; steps of which only a part may be read count as often as they take longer."""
        vectors, inner, products = [], lanes, self.along.loop
        if sketch.trips(lanes) > self.lanes:
            outer, inner = sketch.split(lanes, self.lanes)
            vectors.append(outer)
        in_depth = self.along is self.roles.depth
        replaced = {products: ""}
        if in_depth or size(self.along) != self.products:
            steps, products = sketch.split(depth if in_depth else products, self.products)
            sketch.lengthen(steps, 1 / self.utilization)
            depth, replaced = (steps, {}) if in_depth else (depth, {self.along.loop: steps})
        for loop in (inner, products):
            sketch.mark(loop, "tensor", self.slots)
        return SketchedTile(depth, vectors, [inner, products], replaced)


def dot_kernels(stage: StageInfo, machine: Processor) -> tuple[DotProducts, ...]:
    """The ways in which an instruction of the machine computes a stage as it is."""
    return tuple(_found(stage, machine, _contiguous))


def strided_dot_kernels(stage: StageInfo, machine: Processor) -> tuple[DotProducts, ...]:
    """The ways in which one would compute it if the products of a row were contiguous in memory, which they are not."""
    return tuple(_found(stage, machine, _along_own_dimension))


def _found(stage: StageInfo, machine: Processor, suits: Callable[[StageInfo, Load, For], bool]) -> Iterator[DotProducts]:
    for roles in () if stage.conditional else roles_of(stage):  # an instruction has no lanes that are off
        able = (one for one in shipped() if one.requires <= machine.isa and _computes(one, roles))
        instruction = next(able, None)
        if instruction is None:
            continue
        (row,), (lanes, products) = roles.row_operands, _shape(instruction)
        for along in (loop for loop in _moving(roles) if suits(stage, row, loop)):
            kernel = DotProducts(roles, lanes, instruction.name, products, along)
            if kernel.utilization >= LEAST_UTILIZATION:
                yield kernel


def _shape(instruction: Instruction) -> tuple[int, int]:
    """The lanes of an instruction, and the products that it adds in each."""
    lanes, products = (int(extent.value) for extent in instruction.nest.inputs[1].shape if isinstance(extent, Const))
    return lanes, products


def _computes(instruction: Instruction, roles: Roles) -> bool:
    """Are the products those of an instruction?"""
    stage = roles.stage
    if not roles.literal or not len(roles.row_operands) == len(roles.operands) == 1:
        return False
    (row,), (lanes,) = roles.row_operands, roles.operands
    if row.buffer == lanes.buffer:  # blocks of products would be those of both roles
        return False
    a, b = instruction.nest.inputs
    (c,) = instruction.nest.outputs
    (value,) = stage.store.values
    kinds = (row.buffer.dtype, lanes.buffer.dtype, stage.store.buffers[0].dtype)
    return kinds == (a.dtype, b.dtype, c.dtype) and _product(value, c.dtype, (row, lanes))


def _moving(roles: Roles) -> tuple[For, ...]:
    """The loops of the reduction along which the operand of the lanes moves by a constant."""
    (load,) = roles.operands
    return tuple(loop for loop in roles.stage.reduced if roles.stage.stride(load, loop) not in (0, None))


def _contiguous(stage: StageInfo, row: Load, along: For) -> bool:
    """Are the products of a row contiguous in memory?"""
    return size(along) >= 1 and stage.stride(row, along) == 1


def _along_own_dimension(stage: StageInfo, row: Load, along: For) -> bool:
    """Are they strided, along a dimension of their own?"""
    alone = Axis(along.loop) in row.index and from_zero(along)
    return size(along) > 1 and alone and stage.stride(row, along) not in (0, 1, None)


def _product(value: Expr, sums: DType, operands: tuple[Load, Load]) -> bool:
    """Is a value the product of two operands in the type of the sums?"""
    match value:
        case Binary("mul", Cast(left, one), Cast(right, other)):
            return one == other == sums and {id(left), id(right)} == {id(operand) for operand in operands}
        case _:
            return False
