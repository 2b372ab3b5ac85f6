"""For each directive that says where values are computed and stored, arguments that stand a good chance with the nest of the moment."""

from __future__ import annotations

import random
from collections.abc import Callable

from tensorlang.ir import Const
from tensorlang.ir.traverse import loads_of
from tensorlang.schedules.legality.accesses import reads
from tensorlang.schedules.rewriting.edit import stage_of, stores

from .view import Step, View, call, name_of


def compute_at(view: View) -> Step | None:
    found = view.intermediates()
    if not found:
        return None
    return compute_at_of(view.rng.choice(found), view)


def compute_at_of(stage: str, view: View) -> Step | None:
    """A stage at a loop of one that reads it."""
    everything = View(view.rng, view.nest)
    pool = [loop for loop in everything.readers(view.written(stage)) if stage_of(loop.loop) not in (stage, f"{stage}.init")]
    pool = pool or view.loops()
    return call("compute_at", stage, view.rng.choice(pool).loop) if pool else None


def compute_inline(view: View) -> Step | None:
    found = view.intermediates()
    return call("compute_inline", view.rng.choice(found)) if found else None


def compute_root(view: View) -> Step | None:
    """An intermediate."""
    found = view.intermediates()
    return call("compute_root", view.rng.choice(found)) if found else None


def placed(method: str) -> Callable[[View], Step | None]:
    """An intermediate, and a loop of a stage that has to do with it."""

    def draw(view: View) -> Step | None:
        found = view.intermediates()
        if not found:
            return None
        stage = view.rng.choice(found)
        pool = view.readers(view.written(stage)) + view.writers(view.written(stage))
        return call(method, stage, view.rng.choice(pool or view.loops()).loop)

    return draw


def store_at(view: View) -> Step | None:
    """A producer that stands inside loops, and one of the loops around its storage."""
    found = [(name, around) for name, around in view.placed() if around]
    if not found or view.rng.random() < 0.2:
        return placed("store_at")(view)
    name, around = view.rng.choice(found)
    stage = next((stage for stage in view.intermediates() if name in view.written(stage)), name)
    reuse = {"reuse": "none"} if view.rng.random() < 0.15 else {}
    return call("store_at", stage, view.rng.choice(around[:-1] or around), **reuse)


def window(view: View) -> list[Step]:
    """Steps that keep what several iterations of an inner loop read of a tensor: its storage at a loop around that."""
    chains = [chain for chain in view.chains() if all(loop.kind == "serial" for loop in chain)]
    if not chains:
        return []
    chain = view.rng.choice(chains)
    outer, inner = sorted(view.rng.sample(range(len(chain)), 2))
    seen = {(name_of(load), load.index) for load in reads(chain[inner].body)}
    names = sorted({name for name, index in seen if any(other == name and place != index for other, place in seen)})
    if not names:
        return []
    name = view.rng.choice(names)
    stage = next((stage for stage in view.intermediates() if name in view.written(stage)), None)
    start = call("cache_read", name, at=chain[inner].loop) if stage is None else call("compute_at", stage, chain[inner].loop)
    return [start, call("store_at", stage or f"{name}_cache", chain[outer].loop)]


def reverse_compute_at(view: View) -> Step | None:
    """A stage at a loop of one whose result it reads: one that is looked at, or one that reads that."""
    used_by: dict[str, set[str]] = {}
    for store in stores(view.nest.body):
        used_by.setdefault(store.stage, set()).update(name_of(load) for value in store.values for load in loads_of(value))
    mine = view.computed()
    written = set(view.allocated()).intersection(name for stage in mine for name in view.written(stage))
    readers = sorted(stage for stage, names in used_by.items() if names & written and stage not in mine)
    stage = view.rng.choice(readers if readers and view.rng.random() < 0.5 else mine)
    used = used_by[stage]
    pool = view.writers(used & set(view.allocated()))
    return call("reverse_compute_at", stage, view.rng.choice(pool).loop) if pool else None


def reverse_compute_inline(view: View) -> Step | None:
    """A stage that reads an intermediate."""
    own = set(view.allocated())
    readers = {
        store.stage for store in stores(view.nest.body) for value in store.values for load in loads_of(value) if name_of(load) in own
    }
    wanted = sorted(filter(view.of_interest, readers)) or sorted(readers)
    return call("reverse_compute_inline", view.rng.choice(wanted)) if wanted else None


def of_storage(method: str) -> Callable[[View], Step | None]:
    """A property of the storage of an intermediate."""

    def draw(view: View) -> Step | None:
        found = view.allocated()
        if not found:
            return None
        rng, name = view.rng, view.rng.choice(found)
        match method:
            case "set_memory":
                return call(method, name, rng.choice(("register", "stack", "heap", "heap")))
            case "align":
                return call(method, name, rng.choice((16, 64, 128, 4096)))
            case "pad_to":
                return call(method, name, rng.randrange(max(1, view.rank(name))), rng.choice((2, 4, 8, 16)))
            case _:
                return call(method, name, layout(rng, view.rank(name)))

    return draw


def layout(rng: random.Random, rank: int) -> str:
    """A map of indices: a permutation, blocks, or both."""
    axes = [f"i{place}" for place in range(rank)]
    places = rng.sample(axes, rank)
    if axes and rng.random() < 0.6:
        axis, block = rng.choice(axes), rng.choice((2, 4, 8))
        places[places.index(axis)] = f"{axis} // {block}"
        places.append(f"{axis} % {block}")
    return f"lambda {', '.join(axes)}: ({', '.join(places)}{',' if len(places) == 1 else ''})"


def store_root(view: View) -> Step | None:
    """A producer that stands inside loops."""
    found = [stage for stage in view.intermediates() if any(name in view.written(stage) for name, around in view.placed() if around)]
    found = found or view.intermediates()
    reuse = {"reuse": "none"} if view.rng.random() < 0.2 else {}
    return call("store_root", view.rng.choice(found), **reuse) if found else None


def fold_storage(view: View) -> Step | None:
    """Some of the last places of an intermediate along one of its axes, rather few."""
    found = [buffer for buffer in view.buffers() if buffer.shape]
    if not found:
        return None
    buffer, rng = view.rng.choice(found), view.rng
    axis = rng.randrange(len(buffer.shape))
    size = buffer.shape[axis]
    most = [max(1, size.value - less) for less in (0, 0, 1)] if isinstance(size, Const) else [8, 16]
    return call("fold_storage", buffer.name, axis, int(rng.choice((1, 1, 2, 2, 3, 4, *most))))
