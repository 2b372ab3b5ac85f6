"""Sequences of steps around storage that several iterations share: partial results, tiles, copies, windows and folded tensors."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from tensorlang.ir import Expr, For, Store
from tensorlang.schedules.legality.accesses import reads
from tensorlang.schedules.rewriting.edit import literal_extent, stage_of, stores

from .rows import FACTORS, TAILS
from .view import Coming, Step, View, call, name_of, neighbours


def in_partial_results(view: View) -> list[Coming]:
    """A reduction of which every element starts from the identity, in partial results, and a tile of these."""
    found = [store for store in summing(view) if not is_scatter(view, store)]
    return factored(view, view.rng.choice(found), 0.5) if found else []


def scattered_in_partial_results(view: View) -> list[Coming]:
    """The same of a scatter."""
    found = [store for store in summing(view) if is_scatter(view, store)]
    return factored(view, view.rng.choice(found), 0.2) if found else []


def summing(view: View) -> list[Store]:
    """The reductions in several loops, of which some do not move the element."""
    return [store for store in view.reductions() if len(view.around(store)) > 1 and view.still(store)]


def is_scatter(view: View, store: Store) -> bool:
    """Is what a store combines into filled by another stage?"""
    return any(part.stage == f"{store.stage}.start" for part in stores(view.nest.body))


def factored(view: View, store: Store, often: float) -> list[Coming]:
    """Loops of a reduction fused so often, its partial results along one that does not move the element, and a tile of these."""
    rng, stage, still = view.rng, store.stage, {loop.loop for loop in view.still(store)}
    mixed = [(a.loop, b.loop) for a, b in pairwise(view.around(store)) if a.body is b and (a.loop in still) != (b.loop in still)]
    before: list[Coming] = []
    if mixed and rng.random() < often:
        first, second = rng.choice(mixed)
        if len(still) == 1 and second in still:  # a part of it is left for the partial results
            before, second = [call("split", second, rng.choice(FACTORS[1:]))], f"{second}_o"
        before = [*before, call("fuse", first, second)]

    def parts(now: View) -> Step | None:
        loops = [loop for part in now.combining(stage) for loop in now.still(part)]
        return call("rfactor", now.rng.choice(loops).loop) if loops else None

    def tile(now: View) -> Step | None:
        found = [part for part in now.combining() if part.stage.startswith(f"{stage}_rf") and now.around(part)]
        if not found:
            return None
        part = now.rng.choice(found)
        loops, fixed = now.around(part), now.still(part)
        moving = [loop for loop in loops if loop not in fixed]
        return call("accumulate", part.buffers[0].name, at=now.rng.choice(moving[-1:] if moving and now.rng.random() < 0.6 else loops).loop)

    return [*before, parts, *([tile] if rng.random() < 0.8 else [])]


def copied_across(view: View) -> list[Coming]:
    """A loop that does not move what is set inside, cut once or twice, and what one of its parts sets in a buffer of its own."""
    found = [pair for pair in across(view) if pair[0].reducer is None]
    return cut_across(view, *view.rng.choice(found), "cache_write") if found else []


def summed_across(view: View) -> list[Coming]:
    """The same of a reduction, in a tile or in a buffer."""
    found = [pair for pair in across(view) if pair[0].reducer is not None]
    return cut_across(view, *view.rng.choice(found), view.rng.choice(("accumulate", "accumulate", "cache_write"))) if found else []


def across(view: View) -> list[tuple[Store, For]]:
    """Stores, each with a loop that does not move its element, and in which it alone touches the tensor."""
    computed = set(View(view.rng, view.nest).computed())
    found = [store for store in stores(view.nest.body) if store.stage in computed]
    every = [store for store in found if view.of_interest(store.stage)] or found
    return [(store, loop) for store in every for loop in view.still(store) if loop.kind == "serial" and is_alone(store, loop)]


def cut_across(view: View, store: Store, loop: For, method: str) -> list[Coming]:
    """A loop split, one part of it split again at times, and a copy at one of the parts."""
    rng, tails = view.rng, TAILS if store.reducer is None else TAILS[:-1]
    ends = past_the_end(literal_extent(loop) or 0)
    if ends and rng.random() < 0.5:
        outer, inner = rng.choice(ends)
        cuts: list[Coming] = [call("split", loop.loop, outer), call("split", f"{loop.loop}_i", inner)]
        return [*cuts, call(method, store.buffers[0].name, at=f"{loop.loop}_i_o")]
    first = call("split", loop.loop, rng.choice(FACTORS[1:]), tail=rng.choice(tails))
    part = f"{loop.loop}_{rng.choice('iiio')}"
    twice: list[Coming] = [call("split", part, rng.choice((2, 2, 3, 4)), tail=rng.choice(tails))] if rng.random() < 0.8 else []
    at = f"{part}_o" if twice else rng.choice((f"{loop.loop}_i", f"{loop.loop}_o"))
    return [first, *twice, call(method, store.buffers[0].name, at=at)]


def past_the_end(extent: int) -> list[tuple[int, int]]:
    """Factors of a loop's split, and of a split of its inner part, with which the last of all parts begins where the loop has ended."""
    pairs = [(outer, inner) for outer in range(3, min(extent, 9)) for inner in range(2, outer)]
    return [(outer, inner) for outer, inner in pairs if (extent - 1) // outer * outer + (outer - 1) // inner * inner >= extent]


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


def kept_exchanged(view: View) -> list[Coming]:
    """A producer placed in a loop and kept outside of others, which then change their order."""
    found = [(stage, loops) for stage in view.movable() if len(loops := view.meeting(stage)) > 1]
    if not found:
        return []
    rng, (stage, loops) = view.rng, view.rng.choice(found)
    outer, inner = sorted(rng.sample(range(len(loops)), 2))
    kept = call("store_root", stage) if rng.random() < 0.5 else call("store_at", stage, loops[outer].loop)
    swapped = [call("reorder", loops[inner].loop, loops[outer].loop)]
    ends = swapped if rng.random() < 0.3 else parts_exchanged(view, loops[rng.choice((inner, outer))].loop)
    return [call("compute_at", stage, loops[inner].loop), kept, *ends]


def window_exchanged(view: View) -> list[Coming]:
    """What an iteration reads at several places computed or copied in it and kept outside, and the iterations in another order."""
    rng, movable = view.rng, view.movable()
    found = [
        (loop, name, outer)
        for chain in view.chains()
        for outer, loop in pairwise([None, *chain])
        if loop is not None and loop.kind == "serial"
        for name in sorted(read_around(loop))
    ]
    if not found:
        return []
    loop, name, outer = rng.choice(found)
    made = next((stage for stage in movable if name in view.written(stage)), None)
    start = call("cache_read", name, at=loop.loop) if made is None else call("compute_at", made, loop.loop)
    stage = made or f"{name}_cache"
    kept = call("store_root", stage) if outer is None or rng.random() < 0.5 else call("store_at", stage, outer.loop)
    swapped = [] if outer is None else [call("reorder", loop.loop, outer.loop)]
    return [start, kept, *(swapped if swapped and rng.random() < 0.2 else parts_exchanged(view, loop.loop))]


def parts_exchanged(view: View, loop: str) -> list[Step]:
    """A loop cut, and its parts exchanged."""
    return [call("split", loop, view.rng.choice((2, 2, 3, 4))), call("reorder", f"{loop}_i", f"{loop}_o")]


def read_around(loop: For) -> set[str]:
    """The names of what is read at several places in an iteration of a loop."""
    seen = {(name_of(load), load.index) for load in reads(loop.body)}
    return {name for name, index in seen if any(other == name and place != index for other, place in seen)}


def reused(view: View) -> list[Coming]:
    """A tensor that is computed from its own earlier elements by way of another stage, of which few places are kept; that stage moved.

    The places are read until the stage has run: where it runs later, others may be in them.
    """
    found = carried(view)
    if not found:
        return []
    helper, target, name = view.rng.choice(found)
    shapes = shapes_of(view)

    def loops_of(now: View) -> list[For]:
        return [loop for part in stores(now.nest.body) if part.stage == target for loop in now.around(part)]

    def whole(now: View) -> Step | None:
        loops = loops_of(now)
        return call("compute_at", helper, loops[0].loop) if loops else None

    def joined(now: View) -> Step | None:
        own = [loop.loop for loop in loops_of(now)][:1]
        pairs = [pair for pair in neighbours(now.nest.body) if own and own[0] in pair]
        return call("fuse_loops", *now.rng.choice(pairs)) if pairs else None

    def folded(places: int) -> Callable[[View], Step | None]:
        """As few places as will do: none where it has been folded."""
        return lambda now: call("fold_storage", name, 0, places) if shapes_of(now).get(name) == shapes[name] else None

    def late(now: View) -> Step | None:
        loops = loops_of(now)
        return call("compute_at", helper, loops[-1].loop) if loops else None

    first: list[Coming] = [whole] if helper.rsplit(".", 1)[-1].isdigit() else []
    return [*first, joined, *map(folded, (1, 2, 3)), late]


def completed_in_another_order(view: View) -> list[Coming]:
    """What reads its own earlier elements made where another stage makes its operand, whose loops stand in another order by then."""
    every, rng = list(stores(view.nest.body)), view.rng
    carrying = [store for store in every if store.reducer is None and view.read(store) & {buffer.name for buffer in store.buffers}]
    found = [
        (store.stage, operand)
        for store in carrying
        for operand in every
        if operand.stage != store.stage and view.read(store) & {buffer.name for buffer in operand.buffers} and view.around(operand)
    ]
    if not found:
        return []
    stage, operand = rng.choice(found)
    names = [loop.loop for loop in view.around(operand)]
    if len(names) > 1 and rng.random() < 0.5:
        before: list[Coming] = [call("reorder", *rng.sample(names, len(names)))]
    else:
        before = [*parts_exchanged(view, rng.choice(names))]

    def there(now: View) -> Step | None:
        pool = [loop.loop for part in stores(now.nest.body) if part.stage == operand.stage for loop in now.around(part)]
        return call("reverse_compute_at", stage, now.rng.choice(pool)) if pool else None

    return [*before, there]


def shapes_of(view: View) -> dict[str, tuple[Expr, ...]]:
    """The shapes of all intermediates."""
    return {buffer.name: buffer.shape for buffer in View(view.rng, view.nest).buffers()}


def carried(view: View) -> list[tuple[str, str, str]]:
    """Stages that read an intermediate and are read by the stage that computes it: the first one, the other one, and the intermediate."""
    kept, helpers = {*shapes_of(view)}, view.movable()
    every = list(stores(view.nest.body))
    pairs = [(one, two) for one in every if one.stage in helpers for two in every if one.stage != two.stage]
    return [
        (one.stage, two.stage, buffer.name)
        for one, two in pairs
        if {buffer.name for buffer in one.buffers} & view.read(two) and len(two.buffers) == 1
        for buffer in two.buffers
        if buffer.shape and buffer.name in kept & view.read(one) and all(literal_extent(loop) not in (0, 1) for loop in view.around(two))
    ]
