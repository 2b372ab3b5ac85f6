"""Sequences of steps around storage that several iterations share: partial results, tiles, copies, windows and folded tensors."""

from __future__ import annotations

from itertools import pairwise

from tensorlang.ir import For, Store
from tensorlang.ir.traverse import loads_of
from tensorlang.schedules.legality.accesses import reads
from tensorlang.schedules.rewriting.edit import stage_of, stores

from .rows import FACTORS, TAILS
from .view import Coming, Step, View, call, name_of, neighbours


def in_partial_results(view: View) -> list[Coming]:
    """A reduction whose loops are fused at times, in partial results, and a tile of these."""
    found = [store for store in view.reductions() if len(view.around(store)) > 1 and view.still(store)]
    if not found:
        return []
    rng = view.rng
    filled = [store for store in found if not any(part.stage == f"{store.stage}.init" for part in stores(view.nest.body))]
    store = rng.choice(filled if filled and rng.random() < 0.7 else found)
    stage, still = store.stage, {loop.loop for loop in view.still(store)}
    mixed = [(a.loop, b.loop) for a, b in pairwise(view.around(store)) if a.body is b and (a.loop in still) != (b.loop in still)]
    before: list[Coming] = []
    if mixed and rng.random() < 0.5:
        first, second = rng.choice(mixed)
        if len(still) == 1 and second in still:  # a part of it is left for the partial results
            before, second = [call("split", second, rng.choice(FACTORS[1:]))], f"{second}_o"
        before = [*before, call("fuse", first, second)]

    def factored(now: View) -> Step | None:
        loops = [loop for part in now.combining(stage) for loop in now.still(part)]
        return call("rfactor", now.rng.choice(loops).loop) if loops else None

    def tile(now: View) -> Step | None:
        parts = [part for part in now.combining() if part.stage.startswith(f"{stage}_rf") and now.around(part)]
        if not parts:
            return None
        part = now.rng.choice(parts)
        loops, still = now.around(part), now.still(part)
        moving = [loop for loop in loops if loop not in still]
        return call("accumulate", part.buffers[0].name, at=now.rng.choice(moving if moving and now.rng.random() < 0.7 else loops).loop)

    return [*before, factored, *([tile] if rng.random() < 0.7 else [])]


def across_still_loops(view: View) -> list[Coming]:
    """A loop that does not move what is stored inside, cut once or twice, and what one of its parts stores in a buffer of its own."""
    every = [store for store in stores(view.nest.body) if view.of_interest(store.stage)] or list(stores(view.nest.body))
    found = [(store, loop) for store in every for loop in view.still(store) if loop.kind == "serial" and is_alone(store, loop)]
    found = [pair for pair in found if pair[0].reducer is None] or found
    if not found:
        return []
    rng, (store, loop) = view.rng, view.rng.choice(found)
    tails = TAILS if store.reducer is None else TAILS[:-1]
    first = call("split", loop.loop, rng.choice(FACTORS[1:]), tail=rng.choice(tails))
    part = f"{loop.loop}_{rng.choice('iio')}"
    twice: list[Coming] = [call("split", part, rng.choice((2, 2, 3, 4)), tail=rng.choice(tails))] if rng.random() < 0.7 else []
    at = f"{part}_o" if twice else rng.choice((f"{loop.loop}_i", f"{loop.loop}_o"))
    method = "cache_write" if store.reducer is None or rng.random() < 0.3 else "accumulate"
    return [first, *twice, call(method, store.buffers[0].name, at=at)]


def is_alone(store: Store, loop: For) -> bool:
    """Does nothing else in a loop touch what a store writes there?"""
    name = store.buffers[0].name
    others = [other for other in stores(loop.body) if any(buffer.name == name for buffer in other.buffers)]
    return len(others) == 1 and all(name_of(load) != name for load in reads(loop.body))


