"""What a contraction costs on a machine: its register tile, its panels, and the caches that they stay in.

A strategy asks `cycles` to choose between micro-kernels and roles; `blocking` then searches the point of the one that it takes. Panels are
those of Goto and van de Geijn (2008): a panel of the operand of the lanes, `depth` x (`vectors` * lanes) elements, stays in the
second-level cache while micro-panels of rows pass by it. Measured constants are cycles, and shares of the arithmetic, of one core of a
Zen 5; what is compared are ways to run the same product.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from tensorlang.ir import Load
from tensorlang.schedules.strategies.analysis import size, tensor_of
from tensorlang.schedules.strategies.machine import Machine
from tensorlang.schedules.strategies.micro_kernel import MicroKernel
from tensorlang.schedules.strategies.register_tile import RegisterTiles, leading_dimension_conflict
from tensorlang.schedules.strategies.roles import Roles

IDEAL_VALUE: Final = 1.33
"""The value of a tile of 14 x 2 registers without ragged edges, by which others are judged."""
COPY_CYCLES: Final = 0.2
"""Cycles for an element that is packed along memory."""
TRANSPOSE_CYCLES: Final = 1.0
"""Cycles for an element that is packed across memory, or of an output that is stored across the lanes."""
CONFLICT_LOSS: Final = 0.05
"""The share of the arithmetic that is lost on a panel that is read in place, its rows in one set of the first-level cache."""
IN_PLACE_LOSS: Final = 0.0125
"""The same where its rows are in many sets."""
MEMORY_CYCLES: Final = 2.0
"""Cycles for an element that comes from memory: with less arithmetic for each, a product waits for its operand."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """The costs of a micro-kernel on a machine; the operands named in `constants` are packed beforehand."""

    kernel: MicroKernel
    machine: Machine
    constants: frozenset[str] = frozenset()

    @property
    def roles(self) -> Roles:
        """The contraction in its roles."""
        return self.kernel.roles

    @property
    def tiles(self) -> RegisterTiles:
        """Its register tiles."""
        return RegisterTiles(self.kernel, self.machine)

    # Questions --------------------------------------------------------------------------------------------------------------

    @property
    def cycles(self) -> float:
        """Cycles for each vector of products that has to be added, packing and transposed stores included; the best possible is 1."""
        roles = self.roles
        packing = self.packing_cycles(packs=self.kernel.fixed_packing or roles.scattered or self.packing_pays)
        storing = roles.output_elements * TRANSPOSE_CYCLES if roles.transposed else 0.0
        value = self.tiles.value(*self.tile, memory_bound=self.memory_bound)
        return IDEAL_VALUE / value / self.kernel.utilization + self.amortized(packing + storing)

    def amortized(self, cycles: float) -> float:
        """Cycles beside the arithmetic, for each vector of products."""
        return cycles * 2 * self.kernel.lanes * self.kernel.products / max(1, self.roles.stage.iterations)

    def packing_cycles(self, *, packs: bool) -> float:
        """Cycles to pack all panels of the operand of the lanes; 0 where they are not packed, or beforehand."""
        each = TRANSPOSE_CYCLES if self.roles.scattered else COPY_CYCLES
        return self.roles.panel_elements * each if packs and not self.constant else 0.0

    # The register tile ------------------------------------------------------------------------------------------------------

    @property
    def tile(self) -> tuple[int, int]:
        """The rows and vectors of the tile of the most value."""
        return self.tiles.best(memory_bound=self.memory_bound)

    @property
    def arithmetic(self) -> float:
        """Cycles of arithmetic for each element of the operand of the lanes."""
        return 0.0 if self.roles.row is None else self.roles.row.size / (2 * self.kernel.lanes)

    @property
    def memory_bound(self) -> bool:
        """Does the operand of the lanes come from memory, more slowly than it is multiplied?"""
        beyond = self.roles.panel_elements * self.kernel.panel_bytes > self.machine.l3
        return self.read_in_place and beyond and self.arithmetic <= MEMORY_CYCLES

    # Panels -----------------------------------------------------------------------------------------------------------------

    def packable(self, loads: tuple[Load, ...]) -> bool:
        """Is it a choice whether the operands of a role are packed?"""
        return not self.kernel.fixed_packing and bool(loads) and self.roles.packable and self.roles.row is not None

    @property
    def constant(self) -> bool:
        """Are the operands of the lanes packed beforehand?"""
        loads = self.roles.operands
        return bool(loads) and all(tensor_of(load).name in self.constants for load in loads)

    @property
    def single_panel(self) -> bool:
        """Is the operand of the lanes one contiguous panel as it is?"""
        roles = self.roles
        contiguous = len(roles.operands) == 1 and roles.stage.stride(roles.operands[0], roles.depth) == roles.vector.size
        widths = {count * self.kernel.lanes for count in self.tiles.vector_sizes}
        return contiguous and not roles.reduced and roles.vector.size in widths

    @property
    def packing_pays(self) -> bool:
        """Is a panel that is contiguous along the lanes reused often enough to copy it?"""
        roles = self.roles
        conflict = any(leading_dimension_conflict(roles.stage, load, roles.depth) for load in roles.operands)
        saved = self.arithmetic * (CONFLICT_LOSS if conflict else IN_PLACE_LOSS)
        worth = self.constant or (roles.row is not None and saved >= COPY_CYCLES and not roles.reduced)
        return self.packable(roles.operands) and worth and not self.single_panel

    @property
    def read_in_place(self) -> bool:
        """Are panels read unpacked, from an operand of several panels?"""
        roles = self.roles
        packed = roles.scattered or bool(roles.reduced) or self.single_panel or self.packing_pays
        return self.packable(roles.operands) and not packed

    def rows_exceed(self, room: int) -> bool:
        """Does the operand of the rows, which every panel reads again, take more than `room` bytes, where blocks of it can be packed?"""
        roles = self.roles
        if roles.row is None or roles.reduced or not self.packable(roles.row_operands):
            return False
        return len(roles.row_operands) * roles.row.size * size(roles.depth) * self.kernel.panel_bytes > room


def cheapest(kernels: Iterable[MicroKernel], machine: Machine, constants: Collection[str]) -> CostModel | None:
    """The model of the cheapest of some micro-kernels, or None where there are none."""
    models = [CostModel(kernel, machine, frozenset(constants)) for kernel in kernels]
    return min(models, key=lambda model: model.cycles, default=None)
