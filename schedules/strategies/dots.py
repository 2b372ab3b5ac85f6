"""Contractions of narrow operands in wide sums, by an instruction that adds up several products in each lane (`directives.instructions`).

The register tile is that of `contraction`. One loop of the reduction, `along`, runs in steps of the products that the instruction adds:
the depth, or another one. The operand of the lanes is always packed, the products of a lane side by side; that of the rows is read as it
lies, so `along` must follow memory there (`interleave` makes it so where it does not).

    for j_o, k_o, i_o: for other reduction axes: for k_b: unroll i_i, j_v: C_acc[i_i, j_v, :] += A[i, 4 k_b :] . B_pack[k_b, j_v, :, :]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tensorlang.ir import Axis, Binary, Buffer, Cast, Expr, For, Load
from tensorlang.ir.dtype import DType
from tensorlang.schedules.directives.instructions import Instruction, shipped
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis import StageInfo, from_zero, label, size
from tensorlang.schedules.strategies.contraction import Contraction
from tensorlang.schedules.strategies.machine import Machine
from tensorlang.schedules.strategies.model import COPIED, IDEAL, TURNED
from tensorlang.schedules.strategies.roles import Roles, roles_of

PIECEMEAL = 10
"""Steps that take the time of one of which only a part may be read: an argument may end there, so elements are loaded one by one."""
LEAST_FILLED = 0.25
"""The share of the steps' time that has to be of use: below it, plain loops are as fast."""


@dataclass(frozen=True, slots=True)
class Dots(Contraction):
    """A contraction by `instruction`, which adds `width` products along the loop `along` in each of its lanes."""

    instruction: str = ""
    width: int = 1
    along: For | None = None

    @classmethod
    def of(cls, stage: StageInfo, machine: Machine, threads: int, constants: frozenset[str] = frozenset()) -> Dots | None:
        """The cheapest roles in which an instruction of the machine computes the stage, or None."""
        return min(cls._found(stage, machine, threads, constants, _lies), key=lambda kind: kind.cost, default=None)

    @classmethod
    def apart(cls, stage: StageInfo, machine: Machine, threads: int, constants: frozenset[str] = frozenset()) -> tuple[Dots, ...]:
        """The roles in which one would compute it if the products of the rows lay side by side, which they do not."""
        return tuple(cls._found(stage, machine, threads, constants, _lies_apart))

    @classmethod
    def _found(
        cls,
        stage: StageInfo,
        machine: Machine,
        threads: int,
        constants: frozenset[str],
        lies: Callable[[StageInfo, Load, For], bool],
    ) -> Iterator[Dots]:
        for roles in roles_of(stage):
            for instruction in shipped():
                if not (instruction.requires <= machine.isa and _computes(instruction, roles)):
                    continue
                lanes, width = (int(getattr(extent, "value", 0)) for extent in instruction.nest.inputs[1].shape)
                limits = machine.registers, machine.l1, machine.l2, threads, constants
                for along in _moving_lanes(roles):
                    if roles.row_operand is not None and lies(stage, roles.row_operand, along):
                        kind = cls(roles, lanes, *limits, instruction=instruction.name, width=width, along=along)
                        if kind._filled >= LEAST_FILLED:
                            yield kind

    @property
    def cost(self) -> float:
        """Cycles for each vector of products that has to be added, against the best possible."""
        roles, (rows, vectors) = self.roles, self._tile()
        extra = 0.0 if self._constant else roles.packed * (TURNED if roles.scattered else COPIED)
        extra += roles.written * TURNED if roles.turned else 0.0
        return IDEAL / self._value(rows, vectors) / self._filled + self.share(extra)

    @property
    def _filled(self) -> float:
        """The share of the steps' time in which there are products to add: a part of a step takes as long as a whole one, or longer."""
        whole, part = divmod(size(self.products), self.width)
        row = self.roles.row_operand
        dear = row is not None and isinstance(row.buffer, Buffer) and row.buffer.memory == "argument"
        return size(self.products) / self.width / (whole + (0 if not part else PIECEMEAL if dear else 1))

    def share(self, cycles: float) -> float:
        """Cycles besides the arithmetic, for each vector of products."""
        return cycles * 2 * self.lanes * self.width / max(1, self.stage.iterations)

    @property
    def products(self) -> For:
        """The loop whose steps are the products of a lane."""
        return self.roles.depth if self.along is None else self.along

    def constraints(self) -> Iterator[tuple[Callable[[Mapping[str, Any]], bool], str]]:
        """Those of any contraction, and that the depth holds whole steps."""
        yield from Contraction.constraints(self)
        yield self._steps, "the depth is whole steps"

    def _steps(self, config: Mapping[str, Any]) -> bool:
        apart = self.products is not self.roles.depth
        return apart or bool(config["depth"] % self.width == 0 or config["depth"] >= size(self.roles.depth))

    def default(self) -> dict[str, Any]:
        """The point that the model of registers and caches names, its depth in whole steps."""
        config = Contraction.default(self)
        if not self._steps(config):
            sizes = [value for value in self._depths().values if value % self.width == 0 and value <= config["depth"]]
            config["depth"] = max(sizes, default=size(self.roles.depth))
        return config

    def _packs(self, _load: Load | None, /) -> bool:
        return False  # the operand of the lanes always is, that of the rows never: neither is a choice

    def _packs_vector(self, _config: Mapping[str, Any], /) -> bool:
        return True

    def _copied(self, load: Load, /) -> int:
        return self.lanes * self.stage.store.buffers[0].dtype.bytes // load.buffer.dtype.bytes

    def _bytes(self) -> int:
        return 1 if self.roles.operand is None else self.roles.operand.buffer.dtype.bytes

    def _vectors(self, s: Schedule, j_i: str, config: Mapping[str, Any], /) -> tuple[list[str], str]:
        if config["vectors"] == 1:
            return [], j_i
        j_v, j_l = s.split(j_i, self.lanes, "peel", (f"{label(j_i)}_v", f"{label(j_i)}_l"))
        return [j_v], j_l

    def _products(self, s: Schedule, k: str, /) -> tuple[str, list[str], dict[str, str]]:
        whole = self.products.loop
        if self.products is not self.roles.depth and size(self.products) == self.width:
            return k, [whole], {whole: ""}
        loop = k if self.products is self.roles.depth else whole
        steps, products = s.split(loop, self.width, "peel", (f"{label(loop)}_b", f"{label(loop)}_p"))
        return (steps, [products], {}) if self.products is self.roles.depth else (k, [products], {whole: steps})

    def _compute(self, s: Schedule, j_i: str) -> None:
        target = self.stage.store.buffers[0].name
        s.tensorize(j_i, self.instruction)
        for stage in (f"{target}_acc.init", f"{target}_acc.load", f"{target}_acc.store"):
            if stage in s.stages():
                s.vectorize(f"{stage}.{label(j_i)}")


