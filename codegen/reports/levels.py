"""Working sets: the bytes that one iteration of a loop touches, against the caches.

A loop whose iteration fits a cache leaves there what the next iteration may find again. The part of each tensor that is touched is the
box of `schedules.region`, so a strided or data-dependent access counts as the whole of what it spans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Final, Literal

from tensorlang import ir
from tensorlang.codegen import extents
from tensorlang.codegen.caches import Caches
from tensorlang.ir import Buffer, Expr, For, Nest
from tensorlang.printer import short
from tensorlang.schedules.edit import extent_of, path_to
from tensorlang.schedules.legality import Access, accesses
from tensorlang.schedules.region import region
from tensorlang.simplify import simplify
from tensorlang.traverse import axes_of

Home = Literal["L1", "L2", "L3", "memory"]
CHAIN: Final = 12
"""Loops of the hot path that are shown at most."""


@dataclass(frozen=True, slots=True)
class Level:
    """A loop of the hot path: how often its body runs for each iteration around it, what one iteration touches, and where that fits."""

    loop: str
    kind: str
    trips: int | None
    bytes: int
    home: Home


def levels(nest: Nest, stage: str, dims: Mapping[str, int], caches: Caches) -> tuple[Level, ...]:
    """The loops around a stage, outermost first."""
    path = [part for part in path_to(nest.body, lambda part: isinstance(part, ir.Store) and part.stage == stage) if isinstance(part, For)]
    found = []
    for depth, loop in enumerate(path[:CHAIN]):
        size = _touched(
            nest, list(accesses(loop.body, tuple(path[: depth + 1]))), depth + 1, [part.loop for part in path[: depth + 1]], dims
        )
        found.append(Level(short(loop.loop), loop.kind, value(extent_of(loop), dims), size, home(size, caches)))
    return tuple(found)


def home(size: int, caches: Caches) -> Home:
    """The nearest cache that holds so many bytes."""
    if size <= caches.l1:
        return "L1"
    if size <= caches.l2:
        return "L2"
    return "L3" if size <= caches.l3 else "memory"


def value(extent: Expr, dims: Mapping[str, int]) -> int | None:
    """The number that an extent is under these dims; None where it depends on a loop."""
    return None if axes_of(extent) else extents.evaluate(extent, dict(dims))


def _touched(nest: Nest, found: list[Access], depth: int, outer: list[str], dims: Mapping[str, int]) -> int:
    by_buffer: dict[Buffer, list[Access]] = {}
    for access in found:
        if access.buffer.memory != "register":
            by_buffer.setdefault(access.buffer, []).append(access)
    return sum(_box(nest, buffer, uses, depth, outer, dims) for buffer, uses in by_buffer.items())


def _box(nest: Nest, buffer: Buffer, uses: list[Access], depth: int, outer: list[str], dims: Mapping[str, int]) -> int:
    spans = region(nest, [(access.index, access.loops[depth:]) for access in uses], buffer.shape, outer)
    sizes = [value(simplify(span.extent), dims) for span in spans]
    whole = [value(extent, dims) for extent in buffer.shape]
    return (
        prod(min(size if size is not None else most or 0, most or 0) for size, most in zip(sizes, whole, strict=True)) * buffer.dtype.bytes
    )
