"""A memory plan: where in one arena each value lies that is neither an input, a constant nor a result of the graph.

A value wants its bytes from the moment at which it is made to the last one at which it is read; two that want theirs at one moment must
lie apart. No arena is smaller than the most that is wanted at one moment, the lower bound. To find the smallest arena is strongly NP-hard
(dynamic storage allocation: Garey and Johnson, SR2). Blocks are placed one after the other, each into the smallest gap that those leave
which want their bytes at one of its moments; the largest first is the order of "greedy by size" (Pisarchyk and Lee, "Efficient memory
management for deep neural net inference", 2020). Some other orders are tried as well, and after those, orders in which the blocks at the
top of the arena come earlier: they are what it is that large for. The search ends where the lower bound is reached.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tensorlang.system.lazy import cached_property

LINE: Final = 64
"""Bytes of a cache line, at one of which each block begins."""
ROUNDS: Final = 32
"""Orders that are tried beyond the first ones."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Bytes that are wanted from moment `first` to moment `last`, both included."""

    name: str
    size: int
    first: int
    last: int

    @property
    def room(self) -> int:
        """The bytes that it takes of an arena: whole lines."""
        return -(-self.size // LINE) * LINE

    def meets(self, other: Lifetime) -> bool:
        """Is there a moment at which both want their bytes?"""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Block:
    """A lifetime, and where it begins in the arena."""

    lifetime: Lifetime
    offset: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.offset + self.lifetime.room


@dataclass(frozen=True)
class Plan:
    """Blocks in the order of their moments; prints as a table. Offsets and sizes are in bytes."""

    blocks: tuple[Block, ...]

    @cached_property
    def bytes(self) -> int:
        """The size of the arena."""
        return max((block.end for block in self.blocks), default=0)

    @cached_property
    def lower_bound(self) -> int:
        """The most bytes that are wanted at one moment: no arena is smaller."""
        changes = [(block.lifetime.first, block.lifetime.size) for block in self.blocks]
        changes += [(block.lifetime.last + 1, -block.lifetime.size) for block in self.blocks]
        return max(itertools.accumulate(change for _, change in sorted(changes)), default=0)

    @property
    def wanted(self) -> int:
        """What all blocks have together: the memory of a graph that never uses a byte twice."""
        return sum(block.lifetime.size for block in self.blocks)

    @cached_property
    def offsets(self) -> dict[str, int]:
        """Where each block begins, by its name."""
        return {block.lifetime.name: block.offset for block in self.blocks}

    def __str__(self) -> str:
        ratio = f", {self.bytes / self.lower_bound:.3f} of it" if self.lower_bound else ""
        rows = [("value", "bytes", "offset", "moments")]
        for block in self.blocks:
            life = block.lifetime
            rows.append((life.name, f"{life.size:,}", f"{block.offset:,}", f"{life.first}-{life.last}"))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = [
            f"{name:<{widths[0]}}  {size:>{widths[1]}}  {offset:>{widths[2]}}  {when:>{widths[3]}}".rstrip()
            for name, size, offset, when in rows
        ]
        head = f"arena of {self.bytes:,} bytes; live at most {self.lower_bound:,}{ratio}; without sharing {self.wanted:,}"
        return "\n".join([head, *lines])


def plan(lifetimes: Sequence[Lifetime]) -> Plan:
    """Places for all of them."""
    wanted = [life for life in lifetimes if life.size]
    nothing = [Block(life, 0) for life in lifetimes if not life.size]
    near: dict[str, list[Lifetime]] = {life.name: [] for life in wanted}
    by_first = sorted(wanted, key=lambda life: life.first)
    for place, life in enumerate(by_first):
        for other in by_first[place + 1 :]:
            if other.first > life.last:
                break
            near[life.name].append(other)
            near[other.name].append(life)
    best: Plan | None = None
    for order in _orders(wanted):
        made = Plan(tuple(_placed(order, near)))
        if best is None or made.bytes < best.bytes:
            best = made
        if best.bytes <= _rounded_bound(wanted):
            break
    found = best or Plan(())
    for _ in range(ROUNDS):
        if found.bytes <= _rounded_bound(wanted):
            break
        better = _improved(found, near)
        if better is found:
            break
        found = better
    return Plan(tuple(sorted((*found.blocks, *nothing), key=lambda block: (block.lifetime.first, block.lifetime.last, block.offset))))


def _rounded_bound(lifetimes: Sequence[Lifetime]) -> int:
    changes = [(life.first, life.room) for life in lifetimes] + [(life.last + 1, -life.room) for life in lifetimes]
    return max(itertools.accumulate(change for _, change in sorted(changes)), default=0)


def _orders(lifetimes: Sequence[Lifetime]) -> Iterator[list[Lifetime]]:
    """The largest first; the longest-lived first; by what they take of both; those of the fullest moments first; as they come."""
    yield sorted(lifetimes, key=lambda life: (-life.room, life.first))
    yield sorted(lifetimes, key=lambda life: (life.first - life.last, -life.room))
    yield sorted(lifetimes, key=lambda life: (-life.room * (life.last - life.first + 1), life.first))
    totals: dict[int, int] = {}
    for moment in {life.first for life in lifetimes}:
        totals[moment] = sum(life.room for life in lifetimes if life.first <= moment <= life.last)
    fullest = sorted(totals, key=lambda moment: -totals[moment])
    rank = {moment: place for place, moment in enumerate(fullest)}
    yield sorted(lifetimes, key=lambda life: (min(rank[at] for at in rank if life.first <= at <= life.last), -life.room, life.first))
    yield sorted(lifetimes, key=lambda life: (life.first, -life.room))


def _improved(found: Plan, near: dict[str, list[Lifetime]]) -> Plan:
    """The plan after the highest block was placed before those below it, or that plan itself where this is no better."""
    order = [block.lifetime for block in sorted(found.blocks, key=lambda block: (block.offset, -block.end))]
    top = max(found.blocks, key=lambda block: block.end).lifetime
    best = found
    for ahead in (order.index(top) // 2, 0):
        changed = [life for life in order if life is not top]
        changed.insert(ahead, top)
        made = Plan(tuple(_placed(changed, near)))
        if made.bytes < best.bytes:
            best = made
    return best


def _placed(order: Sequence[Lifetime], near: dict[str, list[Lifetime]]) -> list[Block]:
    """Each block in the smallest gap that is there when its turn comes."""
    placed: dict[str, Block] = {}
    for life in order:
        taken = sorted(
            ((block.offset, block.end) for other in near[life.name] if (block := placed.get(other.name)) is not None),
        )
        best, gap, end = -1, 0, 0
        for start, stop in taken:
            room = start - end
            if room >= life.room and (best < 0 or room < gap):
                best, gap = end, room
            end = max(end, stop)
        placed[life.name] = Block(life, best if best >= 0 else end)
    return list(placed.values())
