"""For each directive, arguments that stand a good chance with the nest of the moment.

A directive without a row (one that is newer than this file) is drawn from its fields (`generic`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import tensorlang as tl
from tensorlang.ir import Alloc, Block, Compare, Expr, For, Stmt, Store
from tensorlang.ir.mentions import allocations
from tensorlang.ir.traverse import axes_of, substatements, walk
from tensorlang.schedules import catalogue
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.directives.hoist import invariants
from tensorlang.schedules.directives.share import Share
from tensorlang.schedules.directives.trim import Trim
from tensorlang.schedules.legality.accesses import conditions_around, reads
from tensorlang.schedules.rewriting.edit import literal_extent, loops_on, path_to_store, stores

from .generic import generic
from .placements import (
    compute_at,
    compute_inline,
    compute_root,
    fold_storage,
    of_storage,
    reverse_compute_at,
    reverse_compute_inline,
    store_at,
    store_root,
)
from .view import Step, View, call, name_of, neighbours

FACTORS: Final = (1, 2, 2, 3, 4, 4, 5, 7, 8, 8, 16)
ALONG: Final = 0.3
"""The share of packed tensors of which the uses are chosen by a loop."""
PARTIAL: Final = 0.4
"""The share of accumulated tiles that are summed apart."""
TAILS: Final = ("guard", "guard", "mask", "peel", "peel", "shift")


def split(view: View) -> Step:
    loop, rng = view.loop(), view.rng
    extent = literal_extent(loop)
    factor = rng.choice(FACTORS) if extent is None or rng.random() < 0.7 else max(1, extent + rng.choice((-1, 0, 0, 1)))
    return call("split", loop.loop, factor, tail=rng.choice(TAILS))


def tile(view: View) -> Step | None:
    chains, rng = view.chains(), view.rng
    if not chains:
        return None
    chain = rng.choice(chains)
    return call("tile", chain[0].loop, chain[1].loop, rng.choice(FACTORS), rng.choice(FACTORS), tail=rng.choice(TAILS))


def fuse(view: View) -> Step | None:
    chains = view.chains()
    return call("fuse", *[loop.loop for loop in view.rng.choice(chains)[:2]]) if chains else None


def reorder(view: View) -> Step | None:
    chains = view.chains()
    if not chains:
        return None
    names = [loop.loop for loop in view.rng.choice(chains)]
    picked = view.rng.sample(names, view.rng.randint(2, len(names)))
    return call("reorder", *picked)


def vectorize(view: View) -> Step | None:
    found = [
        loop for loop in view.loops() if loop.kind == "serial" and literal_extent(loop) is not None and (literal_extent(loop) or 0) <= 40
    ]
    inner = [loop for loop in view.innermost() if loop in found]
    pool = inner if inner and view.rng.random() < 0.7 else found
    return call("vectorize", view.rng.choice(pool).loop) if pool else None


def unroll(view: View) -> Step | None:
    found = [
        loop for loop in view.loops() if loop.kind == "serial" and literal_extent(loop) is not None and (literal_extent(loop) or 0) <= 17
    ]
    return call("unroll", view.rng.choice(found).loop) if found else None


def parallel(view: View) -> Step:
    return call("parallel", view.loop().loop)


def copied(method: str) -> Callable[[View], Step | None]:
    def draw(view: View) -> Step | None:
        loop = view.loop()
        names = sorted({name_of(load) for load in reads(loop.body)})
        return call(method, view.rng.choice(names), at=loop.loop) if names else None

    return draw


def pack(view: View) -> Step | None:
    """A tensor, now and then the uses alone that a loop of the nest moves."""
    loop, rng = view.loop(), view.rng
    names = sorted({name_of(load) for load in reads(loop.body)})
    options = {"along": view.loop().loop} if rng.random() < ALONG else {}
    return call("pack", rng.choice(names), at=loop.loop, **options) if names else None


def join_reductions(view: View) -> Step | None:
    """Two reductions, rather in the order in which they are computed, and parts of one expression rather than of several."""
    found = list(dict.fromkeys(store.stage for store in view.reductions()))
    inner = [stage for stage in found if stage.rsplit(".", 1)[-1].isdigit()]
    pool = inner if len(inner) > 1 and view.rng.random() < 0.5 else found
    if len(pool) < 2:
        return None
    two = view.rng.sample(pool, 2)
    return call("join_reductions", *(sorted(two, key=pool.index) if view.rng.random() < 0.85 else two))


def reuse(view: View) -> Step:
    """Two stages, rather those that look alike."""
    every = view.computed()
    shapes = {store.stage: (store.reducer, len(store.index)) for store in stores(view.nest.body)}
    one = view.rng.choice(every)
    alike = [other for other in every if other != one and shapes.get(other) == shapes.get(one)]
    return call("reuse", one, view.rng.choice(alike or every))


def accumulate(view: View) -> Step | None:
    found = view.reductions()
    if not found:
        return None
    store = view.rng.choice(found)
    pool = [loop for loop in view.loops() if any(part is store for part in stores(loop.body))]
    if not pool:
        return None
    options = {"partial": True} if view.rng.random() < PARTIAL else {}
    return call("accumulate", view.rng.choice(store.buffers).name, at=view.rng.choice(pool).loop, **options)


def reducing(method: str) -> Callable[[View], Step | None]:
    """A step on a loop that some reduction's index does not depend on."""

    def draw(view: View) -> Step | None:
        inner = [loop for store in view.reductions() for loop in view.loops() if any(part is store for part in stores(loop.body))]
        return call(method, view.rng.choice(inner).loop) if inner else None

    return draw


