"""Working sets: the bytes that one iteration of a loop touches, against the caches, and what therefore moves between them.

A loop whose iteration fits a cache leaves there what the next iteration may find again. The part of each tensor that is touched is the
box of `schedules.rewriting.region`, or as many elements as there are accesses where these are fewer (strides, indices that depend on data).

What a cache is sent: of the loops whose iteration fits it, the outermost fetches its box once an iteration; a tensor that does not move
with this loop, nor with those right around it, once for all of their iterations. What is written beyond L1 counts twice: a line is
fetched before it is changed and goes back later. It is an estimate: lines, prefetches and conflicts are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, Literal

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.target.caches import Caches
from tensorlang.ir import Buffer, For, Nest
from tensorlang.ir.integers import known_value
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of
from tensorlang.schedules.legality.accesses import Access, accesses
from tensorlang.schedules.rewriting.edit import extent_of, path_to, stages
from tensorlang.schedules.rewriting.ragged import ragged
from tensorlang.schedules.rewriting.region import region

Home = Literal["L1", "L2", "L3", "memory"]
HOMES: Final[tuple[Home, ...]] = ("L1", "L2", "L3", "memory")


@dataclass(frozen=True, slots=True)
class LoopLevel:
    """A loop of the hot path: how often its body runs for each iteration around it, what one iteration touches, and where that fits.

    `read` and `written` are what all iterations together move where each finds nothing but what the one before left; None where trips
    depend on other loops, or on data.
    """

    loop: str
    kind: str
    trips: int | None
    bytes: int
    read: int | None
    written: int | None
    home: Home

    def moved(self, source: Home) -> int:
        """What all iterations bring in from a level of memory, and send back to it."""
        return (self.read or 0) + (self.written or 0) * (1 if source == "L1" else 2)


def levels(nest: Nest, stage: str, dims: Mapping[str, int], caches: Caches) -> tuple[LoopLevel, ...]:
    """The loops around a stage, outermost first; () for a stage that the nest no longer has."""
    if stage not in stages(nest):
        return ()
    path = [part for part in path_to(nest.body, lambda part: isinstance(part, ir.Store) and part.stage == stage) if isinstance(part, For)]
    return tuple(_level(nest, path[: depth + 1], dims, caches) for depth in range(len(path)))


def home(size: int, caches: Caches) -> Home:
    """The nearest cache that holds so many bytes."""
    sizes = (caches.l1, caches.l2, caches.l3)
    return next((name for name, held in zip(HOMES, sizes, strict=False) if size <= held), "memory")


def traffic_by_level(found: Sequence[LoopLevel], read: int, written: int, footprint: int, caches: Caches) -> dict[Home, int]:
    """Bytes that pass between each level of memory and the next nearer one in one call, as far as the loops tell.

    `read` and `written`: inputs and outputs; `footprint`: these and the workspace. Levels beyond the one that holds it see nothing.
    """
    last = HOMES.index(home(footprint, caches))
    sent: dict[Home, int] = {}
    inner = [level for level in found if level.kind not in ("vector", "unroll", "tensor")][-1:]
    for place, (source, held) in enumerate(zip(HOMES, (0, caches.l1, caches.l2, caches.l3), strict=True)):
        if place > last:
            break
        fits = inner if source == "L1" else [level for level in found if level.bytes <= held]
        least = read + written * (1 if source == "L1" else 2) if source in ("L1", HOMES[last]) else 0
        sent[source] = max(least, fits[0].moved(source) if fits else 0)
    return sent


def _level(nest: Nest, path: Sequence[For], dims: Mapping[str, int], caches: Caches) -> LoopLevel:
    loop = path[-1]
    outer = [part.loop for part in path]
    told = closure(nest, ragged(cond for access in accesses(loop.body, tuple(path)) for cond in access.conditions).bounded)
    trips = [None if part.loop in told and part.kind == "serial" else known_value(extent_of(part), dims) for part in path]
    known = [count for count in trips if count is not None]
    touched = read = written = 0
    for buffer, uses in _by_buffer(accesses(loop.body, tuple(path))).items():
        size = _box(nest, buffer, uses, outer, dims)
        moving = closure(nest, frozenset().union(*(axes_of(part) for access in uses for part in access.index)))
        depth = max((place + 1 for place, name in enumerate(outer) if name in moving), default=0)
        touched += size
        moved = size * prod(known[:depth])
        read += 0 if any(access.writes and access.reducer is None for access in uses) else moved  # what is set here need not be read
        written += moved if any(access.writes for access in uses) else 0
    if len(known) < len(trips):
        return LoopLevel(short(loop.loop), loop.kind, trips[-1], touched, None, None, home(touched, caches))
    return LoopLevel(short(loop.loop), loop.kind, trips[-1], touched, read, written, home(touched, caches))


def _by_buffer(found: Iterable[Access]) -> dict[Buffer, list[Access]]:
    by_buffer: dict[Buffer, list[Access]] = {}
    for access in found:
        if access.buffer.memory != "register":
            by_buffer.setdefault(access.buffer, []).append(access)
    return by_buffer


def _box(nest: Nest, buffer: Buffer, uses: list[Access], outer: list[str], dims: Mapping[str, int]) -> int:
    """Bytes of the smallest box that holds all uses in one iteration of the loops `outer`, and no more than are used at all."""
    spans = region(nest, [(access.index, access.loops[len(outer) :]) for access in uses], buffer.shape, outer)
    sizes = [known_value(simplify(span.extent), dims) for span in spans]
    whole = [known_value(extent, dims) or 0 for extent in buffer.shape]
    box = prod(most if size is None else min(size, most) for size, most in zip(sizes, whole, strict=True))
    times = [[known_value(extent_of(loop), dims) for loop in access.loops[len(outer) :]] for access in uses]
    used = sum(prod(box if trips is None else trips for trips in inner) for inner in times)
    return min(box, used) * buffer.dtype.bytes
