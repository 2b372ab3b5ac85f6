"""Directives worth asking about: what `legal_moves` tries, for a loop or for a stage.

A loop may be of another kind, be split, change places with any part of the perfect nest that it stands in, and be a place at which
tensors are copied and stages computed. A stage may be computed and stored at any loop of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from tensorlang.ir import Block, For, Nest, Stmt
from tensorlang.ir.mentions import allocations
from tensorlang.schedules.directive import Directive
from tensorlang.schedules.directives.accumulate import Accumulate
from tensorlang.schedules.directives.cache_read import CacheRead
from tensorlang.schedules.directives.cache_write import CacheWrite
from tensorlang.schedules.directives.compute_at import ComputeAt
from tensorlang.schedules.directives.compute_inline import ComputeInline
from tensorlang.schedules.directives.compute_root import ComputeRoot
from tensorlang.schedules.directives.decompose_reduction import DecomposeReduction
from tensorlang.schedules.directives.fission import Fission
from tensorlang.schedules.directives.fuse import Fuse
from tensorlang.schedules.directives.fuse_loops import FuseLoops
from tensorlang.schedules.directives.hoist import Hoist
from tensorlang.schedules.directives.join_reductions import JoinReductions
from tensorlang.schedules.directives.loop_kinds import Parallel, Unroll, Vectorize
from tensorlang.schedules.directives.narrow import Narrow
from tensorlang.schedules.directives.pack import Pack
from tensorlang.schedules.directives.partition import Partition
from tensorlang.schedules.directives.peel import Peel
from tensorlang.schedules.directives.reorder import Reorder
from tensorlang.schedules.directives.reuse import Reuse
from tensorlang.schedules.directives.reverse_compute_at import ReverseComputeAt
from tensorlang.schedules.directives.reverse_compute_inline import ReverseComputeInline
from tensorlang.schedules.directives.rfactor import Rfactor
from tensorlang.schedules.directives.scatter import Scatter
from tensorlang.schedules.directives.separate import Separate
from tensorlang.schedules.directives.share import Share
from tensorlang.schedules.directives.skew import Skew
from tensorlang.schedules.directives.split import Split
from tensorlang.schedules.directives.store_at import StoreAt
from tensorlang.schedules.directives.store_root import StoreRoot
from tensorlang.schedules.directives.trim import Trim
from tensorlang.schedules.rewriting.edit import AUXILIARY, loops, path_to_loop, stage_of, stages, stores

FACTORS: Final = (4, 8, 16, 32, 64)


def moves_of_loop(nest: Nest, loop: str) -> Iterator[Directive]:
    """Directives that name a loop."""
    path = path_to_loop(nest, loop)
    yield from (Parallel(loop), Vectorize(loop), Unroll(loop))
    yield from (Split(loop, factor) for factor in FACTORS)
    chain = _perfect_nest(path)
    yield from _orders([part.loop for part in chain], loop)
    for outer, inner in pairwise(chain):
        if loop in (outer.loop, inner.loop):
            yield Fuse(outer.loop, inner.loop)
    yield from (Rfactor(loop), DecomposeReduction(loop), Fission(loop), Partition(loop), Trim(loop))
    yield from (Peel(loop, first=1), Peel(loop, last=1))
    yield from (Skew(loop, part.loop) for part in path[:-1] if isinstance(part, For))
    above = path[-2] if len(path) > 1 else None
    if isinstance(above, Block):
        for first, second in pairwise(above.body):
            if isinstance(first, For) and isinstance(second, For) and loop in (first.loop, second.loop):
                yield FuseLoops(first.loop, second.loop)
    for stage in _main_stages(nest):
        yield from (
            ComputeAt(stage, loop),
            StoreAt(stage, loop),
            ReverseComputeAt(stage, loop),
            Hoist(stage, loop),
            Scatter(stage, loop),
            Separate(stage, (loop,)),
            Separate(stage, (loop,), doubling=True),
            Accumulate(stage, loop),
            CacheWrite(stage, loop),
        )
    for buffer in (*nest.inputs, *allocations(nest.body)):
        yield from (Pack(buffer.name, loop), CacheRead(buffer.name, loop))


def moves_of_stage(nest: Nest, stage: str) -> Iterator[Directive]:
    """Directives that say where a stage is computed and stored."""
    yield from (ComputeInline(stage), ComputeRoot(stage), ReverseComputeInline(stage), StoreRoot(stage), Narrow(stage))
    yield from (Share(stage), Separate(stage, ()))
    yield from (JoinReductions(stage, other) for other in _reductions_after(nest, stage))
    yield from (Reuse(other, stage) for other in _reductions_after(nest, stage))
    for part in loops(nest.body):
        if stage_of(part.loop) not in (stage, f"{stage}.init"):
            yield from (ComputeAt(stage, part.loop), StoreAt(stage, part.loop), ReverseComputeAt(stage, part.loop))


def _reductions_after(nest: Nest, stage: str) -> tuple[str, ...]:
    """The reductions that follow another one in the program."""
    found = list(dict.fromkeys(store.stage for store in stores(nest.body) if store.reducer is not None))
    return tuple(found[found.index(stage) + 1 :]) if stage in found else ()


def _main_stages(nest: Nest) -> tuple[str, ...]:
    return tuple(stage for stage in stages(nest) if not stage.endswith(AUXILIARY))


def _perfect_nest(path: Sequence[Stmt]) -> list[For]:
    """The loops around and inside the last one of a path with nothing between them."""
    first = len(path) - 1
    while first > 0 and isinstance(path[first - 1], For):
        first -= 1
    chain = [part for part in path[first:] if isinstance(part, For)]
    while isinstance(chain[-1].body, For):
        chain.append(chain[-1].body)
    return chain


def _orders(chain: Sequence[str], loop: str) -> Iterator[Reorder]:
    """The loop at every other place of the nest: the others keep their order, or one of them takes its place."""
    at = chain.index(loop)
    for place in range(len(chain)):
        if place == at:
            continue
        low, high = min(at, place), max(at, place) + 1
        rest = [other for other in chain[low:high] if other != loop]
        yield Reorder((loop, *rest) if place < at else (*rest, loop))
        if high - low > 2:
            yield Reorder((loop, chain[place]) if place < at else (chain[place], loop))
