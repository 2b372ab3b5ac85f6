"""Loops that partition an operand: each iteration reads elements of its own, as each group of a convolution its channels.

Inside such a loop the stage that produces those elements computes none twice, and they are read while they are in cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorlang.ir import Axis, For, Load
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, size


def partitioning_loop(stage: StageInfo, load: Load, loops: Sequence[For]) -> str:
    """The innermost of the leading `loops` that all partition what is loaded; "" where the first does not, or none repeats."""
    found = ""
    for place, loop in enumerate(loops):
        inside = [other for other in stage.loops if other not in loops[: place + 1]]
        if size(loop) > 1 and not _partitions(load, loop, inside):
            break
        found = loop.loop if size(loop) > 1 else found
    return found


def _partitions(load: Load, loop: For, inside: Sequence[For]) -> bool:
    """Does one step of the loop go beyond all that the loops inside of it reach?"""
    indices = [part for part in load.index if loop.loop in axes_of(part)]
    if len(indices) != 1 or not all(map(is_literal, (loop, *inside))):
        return False
    terms = linear(indices[0]).terms
    step = terms.get(Axis(loop.loop), 0)
    reach = sum(abs(terms.get(Axis(other.loop), 0)) * (size(other) - 1) for other in inside)
    return all(isinstance(atom, Axis) for atom in terms) and step > reach
