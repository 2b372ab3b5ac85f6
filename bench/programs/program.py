"""A program of the comparison, and what several of them need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

import tensorlang as tl

Made: TypeAlias = tuple[Any, tuple[Any, ...]]
"""The outputs of a definition, and what to call its kernel with."""


@dataclass(frozen=True, slots=True)
class Program:
    """A definition with its operands, and the same as loops over operands and results."""

    name: str
    define: Callable[[], Made]
    loops: Callable[..., None]


def named(*pairs: tuple[Callable[[], Made], Callable[..., None]]) -> tuple[Program, ...]:
    """Definitions with their loops, each by the name of its definition."""
    return tuple(Program(define.__name__, define, loops) for define, loops in pairs)


RNG: Final = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    """Numbers between 0 and 1."""
    return RNG.random(shape, dtype=np.float32)


def integers(below: int, dtype: str, *shape: int) -> Any:
    """Whole numbers from 0 on."""
    return RNG.integers(0, below, shape).astype(dtype)


def operand(name: str, *shape: int, dtype: str = "float32") -> Any:
    """An operand of a definition."""
    return tl.placeholder(shape, dtype, name=name)


def real(value: Any) -> Any:
    """A number as float32."""
    return tl.cast(value, "float32")
