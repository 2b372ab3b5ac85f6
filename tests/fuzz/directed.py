"""Cases drawn for a cell of the coverage table: a definition with a stage of that kind in that mode, and the directive to aim at it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from .case import Case, Extent, Node, walk
from .coverage import Cell, cells, kind_of, modes_of, ranges, reductions
from .definitions import empty_case, finished
from .draft import Draft, axes_of
from .inner import LANES, TERMS, reduced, total
from .nodes import FLOATS, Scope, cast, cast_all
from .ordered import recurrence, scan, scatter
from .ragged import ragged
from .schedules import Aim
from .templates import custom, gather, narrow, pointwise, product, reduction, stencil

TEMPLATES: Final = {
    "store": (pointwise, pointwise, stencil),
    "gather": (gather,),
    "reduction": (reduction, reduction, reduction, product, custom, ragged),
    "recurrence": (recurrence,),
    "scan": (scan,),
    "scatter": (scatter,),
}
PRODUCED: Final = (
    "compute_at", "compute_inline", "compute_root", "store_at", "fold_storage", "set_memory", "align", "pad_to", "transform_layout",
)  # fmt: skip
"""Directives on an intermediate: the stage needs somebody who reads it."""
CONSUMED: Final = ("reverse_compute_at", "reverse_compute_inline")
"""Directives on a stage that reads an intermediate: somebody has to make it."""
COMBINED: Final = ("accumulate", "rfactor", "decompose_reduction", "tensorize")
"""Directives of reductions: the stage has one inside, or one stands beside it."""

LOCAL: Final = ("compute_root", "compute_at", "fold_storage", "cache_write")
"""Directives that a stage whose steps come in order is refused, and that a reduction inside it is not."""


def aimed(seed: int, cell: Cell | None = None) -> tuple[Case, Aim] | None:
    """A definition for a cell, rather a random one, without steps, and what its steps are to cover; None where it came out otherwise."""
    rng = random.Random(seed)
    every = list(cells())
    drawn = rng.choices(every, [2 if mode == "where" else 1 for *_, mode in every])[0]
    directive, kind, mode = cell = cell or drawn
    draft = Draft(rng, empty_case(seed, rng, dynamic=dynamics(rng, mode)))
    if mode == "where" and rng.random() < 0.5:
        draft.case["fill"] = "wild"
    draft.guarded = {"where": True, "plain": False}.get(mode)
    draft.narrow = directive == "tensorize"
    draft.joint = directive == "join_reductions" and kind != "reduction"
    draft.inner = kind != "store" and (
        draft.joint or directive in COMBINED or (directive in LOCAL and kind.split()[0] in ("recurrence", "scan"))
    )
    draft.form = kind.split()[1] if " " in kind else None
    if directive in CONSUMED:
        draft.case["type"] = rng.choice((draft.case["type"], "int32"))
    if directive in CONSUMED or directive == "compute_inline" or rng.random() < 0.4:
        rng.choice((pointwise, pointwise, stencil, reduction))(draft)
    before = len(draft.case["stages"])
    template = narrow if draft.narrow and kind == "reduction" else rng.choice(TEMPLATES[kind.split()[0]])
    template(draft)
    if len(draft.case["stages"]) == before:
        return None
    main = draft.case["stages"][before]
    draft.guarded, draft.inner, draft.joint, draft.narrow = None, False, False, False
    if directive == "reverse_compute_inline" or (directive == "reverse_compute_at" and rng.random() < 0.4):
        (fed_inside if kind == "scan all" or (kind == "scan last" and rng.random() < 0.4) else fed)(draft, main)
    beside = neighbour(draft, main) if kind == "store" and directive in COMBINED else []
    beside += alike(draft, main) if directive == "join_reductions" and kind == "reduction" else []
    if directive == "specialize":  # it needs a dim, which need not be one of this stage
        draft.case["dynamic"] = 1.0
    read = directive in PRODUCED or (directive == "reverse_compute_at" and kind.startswith("scan"))
    often = 0.7 if kind in ("recurrence", "scan all") else 0.4  # what comes step by step is rather read by another stage
    if (read and (kind, directive) != ("recurrence", "compute_root")) or directive == "specialize" or rng.random() < often:
        consumer(draft, main["name"])
    case = finished(draft, beside)
    if mode == "empty":
        parts = [*main["shape"], *(extent for _, extent in main.get("over", ())), *bounds(main)]
        names = [part for part in parts if isinstance(part, str) and part in case["extents"]]
        names = [name for name in names if directive != "tensorize" or case["extents"][name] not in (LANES, TERMS)]
        if not names:
            return None
        gone = rng.choice(names)
        case["extents"] = {**case["extents"], gone: 0}
        case["bounds"] = {name: pair for name, pair in case.get("bounds", {}).items() if name != gone}
    return (case, Aim(directive, labels(main) | frozenset(beside if directive == "join_reductions" else ()))) if fits(case, cell) else None


def dynamics(rng: random.Random, mode: str) -> float:
    """How often an extent is known only at run time."""
    return 0.9 if mode == "symbolic" else rng.choice((0.0, 0.0, 0.3)) if mode == "where" else 0.0


def bounds(stage: Case) -> list[Extent]:
    """The extents that a stage reduces, or steps, over."""
    return [*ranges(stage), stage.get("length", 0)]


def labels(stage: Case) -> frozenset[str]:
    """The names of a stage, and of the stages inside it."""
    inner = [part["name"] for part in stage["inner"]] if stage.get("form") == "scan" else []
    return frozenset([stage["name"], *inner])


def fits(case: Case, cell: Cell) -> bool:
    """Is there a stage of the kind and in the mode of a cell?"""
    return any(kind_of(stage) == cell[1] and cell[2] in modes_of(case, stage) for stage in case["stages"])


def fed(draft: Draft, main: Case) -> None:
    """A stage before another one, which reads it whole and element by element: as a term, or as what it starts from."""
    first = main["inner"][0] if main.get("form") == "scan" else main
    of, axes = first["type"], dict(zip(first["axes"], first["shape"], strict=True))
    operands = {entry["name"]: draft.tensors[entry["name"]] for entry in draft.case["inputs"]}
    scope = Scope(draft.rng, operands, draft.case["extents"], draft.case["symbolic"], axes)
    name = f"F{len(draft.case['stages'])}"
    stage = {"name": name, "kind": "pointwise", "type": of, "axes": list(axes), "shape": list(axes.values())}
    stage["body"] = [cast_all(scope.value(of, 1), of)]
    draft.case["stages"].insert(draft.case["stages"].index(main), stage)
    rough = "rough" in scope.marks and of in FLOATS
    here: Node = ["ld", name, [["ax", axis] for axis in axes]]
    match main.get("form"):
        case "scan":
            main["reads"] = [name, *main["reads"][1:]]
        case "scatter":
            main["start"] = here
        case _:
            main["body"][0] = [draft.rng.choice("|^") if of == "bool" else draft.rng.choice(("+", "max")), main["body"][0], here]
    for label, info in [*draft.tensors.items()]:
        if rough and label.split("_")[0] == main["name"]:
            draft.tensors[label] = replace(info, rough=info.dtype in FLOATS)


def fed_inside(draft: Draft, main: Case) -> None:
    """A stage of a step before the last one, which reads it whole and element by element."""
    last, of = main["inner"][-1], main["inner"][-1]["type"]
    axes = dict(zip(last["axes"], last["shape"], strict=True))
    operands = {entry["name"]: draft.tensors[entry["name"]] for entry in draft.case["inputs"]}
    here: Node = [["ax", axis] for axis in axes]
    value = Scope(draft.rng, operands, draft.case["extents"], draft.case["symbolic"], axes).exact(of)
    body: Node = [draft.rng.choice(("+", "max")), ["ld", "STATE0", here], value]
    main["inner"].insert(-1, {**last, "name": "G0", "body": [cast_all(body, of)]})
    last["body"][0] = [draft.rng.choice(("+", "max")), last["body"][0], ["ld", "G0", here]]


def neighbour(draft: Draft, main: Case) -> list[str]:
    """A reduction that stands beside a stage and has nothing to do with it but the extent of its outermost loop; its name, an output."""
    if not main["shape"]:
        return []
    of = draft.number()
    axes = {"i": main["shape"][0]}
    operands = {entry["name"] for entry in draft.case["inputs"]}
    later = {name: draft.tensors.pop(name) for name in [*draft.tensors] if name not in operands}  # it stands before them
    draft.add("reduce", axes, [cast_all(total(draft, draft.scope(axes), of), of)], [of], rough=True)
    draft.tensors.update(later)
    made = draft.case["stages"].pop()
    draft.case["stages"].insert(draft.case["stages"].index(main), made)
    return [made["name"]]


def alike(draft: Draft, main: Case) -> list[str]:
    """A reduction over the ranges of another one, after it; its name, an output.

    Both combine under the same condition, or what each combines is chosen by it instead.
    """
    rng, known = draft.rng, {*draft.tensors}
    for tree in main["body"] if rng.random() < 0.5 else ():
        for node in walk(tree):
            if isinstance(node, list) and node[0] == "red":
                node[:] = unconditional(node)
    if main.get("form") == "custom":
        bodies, types = main["body"], [draft.tensors[f"{main['name']}_{place}"].dtype for place in range(2)]
        extra = {key: main[key] for key in ("form", "inner", "where", "reads", "results")}
        reducer = rng.choice(("sum_max", "sum_count"))
        body = [bodies[0], bodies[0] if reducer == "sum_max" else ["cast", types[0], 1]]
        axes = dict(zip(main["axes"], main["shape"], strict=True))
        draft.add("custom", axes, body, types, rough=True, always=True, reducer=reducer, **extra)
    else:
        first = reductions(main)[0]
        of = first[5] if first[5] != "bool" else "int32"
        value: Node = cast(first[3], first[5], of) if first[1] not in ("any", "all") else ["cast", of, 1]
        reducer = rng.choice(("sum", "max", "min", "prod", first[1]))
        if reducer in ("any", "all", "mean"):
            reducer = "max"
        value = [rng.choice(("+", "max")), value, ["cast", of, rng.randint(0, 2)]] if rng.random() < 0.5 else value
        axes = dict(zip(main["axes"], main["shape"], strict=True))
        body = [["red", reducer, first[2], value, first[4], of]]
        draft.add("reduce", axes, body, [reduced(reducer, of)], rough=of in FLOATS)
    return [draft.case["stages"][-1]["name"]] if {*draft.tensors} - known else []


def unconditional(node: Node) -> Node:
    """A reduction that combines everywhere: where its condition does not hold, a number."""
    kind, reducer, axes, value, where, of = node
    if where is None:
        return node
    return [kind, reducer, axes, ["sel", where, value, False if of == "bool" or reducer in ("any", "all") else ["cast", of, 1]], None, of]


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
