"""Steps that lead to where a directive can be tried on a stage: what it moves stands elsewhere before, or shares a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorlang.ir import Store
from tensorlang.ir.traverse import loads_of
from tensorlang.schedules.rewriting.edit import literal_extent, loops, stage_of, stages, stores

from .inner import LANES, TERMS
from .kept import completed_in_another_order, copied_across, reused, scattered_in_partial_results
from .placements import compute_at_of
from .rows import of_kind
from .view import Coming, Step, View, call, neighbours


def placed_first(view: View) -> list[Coming]:
    """A producer placed inside loops of a reader."""
    found = view.intermediates()
    step = compute_at_of(view.rng.choice(found), view) if found else None
    return [] if step is None else [step]


def rooted_first(view: View) -> list[Coming]:
    """A reduction inside an expression given loops of its own."""
    found = [stage for stage in stages(view.nest) if view.of_interest(stage) and stage.rsplit(".", 1)[-1].isdigit()]
    return [call("compute_root", view.rng.choice(found))] if found else []


def completed_first(view: View) -> list[Coming]:
    """A reduction given loops of its own and a tile, whose copy back is one plain statement; then the consumer goes into that.

    A consumer that reads itself needs what it stored before, so that it shares the loops of its steps with its operand first.
    """
    if is_ordered(view) and view.rng.random() < 0.8:
        deeper = [again(view, joined_inside) for _ in range(view.rng.choice((0, 0, 1, 2)))]
        return [*joined_first(view), *deeper, aimed(view, "reverse_compute_inline")]
    rooted = rooted_first(view)
    tile = [aimed(view, "accumulate")] if rooted and view.rng.random() < 0.8 else []
    return [*rooted, *tile, aimed(view, "reverse_compute_inline")]


def joined_first(view: View) -> list[Coming]:
    """A loop of the stage joined with the one before, or after it."""
    found = [pair for pair in neighbours(view.nest.body) if any(view.of_interest(stage_of(loop)) for loop in pair)]
    return [call("fuse_loops", *view.rng.choice(found))] if found else []


def joined_inside(view: View) -> Step | None:
    """A loop of the stage joined with its neighbour, by then."""
    found = joined_first(view)
    return found[0] if found and isinstance(found[0], dict) else None


def rooted_both(view: View) -> list[Coming]:
    """Reductions inside expressions given loops of their own, so that they stand side by side, then joined."""
    rooted = [again(view, first_rooted) for _ in range(view.rng.choice((0, 1, 2)))]
    return [*rooted, aimed(view, "join_reductions")]


def first_rooted(view: View) -> Step | None:
    """A reduction inside an expression given loops of its own, by then."""
    found = rooted_first(view)
    return found[0] if found and isinstance(found[0], dict) else None


def joined_twice(view: View) -> list[Coming]:
    """Two loops of the stage, one in the other, joined with those before or after it: its reduction is then beside another statement."""

    def inside(now: View) -> Step | None:
        found = neighbours(now.nest.body)
        return call("fuse_loops", *now.rng.choice(found)) if found else None

    before = joined_first(view) if view.rng.random() < 0.4 else []
    return [*before, again(view, inside), aimed(view, "rfactor")] if before else []


def started_apart(view: View) -> Step | None:
    """A short reduction with its start before the tile of an instruction, whose loops are then around one statement."""
    found = [
        (outer.loop, inner)
        for outer in view.loops()
        if literal_extent(outer) == LANES
        for inner in loops(outer.body)
        if literal_extent(inner) == TERMS and any(view.of_interest(store.stage) for store in stores(inner.body))
    ]
    return call("decompose_reduction", view.rng.choice(found)[0]) if found else None


def tiled_first(view: View) -> list[Coming]:
    """A product of bytes given loops of its own, and its start set apart, before the instruction that computes it."""
    return [*rooted_first(view), again(view, started_apart), aimed(view, "tensorize")]


def is_ordered(view: View) -> bool:
    """Does a stage that is looked at read its own elements, so that it is computed whole?"""
    found = [store for store in stores(view.nest.body) if view.of_interest(store.stage) and store.reducer is None]
    return any(load.buffer in store.buffers for store in found for value in store.values for load in loads_of(value))


def folded(view: View) -> list[Coming]:
    """A tensor that is read where it is made, kept outside, and folded."""
    before = joined_first(view) if view.rng.random() < (0.9 if is_ordered(view) else 0.4) else []
    if not before:
        before = placed_first(view)
        before += [aimed(view, "store_root")] if before and view.rng.random() < 0.8 else []
    return [*before, aimed(view, "fold_storage")]


def beside(method: str) -> Callable[[View], list[Coming]]:
    """A step on a loop in which a reduction and the stage stand side by side, or, where there is none, these loops joined first."""

    def draw(view: View) -> Step | None:
        everything = View(view.rng, view.nest)
        found: list[tuple[str, Store]] = []
        for loop in everything.loops():
            inside = list(stores(loop.body))
            if any(view.of_interest(store.stage) for store in inside):
                found += [(loop.loop, store) for store in inside if store.reducer is not None and not view.of_interest(store.stage)]
        if not found:
            return None
        loop_name, store = view.rng.choice(found)
        return call(method, store.buffers[0].name, at=loop_name) if method == "accumulate" else call(method, loop_name)

    def steps(view: View) -> list[Coming]:
        if any(store.reducer is not None and view.of_interest(store.stage) for store in stores(view.nest.body)):
            return [*rooted_first(view), aimed(view, method)]
        return [*joined_first(view), again(view, draw)]

    return steps


def again(view: View, row: Callable[[View], Step | None]) -> Coming:
    """What a row draws by then, for the stages that are looked at now."""
    return lambda now: row(View(now.rng, now.nest, view.focus))


def aimed(view: View, method: str) -> Coming:
    """What the row of a directive draws by then, for the stages that are looked at now."""
    return again(view, lambda now: of_kind(method, now))


TOWARDS: Final[dict[str, Callable[[View], list[Coming]]]] = {
    "compute_root": lambda view: [*(rooted_first(view) or placed_first(view)), aimed(view, "compute_root")],
    "compute_at": reused,
    "store_at": lambda view: [*placed_first(view), aimed(view, "store_at")],
    "store_root": lambda view: [*placed_first(view), aimed(view, "store_root")],
    "fold_storage": lambda view: (reused(view) if view.rng.random() < 0.5 else []) or folded(view),
    "tensorize": tiled_first,
    "rfactor": lambda view: (joined_twice if view.rng.random() < 0.5 else scattered_in_partial_results)(view),
    "cache_write": copied_across,
    "join_reductions": rooted_both,
    "reverse_compute_inline": completed_first,
    "reverse_compute_at": completed_in_another_order,
    "accumulate": beside("accumulate"),
    "decompose_reduction": beside("decompose_reduction"),
}


def towards(directive: str, view: View) -> list[Coming]:
    """Steps for the nest of the moment that end in the directive; none where it needs nothing before."""
    return TOWARDS[directive](view) if directive in TOWARDS else []
