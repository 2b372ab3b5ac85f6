"""Cases drawn for a cell of the coverage table: a definition with a stage of that kind in that mode, and the directive to aim at it."""

from __future__ import annotations

import random
from typing import Final

from .case import Case, Extent
from .coverage import Cell, cells, kind_of, modes_of, ranges
from .definitions import empty_case, finished
from .draft import Draft, axes_of
from .nodes import FLOATS, cast_all
from .ordered import recurrence, scan, scatter
from .schedules import Aim
from .templates import custom, gather, narrow, pointwise, product, reduction, stencil

TEMPLATES: Final = {
    "store": (pointwise, pointwise, stencil),
    "gather": (gather,),
    "reduction": (reduction, reduction, reduction, product, custom),
    "recurrence": (recurrence,),
    "scan": (scan,),
    "scatter": (scatter,),
}
PRODUCED: Final = ("compute_at", "compute_inline", "compute_root", "store_at", "set_memory", "align", "pad_to", "transform_layout")
"""Directives on an intermediate: the stage needs somebody who reads it."""
CONSUMED: Final = ("reverse_compute_at", "reverse_compute_inline")
"""Directives on a stage that reads an intermediate: somebody has to make it."""


def aimed(seed: int, cell: Cell | None = None) -> tuple[Case, Aim] | None:
    """A definition for a cell, rather a random one, without steps, and what its steps are to cover; None where it came out otherwise."""
    rng = random.Random(seed)
    drawn = rng.choice(list(cells()))
    directive, kind, mode = cell = cell or drawn
    draft = Draft(rng, empty_case(seed, rng, dynamic=dynamics(rng, mode)))
    draft.guarded = {"where": True, "plain": False}.get(mode)
    draft.inner = directive in ("accumulate", "rfactor", "decompose_reduction")
    draft.form = kind.split()[1] if " " in kind else None
    if directive in CONSUMED:
        draft.case["type"] = rng.choice((draft.case["type"], "int32"))
    if directive in CONSUMED or directive == "compute_inline" or rng.random() < 0.4:
        rng.choice((pointwise, pointwise, stencil, reduction))(draft)
    before = len(draft.case["stages"])
    template = narrow if directive == "tensorize" else rng.choice(TEMPLATES[kind.split()[0]])
    template(draft)
    if len(draft.case["stages"]) == before:
        return None
    main = draft.case["stages"][before]
    draft.guarded = None
    if directive == "specialize":  # it needs a dim, which need not be one of this stage
        draft.case["dynamic"] = 1.0
    if directive in PRODUCED or directive == "specialize" or rng.random() < 0.4:
        consumer(draft, main["name"])
    case = finished(draft)
    if mode == "empty":
        parts = [*main["shape"], *(extent for _, extent in main.get("over", ())), *bounds(main)]
        names = [part for part in parts if isinstance(part, str)]
        if not names:
            return None
        case["extents"] = {**case["extents"], rng.choice(names): 0}
    return (case, Aim(directive, labels(main))) if fits(case, cell) else None


def dynamics(rng: random.Random, mode: str) -> float:
    """How often an extent is known only at run time."""
    return 0.9 if mode == "symbolic" else rng.choice((0.0, 0.0, 0.3)) if mode == "where" else 0.0


def bounds(stage: Case) -> list[Extent]:
    """The extents that a stage reduces, or steps, over."""
    return [*(extent for _, _, extent in ranges(stage)), stage.get("length", 0)]


def labels(stage: Case) -> frozenset[str]:
    """The names of a stage, and of the stages inside it."""
    inner = [part["name"] for part in stage["inner"]] if stage.get("form") == "scan" else []
    return frozenset([stage["name"], *inner])


def fits(case: Case, cell: Cell) -> bool:
    """Is there a stage of the kind and in the mode of a cell?"""
    return any(kind_of(stage) == cell[1] and cell[2] in modes_of(case, stage) for stage in case["stages"])


def consumer(draft: Draft, name: str) -> None:
    """A stage that reads all of another one: element by element, or a neighbour too."""
    label = name if name in draft.tensors else f"{name}_0"
    info, rng = draft.tensors[label], draft.rng
    of = "int32" if info.dtype == "bool" else info.dtype
    axes = axes_of(list(info.shape))
    scope = draft.scope(axes)
    here: list[object] = ["ld", label, [["ax", axis] for axis in axes]]
    value = here if info.dtype == of else ["cast", of, here]
    more = scope.protected(of, draft.offset()) if draft.case["dynamic"] == 1 or rng.random() < 0.3 else None
    body = [rng.choice(("+", "max")), value, ["cast", of, 1] if more is None else more]
    draft.add("pointwise", axes, [cast_all(body, of)], [of], rough=info.rough and of in FLOATS)
