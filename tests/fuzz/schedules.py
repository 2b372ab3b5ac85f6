"""Random steps of a schedule, drawn for the nest of the moment, and calls that must be refused.

Each directive has a row that draws arguments which stand a good chance; a directive without a row (one that is newer than this file)
is drawn from the types and names of its fields. A step is plain data: a method call, or the fields of a directive.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any, Final

import tensorlang as tl
from tensorlang.ir import Const, For, Load, Nest, Stmt, Store
from tensorlang.schedules import trace
from tensorlang.schedules.edit import edit_loops, literal_extent, loops, stage_of, stages, stores
from tensorlang.schedules.kinds import code_size
from tensorlang.schedules.legality import reads
from tensorlang.traverse import substatements

Step = dict[str, Any]
MAX_CODE: Final = 200
"""Statements once unrolled, beyond which compiling would take too long for a test."""
FACTORS: Final = (1, 2, 2, 3, 4, 4, 5, 7, 8, 8, 16)
TAILS: Final = ("guard", "guard", "mask", "peel", "peel", "shift")


@dataclasses.dataclass(slots=True)
class View:
    """A nest as the drawing of steps sees it."""

    rng: random.Random
    nest: Nest

    def loops(self) -> list[For]:
        """All loops."""
        return list(loops(self.nest.body))

    def loop(self, *, kind: str = "serial") -> For:
        """A loop, rather one that is still serial and belongs to a stage of the definition."""
        found = self.loops()
        main = [loop for loop in found if loop.kind == kind and not stage_of(loop.loop).endswith((".init", ".load", ".store"))]
        return self.rng.choice(main if main and self.rng.random() < 0.85 else found)

    def chain(self, loop: For) -> list[For]:
        """The perfectly nested loops from a loop inward."""
        found = [loop]
        while isinstance(found[-1].body, For):
            found.append(found[-1].body)
        return found

    def chains(self) -> list[list[For]]:
        """All chains of at least two perfectly nested loops."""
        return [chain for chain in map(self.chain, self.loops()) if len(chain) > 1]

    def innermost(self) -> list[For]:
        """Loops without a loop inside."""
        return [loop for loop in self.loops() if not any(True for _ in loops(loop.body))]

    def intermediates(self) -> list[str]:
        """Stages that compute no output."""
        outputs = {buffer.name for buffer in self.nest.outputs}
        found = {store.stage: {buffer.name for buffer in store.buffers} for store in stores(self.nest.body)}
        return [stage for stage in stages(self.nest) if not found[stage] & outputs and not stage.endswith(".init")]

    def written(self, stage: str) -> set[str]:
        """The buffers that a stage writes."""
        return {buffer.name for store in stores(self.nest.body) if store.stage == stage for buffer in store.buffers}

    def readers(self, names: set[str]) -> list[For]:
        """Loops inside which one of the buffers is read."""
        return [loop for loop in self.loops() if any(name_of(load) in names for load in reads(loop.body))]

    def reductions(self) -> list[Store]:
        """The combining stores."""
        return [store for store in stores(self.nest.body) if store.reducer is not None]


def name_of(load: Load) -> str:
    """The name of the buffer that is read."""
    return str(getattr(load.buffer, "name", ""))


def call(method: str, *args: Any, **named: Any) -> Step:
    """A method call as data."""
    return {"call": method, "args": list(args), **({"named": named} if named else {})}


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
    found = [loop for loop in view.loops() if loop.kind == "serial" and literal_extent(loop) is not None and (literal_extent(loop) or 0) <= 40]
    inner = [loop for loop in view.innermost() if loop in found]
    pool = inner if inner and view.rng.random() < 0.7 else found
    return call("vectorize", view.rng.choice(pool).loop) if pool else None


def unroll(view: View) -> Step | None:
    found = [loop for loop in view.loops() if loop.kind == "serial" and literal_extent(loop) is not None and (literal_extent(loop) or 0) <= 17]
    return call("unroll", view.rng.choice(found).loop) if found else None


def parallel(view: View) -> Step:
    return call("parallel", view.loop().loop)


def compute_at(view: View) -> Step | None:
    found = view.intermediates()
    if not found:
        return None
    stage = view.rng.choice(found)
    pool = [loop for loop in view.readers(view.written(stage)) if stage_of(loop.loop) not in (stage, f"{stage}.init")]
    return call("compute_at", stage, view.rng.choice(pool or view.loops()).loop)


def compute_inline(view: View) -> Step | None:
    found = view.intermediates()
    return call("compute_inline", view.rng.choice(found)) if found else None


def copied(method: str) -> Callable[[View], Step | None]:
    def draw(view: View) -> Step | None:
        loop = view.loop()
        names = sorted({name_of(load) for load in reads(loop.body)})
        return call(method, view.rng.choice(names), at=loop.loop) if names else None

    return draw


def accumulate(view: View) -> Step | None:
    found = view.reductions()
    if not found:
        return None
    store = view.rng.choice(found)
    pool = [loop for loop in view.loops() if any(part is store for part in stores(loop.body))]
    return call("accumulate", view.rng.choice(store.buffers).name, at=view.rng.choice(pool).loop) if pool else None


def reducing(method: str) -> Callable[[View], Step | None]:
    """A step on a loop that some reduction's index does not depend on."""

    def draw(view: View) -> Step | None:
        inner = [loop for store in view.reductions() for loop in view.loops() if any(part is store for part in stores(loop.body))]
        return call(method, view.rng.choice(inner).loop) if inner else None

    return draw


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
    "pack": (copied("pack"), 3),
    "accumulate": (accumulate, 4),
    "rfactor": (reducing("rfactor"), 3),
    "decompose_reduction": (reducing("decompose_reduction"), 2),
}
LOOPS: Final = ("loop", "at", "by", "outer", "inner", "first", "second", "after", "before")