def cache_write(view: View) -> Step | None:
    """A local buffer for what a loop computes."""
    tensor = view.rng.choice(sorted(view.written(view.rng.choice(view.computed()))))
    pool = view.writers({tensor})
    return call("cache_write", tensor, at=view.rng.choice(pool).loop) if pool else None


def skew(view: View) -> Step | None:
    """A loop by one of those outside it."""
    chains = view.chains()
    if not chains:
        return None
    chain = view.rng.choice(chains)
    outer, inner = sorted(view.rng.sample(range(len(chain)), 2))
    return call("skew", chain[inner].loop, by=chain[outer].loop, factor=view.rng.choice((1, 1, 2, -1)))


def fission(view: View) -> Step | None:
    """A loop over several statements."""
    pool = [loop for loop in view.loops() if isinstance(after_storage(loop.body), Block)]
    loop = view.rng.choice(pool or view.loops())
    inside = [part.loop for part in substatements(after_storage(loop.body)) if isinstance(part, For)]
    after = {"after": view.rng.choice(inside)} if inside and view.rng.random() < 0.4 else {}
    return call("fission", loop.loop, **after)


def after_storage(stmt: Stmt) -> Stmt:
    """What comes after the allocations at the start of a loop."""
    return after_storage(stmt.body) if isinstance(stmt, Alloc) else stmt


def fuse_loops(view: View) -> Step | None:
    """Two loops that follow each other."""
    found = neighbours(view.nest.body)
    return call("fuse_loops", *view.rng.choice(found)) if found else None


def specialize(view: View) -> Step | None:
    """A version for some extents."""
    if not view.nest.dims:
        return None
    name, rng = view.rng.choice(view.nest.dims), view.rng
    return call(
        "specialize", rng.choice((f"{name} == {rng.choice((1, 5, 8, 9))}", f"{name} % {rng.choice((2, 4, 8))} == 0", f"{name} >= 8"))
    )


def prefetch(view: View) -> Step | None:
    """A later iteration's part of a tensor."""
    loop = view.loop()
    names = sorted({name_of(load) for load in reads(loop.body)})
    return call("prefetch", view.rng.choice(names), loop.loop, distance=view.rng.choice((1, 1, 2, 8))) if names else None


