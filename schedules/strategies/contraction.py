"""Contractions: reductions whose operands are reused (matrix products, convolutions, any einsum).

The tile of the output that fits the vector registers is `rows` x (`vectors` * lanes) elements. The reduction runs in blocks of `depth`,
so that the panel of the operand that varies from lane to lane stays in cache; packing makes that panel contiguous. This is the blocking
of Goto and van de Geijn (2008), "Anatomy of high-performance matrix multiplication", read off the operator's indices. A panel of few rows
is not worth its copy: it is read as it lies, and the rows of the other operand are what stays in cache.

    for j_o, k_o, i_o (in the order `order`): for other reduction axes: for k_i: unroll i_i: vector j_i: C_acc[i_i, j_i] += ...

Rows that outgrow the last-level cache are blocked too (`b` in `order`): a block of them is packed for the second level, where it stays
while all panels of a part of the depth, packed before it, pass by; the part of the result that the next tile adds to is asked for ahead.

Where the reduction is not blocked, the stage that consumes the result (bias, activation, residual, conversion) is computed from the tile
while it is in registers (`epilogue`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorlang.ir import Buffer, For, Load
from tensorlang.schedules.placement.local_copies import tile_name
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.footprints import Footprint
from tensorlang.schedules.spaces.knobs import Choice, Flag, Knob, Sizes, TileSize
from tensorlang.schedules.strategies.analysis import Group, StageInfo, is_literal, label, size
from tensorlang.schedules.strategies.around import BLOCKED, Around, place_of, reused
from tensorlang.schedules.strategies.chains import GROUP, TILE_BLOCK, Level, in_blocks, levels, rounds, split_levels, summed_apart
from tensorlang.schedules.strategies.machine import Machine
from tensorlang.schedules.strategies.packing import pack
from tensorlang.schedules.strategies.parting import parted
from tensorlang.schedules.strategies.roles import roles_of
from tensorlang.schedules.strategies.rows import Rows
from tensorlang.schedules.strategies.sliding import producer_of

COLUMNS = 1024
"""Columns whose sums are kept apart where nobody knows how many there are."""
STREAMS = 16
"""Rows that are read side by side where nothing is reused; half as many where they fall into one set of the first-level cache."""


@dataclass(frozen=True, slots=True)
class Contraction(Around):
    """A contraction as tiles of registers. `producer` (or None) makes an operand, part by part in the loop `place` around the tiles."""

    producer: Rows | None = None
    place: str = ""

    @classmethod
    def of(cls, stage: StageInfo, machine: Machine, threads: int, constants: frozenset[str] = frozenset()) -> Contraction | None:
        """The cheapest roles by the model, or None where the stage is no contraction that reuses operands."""
        lanes = machine.lanes(stage.widest)
        limits = machine.registers, machine.l1, machine.l2, threads, constants
        found = [cls(roles, lanes, *limits, l3=machine.l3) for roles in roles_of(stage)]
        return min(found, key=lambda kind: kind.cost, default=None)

    def fed(self, s: Schedule, machine: Machine) -> Contraction:
        """The same with the stage that makes an operand in parts, if there is one."""
        for load in self.stage.loads:
            place = parted(self.stage, load, self._outside())
            made = producer_of(self.stage, load.buffer, s) if place else None
            if made is not None:
                return replace(self, producer=Rows.of(made, machine, self.threads), place=place)
        return self

    # The space --------------------------------------------------------------------------------------------------------------

    def knobs(self) -> tuple[Knob, ...]:
        """Tile sizes within the registers and caches, loop order, packing, epilogue, threads."""
        roles = self.roles
        found: list[Knob] = [Sizes("vectors", self._vector_sizes())]
        found += [Choice("order", ["jk", "kj"])] if roles.row is None else [Sizes("rows", self._row_sizes()), Choice("order", self.orders)]
        found += [self._depths(), Sizes("unroll", (1, 2, 4))]
        if self._packs(roles.operand) and not roles.scattered:
            found.append(Flag("pack_vector"))
        if self._packs(roles.row_operand):
            found.append(Flag("pack_row"))
        if self.producer is not None:
            own = self.producer.knobs(self._prefix)
            alone = tuple(knob for knob in own if not knob.name.endswith(".parallel"))
            found.append(Choice("source", {"parts": alone, "apart": own}))
        if self.consumer:
            found.append(Choice("epilogue", ["fused", "apart"]))
        if self.threads > 1:
            found.append(Choice("parallel", ["none", *self._shareable()]))
        return tuple(found)

    def constraints(self) -> Iterator[tuple[Callable[[Mapping[str, Any]], bool], str]]:
        """What holds between knobs, each with its label; several, so that points are counted without listing them."""
        registers, tiles, depth = self.registers, self._tiles, size(self.roles.depth)
        yield lambda c: (c.get("rows", 1) + 1) * c["vectors"] * tiles + 1 <= registers, "accumulators and operands fit the vector registers"
        yield lambda c: c.get("rows", 1) * c["vectors"] * c["unroll"] * tiles <= 4 * registers, "the unrolled body is bounded"
        yield self._panels_placed, "every panel has a place"
        if self.consumer:
            yield lambda c: c["epilogue"] != "fused" or c["depth"] >= depth, "an epilogue needs whole sums"

    def _panels_placed(self, config: Mapping[str, Any]) -> bool:
        names = self._order(config)
        wanted = ((self._packs_vector(config), reused(names)), (config.get("pack_row"), "j"))
        return all(not packed or place_of(names, reuse) is not None for packed, reuse in wanted)

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
            shared = not whole and self.threads == 1 and self._lies
            config |= {"rows": rows, "order": BLOCKED if self._outgrown else "kji" if shared else "jki"}
        elif roles.packed * self._bytes() > self.l2:  # read once from memory: whole rows, a few at a time
            most = STREAMS // 2 if self._in_one_set(roles.operand, roles.depth) else STREAMS
            config |= {"order": "kj", "depth": max((value for value in sizes if value <= most), default=sizes[0]), "unroll": 4}
        else:
            config["order"] = "jk"
        if self._packs(roles.operand) and not roles.scattered:
            config["pack_vector"] = self._panels_pay
        if self._packs(roles.row_operand):
            config["pack_row"] = config["order"] == BLOCKED
        if self.producer is not None:
            own = self.producer.default(self._prefix)
            config |= {"source": "parts"} | {name: value for name, value in own.items() if not name.endswith(".parallel")}
        if self.consumer:
            config["epilogue"] = "fused" if whole else "apart"
        if self.threads > 1:
            config["parallel"] = self._shared(config)
        return config

    def _depths(self) -> TileSize:
        depth = size(self.roles.depth)
        return TileSize("depth", depth, lo=min(8, depth), hi=depth)

    # The schedule -----------------------------------------------------------------------------------------------------------

    def schedule(self, s: Schedule, config: Mapping[str, Any]) -> None:
        """Append the directives of a point to a schedule."""
        roles = self.roles
        tail = _tail(is_literal(roles.depth), "guard")
        j_o, j_i = tiled(s, roles.vector, config["vectors"] * self.lanes)
        vectors, j_i = self._vectors(s, j_i, config)
        outer = {"j": j_o}
        depth, k = min(config["depth"], size(roles.depth)), roles.depth.loop
        target, inexact = self.stage.store.buffers[0].name, rounds(self.stage.store)
        cuts: Sequence[str] = ()
        if depth < size(roles.depth):
            k, outer["k"], *cuts = self._parts_of_depth(s, depth, tail) if inexact else reversed(s.split(k, depth, tail))
        k, products, others = self._products(s, k)
        unrolled = [] if roles.between is None else [roles.between.loop]
        if config["unroll"] > 1:
            k, last = s.split(k, config["unroll"], tail, (f"{label(k)}_o", f"{label(k)}_u"))
            unrolled.append(last)
        if roles.row is not None:
            outer |= self._rows(s, roles.row, config)
            unrolled.append(outer.pop("r"))
        unrolled += vectors
        names = self._order(config)
        columns = () if not cuts or roles.vector.literal else s.split(j_o, max(1, COLUMNS // (config["vectors"] * self.lanes)))
        j_o, outer["j"] = columns or (j_o, j_o)
        around = {outer.get("k"): reversed(cuts)}
        order = [*columns[:1], *(part for loop in self._placed(names, outer) for part in (*around.get(loop, ()), loop))]
        summed = [k if loop is roles.depth else others.get(loop.loop, loop.loop) for loop in self.stage.reduced]
        s.reorder(*order, *filter(None, summed), *unrolled, j_i, *products)
        panels = (self._packs_vector(config), reused(names), roles.operand), (config.get("pack_row"), "j", roles.row_operand)
        for wanted, reuse, load in panels:
            place = place_of(names, reuse)
            if wanted and place is not None and load is not None and isinstance(load.buffer, Buffer):
                whole = reuse != "j" and self.panels and s.can("pack", load.buffer.name, at=self.panels)
                pack(s, load.buffer, self.panels if whole else outer[place], self._copied(load))
        for cut in reversed(cuts):
            target = summed_apart(s, target, cut)
        tile = tile_name(s.nest, target)
        s.accumulate(target, at=order[-1], partial=inexact and "k" in outer)
        if inexact:
            in_blocks(s, tile, list(filter(None, summed)), TILE_BLOCK, config["unroll"])
        if "b" in names and s.can("prefetch", target, outer["i"]):
            s.prefetch(target, outer["i"])
        self._compute(s, j_i)
        for loop in unrolled:
            s.unroll(loop)
        self._make(s, config)
        self._finish(s, config, j_o, outer)

    def _parts_of_depth(self, s: Schedule, depth: int, tail: Any) -> Sequence[str]:
        """The loops over a part of the depth and over the parts, then those over groups of parts that are summed apart; innermost first."""
        loop = self.roles.depth
        parts = None if not is_literal(loop) else -(-size(loop) // depth)
        (chosen,) = levels([parts], min(max(depth, GROUP), TILE_BLOCK))
        if len(chosen) == 1 or not self._known:
            return tuple(reversed(s.split(loop.loop, depth, tail)))
        return split_levels(s, loop.loop, (Level(depth, starts=False), *chosen), "0", tail)

    @property
    def _known(self) -> bool:
        """Is the part of the result literal that all tiles of a part of the depth add to?"""
        return self.roles.row is None or (self.roles.vector.literal and self.roles.row.literal)

    @property
    def _prefix(self) -> str:
        return "" if self.producer is None else f"{self.producer.stage.name}."

    def _make(self, s: Schedule, config: Mapping[str, Any]) -> None:
        """Compute the operand that a stage makes: whole, or what an iteration of `place` reads."""
        if self.producer is not None:
            inside = config.get("source") == "parts" and bool(s.can("compute_at", self.producer.stage.name, self.place))
            if inside:
                s.compute_at(self.producer.stage.name, self.place)
            self.producer.schedule(s, config, self._prefix, alone=not inside)

    def _rows(self, s: Schedule, row: Group, config: Mapping[str, Any]) -> dict[str, str]:
        """The loops over the rows: of the blocks (b), if there are any, of the tiles (i), of a tile (r)."""
        if "b" not in self._order(config):
            return dict(zip("ir", tiled(s, row, config["rows"]), strict=True))
        block, rows = tiled(s, row, self._block(config), "bm")
        first = row.loops[0]
        return {"b": block, **dict(zip("ir", s.split(rows, config["rows"], _tail(row.literal, "guard"), _parts(first, "oi")), strict=True))}

    def _vectors(self, _s: Schedule, j_i: str, _config: Mapping[str, Any], /) -> tuple[list[str], str]:
        """The loops over the vectors of a tile, and that over the lanes: here LLVM takes vectors of any width apart."""
        return [], j_i

    def _products(self, _s: Schedule, k: str, /) -> tuple[str, list[str], dict[str, str]]:
        """The loop over the depth, that over the products which a lane adds at once, and what other loops became ("": nothing is left)."""
        return k, [], {}

    def _copied(self, _load: Load, /) -> int:
        """Lanes of the vectors in which an operand is packed."""
        return self.lanes

    def _compute(self, s: Schedule, j_i: str) -> None:
        """What runs the lanes."""
        s.vectorize(j_i)

    def _finish(self, s: Schedule, config: Mapping[str, Any], j_o: str, outer: Mapping[str, str]) -> None:
        """The epilogue and the threads."""
        if config.get("epilogue") == "fused":
            s.reverse_compute_inline(self.consumer)
        target = {**self._shareable(), "vector": j_o, "row": outer.get("i"), "block": outer.get("b")}.get(config.get("parallel", "none"))
        if target and s.can("parallel", target):
            s.parallel(target)


def tiled(s: Schedule, group: Group, width: int, names: str = "oi") -> tuple[str, str]:
    """A group as one loop, split into tiles; the loops end on the letters of `names`."""
    first, *others = (loop.loop for loop in group.loops)
    for other in others:
        first = s.fuse(first, other)
    return s.split(first, width, _tail(group.literal, "mask"), _parts(first, names))


def _parts(loop: For | str, names: str) -> tuple[str, str]:
    return f"{label(loop)}_{names[0]}", f"{label(loop)}_{names[1]}"


def _tail(literal: bool, otherwise: str) -> Any:
    return "peel" if literal else otherwise