def generic(name: str, view: View) -> Step | None:
    """A directive drawn from its fields alone."""
    rng, fields = view.rng, {}
    for entry in dataclasses.fields(trace.STEPS[name]):
        optional = entry.default is not dataclasses.MISSING
        if optional and rng.random() < 0.4:
            continue
        kind = str(entry.type)
        if kind.startswith("int"):
            fields[entry.name] = rng.choice((0, 1, 1, 2, 2, 3, 4, 8, 16, 64))
        elif kind.startswith("bool"):
            fields[entry.name] = rng.random() < 0.5
        elif entry.name == "tensor":
            fields[entry.name] = rng.choice(sorted({name_of(load) for load in reads(view.nest.body)} | set(view.intermediates()) or {"A"}))
        elif entry.name == "stage":
            fields[entry.name] = rng.choice(view.intermediates() or list(stages(view.nest)))
        elif entry.name == "memory":
            fields[entry.name] = rng.choice(("register", "stack", "heap"))
        elif entry.name in LOOPS:
            fields[entry.name] = view.loop().loop
        elif not optional:
            return None
    return {"apply": name, "fields": fields}


def known_methods() -> list[str]:
    """The directives that exist now: the steps of a schedule, and `tile`."""
    return [*trace.STEPS, *(("tile",) if hasattr(tl.Schedule, "tile") else ())]


def drawn(view: View) -> Step | None:
    """A step that may well be accepted."""
    names = known_methods()
    name = view.rng.choices(names, [ROWS[name][1] if name in ROWS else 2 for name in names])[0]
    if not view.loops() and name != "compute_inline":
        return None
    return ROWS[name][0](view) if name in ROWS else generic(name, view)


def affordable(nest: Nest, step: Step) -> bool:
    """Would the code of the nest stay small enough for a test?"""
    kind = {"vectorize": "vector", "unroll": "unroll"}.get(step.get("call", ""))
    body: Stmt = nest.body
    if kind:
        changed = edit_loops(body, lambda loop: loop.loop == step["args"][0], lambda loop: dataclasses.replace(loop, kind=kind))
        body = changed
    return code_size(body) <= MAX_CODE


