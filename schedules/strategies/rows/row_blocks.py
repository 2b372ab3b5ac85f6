"""Contractions of rows that the program has just computed, a block of rows at a time.

Attention multiplies values by weights that it computed from other products. Computed whole, the weights go to memory and come back. Here
the rows of the last product run in blocks, and what follows those rows is computed for one block before the next begins, so that it stays
in cache (Dao et al. 2022, "FlashAttention", give the traffic that this saves; their running sums are not needed where a block of whole
rows fits). The price is that operands which all blocks share are read once for each: the size of the block weighs the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from tensorlang.ir import Buffer, Call, For
from tensorlang.ir.traverse import walk
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.fusion import followers, reads_once
from tensorlang.schedules.strategies.analysis.roles import roles_of
from tensorlang.schedules.strategies.analysis.sliding import sliding
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, readers, size, stages_of
from tensorlang.schedules.strategies.processor import Processor

LEAST_ROWS: Final = 16
"""Rows in a block: with fewer, register tiles and packed panels are not used often enough."""
MEMORY_COST: Final = 4.0
"""The cost of a byte from memory, in bytes from the last-level cache; a byte that is written to new pages costs it twice."""


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """What is computed in blocks of rows: the stages that moved, the contraction `result` that they moved into, the loops of both."""

    moved: frozenset[str] = frozenset()
    result: str = ""
    shared: tuple[str, ...] = ()

    def __contains__(self, stage: str) -> bool:
        return stage in self.moved or stage == self.result

    @property
    def around(self) -> str:
        """The loop around the blocks, or "": what all blocks share can be packed there."""
        return self.shared[-2] if len(self.shared) > 1 else ""


def block_rows(s: Schedule, machine: Processor) -> tuple[Schedule, RowBlocks]:
    """The schedule with the last contraction that has such rows in blocks; as it was where no block pays."""
    for result in reversed(stages_of(s.nest)):
        follows = roles_of(result) and sliding(result) is None  # windows have places of their own for what they read
        for depth in reversed(range(len(result.outer))) if follows else ():
            if names := followers(s, result, depth):
                found = _blocked(_inlined(s, names), result, depth, machine)
                if found is not None:
                    return found
                break
    return s, RowBlocks()


def _inlined(s: Schedule, names: tuple[str, ...]) -> Schedule:
    """The schedule with those of the stages written into their readers that take no function: scales and masks, not exponentials."""
    trial = s.copy()
    for name in names:
        infos = {info.name: info for info in stages_of(trial.nest)}
        uses = readers(trial.nest, infos[name].store.buffers)
        plain = not infos[name].reduced and not any(isinstance(part, Call) for value in infos[name].store.values for part in walk(value))
        if plain and all(reads_once(infos[stage], index) for stage, index in uses) and trial.can("compute_inline", name):
            trial.compute_inline(name)
    return trial


def _blocked(s: Schedule, result: StageInfo, depth: int, machine: Processor) -> tuple[Schedule, RowBlocks] | None:
    """What follows the rows of `result` in blocks of the rows that pay most; None where none pay."""
    infos = {info.name: info for info in stages_of(s.nest)}
    names = followers(s, result, depth)
    rows = _cheapest_rows(infos[result.name], depth, [infos[name] for name in names], machine)
    if rows is None:
        return None
    shared = [loop.loop for loop in result.outer[:depth]]
    if rows < size(result.outer[depth]):
        if not s.can("split", result.outer[depth].loop, rows, "peel"):
            return None
        outer, _ = s.split(result.outer[depth].loop, rows, "peel")
        shared.append(outer)
    for name in names:
        if not s.can("compute_at", name, shared[-1]):
            return None
        s.compute_at(name, shared[-1])
    return s, RowBlocks(frozenset(names), result.name, tuple(shared))


def _cheapest_rows(result: StageInfo, depth: int, moved: list[StageInfo], machine: Processor) -> int | None:
    """The rows of a block by the traffic that they cause; None where none causes less than whole intermediates do."""
    row = result.outer[depth]
    each = [info.written(depth + 1) for info in moved]
    if not all(map(is_literal, result.loops)) or None in each:
        return None
    written = sum(number or 0 for number in each)
    names = {info.name for info in moved}
    read = sum(_shared_bytes(info, depth, names) for info in (*moved, result))
    rows = prod(size(loop) for loop in result.outer[: depth + 1])

    def reading(amount: int) -> float:
        return 0.0 if amount <= machine.l2 // 2 else 1.0 if amount <= machine.l3 else MEMORY_COST

    def writing(amount: int) -> float:
        return 0.0 if amount <= machine.l2 // 2 else 2 * MEMORY_COST

    def traffic(block: int) -> float:
        return rows // block * read * reading(read) + rows * written * writing(block * written)

    most = size(row)
    kept = min(most, machine.l2 // 2 // max(1, written))  # more would leave the cache as the whole does, which may have any extent
    blocks = [block for block in range(min(LEAST_ROWS, most), kept + 1) if most % block == 0 and (block < most or depth > 0)]
    best = min(blocks, key=lambda block: (traffic(block), -block), default=None)
    return best if best is not None and traffic(best) < rows * written * writing(rows * written) else None


def _shared_bytes(info: StageInfo, depth: int, moved: set[str]) -> int:
    """What a stage reads for every block alike: operands that do not follow the rows."""
    around: tuple[For, ...] = info.outer[: depth + 1]
    found: Mapping[str, int] = {
        load.buffer.name: load.buffer.dtype.bytes
        * prod(size(loop) for loop in info.loops if loop not in around and info.stride(load, loop) != 0)
        for load in info.loads
        if isinstance(load.buffer, Buffer) and load.buffer.name not in moved and info.stride(load, around[-1]) == 0
    }
    return sum(found.values())
