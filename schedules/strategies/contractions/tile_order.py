"""The order of tiles: the loops around a contraction's register tile, cache blocks of rows, where panels are packed, thread loops.

An order is a word: j stands for the tiles of the vector axis, k for the parts of the depth, i for the tiles of the row axis, b for cache
blocks of rows. Outermost first, `jki` makes a panel of the vector operand for each j and k, and passes all rows by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple

from tensorlang.ir import For, Load
from tensorlang.schedules.spaces.knobs import Choice
from tensorlang.schedules.strategies.analysis.stages import size
from tensorlang.schedules.strategies.contractions.micro_kernel import MicroKernel
from tensorlang.schedules.strategies.loops.thread_loop import ThreadLoop

LANES, ROWS = "lanes", "rows"
"""Roles of operands."""
SHARED_COLUMNS: Final = "columns"
"""The value of the knob for threads by which each has a stretch of the lanes' tiles, around all other loops."""
ORDERS: Final = ("jki", "kji", "kij", "ijk")
BLOCKED: Final = "kbji"
"""Panels of a part of the depth are packed once, and pass by a cache block of rows that stays in the second-level cache."""


class Panel(NamedTuple):
    """An operand to pack; `place` is the letter of the loop at which a panel is made, directly outside the loop `reuse` that uses it again.

    `place` is None where no loop stands there. `along` is the role of the operand where its tensor has another one too ("" where not).
    """

    load: Load
    reuse: str
    place: str | None
    along: str


