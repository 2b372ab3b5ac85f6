"""Contractions: reductions whose operands are reused (matrix products, convolutions, any einsum).

The tile of the output that fits the vector registers is `rows` x (`vectors` * lanes) elements, over a row axis and the vector axis.
The reduction runs in blocks of `depth`, so that the panel of the vector operand stays in the first-level cache; packing makes that
panel contiguous. This is the blocking of Goto and van de Geijn (2008), "Anatomy of high-performance matrix multiplication", read off
the operator's indices.

    for j_o, k_o, i_o (in the order `order`): for other reduction axes: for k_i: unroll i_i: vector j_i: C_acc[i_i, j_i] += ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tensorlang.dtype import DType
from tensorlang.ir import Buffer, For, Load
from tensorlang.schedules.knobs import Choice, Flag, Knob, Sizes, Split
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis import StageInfo, is_literal, label, size
from tensorlang.schedules.strategies.machine import Machine

MAX_ROWS = 16
MAX_VECTORS = 6
ORDERS = ("jki", "kji", "kij", "ijk")


@dataclass(frozen=True, slots=True)
class Contraction:
    """The roles of a contraction's axes and operands."""

    stage: StageInfo
    vector: For
    row: For | None
    depth: For
    rest: tuple[For, ...]
    reduced: tuple[For, ...]
    vector_operand: Load | None
    row_operand: Load | None
    lanes: int
    registers: int
    l1: int
    threads: int

    @classmethod
    def of(cls, stage: StageInfo, machine: Machine, threads: int) -> Contraction | None:
        """The roles, or None where the stage is no contraction that reuses operands."""
        if stage.store.reducer is None or len(stage.store.buffers) > 1 or not stage.outer or not stage.reduced:
            return None
        vector = stage.outer[-1]
        moved = [load for load in stage.loads if stage.moves(load, vector) != 0]
        fixed = [load for load in stage.loads if stage.moves(load, vector) == 0]
        rows = [loop for loop in stage.outer[:-1] if any(stage.moves(load, loop) == 0 for load in moved) and size(loop) > 1]
        row = max(rows, key=lambda loop: (any(stage.moves(load, loop) != 0 for load in fixed), size(loop)), default=None)
        scattered = any(stage.moves(load, vector) != 1 for load in moved)
        if scattered and (row is None or size(row) < 8):
            return None
        if size(vector) < 4 or not moved:
            return None
        depth = max(stage.reduced, key=size)
        return cls(
            stage=stage,
            vector=vector,
            row=row,
            depth=depth,
            rest=tuple(loop for loop in stage.outer if loop not in (vector, row)),
            reduced=tuple(loop for loop in stage.reduced if loop is not depth),
            vector_operand=_operand(moved),
            row_operand=next((load for load in fixed if row is not None and stage.moves(load, row) != 0), None),
            lanes=machine.lanes(_widest(stage)),
            registers=machine.registers,
            l1=machine.l1,
            threads=threads,
        )

    # The space --------------------------------------------------------------------------------------------------------------

    def knobs(self) -> tuple[Knob, ...]:
        """Tile sizes within the registers and caches, loop order, packing, threads."""
        found: list[Knob] = [Sizes("vectors", self._vector_sizes())]
        if self.row is not None:
            found += [Sizes("rows", self._row_sizes()), Choice("order", list(ORDERS))]
        depth = Split("depth", size(self.depth), lo=min(8, size(self.depth)), hi=size(self.depth))
        found += [depth, Sizes("unroll", (1, 2, 4))]
        if self._packable(self.vector_operand) and self.row is not None:
            found.append(Flag("pack_vector"))
        if self._packable(self.row_operand) and self.row is not None:
            found.append(Flag("pack_row"))
        if self.threads > 1:
            found.append(
                Choice("parallel", ["none", "vector", *(["row"] if self.row is not None else []), *(["rest"] if self.rest else [])])
            )
        return tuple(found)

    def fits(self, config: Mapping[str, Any]) -> bool:
        """Do the accumulators and operands of a point fit the vector registers, with the unrolled code in bounds?"""
        rows, vectors = config.get("rows", 1), config["vectors"]
        places = [self._place(self._order(config), reuse) for knob, reuse in (("pack_vector", "i"), ("pack_row", "j")) if config.get(knob)]
        small = rows * vectors + vectors + 1 <= self.registers and rows * vectors * config["unroll"] <= 4 * self.registers
        return small and None not in places

    def _order(self, config: Mapping[str, Any]) -> str:
        """The tile loops that a point has, outermost first: of the vector axis (j), the depth (k), the row axis (i)."""
        present = {"j"} | ({"k"} if config["depth"] < size(self.depth) else set()) | ({"i"} if self.row is not None else set())
        return "".join(name for name in config.get("order", "jki") if name in present)

    def _place(self, order: str, reuse: str) -> str | None:
        """The loop at which a packed panel is made: directly outside the loop that reuses it."""
        at = order.find(reuse)
        return order[at - 1] if at > 0 else None

    def default(self) -> dict[str, Any]:
        """The point that the model of registers and caches names."""
        rows, vectors = self._tile()
        panel = max(1, self.l1 * 3 // 4 // (vectors * self.lanes * self._bytes()))
        depth = min(size(self.depth), max(64, min(512, panel)))
        sizes = Split("depth", size(self.depth), lo=min(8, size(self.depth)), hi=size(self.depth)).values
        config: dict[str, Any] = {
            "vectors": vectors,
            "depth": max((value for value in sizes if value <= depth), default=sizes[0]),
            "unroll": 1,
        }
        if self.row is not None:
            config |= {"rows": rows, "order": "jki"}
        if self._packable(self.vector_operand) and self.row is not None:
            strided = self.vector_operand is not None and self.stage.moves(self.vector_operand, self.vector) != 1
            config["pack_vector"] = strided or (size(self.row) >= 8 * rows and not self.reduced)
        if self._packable(self.row_operand) and self.row is not None:
            config["pack_row"] = False
        if self.threads > 1:
            parts = {"vector": size(self.vector) / (vectors * self.lanes), "row": size(self.row) / rows if self.row is not None else 0}
            if self.rest:
                parts["rest"] = size(self.rest[0])
            best = max(parts, key=lambda name: parts[name])
            config["parallel"] = best if self.stage.iterations >= 1 << 18 and parts[best] > 1 else "none"
        return config

    def _bytes(self) -> int:
        return self.stage.store.buffers[0].dtype.bytes

    def _packable(self, load: Load | None) -> bool:
        return load is not None and all(is_literal(loop) for loop in self.stage.loops)

    def _vector_sizes(self) -> tuple[int, ...]:
        most = max(1, -(-size(self.vector) // self.lanes))
        return tuple(count for count in range(1, MAX_VECTORS + 1) if count <= most and count * self.lanes <= 128)

    def _row_sizes(self) -> tuple[int, ...]:
        assert self.row is not None
        return tuple(count for count in range(1, MAX_ROWS + 1) if count <= size(self.row))

    def _tile(self) -> tuple[int, int]:
        """Rows and vectors with the most arithmetic for each load, ragged edges counted as lost."""
        if self.row is None:
            return 1, max(count for count in self._vector_sizes() if count <= 4)
        best, score = (1, 1), 0.0
        for rows in self._row_sizes():
            for vectors in self._vector_sizes():
                if rows * vectors + vectors + 1 > self.registers:
                    continue
                whole_rows = size(self.row) / (-(-size(self.row) // rows) * rows)
                width = vectors * self.lanes
                whole_lanes = size(self.vector) / (-(-size(self.vector) // width) * width)
                independent = min(1.0, rows * vectors / 10)
                value = whole_rows * whole_lanes * independent * (2 * rows * vectors / (rows + 2 * vectors)) ** 0.25
                if value > score:
                    best, score = (rows, vectors), value
        return best

    # The schedule -----------------------------------------------------------------------------------------------------------

    def schedule(self, s: Schedule, config: Mapping[str, Any]) -> None:
        """Append the directives of a point to a schedule."""
        width = config["vectors"] * self.lanes
        j_o, j_i = s.split(self.vector.loop, width, _tail(self.vector), (f"{label(self.vector)}_o", f"{label(self.vector)}_i"))
        outer: dict[str, str] = {"j": j_o}
        inner = []
        depth, unroll = min(config["depth"], size(self.depth)), config["unroll"]
        k = self.depth.loop
        if depth < size(self.depth):
            outer["k"], k = s.split(k, depth, "peel" if is_literal(self.depth) else "guard")
        unrolled = None
        if unroll > 1:
            k, unrolled = s.split(k, unroll, "peel" if is_literal(self.depth) else "guard", (f"{label(k)}_b", f"{label(k)}_u"))
        if self.row is not None:
            outer["i"], i_i = s.split(self.row.loop, config["rows"], _tail(self.row))
            inner.append(i_i)
        names = self._order(config)
        order = [outer[name] for name in names]
        rest = [loop.loop for loop in self.rest]
        s.reorder(*rest, *order, *(loop.loop for loop in self.reduced), k, *([unrolled] if unrolled else []), *inner, j_i)
        tile = order[-1]
        for knob, reuse, load, lane in (("pack_vector", "i", self.vector_operand, j_i), ("pack_row", "j", self.row_operand, "")):
            place = self._place(names, reuse)
            if config.get(knob) and load is not None and place is not None:
                self._pack(s, load, outer[place], lane)
        s.accumulate(self.stage.store.buffers[0].name, at=tile)
        s.vectorize(j_i)
        for loop in (*inner, *([unrolled] if unrolled else [])):
            s.unroll(loop)
        target = {"vector": j_o, "row": outer.get("i"), "rest": rest[0] if rest else None}.get(config.get("parallel", "none"))
        if target is not None and s.can("parallel", target):
            s.parallel(target)

    def _pack(self, s: Schedule, load: Load, at: str, lane: str) -> None:
        assert isinstance(load.buffer, Buffer)
        if not s.can("pack", load.buffer.name, at=at):
            return
        before = set(s.stages())
        s.pack(load.buffer.name, at=at)
        (stage,) = set(s.stages()) - before
        last = s.loops(stage)[-1]
        if lane and self.stage.moves(load, self.vector) == 1 and last.endswith(label(lane)) and s.can("vectorize", last):
            s.vectorize(last)


def _tail(loop: For) -> Any:
    return "peel" if is_literal(loop) else "mask"


def _operand(moved: list[Load]) -> Load | None:
    names = [getattr(load.buffer, "name", "") for load in moved]
    return moved[0] if len(set(names)) == len(names) == 1 else None


def _widest(stage: StageInfo) -> DType:
    kinds = [stage.store.buffers[0].dtype, *(load.buffer.dtype for load in stage.loads)]
    return max(kinds, key=lambda kind: kind.bits)