# What must be refused ------------------------------------------------------------------------------------------------------------------


def illegal(view: View, original: Nest) -> Step:
    """A call that has to be refused, whatever the nest."""
    rng = view.rng
    present = [loop.loop for loop in view.loops()]
    some = rng.choice(present) if present else "nope"
    gone = sorted({loop.loop for loop in loops(original.body)} - set(present))
    outputs = [buffer.name for buffer in view.nest.outputs]
    running = [loop.loop for loop in view.loops() if loop.kind != "serial"]
    found = [
        call("split", some, rng.choice((0, -3, "x", 2.5, True, None, 1 << 50))),
        call("split", rng.choice(("nope", "S.nope", "", 5, None, "S")), 4),
        call("split", some, 4, tail=rng.choice(("nope", 3, None, ""))),
        call("split", some, 4, names=rng.choice((["a", "a"], ["a"], ["a", "b", "c"], ["", "b"], ["1x", "b"]))),
        call("fuse", some, some),
        call("fuse", some, "nope"),
        call("reorder", some, some),
        call("reorder", some, "nope"),
        call("reorder"),
        call(rng.choice(("vectorize", "parallel", "unroll")), rng.choice(("nope", "S.nope.i", 7, None))),
        call("compute_at", "nope", some),
        call("compute_at", rng.choice(outputs), some),
        call("compute_at", rng.choice(list(stages(view.nest))), "nope"),
        call("compute_inline", rng.choice([*outputs, "nope"])),
        call("cache_read", "nope", at=some),
        call("pack", "nope", at=some),
        call("accumulate", rng.choice(("nope", *(buffer.name for buffer in view.nest.inputs))), at=some),
        {"apply": "split", "fields": {"loop": some, "factor": -1}},
        {"apply": "reorder", "fields": {"loops": ["nope"]}},
        {"garbage": rng.choice(("split", "[]", "nope"))},
    ]
    found += [call("parallel", name) for name in gone[:2]] + [call("split", name, 2) for name in gone[:2]]
    found += [call(rng.choice(("vectorize", "unroll", "parallel")), name) for name in running[:2]]
    dynamic = [loop.loop for loop in view.loops() if not isinstance(loop.hi, Const) and literal_extent(loop) is None]
    found += [call(rng.choice(("vectorize", "unroll")), name) for name in dynamic[:2]]
    swapped = view.chains()
    found += [call("fuse", chain[1].loop, chain[0].loop) for chain in swapped[:1]]
    apart = siblings(view.nest.body)
    found += [call("reorder", *rng.choice(apart)), call("fuse", *rng.choice(apart))] if apart else []
    return {**rng.choice(found), "illegal": True}


def siblings(stmt: Stmt) -> list[tuple[str, str]]:
    """Pairs of loops that are not inside one another."""
    parts = [[loop.loop for loop in loops(part)] for part in substatements(stmt)]
    own = [(a[0], b[0]) for place, a in enumerate(parts) for b in parts[place + 1 :] if a and b]
    return own + [found for part in substatements(stmt) for found in siblings(part)]


def steps(schedule: Any, rng: random.Random, perform: Callable[[Any, Step], bool]) -> list[Step]:
    """2 to 15 steps for a schedule, applied one after another by `perform`, which tells whether to go on."""
    original, found = schedule.nest, []
    for _ in range(rng.choice((2, 3, 4, 5, 6, 7, 8, 10, 12, 15))):
        view = View(rng, schedule.nest)
        step = illegal(view, original) if rng.random() < 0.2 else drawn(view)
        if step is None or (not step.get("illegal") and not affordable(schedule.nest, step)):
            continue
        found.append(step)
        if not perform(schedule, step):
            break
    return found
