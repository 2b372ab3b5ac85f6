"""What pipelines share."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import halide as hl

Shape: TypeAlias = tuple[int, ...]

x, y, c, k = (hl.Var(name) for name in "xyck")
xo, xi, yo, yi = (hl.Var(name) for name in ("xo", "xi", "yo", "yi"))
STRIP: Final = 32
"""Rows of a strip, if it is not said otherwise."""


def lanes(kind: Any) -> int:
    """Elements of a type in a vector."""
    return int(hl.get_host_target().natural_vector_size(kind))


REALS, WORDS, BYTES = (lanes(kind) for kind in (hl.Float(32), hl.UInt(16), hl.UInt(8)))


def total(terms: Iterable[Any]) -> Any:
    """A sum without a zero to begin with."""
    return functools.reduce(operator.add, terms)


def real(value: float) -> Any:
    """A number of float32."""
    return hl.f32(value)


def sliding(out: hl.Func, width: int, *stages: hl.Func, strip: int = STRIP) -> None:
    """Strips of rows, in which the rows of each stage are computed once, just before they are needed."""
    out.split(y, yo, yi, strip, hl.TailStrategy.GuardWithIf).vectorize(x, width)
    for stage in stages:
        stage.store_at(out, yo).compute_at(out, yi).vectorize(x, width)


def in_pairs(stage: hl.Func, width: int) -> None:
    """Even and odd columns are vectors of their own, put together where they are stored."""
    stage.align_bounds(x, 2).split(x, xo, xi, 2, hl.TailStrategy.RoundUp).reorder(xi, xo).vectorize(xo, width).unroll(xi)
