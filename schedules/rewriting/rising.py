"""Indices that rise from lane to lane by one at most, as those of a row that is kept inside at its ends.

    X[max(min(j + 1, n - 1), 0)]        lanes j read neighbours; beyond the end of the row all of them read its last element

    X[(j + 2) // 3]                     every third lane reads the next element

What lanes read then lies between what the first and the last one read, no further apart than there are lanes: one load has it, and an
instruction that puts lanes of a register where other ones say gives each lane its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from tensorlang.ir import Axis, Binary, Cast, Const, Expr
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of

FEATURE: Final = "avx2"
"""What a processor is told to have that moves words between all lanes of a register, as other ones say."""
WIDE_FEATURE: Final = "avx512f"
"""The same of numbers of 64 bits."""
MASKED_FEATURE: Final = "avx512bw"
"""What it has that loads some of the bytes, or halves of words, of a register."""


def rises(index: tuple[Expr, ...], lane: str) -> bool:
    """Does the place of an element rise by one from lane to lane, or stay? Lanes go along the last axis, and no other."""
    if not index or lane not in axes_of(index[-1]) or any(lane in axes_of(part) for part in index[:-1]):
        return False
    return _rise(index[-1], lane) <= 1


def _rise(expr: Expr, lane: str) -> float:
    """By how much it rises from lane to lane, at most; infinity where it may fall, or nobody knows."""
    moving = {atom: factor for atom, factor in linear(expr).terms.items() if lane in axes_of(atom)}
    if len(moving) != 1 or min(moving.values()) < 0:
        return 0 if not moving else math.inf
    ((atom, factor),) = moving.items()
    match atom:
        case Axis():
            return factor
        case Binary("min" | "max", left, right):
            return factor * max(_rise(left, lane), _rise(right, lane))
        case Binary("floordiv", left, Const(by)) | Cast(Binary("floordiv", Cast(left, _, True), Const(by))) if by > 0:
            apart = _rise(left, lane)
            return factor * math.ceil(apart / by) if apart < math.inf else apart
        case _:
            return math.inf


def moves_lanes(bits: int, isa: Collection[str]) -> bool:
    """Are there instructions that load some numbers of so many bits, and move them from lane to lane as other numbers say?"""
    if bits < 32:
        return MASKED_FEATURE in isa
    return (FEATURE if bits == 32 else WIDE_FEATURE) in isa
