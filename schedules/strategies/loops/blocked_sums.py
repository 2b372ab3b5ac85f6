"""Long sums in blocks, so that their rounding errors stay small.

Each addition rounds, so the error of a sum grows with the longest chain of additions from an element to the result: n of them where one
accumulator takes everything, but 32 + 16 + 16 where blocks of 32 have partial sums, and 16 of these one of their own (Higham 1993, "The
accuracy of floating point summation"; NumPy adds in pairs above blocks of 128). The first block is as long as its accumulators are cheap
to start and to add: lanes are accumulators of their own (`rfactor` of the loop over them), added up at the very end.

    k_3: k_2: k_1: acc[:] = 0; for k_0: acc[:] += A[k_0, :]; ... acc_2[:] += acc[:]; ... ; C += the lanes of the outermost

Only sums that round are split so: integers, minima and maxima do not care, and the error of a product is the same in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import Any, Final, NamedTuple

from tensorlang.ir import Binary, Expr, Param, Store
from tensorlang.schedules.directives.accumulate import Accumulate
from tensorlang.schedules.directives.compute_at import ComputeAt
from tensorlang.schedules.directives.loop_kinds import Vectorize
from tensorlang.schedules.directives.reorder import Reorder
from tensorlang.schedules.directives.rfactor import Rfactor
from tensorlang.schedules.directives.split import MAX_FACTOR
from tensorlang.schedules.placement.local_copies import fresh_buffer, tile_name
from tensorlang.schedules.rewriting.edit import find_loop, literal_extent
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.stages import StageInfo, label, partial_results, size, standing

BLOCK: Final = 32
"""Additions in a chain to one accumulator of a vector that is loaded for each of them."""
TILE_BLOCK: Final = 256
"""Additions in a chain to one accumulator of a register tile, all of which are started and added up for each block."""
GROUP: Final = 16
"""Blocks that are summed before their sum is added to the next one."""
SLACK: Final = 1.5
"""How much longer than its block a chain may be before it is split at all."""
UNKNOWN_CHAIN: Final = 8192
"""Additions that the levels of a loop take together whose extent is known only at run time; an outermost loop adds any number of those."""


class ChainLoop(NamedTuple):
    """A loop of a chain of additions once it is split: the iterations of one of it (None: unknown), and whether a new chain starts here."""

    extent: int | None
    starts: bool


def rounds(store: Store) -> bool:
    """Is this a sum whose every step rounds? The relative errors of factors add up in any order, so products gain nothing."""
    if store.reducer is None:
        return False
    pairs = zip(store.buffers, store.reducer.results, strict=True)
    return any(buffer.dtype.is_floating and _adds(result, place) for place, (buffer, result) in enumerate(pairs))


def _adds(result: Expr, place: int) -> bool:
    match result:
        case Binary("add", Param(one), Param(other)):
            return {one, other} == {f"a{place}", f"b{place}"}
        case _:
            return False


def levels(extents: Sequence[int | None], block: int, least: int = 1, unknown: int = UNKNOWN_CHAIN) -> tuple[tuple[ChainLoop, ...], ...]:
    """How the loops of a chain, innermost first, are split into levels, each innermost first.

    `least` additions stand inside of them already; `unknown` are taken together of an extent that is not known. Without a level that
    starts a chain, nothing needs to be split.
    """
    total: int | None = least
    for extent in extents:
        total = None if extent is None or total is None else total * max(1, extent)
    if total is not None and total <= SLACK * block:
        return tuple((ChainLoop(extent, starts=False),) for extent in extents)
    return tuple(_levels(extents, block, least, unknown))


def _levels(extents: Sequence[int | None], block: int, length: int, unknown: int) -> Iterator[tuple[ChainLoop, ...]]:
    room, starts = block, False
    for extent in extents:
        found: list[ChainLoop] = []
        left = extent
        while prod(part.extent or 1 for part in found) < unknown if left is None else length * left > SLACK * room:
            step = max(1, room // length)
            if left is not None:
                even = -(-left // -(-left // step))
                step = next((part for part in range(step, step // 2, -1) if left % part == 0), even)
            if step > 1:
                found.append(ChainLoop(step, starts))
                left = None if left is None else -(-left // step)
            room, length, starts = GROUP, 1, True
        found.append(ChainLoop(left, starts and left != 1))
        starts, length = starts and left == 1, length * (room if left is None else max(1, left))
        yield tuple(found)


def sum_in_blocks(s: Schedule, target: str, loops: Sequence[str], block: int, least: int = 1) -> None:
    """Sum into the tile `target` in blocks over serial loops of its reduction, given outermost first, where they are long."""
    inner = list(reversed(loops))
    chosen = levels([_extent(s, loop) for loop in inner], block, least, max(block, BLOCK * GROUP))
    split = [split_levels(s, loop, parts, "0") for loop, parts in zip(inner, chosen, strict=True)]
    for loop in _chain_starts(split, chosen):
        target = keep_partial_sums(s, target, loop)


def accumulate_in_blocks(s: Schedule, store: Store, at: str, loops: Sequence[str], block: int, least: int = 1) -> None:
    """Keep the result of a reduction in registers inside the loop `at`, and sum in blocks over its loops where that rounds."""
    target = store.buffers[0].name
    tile = tile_name(s.nest, target)
    s.accumulate(target, at=at)
    if rounds(store):
        sum_in_blocks(s, tile, loops, block, least)


def sum_in_lanes(s: Schedule, stage: StageInfo, loops: Sequence[str], lanes: int) -> bool:
    """Sum over loops, given outermost first, in vectors of the last one and in blocks, with a partial sum in each lane.

    False, with the schedule left half way, where the loops are short or a step is not legal: the stage may be a scatter whose lanes write
    the same element, or its loops may not be perfectly nested.
    """
    *others, vector = loops
    around = [part for part in map(partial(find_loop, s.nest), standing(s.nest, stage)) if part.loop not in loops]
    extent = _extent(s, vector)
    extents = [None if extent is None else -(-extent // lanes), *(_extent(s, loop) for loop in reversed(others))]
    chosen = levels(extents, BLOCK, unknown=BLOCK * GROUP if any(size(loop) > 1 for loop in around) else UNKNOWN_CHAIN)
    if not any(part.starts for parts in chosen for part in parts):
        return False
    lane, *first = split_levels(s, vector, (ChainLoop(lanes, starts=False), *chosen[0]), "l")
    split = [first, *(split_levels(s, loop, parts, "0") for loop, parts in zip(reversed(others), chosen[1:], strict=True))]
    lanewise, before = fresh_buffer(s.nest, f"{stage.store.buffers[0].name}_rf"), s.stages()
    if not s.attempt(Rfactor(lane)):
        return False
    partial_sums = partial_results(s.stages(), before)
    if repeated := [part.loop for part in around if size(part) > 1]:
        s.attempt(ComputeAt(partial_sums, repeated[-1]))
    for name in (f"{partial_sums}.init", partial_sums):
        inside, *order = s.loops(name)
        if not (not order or s.attempt(Reorder((*order, inside)))) or not s.attempt(Vectorize(inside)):
            return False
    if not s.attempt(Vectorize(lane)):
        return False
    inside_sums = [[f"{partial_sums}.{label(loop)}" for loop in part] for part in split]
    for loop in _chain_starts(inside_sums, chosen):
        tile = tile_name(s.nest, lanewise)
        if not s.attempt(Accumulate(lanewise, loop, partial=True)):
            return False
        lanewise = tile
    return True


def _extent(s: Schedule, loop: str) -> int | None:
    return literal_extent(find_loop(s.nest, loop))


def split_levels(s: Schedule, loop: str, parts: Sequence[ChainLoop], innermost: str, tail: Any = "mask") -> list[str]:
    """The loops of the levels, innermost first, each but the outermost of its `extent`; `tail` is that of an unknown extent."""
    tail = tail if _extent(s, loop) is None else "peel"
    found: list[str] = []
    rest, name = loop, label(loop)
    for depth in range(len(parts) - 1, 0, -1):
        factor = prod(part.extent or 1 for part in parts[:depth])
        if _extent(s, rest) is None:  # levels may be more together than any split is long
            factor = min(factor, MAX_FACTOR)
        outer, rest = s.split(rest, factor, tail, (f"{name}_{depth}", f"{name}_{innermost if depth == 1 else f'in{depth}'}"))
        found.append(outer)
    return [rest, *reversed(found)]


def _chain_starts(split: Sequence[Sequence[str]], chosen: Sequence[Sequence[ChainLoop]]) -> list[str]:
    """The loops of the levels that start a chain, the outermost first: each of their iterations keeps a tile of partial results."""
    pairs = [pair for loops, parts in zip(split, chosen, strict=True) for pair in zip(loops, parts, strict=True)]
    return [loop for loop, part in reversed(pairs) if part.starts]


def keep_partial_sums(s: Schedule, target: str, at: str) -> str:
    """The tile in which each iteration of `at` sums what it adds to `target`."""
    tile = tile_name(s.nest, target)
    s.accumulate(target, at=at, partial=True)
    return tile
