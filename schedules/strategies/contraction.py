"""Contractions: reductions whose operands are reused (matrix products, convolutions, any einsum).

The tile of the output that fits the vector registers is `rows` x (`vectors` * lanes) elements. The reduction runs in blocks of `depth`,
so that the panel of the operand that varies from lane to lane stays in cache; packing makes that panel contiguous. This is the blocking
of Goto and van de Geijn (2008), "Anatomy of high-performance matrix multiplication", read off the operator's indices. A panel of few rows
is not worth its copy: it is read as it lies, and the rows of the other operand are what stays in cache.

    for j_o, k_o, i_o (in the order `order`): for other reduction axes: for k_i: unroll i_i: vector j_i: C_acc[i_i, j_i] += ...

Where the reduction is not blocked, the stage that consumes the result (bias, activation, residual, conversion) is computed from the tile
while it is in registers (`epilogue`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from tensorlang.dtype import DType
from tensorlang.ir import Buffer, For, Load
from tensorlang.schedules.footprints import Footprint
from tensorlang.schedules.knobs import Choice, Flag, Knob, Sizes, Split
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis import Group, StageInfo, is_literal, label, size
from tensorlang.schedules.strategies.machine import Machine
from tensorlang.schedules.strategies.packing import pack
from tensorlang.schedules.strategies.roles import Roles, roles_of

MAX_ROWS = 16
MAX_VECTORS = 6
ORDERS = ("jki", "kji", "kij", "ijk")
STREAMS = 16
"""Rows that are read side by side where nothing is reused."""
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
class Contraction:
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

    @classmethod
    def of(cls, stage: StageInfo, machine: Machine, threads: int, constants: frozenset[str] = frozenset()) -> Contraction | None:
        """The cheapest roles by the model, or None where the stage is no contraction that reuses operands."""
        lanes = machine.lanes(_widest(stage))
        limits = machine.registers, machine.l1, machine.l2, threads, constants
        found = [cls(roles, lanes, *limits, l3=machine.l3) for roles in roles_of(stage)]
        return min(found, key=lambda kind: kind.cost, default=None)

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

    # The space --------------------------------------------------------------------------------------------------------------

    def knobs(self) -> tuple[Knob, ...]:
        """Tile sizes within the registers and caches, loop order, packing, epilogue, threads."""
        roles = self.roles
        found: list[Knob] = [Sizes("vectors", self._vector_sizes())]
        found += [Choice("order", ["jk", "kj"])] if roles.row is None else [Sizes("rows", self._row_sizes()), Choice("order", list(ORDERS))]
        found += [self._depths(), Sizes("unroll", (1, 2, 4))]
        if self._packs(roles.operand) and not roles.scattered:
            found.append(Flag("pack_vector"))
        if self._packs(roles.row_operand):
            found.append(Flag("pack_row"))
        if self.consumer:
            found.append(Choice("epilogue", ["fused", "apart"]))
        if self.threads > 1:
            found.append(Choice("parallel", ["none", *self._parts(1, 1)]))
        return tuple(found)

    def constraints(self) -> Iterator[tuple[Callable[[Mapping[str, Any]], bool], str]]:
        """What holds between knobs, each with its label; several, so that points are counted without listing them."""
        registers, depth = self.registers, size(self.roles.depth)
        yield lambda c: (c.get("rows", 1) + 1) * c["vectors"] + 1 <= registers, "accumulators and operands fit the vector registers"
        yield lambda c: c.get("rows", 1) * c["vectors"] * c["unroll"] <= 4 * registers, "the unrolled body is bounded"
        yield self._panels_placed, "every panel has a place"
        if self.consumer:
            yield lambda c: c["epilogue"] != "fused" or c["depth"] >= depth, "an epilogue needs whole sums"

    def _panels_placed(self, config: Mapping[str, Any]) -> bool:
        wanted = ((self._packs_vector(config), "i"), (config.get("pack_row"), "j"))
        return all(not packed or place_of(self._order(config), reuse) is not None for packed, reuse in wanted)

    def footprints(self) -> tuple[Footprint, ...]:
        """What the panels that are used again occupy of the caches that are to hold them."""
        each = self._bytes() * self._others
        panel = Footprint("panel of the lanes in L2", ("vectors", "depth"), each * self.lanes, self.l2)
        rows = Footprint("panel of the rows in L1", ("rows", "depth"), each, self.l1)
        return (panel,) if self.roles.row is None else (panel, rows)

    def default(self) -> dict[str, Any]:
        """The point that the model of registers and caches names."""
        roles, (rows, vectors) = self.roles, self._tile()
        panel = self._deepest(vectors)
        sizes = self._depths().values
        whole = roles.turned or panel >= size(roles.depth)  # a tile across the lanes is dear to load again
        config: dict[str, Any] = {
            "vectors": vectors,
            "depth": sizes[-1] if whole else max((value for value in sizes if value <= panel), default=sizes[0]),
            "unroll": 2 if self._waits else 1,  # the fewer instructions, the more of memory is asked for at a time
        }
        if roles.row is not None:
            shared = not whole and self.threads == 1 and (self._lies or self._outgrown)
            config |= {"rows": rows, "order": "kji" if shared else "jki"}
        elif roles.packed * self._bytes() > self.l2:  # read once from memory: whole rows, a few at a time
            config |= {"order": "kj", "depth": max((value for value in sizes if value <= STREAMS), default=sizes[0])}
        else:
            config["order"] = "jk"
        if self._packs(roles.operand) and not roles.scattered:
            config["pack_vector"] = self._panels_pay
        if self._packs(roles.row_operand):
            config["pack_row"] = False
        if self.consumer:
            config["epilogue"] = "fused" if whole else "apart"
        if self.threads > 1:
            parts = self._parts(rows, vectors)
            best = max(parts, key=lambda name: parts[name])
            config["parallel"] = best if self.stage.iterations >= 1 << 18 and parts[best] > 1 else "none"
        return config

    def _depths(self) -> Split:
        depth = size(self.roles.depth)
        return Split("depth", depth, lo=min(8, depth), hi=depth)

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
        if they fit whole, and otherwise a quarter, the rest of its lines being passed by panels. Rows that outgrow the last level too
        are read again from there.
        """
        width, depth = vectors * self.lanes, size(self.roles.depth)
        if not self._lies or self.roles.row is None:
            panel = max(1, self.l2 // 2 // (width * self._bytes() * self._others))
            return _even(depth, min(panel, self._paged)) if self._outgrown else panel
        each = (self.roles.row.size + width) * self._bytes()
        if each * depth <= self.l2 * 5 // 8 and not self._in_one_set(self.roles.operand, self.roles.depth):
            return depth
        return _even(depth, max(1, self.l2 // 4 // each))

    @property
    def _paged(self) -> int:
        """The depth at which the rows take a quarter of the last-level cache, which others share and which the output passes."""
        return 0 if self.roles.row is None else self.l3 // 4 // (self.roles.row.size * self._bytes())

    @property
    def _outgrown(self) -> bool:
        """Do whole rows, which every panel reads again, outgrow the last-level cache, where parts of a page and more do not?

        Not where a tile must see whole sums, and not where threads share the panels; measured to pay where rows lie whole pages apart.
        """
        roles = self.roles
        whole = roles.turned or roles.reduced or self.consumer or self.threads > 1
        if whole or roles.row is None or not self._in_one_set(roles.row_operand, roles.row.last):
            return False
        return PAGE // self._bytes() <= self._paged < size(self.roles.depth)

    def _in_one_set(self, load: Load | None, loop: For) -> bool:
        """Does what a load reads along a loop fall into one set of the first-level cache, whole pages apart?"""
        apart = 0 if load is None else (self.stage.stride(load, loop) or 0) * load.buffer.dtype.bytes
        return apart != 0 and apart % PAGE == 0

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

    def _parts(self, rows: int, vectors: int) -> dict[str, float]:
        """How many parts each loop that threads may share has."""
        parts = {"vector": self.roles.vector.size / (vectors * self.lanes)}
        if self.roles.row is not None:
            parts["row"] = self.roles.row.size / rows
        if outside := self._outside():
            parts["rest"] = size(outside[0])
        return parts

    def _outside(self) -> list[For]:
        """The other loops of the output along which the operand of the lanes varies: outside its panels."""
        return [loop for loop in self.roles.rest if self.roles.moves(loop)]

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
        most = 1 if self.roles.row is None else self.roles.row.size
        return tuple(count for count in range(1, MAX_ROWS + 1) if count <= most)

    def _value(self, rows: int, vectors: int) -> float:
        """Arithmetic for each load of a tile, ragged edges and idle units counted as lost."""
        whole = _filled(self.roles.vector.size, vectors * self.lanes)
        if self.roles.row is not None:
            whole *= _filled(self.roles.row.size, rows)
            crowded = rows > self.l1 // PAGE // 2 and self._in_one_set(self.roles.row_operand, self.roles.row.last)
            whole *= COLLIDED if crowded else 1.0
        independent: float = min(1.0, rows * vectors / 10)
        loads = rows + vectors * (1 if self._waits else 2)  # a vector counts twice; where it is waited for, runs of them are an advantage
        return float(whole * independent * (2 * rows * vectors / loads) ** 0.25)

    def _tile(self) -> tuple[int, int]:
        """The rows and vectors of the most value."""
        if self.roles.row is None:
            return 1, max(count for count in self._vector_sizes() if count <= 4)
        tiles = [(rows, vectors) for rows in self._row_sizes() for vectors in self._vector_sizes()]
        fitting = [(rows, vectors) for rows, vectors in tiles if rows * vectors + vectors + 1 <= self.registers]
        return max(fitting, key=lambda tile: self._value(*tile), default=(1, 1))

    # The schedule -----------------------------------------------------------------------------------------------------------

    def schedule(self, s: Schedule, config: Mapping[str, Any]) -> None:
        """Append the directives of a point to a schedule."""
        roles = self.roles
        tail = _tail(is_literal(roles.depth), "guard")
        j_o, j_i = tiled(s, roles.vector, config["vectors"] * self.lanes)
        vectors, j_i = self._vectors(s, j_i, config)
        outer = {"j": j_o}
        depth, k = min(config["depth"], size(roles.depth)), roles.depth.loop
        if depth < size(roles.depth):
            outer["k"], k = s.split(k, depth, tail)
        k, products = self._products(s, k)
        unrolled: list[str] = []
        if config["unroll"] > 1:
            k, last = s.split(k, config["unroll"], tail, (f"{label(k)}_o", f"{label(k)}_u"))
            unrolled.append(last)
        if roles.row is not None:
            outer["i"], i_i = tiled(s, roles.row, config["rows"])
            unrolled.append(i_i)
        unrolled += vectors
        names = self._order(config)
        order = list(self._placed(names, outer))
        summed = [k if loop is roles.depth else loop.loop for loop in self.stage.reduced]
        s.reorder(*order, *summed, *unrolled, j_i, *products)
        for wanted, reuse, load in ((self._packs_vector(config), "i", roles.operand), (config.get("pack_row"), "j", roles.row_operand)):
            place = place_of(names, reuse)
            if wanted and place is not None and load is not None and isinstance(load.buffer, Buffer):
                whole = reuse == "i" and self.panels and s.can("pack", load.buffer.name, at=self.panels)
                pack(s, load.buffer, self.panels if whole else outer[place], self.lanes)
        s.accumulate(self.stage.store.buffers[0].name, at=order[-1])
        self._compute(s, j_i)
        for loop in unrolled:
            s.unroll(loop)
        self._finish(s, config, j_o, outer)

    def _vectors(self, _s: Schedule, j_i: str, _config: Mapping[str, Any], /) -> tuple[list[str], str]:
        """The loops over the vectors of a tile, and that over the lanes: here LLVM takes vectors of any width apart."""
        return [], j_i

    def _products(self, _s: Schedule, k: str, /) -> tuple[str, list[str]]:
        """The loop over the depth, and that over the products which a lane adds at once, if there are several."""
        return k, []

    def _compute(self, s: Schedule, j_i: str) -> None:
        """What runs the lanes."""
        s.vectorize(j_i)

    def _finish(self, s: Schedule, config: Mapping[str, Any], j_o: str, outer: Mapping[str, str]) -> None:
        """The epilogue and the threads."""
        if config.get("epilogue") == "fused":
            s.reverse_compute_inline(self.consumer)
        before = self._outside()
        target = {"vector": j_o, "row": outer.get("i"), "rest": before[0].loop if before else None}.get(config.get("parallel", "none"))
        if target is not None and s.can("parallel", target):
            s.parallel(target)

    def _order(self, config: Mapping[str, Any]) -> str:
        """The tile loops that a point has, outermost first: of the vector axis (j), the depth (k), the row axis (i)."""
        present = {"j"} | ({"k"} if config["depth"] < size(self.roles.depth) else set()) | ({"i"} if self.roles.row is not None else set())
        return "".join(name for name in config["order"] if name in present)

    def _placed(self, names: str, outer: Mapping[str, str]) -> Iterator[str]:
        """The loops around the tile: loops that use the same panel stand inside of it."""
        outside = self._outside()
        yield from (loop.loop for loop in outside)
        inside = [loop.loop for loop in self.roles.rest if loop not in outside]
        for name in names:
            if name == "i":
                yield from inside
            yield outer[name]
        if "i" not in names:
            yield from inside


def place_of(order: str, reuse: str) -> str | None:
    """The loop at which a packed panel is made: directly outside the loop that reuses it."""
    at = order.find(reuse)
    return order[at - 1] if at > 0 else None


def tiled(s: Schedule, group: Group, width: int) -> tuple[str, str]:
    """A group as one loop, split into tiles."""
    first, *others = (loop.loop for loop in group.loops)
    for other in others:
        first = s.fuse(first, other)
    return s.split(first, width, _tail(group.literal, "mask"), (f"{label(first)}_o", f"{label(first)}_i"))


def _tail(literal: bool, otherwise: str) -> Any:
    return "peel" if literal else otherwise


def _even(extent: int, most: int) -> int:
    """The size of parts that are as large as allowed, and alike."""
    return -(-extent // -(-extent // most))


def _filled(extent: int, tile: int) -> float:
    return extent / (-(-extent // tile) * tile)


def _widest(stage: StageInfo) -> DType:
    kinds = [stage.store.buffers[0].dtype, *(load.buffer.dtype for load in stage.loads)]
    return max(kinds, key=lambda kind: kind.bits)