def stream_stores(view: View) -> Step:
    """A tensor that is written."""
    return call("stream_stores", view.rng.choice([*(buffer.name for buffer in view.nest.outputs), *view.allocated()]))


def tensorize(view: View) -> Step | None:
    """The tile of an instruction: 16 lanes of 4 products, or 8."""
    lanes, instruction = view.rng.choice(((16, "dpbusd"), (16, "dpbusd"), (8, "maddusd")))
    found = [chain[0] for chain in view.chains() if [literal_extent(loop) for loop in chain] == [lanes, 4]]
    instruction = view.rng.choice((instruction,) * (9 if found else 2) + ("dpbf16ps",))
    return call("tensorize", view.rng.choice(found or view.loops()).loop, instruction)


def peel(view: View) -> Step:
    """Some first and last iterations."""
    return call("peel", view.loop().loop, first=view.rng.choice((0, 1, 1, 2)), last=view.rng.choice((0, 0, 1, 3)))


def partition(view: View) -> Step:
    """The iterations that conditions of the loop, or of one around it, leave."""
    loops = view.loops()
    return call("partition", view.loop().loop, **({"across": view.rng.choice(loops).loop} if view.rng.random() < 0.5 else {}))


def narrow(view: View) -> Step:
    """A stage in fewer bits."""
    return call("narrow", view.rng.choice([*view.computed(), *view.results()]))


def hoist(view: View) -> Step:
    """What a stage computes of less than all of its loops."""
    found = [(part.stage, loop.loop) for loop in view.loops() for part in stores(loop.body) if invariants(view.nest, part, loop.loop)]
    return call("hoist", *view.rng.choice(found or [(stage, view.loop().loop) for stage in view.computed()]))


def scatter(view: View) -> Step:
    """A reduction that asks an equation of its element, by a loop around it."""
    found = [(part, loop.loop) for loop in view.loops() for part in stores(loop.body) if part.reducer is not None]
    asked = [
        (part.stage, loop) for part, loop in found if any(isinstance(node, Compare) and node.op == "eq" for node in _asked(view, part))
    ]
    every = [(part.stage, loop) for part, loop in found] or [(stage, view.loop().loop) for stage in view.computed()]
    return call("scatter", *view.rng.choice(asked or every))


def separate(view: View) -> Step:
    """Some loops of a reduction before the others, or windows along one by powers of two; one at times that its element moves with.

    Or a sum of integers that is written out.
    """
    if view.rng.random() < 0.2:
        return call("separate", view.rng.choice(view.computed()))
    found = [part for part in stores(view.nest.body) if part.reducer is not None and loops_on(path_to_store(view.nest, part))]
    if not found:
        return call("separate", view.rng.choice(view.computed()), view.loop().loop)
    store = view.rng.choice(found)
    around = [part.loop for part in loops_on(path_to_store(view.nest, store))]
    moved = frozenset().union(*map(axes_of, store.index))
    reduced = [loop for loop in around if loop not in moved]
    if view.rng.random() < 0.3:
        return call("separate", store.stage, view.rng.choice(reduced or around), doubling=True)
    return call("separate", store.stage, *view.rng.sample(reduced, view.rng.randint(1, len(reduced))) if reduced else around[-1:])


def share(view: View) -> Step:
    """A stage whose elements compute something alike."""
    every = [part.stage for part in stores(view.nest.body)]
    found = [stage for stage in dict.fromkeys(every) if _alike(view, stage)]
    return call("share", view.rng.choice(found or every))


def by_cases(view: View) -> Step:
    """A stage in a short loop around it."""
    found = [(part.stage, loop.loop) for loop in view.loops() for part in stores(loop.body) if (literal_extent(loop) or 0) in range(2, 9)]
    return call("by_cases", *view.rng.choice(found or [(stage, view.loop().loop) for stage in view.computed()]))