def _computes(instruction: Instruction, roles: Roles) -> bool:
    """Are the products those of an instruction?"""
    stage, row, lanes = roles.stage, roles.row_operand, roles.operand
    if not roles.packable or row is None or lanes is None or not isinstance(lanes.buffer, Buffer):
        return False
    a, b = instruction.nest.inputs
    (c,) = instruction.nest.outputs
    (value,) = stage.store.values
    kinds = (row.buffer.dtype, lanes.buffer.dtype, stage.store.buffers[0].dtype)
    return kinds == (a.dtype, b.dtype, c.dtype) and _product(value, c.dtype, (row, lanes))


def _moving_lanes(roles: Roles) -> tuple[For, ...]:
    """The loops of the reduction along which the operand of the lanes moves by a constant."""
    load = roles.operand
    return () if load is None else tuple(loop for loop in roles.stage.reduced if roles.stage.stride(load, loop) not in (0, None))


def _lies(stage: StageInfo, row: Load, along: For) -> bool:
    """Do the products of a row lie side by side?"""
    return size(along) >= 1 and stage.stride(row, along) == 1


def _lies_apart(stage: StageInfo, row: Load, along: For) -> bool:
    """Do they lie apart, along a dimension of their own?"""
    alone = Axis(along.loop) in row.index and from_zero(along)
    return size(along) > 1 and alone and stage.stride(row, along) not in (0, 1, None)


def _product(value: Expr, sums: DType, operands: tuple[Load, Load]) -> bool:
    """Is a value the product of two operands in the type of the sums?"""
    match value:
        case Binary("mul", Cast(left, one), Cast(right, other)):
            return one == other == sums and {id(left), id(right)} == {id(operand) for operand in operands}
        case _:
            return False
