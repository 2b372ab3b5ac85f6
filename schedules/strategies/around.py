"""The loops around a contraction's register tile: their order, blocks of rows, which of them threads share.

An order is a word: j stands for the tiles of the vector axis, k for the parts of the depth, i for the tiles of the row axis, b for blocks
of rows. Outermost first, `jki` makes a panel of the vector operand for each j and k, and passes all rows by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from tensorlang.schedules.strategies.analysis import size
from tensorlang.schedules.strategies.model import COPIED, TURNED, Model
from tensorlang.schedules.strategies.sharing import Shareable, best_shared

ORDERS: Final = ("jki", "kji", "kij", "ijk")
BLOCKED: Final = "kbji"
"""Panels of a part of the depth are packed once, and pass by a block of rows that stays in the second-level cache."""


@dataclass(frozen=True, slots=True)
class Around(Model):
    """A contraction with the loops around its tile."""

    @property
    def orders(self) -> list[str]:
        """The orders to choose from."""
        return [*ORDERS, *([BLOCKED] if self._outgrows(self.l2) else [])]

    def _blocks(self, config: Mapping[str, Any]) -> int:
        """Blocks of rows of which a part of the depth takes half of the second-level cache; as many for each thread."""
        rows = 1 if self.roles.row is None else self.roles.row.size
        blocks: int = max(1, -(-rows * config["depth"] * self._bytes() // (self.l2 // 2)))
        return blocks + -blocks % self.threads

    def _block(self, config: Mapping[str, Any]) -> int:
        """The rows of a block: whole tiles, the blocks alike."""
        rows = 1 if self.roles.row is None else self.roles.row.size
        return int(-(-rows // (self._blocks(config) * config["rows"])) * config["rows"])

    def _order(self, config: Mapping[str, Any]) -> str:
        """The tile loops that a point has, outermost first: of the vector axis (j), the depth (k), the row axis (i), blocks of rows (b)."""
        roles = self.roles
        present = {"j"} | ({"k"} if config["depth"] < size(roles.depth) else set()) | ({"i"} if roles.row is not None else set())
        if roles.row is not None and self._block(config) < roles.row.size:
            present.add("b")
        return "".join(name for name in config["order"] if name in present)

    def _placed(self, names: str, outer: Mapping[str, str]) -> Iterator[str]:
        """The loops around the tile: loops that use the same panel stand inside of it."""
        yield from (loop.loop for loop in self._outside())
        inside = [loop.loop for loop in self._inside()]
        for name in names:
            if name == "i":
                yield from inside
            yield outer[name]
        if "i" not in names:
            yield from inside

    def _shareable(self) -> dict[str, str]:
        """The loops that threads may share, by their names in the knob; "" stands for the tile loop of an axis."""
        outside, inside = self._outside(), self._inside()
        found = {"rest": outside[0].loop} if outside else {}
        found |= {"inside": inside[0].loop} if inside else {}
        found |= {"vector": ""} | ({} if self.roles.row is None else {"row": ""})
        return found | ({"block": ""} if BLOCKED in self.orders else {})

    def _shared(self, config: Mapping[str, Any]) -> str:
        """The loop that threads share by default."""
        roles, packs = self.roles, self._packs_vector(config) and not self._constant
        packing = roles.packed * (TURNED if roles.scattered else COPIED) if packs else 0.0
        trips = {"j": -(-roles.vector.size // (self.lanes * config["vectors"])), "k": -(-size(roles.depth) // config["depth"])}
        trips["i"] = 1 if roles.row is None else -(-roles.row.size // config["rows"])
        outside, inside = self._outside(), self._inside()
        around = prod(map(size, outside))
        loops = [Shareable("rest", size(outside[0]), 1)] if around > 1 else []
        packed = 0.0
        for name in self._order(config):
            if name == "b":
                packed = packing
                trips["b"], trips["i"] = self._blocks(config), -(-trips["i"] // self._blocks(config))
            if name == "i":
                packed = packing
                if inside:
                    loops.append(Shareable("inside", size(inside[0]), around, packed))
                around *= prod(map(size, inside))
            if name != "k":
                loops.append(Shareable({"j": "vector", "i": "row", "b": "block"}[name], trips[name], around, packed))
            around *= trips[name]
        return best_shared(loops, self.stage.iterations / (2 * self.lanes), packing, self.threads)


def reused(order: str) -> str:
    """The loop that reuses panels of the operand of the lanes: that over blocks of rows, where panels can be packed outside of it."""
    return "b" if order.find("b") > 0 else "i"


def place_of(order: str, reuse: str) -> str | None:
    """The loop at which a packed panel is made: directly outside the loop that reuses it."""
    at = order.find(reuse)
    return order[at - 1] if at > 0 else None
