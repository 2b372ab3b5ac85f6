"""All programs, by their modules."""

from __future__ import annotations

from typing import Final

from bench.programs import arrays, fields, fronts, images, linear, models, outside, pictures, recurrences, solvers

MODULES: Final = (images, pictures, recurrences, fronts, arrays, linear, outside, models, solvers, fields)
PROGRAMS: Final = tuple(program for module in MODULES for program in module.PROGRAMS)
