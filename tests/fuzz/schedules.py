"""Random steps of a schedule, drawn for the nest of the moment, sequences that move things twice, and calls that must be refused."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any, Final

from tensorlang.ir import Const, LoopKind, Nest, Stmt
from tensorlang.schedules.legality.code_size import instructions
from tensorlang.schedules.rewriting.edit import edit_loops, literal_extent, loops, stages

from .placements import window
from .rows import drawn, of_kind
from .sequences import sequence
from .towards import towards
from .view import Coming, Step, View, call, siblings

MAX_CODE: Final = 2500
"""Instructions beyond which compiling would take too long for a test."""


def affordable(nest: Nest, step: Step) -> bool:
    """Would the code of the nest stay small enough for a test?"""
    body: Stmt = nest.body
    kinds: dict[str, LoopKind] = {"vectorize": "vector", "unroll": "unroll"}
    if step.get("call") in kinds:
        kind = kinds[step["call"]]
        body = edit_loops(body, lambda loop: loop.loop == step["args"][0], lambda loop: dataclasses.replace(loop, kind=kind))
    return small(body)


def small(body: Stmt) -> bool:
    """Is this little code?"""
    return instructions(body) <= MAX_CODE


def illegal(view: View, original: Nest) -> Step:
    """A call that has to be refused, whatever the nest."""
    rng = view.rng
    present = [loop.loop for loop in view.loops()]
    some = rng.choice(present) if present else "nope"
    gone = sorted({loop.loop for loop in loops(original.body)} - set(present))
    outputs = view.results()
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


def drawn_from(coming: Coming, view: View) -> Step | None:
    """A step that was to come, for the nest that there is by now."""
    return coming(view) if callable(coming) else coming


@dataclasses.dataclass(frozen=True, slots=True)
class Aim:
    """What the steps of a case are to cover: a directive on one of these stages."""

    directive: str
    stages: frozenset[str]


def steps(schedule: Any, rng: random.Random, perform: Callable[[Any, Step], bool], aim: Aim | None = None) -> list[Step]:
    """2 to 15 steps for a schedule, applied one after another by `perform`, which tells whether to go on.

    With an aim, its directive is drawn for its stages until it is accepted. A step that was refused is not drawn again for the same nest.
    """
    original, found, coming = schedule.nest, list[Step](), list[Coming]()
    refused: list[Step] = []
    wanted, led = 0 if aim is None else rng.choice((0, 0, 1, 2)), False
    for turn in range(rng.choice((2, 3, 4, 5, 6, 7, 8, 10, 12, 15)) if aim is None else 12):
        focus = frozenset[str]() if aim is None or rng.random() < 0.3 else aim.stages
        view = View(rng, schedule.nest, focus)
        if not coming and rng.random() < 0.04:
            coming = list(window(view))
        elif not coming and rng.random() < 0.16:
            coming = list(sequence(view))
        aimed = aim is not None and turn >= wanted and not coming
        led = aimed or (led and bool(coming))
        step: Step | None
        if aim is not None and aimed:
            seen = View(rng, schedule.nest, aim.stages if rng.random() < 0.7 else frozenset[str]())
            before = towards(aim.directive, seen) if rng.random() < 0.6 else []
            step, coming = (drawn_from(before[0], seen), before[1:]) if before else (of_kind(aim.directive, seen), [])
        elif coming:
            step = drawn_from(coming.pop(0), view)
        else:
            step = illegal(View(rng, schedule.nest), original) if rng.random() < 0.2 else drawn(view)
        if step is None or step in refused or (not step.get("illegal") and not affordable(schedule.nest, step)):
            continue
        found.append(step)
        if step.get("call") == "split" and not step.get("illegal") and not coming and rng.random() < 0.4:
            coming = [call(rng.choice(("vectorize", "vectorize", "unroll")), f"{step['args'][0]}_i")]
        many = len(schedule.directives)
        if not perform(schedule, step):
            break
        refused = [] if len(schedule.directives) > many else [*refused, step]
        if led and aim is not None and len(schedule.directives) > many and aim.directive in (step.get("call"), step.get("apply")):
            aim, wanted = None, 0
            if turn > 6:
                break
    return found
