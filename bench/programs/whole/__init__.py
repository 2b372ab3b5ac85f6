"""The programs as arrays, as somebody would write them for JAX or for torch: a module for each of those beside it.

A form has the name of its program, takes the namespace of arrays (`jax.numpy`, `array_api_compat.torch`) and the program's operands, and
returns its results. It is what is written where speed matters, and no more: slices, broadcasting, products of matrices, gathers, loops
over what is small or over time. Tables along anti-diagonals are scanned, which JAX alone can do. What differs between the libraries is
in `dialects`; a form that is none for one of them raises there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from bench.programs import known

MODULES: Final = tuple(import_module(module.__name__.replace(known.__package__, __name__)) for module in known.MODULES)
"""A module of forms for each module of programs, by its name."""
FORMS: Final[Mapping[str, Callable[..., Any]]] = {form.__name__: form for module in MODULES for form in module.FORMS}
"""By the name of the program."""
