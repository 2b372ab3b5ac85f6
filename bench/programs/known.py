"""All programs, by their modules."""

from __future__ import annotations

from typing import Final

from bench.programs import (
    arrays,
    attention,
    cameras,
    convolutions,
    counts,
    expressions,
    fields,
    filters,
    fronts,
    images,
    linear,
    matrices,
    models,
    outside,
    photographs,
    pictures,
    places,
    pyramids,
    recurrences,
    sequences,
    solvers,
)

MODULES: Final = (
    images,
    pictures,
    photographs,
    pyramids,
    cameras,
    recurrences,
    fronts,
    arrays,
    linear,
    outside,
    models,
    solvers,
    fields,
    sequences,
    counts,
    attention,
    convolutions,
    matrices,
    filters,
    places,
    expressions,
)
PROGRAMS: Final = tuple(program for module in MODULES for program in module.PROGRAMS)
