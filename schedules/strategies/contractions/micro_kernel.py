"""Micro-kernels: how a register tile of a contraction is computed, once the loops around it are chosen.

A micro-kernel says how many elements of the output are a vector, what its panels hold, and which directives make the loops inside of a
tile: over its vectors, over the products that one instruction adds, over lanes. What a tile costs, and in which order tiles run, is no
concern of it. There are two: plain lanes here, and instructions that add several products in each lane (`dot_products`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tensorlang.ir import Load
from tensorlang.schedules.model.parts import INSTRUCTION
from tensorlang.schedules.model.sketch import Sketch
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.roles import Roles, roles_of
from tensorlang.schedules.strategies.analysis.stages import StageInfo
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.stage_strategy import Constraint


class ProductLoops(NamedTuple):
    """The loop over the depth, those over the products of a lane, and what other loops of the reduction became ("": nothing is left)."""

    depth: str
    products: list[str]
    replaced: Mapping[str, str]


class SketchedTile(NamedTuple):
    """The loops of a tile in a sketch: over the depth, over vectors, the lanes with the products inside, what others became (as above)."""

    depth: str
    vectors: list[str]
    inner: list[str]
    replaced: Mapping[str, str]


class MicroKernel(Protocol):
    """One way to compute a register tile."""

    @property
    def name(self) -> str:
        """What logs call a contraction that runs so."""
        ...

    @property
    def roles(self) -> Roles:
        """The contraction, and what each of its loops is."""
        ...

    @property
    def lanes(self) -> int:
        """Elements of the output in a vector."""
        ...

    @property
    def products(self) -> int:
        """Products that an instruction adds in each lane."""
        ...

    @property
    def slots(self) -> float:
        """Issue slots of what adds the products of a lane, without its loads."""
        ...

    @property
    def panel_bytes(self) -> int:
        """Bytes to plan for an element of a panel."""
        ...

    @property
    def utilization(self) -> float:
        """The share of the instructions' time in which there are products to add."""
        ...

    @property
    def fixed_packing(self) -> bool:
        """Does it need the operand of the lanes packed and that of the rows in place, so that neither is a choice?"""
        ...

    def constraints(self) -> Iterator[Constraint]:
        """What it asks of points beside what every tile does."""
        ...

    def split_vectors(self, s: Schedule, loop: str, vectors: int) -> tuple[list[str], str]:
        """Split the loop over the elements of a row of the tile: the loops over vectors, and that over lanes."""
        ...

    def split_products(self, s: Schedule, depth: str) -> ProductLoops:
        """Split off the loops over the products that an instruction adds; `depth` is the loop over the depth, or a part of it."""
        ...

    def packed_lanes(self, load: Load) -> int:
        """Elements of an operand in the vectors that copy it to a panel."""
        ...

    def compute(self, s: Schedule, lanes: str) -> None:
        """Run the loop over lanes."""
        ...

    def sketched(self, sketch: Sketch, lanes: str, depth: str) -> SketchedTile:
        """The same steps on a sketch, of the loop over a row of the tile and that over the depth."""
        ...


@dataclass(frozen=True, slots=True)
class LanewiseProducts:
    """Multiply-adds of vectors: lanes are elements of the output. LLVM takes vectors of any width apart, so a row is one vector to us."""

    roles: Roles
    lanes: int

    @property
    def name(self) -> str:
        """What logs call it."""
        return "contraction"

    @property
    def products(self) -> int:
        """One product for each lane."""
        return 1

    @property
    def slots(self) -> float:
        """A multiply-add."""
        return INSTRUCTION

    @property
    def panel_bytes(self) -> int:
        """Those of an element of the output, to which operands are converted."""
        return self.roles.stage.store.buffers[0].dtype.bytes

    @property
    def utilization(self) -> float:
        """Every product is wanted."""
        return 1.0

    @property
    def fixed_packing(self) -> bool:
        """Panels are read packed or in place."""
        return False

    def constraints(self) -> Iterator[Constraint]:
        """None."""
        return iter(())

    def split_vectors(self, s: Schedule, loop: str, vectors: int) -> tuple[list[str], str]:  # noqa: ARG002 - one loop is enough
        """One loop over all lanes of a row."""
        return [], loop

    def split_products(self, s: Schedule, depth: str) -> ProductLoops:  # noqa: ARG002 - no loop is split
        """No loop: products are added one by one."""
        return ProductLoops(depth, [], {})

    def packed_lanes(self, load: Load) -> int:  # noqa: ARG002 - any operand
        """As many as a vector of the output has."""
        return self.lanes

    def compute(self, s: Schedule, lanes: str) -> None:
        """Vectorize the loop."""
        s.vectorize(lanes)

    def sketched(self, sketch: Sketch, lanes: str, depth: str) -> SketchedTile:
        """One vector loop."""
        sketch.mark(lanes, "vector")
        return SketchedTile(depth, [], [lanes], {})


def lane_kernels(stage: StageInfo, machine: Processor) -> tuple[LanewiseProducts, ...]:
    """Every way to run a stage in plain lanes; none where it is no contraction that reuses operands."""
    lanes = machine.lanes(stage.widest)
    return tuple(LanewiseProducts(roles, lanes) for roles in roles_of(stage))
