"""All programs, by their modules."""

from __future__ import annotations

from typing import Final

from bench.programs import arrays, cameras, fronts, images, linear, outside, photographs, pictures, pyramids, recurrences

MODULES: Final = (images, pictures, recurrences, fronts, arrays, linear, outside, photographs, pyramids, cameras)
PROGRAMS: Final = tuple(program for module in MODULES for program in module.PROGRAMS)
