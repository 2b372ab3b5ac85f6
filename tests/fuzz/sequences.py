"""Sequences of steps that move things twice: what one step assumes, the next one changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from tensorlang.schedules.rewriting.edit import literal_extent, loops

from .placements import compute_at, store_at
from .rows import FACTORS, copied
from .view import Step, View, call, name_of

Coming: TypeAlias = "Step | Callable[[View], Step | None]"
"""A step, or what draws it from the nest that there is by then."""


def moved(view: View) -> list[Coming]:
    """A producer placed, its storage placed, and the producer placed again."""
    stages = view.intermediates()
    if not stages:
        return []
    stage = view.rng.choice(stages)

    def again(method: str) -> Callable[[View], Step | None]:
        def draw(now: View) -> Step | None:
            pool = now.readers(now.written(stage))
            return call(method, stage, now.rng.choice(pool).loop) if pool else None

        return draw

    return [again("compute_at"), again("store_at"), again("compute_at"), *([again("store_at")] if view.rng.random() < 0.3 else [])]


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
    """Loops fused, the fused one split, its parts exchanged."""
    rng, chains = view.rng, view.chains()
    if not chains:
        return []
    first, second, *_ = rng.choice(chains)
    name = f"{first.loop}_{second.loop.rsplit('.', 1)[-1]}"
    end: list[Coming] = [call("reorder", f"{name}_i", f"{name}_o")] if rng.random() < 0.8 else [call("vectorize", f"{name}_i")]
    return [call("fuse", first.loop, second.loop), call("split", name, rng.choice(FACTORS[1:])), *end]


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


SEQUENCES: Final[tuple[Callable[[View], list[Coming]], ...]] = (
    moved, copied_away, joined_and_cut, slanted, peeled_lanes, placed_once_more,
)  # fmt: skip


def sequence(view: View) -> list[Coming]:
    """One of the sequences."""
    return view.rng.choice(SEQUENCES)(view)
