"""Contractions of narrow operands in wide sums, by an instruction that adds up several products in each lane (`schedules.instructions`).

The register tile is that of `contraction`; the depth runs in steps of the products that the instruction adds. The operand of the lanes is
always packed, the products of a lane side by side; that of the rows is read as it lies, so its depth must lie along memory.

    for j_o, k_o, i_o: for other reduction axes: for k_b: unroll i_i, j_v: C_acc[i_i, j_v, :] += A[i, 4 k_b :] . B_pack[k_b, j_v, :, :]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tensorlang.dtype import DType
from tensorlang.ir import Binary, Buffer, Cast, Expr, Load
from tensorlang.schedules.instructions import Instruction, shipped
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis import StageInfo, label, size
from tensorlang.schedules.strategies.contraction import Contraction
from tensorlang.schedules.strategies.machine import Machine
from tensorlang.schedules.strategies.roles import Roles, roles_of


@dataclass(frozen=True, slots=True)
class Dots(Contraction):
    """A contraction by `instruction`, which adds `width` products in each of its lanes."""

    instruction: str = ""
    width: int = 1

    @classmethod
    def of(cls, stage: StageInfo, machine: Machine, threads: int, constants: frozenset[str] = frozenset()) -> Dots | None:
        """The cheapest roles in which an instruction of the machine computes the stage, or None."""
        found = []
        for roles in roles_of(stage):
            for instruction in shipped():
                lanes, width = (int(getattr(extent, "value", 0)) for extent in instruction.nest.inputs[1].shape)
                if instruction.requires <= machine.isa and _computes(instruction, roles):
                    limits = machine.registers, machine.l1, machine.l2, threads, constants
                    found.append(cls(roles, lanes, *limits, instruction=instruction.name, width=width))
        return min(found, key=lambda kind: kind.cost, default=None)

    def constraints(self) -> Iterator[tuple[Callable[[Mapping[str, Any]], bool], str]]:
        """Those of any contraction, and that the depth holds whole steps."""
        yield from Contraction.constraints(self)
        yield self._steps, "the depth is whole steps"

    def _steps(self, config: Mapping[str, Any]) -> bool:
        return bool(config["depth"] % self.width == 0 or config["depth"] >= size(self.roles.depth))

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

    def _bytes(self) -> int:
        return 1 if self.roles.operand is None else self.roles.operand.buffer.dtype.bytes

    def _vectors(self, s: Schedule, j_i: str, config: Mapping[str, Any], /) -> tuple[list[str], str]:
        if config["vectors"] == 1:
            return [], j_i
        j_v, j_l = s.split(j_i, self.lanes, "peel", (f"{label(j_i)}_v", f"{label(j_i)}_l"))
        return [j_v], j_l

    def _products(self, s: Schedule, k: str, /) -> tuple[str, list[str]]:
        k, products = s.split(k, self.width, "peel", (f"{label(k)}_b", f"{label(k)}_p"))
        return k, [products]

    def _compute(self, s: Schedule, j_i: str) -> None:
        target = self.stage.store.buffers[0].name
        s.tensorize(j_i, self.instruction)
        for stage in (f"{target}_acc.init", f"{target}_acc.load", f"{target}_acc.store"):
            if stage in s.stages():
                s.vectorize(f"{stage}.{label(j_i)}")


def _computes(instruction: Instruction, roles: Roles) -> bool:
    """Are the products those of an instruction, its rows readable as they lie, and its lanes those of the output?"""
    stage, row, lanes = roles.stage, roles.row_operand, roles.operand
    if not roles.packable or roles.turned or row is None or lanes is None or not isinstance(lanes.buffer, Buffer):
        return False
    a, b = instruction.nest.inputs
    (c,) = instruction.nest.outputs
    (value,) = stage.store.values
    kinds = (row.buffer.dtype, lanes.buffer.dtype, stage.store.buffers[0].dtype)
    whole = size(roles.depth) >= 1 and stage.stride(row, roles.depth) == 1 and stage.stride(lanes, roles.depth) not in (0, None)
    return kinds == (a.dtype, b.dtype, c.dtype) and _product(value, c.dtype, (row, lanes)) and whole


def _product(value: Expr, sums: DType, operands: tuple[Load, Load]) -> bool:
    """Is a value the product of two operands in the type of the sums?"""
    match value:
        case Binary("mul", Cast(left, one), Cast(right, other)):
            return one == other == sums and {id(left), id(right)} == {id(operand) for operand in operands}
        case _:
            return False