def trim(view: View) -> Step:
    """A loop that computes what nobody reads; another one at times."""
    kept = {buffer.name for buffer in allocations(view.nest.body)}
    every = [loop.loop for loop in view.loops() if all(part.buffers[0].name in kept for part in stores(loop.body))]
    found = [loop for loop in every if _leaves_some(view, loop)]
    return call("trim", view.rng.choice(found or every or [view.loop().loop]) if view.rng.random() < 0.9 else view.loop().loop)


def _leaves_some(view: View, loop: str) -> bool:
    try:
        return Trim(loop).apply(view.nest) != view.nest
    except Refusal:
        return False


def _alike(view: View, stage: str) -> bool:
    try:
        return bool(Share(stage).alike(view.nest))
    except Refusal:
        return False


def _asked(view: View, store: Store) -> Iterator[Expr]:
    for expr in (*store.values, *conditions_around(view.nest, store)):
        yield from walk(expr)


def shift(view: View) -> Step:
    """A loop that counts from elsewhere."""
    return call("shift", view.loop().loop, view.rng.choice((-3, -1, 0, 1, 2, 7)))


ROWS: Final[dict[str, tuple[Callable[[View], Step | None], int]]] = {
    "split": (split, 8),
    "tile": (tile, 2),
    "fuse": (fuse, 3),
    "reorder": (reorder, 5),
    "vectorize": (vectorize, 5),
    "unroll": (unroll, 3),
    "parallel": (parallel, 3),
    "compute_at": (compute_at, 5),
    "compute_inline": (compute_inline, 2),
    "cache_read": (copied("cache_read"), 3),
    "pack": (pack, 3),
    "accumulate": (accumulate, 4),
    "rfactor": (reducing("rfactor"), 3),
    "decompose_reduction": (reducing("decompose_reduction"), 2),
    "join_reductions": (join_reductions, 1),
    "cache_write": (cache_write, 3),
    "skew": (skew, 2),
    "fission": (fission, 2),
    "fuse_loops": (fuse_loops, 2),
    "specialize": (specialize, 1),
    "by_cases": (by_cases, 1),
    "store_at": (store_at, 3),
    "store_root": (store_root, 2),
    "fold_storage": (fold_storage, 2),
    "reverse_compute_at": (reverse_compute_at, 3),
    "reverse_compute_inline": (reverse_compute_inline, 3),
    "compute_root": (compute_root, 2),
    "set_memory": (of_storage("set_memory"), 1),
    "align": (of_storage("align"), 1),
    "pad_to": (of_storage("pad_to"), 1),
    "transform_layout": (of_storage("transform_layout"), 2),
    "prefetch": (prefetch, 1),
    "stream_stores": (stream_stores, 1),
    "tensorize": (tensorize, 1),
    "peel": (peel, 3),
    "partition": (partition, 3),
    "shift": (shift, 2),
    "narrow": (narrow, 2),
    "hoist": (hoist, 3),
    "scatter": (scatter, 1),
    "separate": (separate, 3),
    "share": (share, 2),
    "reuse": (reuse, 1),
    "trim": (trim, 3),
}


def known_methods() -> list[str]:
    """The directives that exist now: the steps of a schedule, and `tile`."""
    return [*catalogue.DIRECTIVES, *(("tile",) if hasattr(tl.Schedule, "tile") else ())]


def drawn(view: View) -> Step | None:
    """A step that may well be accepted."""
    names = known_methods()
    name = view.rng.choices(names, [ROWS[name][1] if name in ROWS else 2 for name in names])[0]
    return of_kind(name, view)


def of_kind(name: str, view: View) -> Step | None:
    """A step of this kind that may well be accepted."""
    if not view.loops() and name != "compute_inline":
        return None
    return ROWS[name][0](view) if name in ROWS else generic(name, view)