def copied_outside(view: View) -> list[Coming]:
    """A producer placed inside loops, then a copy of what it reads at one of the loops around it."""
    found = [(stage, loops) for stage in view.movable() if (loops := view.meeting(stage))]
    if not found:
        return []
    rng, (stage, loops) = view.rng, view.rng.choice(found)

    def copy(now: View) -> Step | None:
        own = [part for part in stores(now.nest.body) if part.stage == stage]
        names = sorted({name for part in own for name in now.read(part)})
        around = [loop.loop for part in own for loop in now.around(part) if stage_of(loop.loop) != stage]
        if not names or not around:
            return None
        at = now.rng.choice(around[:-1] or around)
        return call(now.rng.choice(("pack", "pack", "cache_read")), now.rng.choice(names), at=at)

    return [call("compute_at", stage, rng.choice(loops[1:] or loops).loop), copy]


def window_exchanged(view: View) -> list[Coming]:
    """A producer, rather one that is read at several places, placed in a loop and kept outside of others, which then change their order."""
    found = [(stage, loops) for stage in view.movable() if len(loops := view.meeting(stage)) > 1]
    if not found:
        return []
    rng, wide = view.rng, [entry for entry in found if is_read_around(view, entry[0])]
    stage, loops = rng.choice(wide if wide and rng.random() < 0.8 else found)
    outer, inner = sorted(rng.sample(range(len(loops)), 2))
    kept = call("store_root", stage) if rng.random() < 0.5 else call("store_at", stage, loops[outer].loop)
    name = loops[rng.choice((inner, inner, outer))].loop
    cut: list[Coming] = [call("split", name, rng.choice((2, 2, 3, 4))), call("reorder", f"{name}_i", f"{name}_o")]
    swapped: list[Coming] = [call("reorder", loops[inner].loop, loops[outer].loop)]
    return [call("compute_at", stage, loops[inner].loop), kept, *(swapped if rng.random() < 0.3 else cut)]


def is_read_around(view: View, stage: str) -> bool:
    """Does one store read what a stage computes at several places?"""
    names = view.written(stage)
    every = [
        [load.index for value in store.values for load in loads_of(value) if name_of(load) in names] for store in stores(view.nest.body)
    ]
    return any(len(set(places)) > 1 for places in every)


def reused(view: View) -> list[Coming]:
    """A tensor that is computed from its own earlier elements by way of another stage, of which few places are kept; that stage moved.

    The places are read until the stage has run: where it runs later, others may be in them.
    """
    found = carried(view)
    if not found:
        return []
    rng, (helper, target, name) = view.rng, view.rng.choice(found)

    def loops_of(now: View) -> list[For]:
        return [loop for part in stores(now.nest.body) if part.stage == target for loop in now.around(part)]

    def whole(now: View) -> Step | None:
        loops = loops_of(now)
        return call("compute_at", helper, loops[0].loop) if loops else None

    def joined(now: View) -> Step | None:
        own = {loop.loop for loop in loops_of(now)}
        pairs = [pair for pair in neighbours(now.nest.body) if not own.isdisjoint(pair)]
        return call("fuse_loops", *now.rng.choice(pairs)) if pairs else None

    def late(now: View) -> Step | None:
        loops = loops_of(now)
        return call("compute_at", helper, loops[-1].loop) if loops else None

    first: list[Coming] = [whole] if helper.rsplit(".", 1)[-1].isdigit() else []
    return [*first, joined, call("fold_storage", name, 0, rng.choice((1, 1, 1, 2, 3))), late]


def carried(view: View) -> list[tuple[str, str, str]]:
    """Stages that read an intermediate and are read by the stage that computes it: the first one, the other one, and the intermediate."""
    kept, helpers = {buffer.name for buffer in View(view.rng, view.nest).buffers()}, view.movable()
    every = list(stores(view.nest.body))
    pairs = [(one, two) for one in every if one.stage in helpers for two in every if one.stage != two.stage]
    return [
        (one.stage, two.stage, buffer.name)
        for one, two in pairs
        if {buffer.name for buffer in one.buffers} & view.read(two)
        for buffer in two.buffers
        if buffer.name in kept & view.read(one)
    ]
