"""The tiles that a body computes: whole ones, and what is left at the ends of loops whose last tile is a part of one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from tensorlang.schedules.model.parts import Loop


class Tile(NamedTuple):
    """How often a body runs on a tile of some size, as a share of all its runs, which may add up to more than 1: parts count as runs.

    `copies` of the statement by loops; `masked`: only a part of its last vectors is wanted, and where `ragged` another part in each run;
    `half`: no more is wanted of its only vector than half, so that the end of a row is code of narrower vectors.
    """

    share: float
    copies: Mapping[str, int]
    masked: bool
    ragged: bool = False
    half: bool = False


def tiles(path: tuple[Loop, ...], copies: Mapping[str, int], vector: Loop | None, lanes: int) -> list[Tile]:
    """The tile of a body, and what is left at the ends of loops whose last tile is not whole."""
    found = [Tile(1.0, copies, masked=False)]
    for loop in path:
        if loop.ragged and loop.name in copies:
            part = [tile._replace(share=tile.share * (1 - loop.tiles), masked=True, ragged=True) for tile in found]
            found = [tile._replace(share=tile.share * loop.tiles) for tile in found] + part
            continue
        whole = math.floor(loop.tiles + 1e-9)
        left = loop.trips if whole == 0 else (loop.tiles - whole) * loop.trips
        if left < 1e-6 or loop.name not in copies:
            continue
        vectors = left / lanes if loop is vector else left
        count = math.ceil(vectors - 1e-6)
        masked = count - vectors > 1e-6
        half = loop is vector and vectors <= 0.5 + 1e-6
        if whole == 0:
            found = [tile._replace(masked=tile.masked or masked) for tile in found]
            continue
        found = [tile._replace(share=tile.share * whole / loop.tiles) for tile in found] + [
            Tile(tile.share / loop.tiles, {**tile.copies, loop.name: count}, tile.masked or masked, tile.ragged, tile.half or half)
            for tile in found
        ]
    return found
