"""What a contraction costs on a machine: its tile of registers, its panels, and the caches that they stay in.

Measured constants are cycles and shares of one core of a Zen 5; what is compared are ways to run the same product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from tensorlang.ir import For, Load
from tensorlang.schedules.strategies.analysis import StageInfo, filled, size
from tensorlang.schedules.strategies.roles import Roles

MAX_ROWS = 28
CROWDED_ROWS = 16
"""Rows of a tile, at most, and where they fall into one or two sets of the first-level cache."""
MAX_VECTORS = 6
IDEAL = 1.33
"""The value of a tile of 14 x 2 registers without ragged edges, by which others are judged."""
COPIED = 0.2
TURNED = 1.0
"""Cycles for an element that is packed along memory, and across it; an output across the lanes costs as much."""
PAGE = 4096
"""Bytes after which addresses fall into the same set of the first-level cache (its ways are pages), and no prefetcher looks beyond."""
COLLIDED = 0.97
"""What is left of a tile's value where its rows contend for one set of the first-level cache."""
LOST = 0.05
SPREAD = 0.0125
"""The share of the arithmetic that is lost on a panel that is read as it lies: its rows in one set, and not."""
FETCHED = 2.0
"""Cycles for an element that comes from memory: with less arithmetic for each, a product waits for its operand."""


