"""Indices that rise from lane to lane by one at most, as those of a row that is kept inside at its ends.

    X[max(min(j + 1, n - 1), 0)]        lanes j read neighbours; beyond the end of the row all of them read its last element

What lanes read then lies between what the first and the last one read, no further apart than there are lanes: one load has it, and an
instruction that puts lanes of a register where other ones say gives each lane its own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tensorlang.ir import Axis, Binary, Expr
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
    return bool(index) and not any(lane in axes_of(part) for part in index[:-1]) and lane in axes_of(index[-1]) and _rises(index[-1], lane)


def _rises(expr: Expr, lane: str) -> bool:
    moving = {atom: factor for atom, factor in linear(expr).terms.items() if lane in axes_of(atom)}
    if list(moving.values()) != [1]:
        return False
    (atom,) = moving
    if not (isinstance(atom, Binary) and atom.op in ("min", "max")):
        return atom == Axis(lane)
    return all(_rises(side, lane) for side in (atom.left, atom.right) if lane in axes_of(side))


def moves_lanes(bits: int, isa: Collection[str]) -> bool:
    """Are there instructions that load some numbers of so many bits, and move them from lane to lane as other numbers say?"""
    if bits < 32:
        return MASKED_FEATURE in isa
    return (FEATURE if bits == 32 else WIDE_FEATURE) in isa
