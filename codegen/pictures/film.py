"""The film: for each picture which cells of each tensor are computed, read, and kept when it ends.

A tensor is drawn as a grid. Its last dimension runs to the right, the others, folded into one another, downward; a cell is one element, or
a block of neighbours where there are more than fit. A picture is an equal part of the iterations of all statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorlang.codegen.pictures.walk_plan import PICTURES

SIDE: Final = 48
"""Cells along a side of a grid, at most."""
LINE: Final = 192
"""Cells of a grid of one row, at most."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells of a tensor, `rows` by `columns`, each of `height` by `width` elements."""

    rows: int
    columns: int
    height: int
    width: int
    across: int

    @classmethod
    def of(cls, shape: Sequence[int], limit: int = SIDE) -> Grid:
        """The grid of a tensor of this shape."""
        across, down = (shape[-1] if shape else 1), prod(shape[:-1])
        most = LINE * limit // SIDE if down == 1 else limit
        width, height = ceil(max(across, 1) / most), ceil(max(down, 1) / limit)
        return cls(ceil(max(down, 1) / height), ceil(max(across, 1) / width), height, width, max(across, 1))

    @property
    def cells(self) -> int:
        """How many there are."""
        return self.rows * self.columns

    def of_elements(self, down: int) -> NDArray[np.int16]:
        """The cell of each element of `down` rows, in row-major order."""
        rows = (np.arange(down) // self.height * self.columns).astype(np.int16)
        return np.add.outer(rows, (np.arange(self.across) // self.width).astype(np.int16)).ravel()


@dataclass(slots=True)
class Panel:
    """What is shown of one tensor: in a picture the cells computed and read, and how many elements of each cell are kept."""

    grid: Grid
    cells: NDArray[np.int16]
    computed: NDArray[Any]
    read: NDArray[Any]
    kept: NDArray[Any]
    shown: NDArray[Any]

    @classmethod
    def of(cls, shape: Sequence[int], limit: int = SIDE) -> Panel:
        """A panel on which nothing happened yet."""
        grid = Grid.of(shape, limit)
        flags = [np.zeros(grid.cells, bool) for _ in range(3)]
        return cls(grid, grid.of_elements(max(prod(shape[:-1]), 1)), flags[0], flags[1], np.zeros(grid.cells, np.int64), flags[2])

    def taken(self) -> list[list[int] | str]:
        """The cells computed, read, and those that began or ceased to be kept since the last picture; the next one begins."""
        kept = self.kept > 0
        found = [encoded(self.computed), encoded(self.read), encoded(kept != self.shown)]
        self.computed[:] = False
        self.read[:] = False
        self.shown = kept
        return found


@dataclass(slots=True)
class Film:
    """The pictures so far. `length`: iterations of one picture."""

    panels: dict[str, Panel]
    length: float
    pictures: list[dict[str, Any]] = field(default_factory=list)
    time: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    bytes: int = 0
    most_bytes: int = 0

    def passes(self, stage: str, instances: float) -> None:
        """So many iterations of a stage ran, of an empty loop none; a picture is taken where they fill it."""
        if not instances:
            return
        self.time += instances
        self.stages[stage] = self.stages.get(stage, 0.0) + instances
        if self.time >= self.length * (len(self.pictures) + 1) and len(self.pictures) < 2 * PICTURES:
            self.take()

    def holds(self, more: int) -> None:
        """So many bytes more are held."""
        self.bytes += more
        self.most_bytes = max(self.most_bytes, self.bytes)

    def take(self) -> None:
        """End a picture."""
        if not self.stages:
            return
        whole = sum(self.stages.values())
        shares = {stage: round(value / whole, 3) for stage, value in self.stages.items()}
        cells = [panel.taken() for panel in self.panels.values()]
        self.pictures.append({"stages": shares, "cells": cells, "bytes": self.most_bytes})
        self.stages, self.most_bytes = {}, self.bytes


def encoded(flags: NDArray[Any]) -> list[int] | str:
    """Marked cells as lengths of runs, unmarked first; as hexadecimal digits, four cells in each, where that is shorter."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    if 4 * len(edges) <= len(flags) // 4 + 8:
        return [int(length) for length in np.diff(edges, prepend=0)]
    return np.packbits(flags).tobytes().hex()
