"""Sequences of steps that move things twice: what one step assumes, the next one changes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from tensorlang.schedules.rewriting.edit import literal_extent, loops

from .kept import (
    completed_in_another_order,
    copied_across,
    copied_outside,
    in_partial_results,
    kept_exchanged,
    reused,
    scattered_in_partial_results,
    summed_across,
    window_exchanged,
)
from .placements import compute_at, store_at
from .rows import FACTORS, TAILS, copied
from .view import Coming, Step, View, call, name_of


def moved(view: View) -> list[Coming]:
    """A producer placed, its storage placed, and the producer placed again; before, at times, a hint about it, which is of where it was."""
    stages = view.intermediates()
    if not stages:
        return []
    stage = view.rng.choice(stages)

    def again(method: str) -> Callable[[View], Step | None]:
        def draw(now: View) -> Step | None:
            pool = now.readers(now.written(stage))
            return call(method, stage, now.rng.choice(pool).loop) if pool else None

        return draw

    def hint(now: View) -> Step | None:
        own = [loop for store in now.combining(stage) for loop in now.around(store)]
        pool = own or now.readers(now.written(stage))
        return call("prefetch", now.rng.choice(sorted(now.written(stage))), now.rng.choice(pool).loop) if pool else None

    steps: list[Coming] = [again("compute_at"), again("store_at"), again("compute_at")]
    more = view.rng.random()
    if more < 0.3:
        steps.append(again("store_at"))
    return [hint, *steps, call("compute_root", stage)] if more > 0.8 else steps


def moved_inward(view: View) -> list[Coming]:
    """A producer placed, its storage placed further outside, and the producer placed again further inside."""
    found = [(stage, loops) for stage in view.movable() if len(loops := view.meeting(stage)) > 2]
    if not found:
        return []
    stage, loops = view.rng.choice(found)
    first, second, third = sorted(view.rng.sample(range(len(loops)), 3))
    return [call(method, stage, loops[at].loop) for method, at in (("compute_at", second), ("store_at", first), ("compute_at", third))]


def copied_away(view: View) -> list[Coming]:
    """Loops moved away from 0, then a copy inside them, then its storage outside."""
    rng, chains = view.rng, view.chains()
    if not chains:
        return []
    chain = rng.choice(chains)
    outer, inner = sorted(rng.sample(range(len(chain)), 2))
    away = rng.choice(
        (
            call("skew", chain[inner].loop, by=chain[outer].loop, factor=rng.choice((1, -1, 2))),
            call("shift", chain[inner].loop, rng.choice((-2, 2, -1))),
        )
    )

    def copy(now: View) -> Step | None:
        name = f"{chain[outer].loop}_i"
        found = [loop for loop in loops(now.nest.body) if loop.loop == name]
        names = sorted({name_of(load) for load in now.loads(found[0])}) if found else []
        return call(rng.choice(("pack", "cache_read")), rng.choice(names), at=name) if names else copied("pack")(now)

    def out(now: View) -> Step | None:
        copies = [name for name in now.allocated() if name.endswith(("_pack", "_cache"))]
        return call("store_at", rng.choice(copies), f"{chain[outer].loop}_o") if copies else store_at(now)

    return [away, call("split", chain[outer].loop, rng.choice((2, 2, 3, 4))), copy, out]


def joined_and_cut(view: View) -> list[Coming]:
    """Loops fused, at times exchanged before; the fused one in threads, or split, and its parts exchanged or run as lanes or threads."""
    rng, chains = view.rng, view.chains()
    if not chains:
        return []
    first, second, *_ = rng.choice(chains)
    before: list[Coming] = []
    if rng.random() < 0.3:
        first, second, before = second, first, [call("reorder", second.loop, first.loop)]
    name = f"{first.loop}_{second.loop.rsplit('.', 1)[-1]}"
    fused = call("fuse", first.loop, second.loop)
    ends = (call("reorder", f"{name}_i", f"{name}_o"), call("vectorize", f"{name}_i"), call("parallel", f"{name}_o"))
    if rng.random() < 0.2:
        return [*before, fused, call("parallel", name)]
    return [*before, fused, call("split", name, rng.choice(FACTORS[1:])), rng.choices(ends, (6, 1, 1))[0]]


def short_rows(view: View) -> list[Coming]:
    """A loop of two or three iterations fused with one of run time inside it, in threads or with its parts exchanged."""
    rng, short = view.rng, (2, 3)
    pairs = [(a, b) for chain in view.chains() for a, b in pairwise(chain)]
    outside = [(a.loop, b.loop) for a, b in pairs if literal_extent(a) in short and literal_extent(b) is None]
    inside = [(b.loop, a.loop) for a, b in pairs if literal_extent(b) in short and literal_extent(a) is None]
    if not outside and not inside:
        return []
    first, second = rng.choice([*outside, *inside])
    name = f"{first}_{second.rsplit('.', 1)[-1]}"
    before: list[Coming] = [] if (first, second) in outside else [call("reorder", first, second)]
    cut: list[Coming] = [call("split", name, rng.choice(FACTORS[1:])), call("reorder", f"{name}_i", f"{name}_o")]
    return [*before, call("fuse", first, second), *([call("parallel", name)] if rng.random() < 0.5 else cut)]


def cut_again(view: View) -> list[Coming]:
    """A loop split, at times by more than it has, one part split again, and a part run as lanes or copies, or exchanged with another."""
    if not view.loops():
        return []
    rng, loop = view.rng, view.loop()
    extent = literal_extent(loop)
    factor = rng.choice(FACTORS[1:]) if extent is None or rng.random() < 0.5 else max(1, extent + rng.choice((0, 1, 1, 5)))
    name = f"{loop.loop}_{rng.choice('oi')}"
    ends = [call(rng.choice(("vectorize", "vectorize", "unroll")), f"{name}_{rng.choice('oi')}"), call("reorder", f"{name}_i", f"{name}_o")]
    first, second = (
        call("split", loop.loop, factor, tail=rng.choice(TAILS)),
        call("split", name, rng.choice(FACTORS[1:]), tail=rng.choice(TAILS)),
    )
    return [first, second, rng.choice(ends)]


def slanted(view: View) -> list[Coming]:
    """A loop skewed by one outside it, and the two exchanged."""
    rng, chains = view.rng, view.chains()
    if not chains:
        return []
    chain = rng.choice(chains)
    outer, inner = sorted(rng.sample(range(len(chain)), 2))
    return [
        call("skew", chain[inner].loop, by=chain[outer].loop, factor=rng.choice((-1, -1, 1, 2))),
        call("reorder", f"{chain[inner].loop}_s", chain[outer].loop),
    ]


def peeled_lanes(view: View) -> list[Coming]:
    """A peeled tile whose inner loop is skewed by the outer one and runs as lanes, beside threads."""
    rng, found = view.rng, [loop for loop in view.loops() if (literal_extent(loop) or 9) > 2]
    if not found:
        return []
    loop = rng.choice(found)
    others = [other.loop for other in View(rng, view.nest).loops() if other.loop != loop.loop]
    skew = call("skew", f"{loop.loop}_i", by=f"{loop.loop}_o", factor=rng.choice((1, 2, -1)))
    lanes = call("vectorize", f"{loop.loop}_i_s")
    threads: list[Coming] = [call("parallel", rng.choice(others))] if others else []
    return [call("split", loop.loop, rng.choice((2, 4, 8)), tail=rng.choice(("peel", "peel", "mask", "guard"))), skew, lanes, *threads]


def placed_once_more(view: View) -> list[Coming]:
    """A producer placed inside a loop that is then split, and placed again."""
    step = compute_at(view)
    if step is None:
        return []
    stage, loop = step["args"]
    cut = call("split", loop, view.rng.choice((2, 3, 4)), tail=view.rng.choice(("guard", "peel", "shift")))
    return [step, cut, call("compute_at", stage, f"{loop}_{view.rng.choice('oi')}"), store_at]


def copied_box(view: View) -> list[Coming]:
    """A producer placed, a copy of the part of it that is there, and the producer moved once more, or written into the copy."""
    step = compute_at(view)
    if step is None:
        return []
    stage, rng = step["args"][0], view.rng

    def copy(now: View) -> Step | None:
        pool = now.readers(now.written(stage))
        return call(rng.choice(("pack", "cache_read")), rng.choice(sorted(now.written(stage))), at=rng.choice(pool).loop) if pool else None

    def moved_on(now: View) -> Step | None:
        pool = now.readers(now.written(stage))
        return call(rng.choice(("compute_at", "store_at")), stage, rng.choice(pool).loop) if pool else None

    moves: tuple[Coming, ...] = (call("compute_root", stage), call("store_root", stage), call("compute_inline", stage), moved_on, moved_on)
    return [step, copy, rng.choice(moves), *([rng.choice(moves)] if rng.random() < 0.5 else [])]


SEQUENCES: Final[dict[Callable[[View], list[Coming]], int]] = {
    moved: 1,
    moved_inward: 3,
    copied_away: 1,
    joined_and_cut: 2,
    slanted: 1,
    peeled_lanes: 1,
    placed_once_more: 1,
    copied_box: 3,
    cut_again: 1,
    in_partial_results: 2,
    scattered_in_partial_results: 10,
    copied_across: 20,
    summed_across: 1,
    copied_outside: 2,
    kept_exchanged: 1,
    window_exchanged: 3,
    reused: 20,
    completed_in_another_order: 10,
    short_rows: 6,
}
"""How often each is tried, with 1 for those that nearly every nest allows, more for what few do; where one does not fit, the next is."""


def sequence(view: View) -> list[Coming]:
    """One of the sequences for which there is something in the nest; none where there is none."""
    order = sorted(SEQUENCES, key=lambda draw: view.rng.random() ** (1 / SEQUENCES[draw]), reverse=True)
    return next((found for draw in order if (found := draw(view))), [])
