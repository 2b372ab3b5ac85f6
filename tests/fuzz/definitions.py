"""Random definitions: one to five stages, each from a template."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from .case import Case, extents_in, labels_of, sizes, tensors_of
from .draft import Draft
from .nodes import TYPES
from .ordered import carried_rows
from .templates import KINDS, pointwise

FAR: Final = (0, 1, 5, 1 << 34)
"""How far off a read under a condition may lie at run time."""
ROWS: Final = 0.06
"""How often a definition is one of carried rows, which hardly any other comes to."""
MOST_STAGES: Final = 6
"""Stages after which no template adds some: there are eight names, and a template takes up to three."""


def definition(seed: int) -> Case:
    """A random definition as a case without steps."""
    rng = random.Random(seed)
    draft = Draft(rng, empty_case(seed, rng, rng.choice((0.0, 0.0, 0.0, 0.3, 0.8))))
    if random.Random(f"{seed} rows").random() < ROWS:
        carried_rows(draft)
        return finished(draft)
    kinds, weights = list(KINDS), [weight for _, weight in KINDS.values()]
    for _ in range(rng.choice((1, 1, 2, 2, 2, 3, 3, 4, 5))):
        if len(draft.case["inputs"]) < 6 and len(draft.case["stages"]) < MOST_STAGES:
            KINDS[rng.choices(kinds, weights)[0]][0](draft)
    if not draft.case["stages"]:
        pointwise(draft)
    return finished(draft)


def empty_case(seed: int, rng: random.Random, dynamic: float) -> Case:
    """A case with nothing in it, what a draft needs to know included: its type, and how often an extent is one of run time."""
    fill = rng.choice(("small", "wide", "special", "wild"))
    case: Case = {"seed": seed, "extents": {}, "symbolic": [], "inputs": [], "stages": [], "outputs": [], "steps": [], "fill": fill}
    return {**case, "type": rng.choice(TYPES), "dynamic": dynamic}


def finished(draft: Draft, more: Sequence[str] = ()) -> Case:
    """The case of a draft: its last stage is the output, at times with another one, and with those that are named."""
    made, rng = draft.case["stages"], draft.rng
    results = {
        stage["name"]: [name for name in draft.tensors if name == stage["name"] or name.startswith(f"{stage['name']}_")] for stage in made
    }
    outputs = list(results[made[-1]["name"]])
    outputs += [label for name in more for label in results[name] if label not in outputs]
    if len(made) > 1 and rng.random() < 0.3:
        outputs += [label for label in results[rng.choice(made[:-1])["name"]] if label not in outputs]
    found = {key: value for key, value in draft.case.items() if key not in ("type", "dynamic")}
    found["outputs"] = outputs
    return trimmed(found, rng)


def trimmed(case: Case, rng: random.Random) -> Case:
    """Without stages and operands that no output reaches, and with further values of the symbolic extents."""
    needed, stages = set(case["outputs"]), []
    for stage in reversed(case["stages"]):
        if labels_of(stage) & needed:
            stages.append(stage)
            needed |= tensors_of(stage)
    used = extents_in([stages, [entry for entry in case["inputs"] if entry["name"] in needed]])
    extents = {name: value for name, value in case["extents"].items() if name in used}
    symbolic = [name for name in case["symbolic"] if name in used]
    more = [
        {name: rng.choice(FAR if name.startswith("m") else (0, 1, 2, 5, 8, 9)) for name in symbolic} for _ in range(2 if symbolic else 0)
    ]
    inputs = [entry for entry in case["inputs"] if entry["name"] in needed]
    found = {**case, "stages": stages[::-1], "inputs": inputs, "extents": extents, "symbolic": symbolic, "more": more}
    return {**found, "bounds": bounds} if (bounds := promised(found, rng)) else found


def promised(case: Case, rng: random.Random) -> dict[str, list[int]]:
    """Bounds of some of the symbolic extents: as tight as the values that the case is run with, or wider."""
    found = {}
    for name in case["symbolic"]:
        if rng.random() < 0.25:
            values = [values[name] for values in sizes(case)]
            least, most = rng.choice((0, min(values), min(values))), rng.choice((max(values), max(values), max(values) + 9, 1 << 40))
            found[name] = [least, most]
    return found