@dataclass(frozen=True, slots=True)
class TileOrder:
    """The loops around the tiles of a micro-kernel; `block_bytes` is the room of a cache block of rows: half of a second-level cache."""

    kernel: MicroKernel
    threads: int
    block_bytes: int

    @property
    def blocked(self) -> bool:
        """Are blocks of rows a choice: is the cache smaller than the operand of the rows, which every panel reads again?"""
        roles = self.kernel.roles
        if roles.row is None or roles.reduced or not is_packable(self.kernel, roles.row_operands):
            return False
        return len(roles.row_operands) * roles.row.size * size(roles.depth) * self.kernel.panel_bytes > 2 * self.block_bytes

    def knob(self) -> Choice:
        """The orders to choose from."""
        if self.kernel.roles.row is None:
            return Choice("order", ["jk", "kj"])
        return Choice("order", [*ORDERS, *([BLOCKED] if self.blocked else [])])

    def present(self, config: Mapping[str, Any]) -> str:
        """The tile loops that a point has, outermost first. The number of rows is read only where it counts: spaces ask each reader."""
        roles, order = self.kernel.roles, config["order"]
        found = {"j"} | ({"k"} if config["depth"] < size(roles.depth) else set()) | ({"i"} if roles.row is not None else set())
        if "b" in order and roles.row is not None and self.block_rows(config) < roles.row.size:
            found.add("b")
        return "".join(name for name in order if name in found)

    def around(self, present: str, loops: Mapping[str, str]) -> Iterator[str]:
        """All loops around the tile, outermost first: those that use the same panel stand inside of it. `loops` are named by letters."""
        roles = self.kernel.roles
        yield from (loop.loop for loop in roles.outside_panels)
        inside = [loop.loop for loop in roles.inside_panels]
        for letter in present:
            if letter == "i":
                yield from inside
            yield loops[letter]
        if "i" not in present:
            yield from inside

    # Cache blocks and panels ------------------------------------------------------------------------------------------------

    def blocks(self, config: Mapping[str, Any]) -> int:
        """Blocks of rows of which a part of the depth takes the room of a block; as many for each thread."""
        rows = 1 if self.kernel.roles.row is None else self.kernel.roles.row.size * max(1, len(self.kernel.roles.row_operands))
        blocks: int = max(1, -(-rows * config["depth"] * self.kernel.panel_bytes // self.block_bytes))
        return blocks + -blocks % self.threads

    def block_rows(self, config: Mapping[str, Any]) -> int:
        """The rows of a block: whole tiles, the blocks alike."""
        rows = 1 if self.kernel.roles.row is None else self.kernel.roles.row.size
        return int(-(-rows // (self.blocks(config) * config["rows"])) * config["rows"])

    def packs_lanes(self, config: Mapping[str, Any]) -> bool:
        """Is the operand of the lanes packed at a point?"""
        return self.kernel.fixed_packing or self.kernel.roles.scattered or bool(config.get("pack_vector"))

    def panels(self, config: Mapping[str, Any]) -> tuple[Panel, ...]:
        """The operands to pack at a point: that of the lanes, that of the rows."""
        lanes, rows, roles = self.packs_lanes(config), config.get("pack_row"), self.kernel.roles
        if not lanes and not rows:
            return ()
        present = self.present(config)
        reuse = "b" if present.find("b") > 0 else "i"  # blocks of rows reuse panels, where these can be packed outside of them
        wanted = ((lanes, reuse, roles.operands, LANES), (rows, "j", roles.row_operands, ROWS))
        return tuple(
            Panel(load, letter, _outside(present, letter), role if roles.is_shared(load) else "")
            for packed, letter, loads, role in wanted
            if packed
            for load in loads
        )

    def places_panels(self, config: Mapping[str, Any]) -> bool:
        """Is there a loop at which every panel of a point can be packed?"""
        return all(panel.place is not None for panel in self.panels(config))

    # Threads ----------------------------------------------------------------------------------------------------------------

    def shareable(self) -> dict[str, str]:
        """The loops that threads may share, by their values of the knob; "" stands for a tile loop, which a point makes."""
        outside, inside = self.kernel.roles.outside_panels, self.kernel.roles.inside_panels
        found = {"rest": _first(outside).loop} if outside else {}
        found |= {"inside": _first(inside).loop} if inside else {}
        found |= {"vector": "", SHARED_COLUMNS: ""} | ({} if self.kernel.roles.row is None else {"row": ""})
        return found | ({"block": ""} if self.blocked else {})

    def thread_loops(self, config: Mapping[str, Any], packing: float) -> list[ThreadLoop]:
        """The loops that threads may share at a point, with their trips, their forks, and which of the seconds of `packing` stay serial."""
        roles = self.kernel.roles
        outside, inside = roles.outside_panels, roles.inside_panels
        lanes, across = self.kernel.lanes * int(config["vectors"]), 1 if roles.row is None else roles.row.size
        rows = 1 if roles.row is None else int(config["rows"])
        trips = {"j": roles.vector.size // lanes, "i": across // rows, "k": -(-size(roles.depth) // config["depth"])}
        rest = {"j": -(-(roles.vector.size % lanes) // self.kernel.lanes) / config["vectors"], "i": across % rows / rows}
        forks = prod(map(size, outside))
        loops = [ThreadLoop("rest", size(_first(outside)), 1)] if forks > 1 else []
        packed, present = 0.0, self.present(config)
        if present[0] != "j" and trips["j"] > 1:
            loops.append(ThreadLoop(SHARED_COLUMNS, self.threads, 1, packing if config.get("pack_row") else 0.0))
        for letter in present:
            if letter == "b":
                packed = packing
                trips["b"], trips["i"], rest["i"] = self.blocks(config), -(-trips["i"] // self.blocks(config)), 0.0
            if letter == "i":
                packed = packing
                if inside:
                    loops.append(ThreadLoop("inside", size(_first(inside)), forks, packed))
                forks *= prod(map(size, inside))
            if letter != "k":
                name = {"j": "vector", "i": "row", "b": "block"}[letter]
                loops.append(ThreadLoop(name, trips[letter], forks, packed, rest.get(letter, 0.0)))
            forks *= trips[letter] + (rest.get(letter, 0.0) > 0)
        return loops

    def stretch(self, config: Mapping[str, Any]) -> int:
        """Tiles of lanes that each thread has, where they share the columns around all other loops."""
        return -(-self.kernel.roles.vector.size // (self.kernel.lanes * int(config["vectors"]) * self.threads))


def is_packable(kernel: MicroKernel, loads: tuple[Load, ...]) -> bool:
    """Is it a choice whether the operands of a role are packed?"""
    return not kernel.fixed_packing and bool(loads) and kernel.roles.packable(loads) and kernel.roles.row is not None


def _first(loops: Sequence[For]) -> For:
    """The outermost loop of more than one iteration: an image alone leaves its rows to threads."""
    return next((loop for loop in loops if size(loop) > 1), loops[0])


def _outside(present: str, letter: str) -> str | None:
    """The loop directly outside another."""
    at = present.find(letter)
    return present[at - 1] if at > 0 else None
