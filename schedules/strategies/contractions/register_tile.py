"""Register tiles: which sizes are worth trying, and what one is worth by the arithmetic that it does for each load.

A tile is `rows` x (`vectors` * lanes) elements of the output, kept in registers; for every step of the depth it loads a vector of each
column and broadcasts an element of each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tensorlang.ir import For, Load
from tensorlang.schedules.strategies.analysis.stages import StageInfo, tensor_of, utilization
from tensorlang.schedules.strategies.contractions.micro_kernel import MicroKernel
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.system.lazy import cached_property

MAX_ROWS: Final = 28
CONFLICT_ROWS: Final = 16
"""Rows of a tile, at most, and where they fall into one or two sets of the first-level cache."""
MAX_VECTORS: Final = 6
"""Vectors of a row of the tile, at most."""
MAX_LANES: Final = 128
"""Elements of a row of the tile, at most."""
MAX_VECTORS_ALONE: Final = 4
"""Vectors of a tile of one row, at most by default: enough independent sums to hide the latency of an addition."""
WAY_BYTES: Final = 4096
"""Bytes after which addresses fall into the same set of the first-level cache: its ways are pages."""
CONFLICT_VALUE: Final = 0.97
"""The share of a tile's value that is left where its rows contend for one set of the first-level cache."""
INDEPENDENT_SUMS: Final = 10
"""Accumulators that have to be in flight to keep the multiply-add units busy."""


@dataclass(frozen=True)
class RegisterTiles:
    """The tiles of a micro-kernel on a machine."""

    kernel: MicroKernel
    machine: Processor

    @cached_property
    def row_sizes(self) -> tuple[int, ...]:
        """The numbers of rows worth trying."""
        roles = self.kernel.roles
        if roles.row is None:
            return (1,)
        conflict = any(leading_dimension_conflict(roles.stage, load, roles.row.last, sets=2) for load in roles.row_operands)
        return tuple(range(1, min(roles.row.size, CONFLICT_ROWS if conflict else MAX_ROWS) + 1))

    @cached_property
    def vector_sizes(self) -> tuple[int, ...]:
        """The numbers of vectors worth trying."""
        return vector_counts(self.kernel.roles.vector.size, self.kernel.lanes, MAX_VECTORS)

    def fits(self, rows: int, vectors: int) -> bool:
        """Do the accumulators, the vectors of one step, broadcast elements and what they are combined to fit the vector registers?"""
        roles = self.kernel.roles
        elements = max(1, len(roles.row_operands)) + roles.temporaries
        sums = rows * roles.results + max(1, len(roles.operands))
        return sums * vectors * roles.interleaving + elements <= self.machine.registers

    def value(self, rows: int, vectors: int) -> float:
        """Arithmetic for each load, ragged edges and idle units counted as lost; a relative number."""
        roles = self.kernel.roles
        used = utilization(roles.vector.size, vectors * self.kernel.lanes)
        if roles.row is not None:
            used *= utilization(roles.row.size, rows)
            many = rows > self.machine.l1 // WAY_BYTES // 2
            conflict = any(leading_dimension_conflict(roles.stage, load, roles.row.last) for load in roles.row_operands)
            used *= CONFLICT_VALUE if many and conflict else 1.0
        tiles = roles.interleaving
        rows, vectors = rows * tiles, vectors * tiles
        independent: float = min(1.0, rows * vectors / tiles / INDEPENDENT_SUMS)
        loads = rows * max(1, len(roles.row_operands))
        loads += vectors * max(1, len(roles.operands)) * 2  # a vector is dearer than an element that is broadcast
        return float(used * independent * (2 * rows * vectors / tiles / loads) ** 0.25)

    @cached_property
    def worthiest(self) -> dict[int, int]:
        """For each number of vectors the rows of the most value that fit the registers; none where none do."""
        found = {}
        for vectors in self.vector_sizes:
            fitting = [(self.value(rows, vectors), rows) for rows in self.row_sizes if self.fits(rows, vectors)]
            if fitting:
                found[vectors] = max(fitting)[1]
        return found

    @cached_property
    def best(self) -> tuple[int, int]:
        """The rows and vectors of the most value that fit the registers; of equal ones the most rows, which read panels less often."""
        if self.kernel.roles.row is None:
            return 1, max(
                count
                for count in self.vector_sizes
                if count * self.kernel.roles.results <= max(MAX_VECTORS_ALONE, self.kernel.roles.results)
            )
        tiles = [(rows, vectors) for vectors, rows in self.worthiest.items()]
        return max(tiles, key=lambda tile: (self.value(*tile), tile), default=(1, 1))


def vector_counts(extent: int, lanes: int, most: int) -> tuple[int, ...]:
    """The numbers of vectors that a run of `extent` elements can be tiled by, `most` at most."""
    whole = max(1, -(-extent // lanes))
    return tuple(count for count in range(1, most + 1) if count <= whole and count * lanes <= MAX_LANES)


def leading_dimension_conflict(stage: StageInfo, load: Load, loop: For, sets: int = 1) -> bool:
    """Does what a load reads along a loop fall into so many sets of the first-level cache, or fewer: is its stride whole ways?"""
    stride = (stage.stride(load, loop) or 0) * tensor_of(load).dtype.bytes
    return stride != 0 and stride * sets % WAY_BYTES == 0
