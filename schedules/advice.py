"""What might be done instead of a directive that was refused.

Other loops of the same kind may do where one would race, and `rfactor` where a reduction is in the way. A reduction inside an expression,
or a stage that was moved, is computed within an iteration of its consumer: its loops cannot change places with those, be fused with them
or share a tile; `compute_root` first gives it a nest for itself, where they can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from tensorlang.ir import For, Nest
from tensorlang.schedules.directive import Directive, Refusal
from tensorlang.schedules.directives.compute_root import ComputeRoot
from tensorlang.schedules.directives.loop_kinds import Parallel, Unroll, Vectorize
from tensorlang.schedules.directives.rfactor import Rfactor
from tensorlang.schedules.names import is_main
from tensorlang.schedules.rewriting.edit import loops, path_to, stage_of, stages, stores

HINTED: Final = frozenset({"TL-S105", "TL-S302", "TL-S304"})
"""Refusals for what stands between or beside: the loops of one stage inside those of another."""


def elsewhere(nest: Nest, directive: Directive, refusal: Refusal) -> Iterator[Directive]:
    """Directives to try where a loop of a refused kind would race: the kind on other loops, and partial results for each iteration."""
    if isinstance(directive, (Parallel, Vectorize, Unroll)) and refusal.code.startswith("TL-S10"):
        yield from (type(directive)(loop.loop) for loop in loops(nest.body) if loop.loop != directive.loop and is_main(loop))
        if isinstance(directive, Parallel):
            yield Rfactor(directive.loop)


def root_first(nest: Nest, directive: object, refusal: Refusal) -> ComputeRoot | None:
    """The `compute_root` that would be the way, if a refused directive names a stage that stands inside another and may leave it."""
    if refusal.code not in HINTED or isinstance(directive, ComputeRoot):
        return None
    named = {*_named(directive), refusal.stage}
    for stage in stages(nest):
        if stage in named and any(stage_of(loop.loop) not in (stage, f"{stage}.init") for loop in _loops_around(nest, stage)):
            step = ComputeRoot(stage)
            try:
                step.apply(nest)
            except Refusal:
                continue
            return step
    return None


def _named(directive: object) -> Iterator[str]:
    """The stages that a directive names, by themselves or by their loops."""
    for entry in fields(directive) if hasattr(type(directive), "__dataclass_fields__") else ():  # type: ignore[arg-type]
        value = getattr(directive, entry.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, str):
                yield part
                yield stage_of(part)


def _loops_around(nest: Nest, stage: str) -> Iterator[For]:
    """The loops around the first statement of a stage."""
    first = next((store for store in stores(nest.body) if store.stage == stage), None)
    yield from (part for part in (() if first is None else path_to(nest.body, lambda part: part is first)) if isinstance(part, For))
