"""Working sets: the bytes that one iteration of a loop touches, against the caches.

A loop whose iteration fits a cache leaves there what the next iteration may find again; what moves between caches then is the cost model's
to say. The part of each tensor that is touched is the box of `schedules.rewriting.region`, or as many elements as there are accesses where
these are fewer (strides, indices that depend on data).
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
from tensorlang.schedules.legality.accesses import Access, accesses
from tensorlang.schedules.rewriting.edit import extent_of, path_to, stages
from tensorlang.schedules.rewriting.ragged import ragged
from tensorlang.schedules.rewriting.region import region

Home = Literal["L1", "L2", "L3", "memory"]
HOMES: Final[tuple[Home, ...]] = ("L1", "L2", "L3", "memory")


@dataclass(frozen=True, slots=True)
class LoopLevel:
    """A loop of the hot path: how often its body runs for each iteration around it, what one iteration touches, and where that fits.

    `trips` is None where they depend on other loops, or on data.
    """

    loop: str
    kind: str
    trips: int | None
    bytes: int
    home: Home


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


def _level(nest: Nest, path: Sequence[For], dims: Mapping[str, int], caches: Caches) -> LoopLevel:
    loop = path[-1]
    outer = [part.loop for part in path]
    told = closure(nest, ragged(cond for access in accesses(loop.body, tuple(path)) for cond in access.conditions).bounded)
    trips = None if loop.loop in told and loop.kind == "serial" else known_value(extent_of(loop), dims)
    touched = sum(_box(nest, buffer, uses, outer, dims) for buffer, uses in _by_buffer(accesses(loop.body, tuple(path))).items())
    return LoopLevel(short(loop.loop), loop.kind, trips, touched, home(touched, caches))


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