@dataclass(frozen=True, slots=True)
class Model:
    """A contraction in its roles on a machine.

    `constants` are packed beforehand, `consumer` (or "") may be computed from its tiles, and `panels` (or "") is a loop around it at which
    the operand of the lanes is packed whole.
    """

    roles: Roles
    lanes: int
    registers: int
    l1: int
    l2: int
    threads: int
    constants: frozenset[str] = frozenset()
    consumer: str = ""
    panels: str = ""
    l3: int = 0

    @property
    def stage(self) -> StageInfo:
        """The stage that contracts."""
        return self.roles.stage

    @property
    def cost(self) -> float:
        """Cycles for each vector multiply-add that has to be done, against the best possible."""
        roles, (rows, vectors) = self.roles, self._tile()
        extra = 0.0
        if (roles.scattered or self._panels_pay) and not self._constant:
            extra += roles.packed * (TURNED if roles.scattered else COPIED)
        if roles.turned:
            extra += roles.written * TURNED
        return IDEAL / self._value(rows, vectors) + extra * 2 * self.lanes / max(1, self.stage.iterations)

    def _packs(self, load: Load | None, /) -> bool:
        return load is not None and self.roles.packable and self.roles.row is not None

    def _packs_vector(self, config: Mapping[str, Any], /) -> bool:
        return self.roles.scattered or bool(config.get("pack_vector"))

    @property
    def _panels_pay(self) -> bool:
        """Is a panel that already lies along the lanes reused often enough to copy it?"""
        roles = self.roles
        share = LOST if self._in_one_set(roles.operand, roles.depth) else SPREAD
        worth = self._constant or (roles.row is not None and share * self._work >= COPIED and not roles.reduced)
        return self._packs(roles.operand) and worth and not self._panel

    @property
    def _lies(self) -> bool:
        """Are panels read where they lie, of an operand that is several panels?"""
        roles = self.roles
        return self._packs(roles.operand) and not (roles.scattered or roles.reduced or self._panel or self._panels_pay)

    @property
    def _waits(self) -> bool:
        """Does the operand of the lanes come from memory, more slowly than it is multiplied?"""
        return self._lies and self.roles.packed * self._bytes() > self.l3 and self._work <= FETCHED

    @property
    def _work(self) -> float:
        """Cycles of arithmetic for each element of the operand of the lanes."""
        return 0.0 if self.roles.row is None else self.roles.row.size / (2 * self.lanes)

    def _deepest(self, vectors: int) -> int:
        """The depth at which what a block reads again stays in the second-level cache.

        That is a packed panel; beside a panel that is read as it lies, the rows, which the next panels read again: they take most of it
        if they fit whole, and otherwise a quarter, the rest of its lines being passed by panels.
        """
        width, depth = vectors * self.lanes * self._tiles, size(self.roles.depth)
        if not self._lies or self.roles.row is None:
            share = 8 if self._outgrown else 2  # beside a block of rows, which takes half
            return max(1, self.l2 // share // (width * self._bytes() * self._others))
        each = (self.roles.row.size + width) * self._bytes()
        if each * depth <= self.l2 * 5 // 8 and not self._in_one_set(self.roles.operand, self.roles.depth):
            return depth
        return _even(depth, max(1, self.l2 // 4 // each))

    def _outgrows(self, room: int) -> bool:
        """Do the rows, which every panel reads again, take more than `room`, where blocks of them can be packed?"""
        roles = self.roles
        if roles.row is None or roles.reduced or not self._packs(roles.row_operand):
            return False
        return roles.row.size * size(roles.depth) * self._bytes() > room

    @property
    def _outgrown(self) -> bool:
        """Are blocks of rows worth their copies? Not where a tile must see whole sums."""
        return self._outgrows(self.l3 * 3 // 8) and not (self.roles.turned or self.consumer or self._lies)

    def _in_one_set(self, load: Load | None, loop: For) -> bool:
        """Does what a load reads along a loop fall into one set of the first-level cache, whole pages apart?"""
        return self._in_sets(load, loop, 1)

    def _in_sets(self, load: Load | None, loop: For, sets: int) -> bool:
        """Does it fall into so many sets, or fewer?"""
        apart = 0 if load is None else (self.stage.stride(load, loop) or 0) * load.buffer.dtype.bytes
        return apart != 0 and apart * sets % PAGE == 0

    @property
    def _panel(self) -> bool:
        """Is the operand of the lanes a single panel as it lies?"""
        roles = self.roles
        side_by_side = roles.operand is not None and self.stage.stride(roles.operand, roles.depth) == roles.vector.size
        return side_by_side and not roles.reduced and roles.vector.size in {count * self.lanes for count in self._vector_sizes()}

    @property
    def _constant(self) -> bool:
        """Is the operand of the lanes packed beforehand?"""
        load = self.roles.operand
        return load is not None and getattr(load.buffer, "name", "") in self.constants

    def _outside(self) -> list[For]:
        """The other loops of the output along which the operand of the lanes varies: outside its panels."""
        return [loop for loop in self.roles.rest if self.roles.moves(loop) and loop is not self.roles.between]

    def _inside(self) -> list[For]:
        """The other loops of the output that use the same panel of the operand of the lanes."""
        outside = self._outside()
        return [loop for loop in self.roles.rest if loop not in outside and loop is not self.roles.between]

    @property
    def _tiles(self) -> int:
        """Tiles that stand between one another, and are computed together."""
        return 1 if self.roles.between is None else size(self.roles.between)

    @property
    def _others(self) -> int:
        """Iterations of the reduction beside its depth."""
        return max(1, prod(size(loop) for loop in self.roles.reduced))

    def _bytes(self) -> int:
        return self.stage.store.buffers[0].dtype.bytes

    def _vector_sizes(self) -> tuple[int, ...]:
        most = max(1, -(-self.roles.vector.size // self.lanes))
        return tuple(count for count in range(1, MAX_VECTORS + 1) if count <= most and count * self.lanes <= 128)

    def _row_sizes(self) -> tuple[int, ...]:
        row = self.roles.row
        if row is None:
            return (1,)
        most = CROWDED_ROWS if self._in_sets(self.roles.row_operand, row.last, 2) else MAX_ROWS
        return tuple(range(1, min(row.size, most) + 1))

    def _value(self, rows: int, vectors: int) -> float:
        """Arithmetic for each load of a tile, ragged edges and idle units counted as lost."""
        whole = filled(self.roles.vector.size, vectors * self.lanes)
        if self.roles.row is not None:
            whole *= filled(self.roles.row.size, rows)
            crowded = rows > self.l1 // PAGE // 2 and self._in_one_set(self.roles.row_operand, self.roles.row.last)
            whole *= COLLIDED if crowded else 1.0
        rows, vectors = rows * self._tiles, vectors * self._tiles
        independent: float = min(1.0, rows * vectors / self._tiles / 10)
        loads = rows + vectors * (1 if self._waits else 2)  # a vector counts twice; where it is waited for, runs of them are an advantage
        return float(whole * independent * (2 * rows * vectors / self._tiles / loads) ** 0.25)

    def _tile(self) -> tuple[int, int]:
        """The rows and vectors of the most value."""
        if self.roles.row is None:
            return 1, max(count for count in self._vector_sizes() if count <= 4)
        tiles = [(rows, vectors) for rows in self._row_sizes() for vectors in self._vector_sizes()]
        fitting = [(rows, vectors) for rows, vectors in tiles if (rows + 1) * vectors * self._tiles + 1 <= self.registers]
        return max(fitting, key=lambda tile: (self._value(*tile), tile), default=(1, 1))  # more rows read panels less often


def _even(extent: int, most: int) -> int:
    """The size of parts that are as large as allowed, and alike."""
    return -(-extent // -(-extent // most))
