"""Loops whose index is read by its digits, as `o // 4` and `o % 4`, split into them before anything else is decided.

The output channels of a grouped convolution find their group by a quotient, the pixels of a transposed one their phase by a remainder.
With a loop for each digit such a reduction is what it always was, a product or a window for each group or phase, and every operand moves
along loops of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from tensorlang.ir import Axis, Binary, Const, For
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import walk
from tensorlang.schedules.directives.split import Split
from tensorlang.schedules.rewriting.quotients import is_quotient
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis import StageInfo, from_zero, is_literal, label, size, stages_of
from tensorlang.schedules.strategies.machine import Machine
from tensorlang.schedules.strategies.sliding import LEAST_REUSE, sliding


def split_digits(s: Schedule, machine: Machine) -> Schedule:
    """The schedule with the loops of its reductions split by the literals that divide their indices."""
    while (found := next(_digits(s, machine), None)) is not None:
        loop, factor = found
        s = s.copy()
        if not s.attempt(Split(loop.loop, factor, "peel", (f"{label(loop)}_q", f"{label(loop)}_r"))):
            break
    return s


def _digits(s: Schedule, machine: Machine) -> Iterator[tuple[For, int]]:
    """Loops and the literals by which to split them, the largest of a loop first."""
    for info in stages_of(s.nest):
        if info.store.reducer is None:
            continue
        for loop in (loop for loop in info.outer if is_literal(loop) and from_zero(loop)):
            least = _least(info, loop, machine)
            factors = [factor for factor in _factors(info, loop) if least <= factor < size(loop)]
            if factors:
                yield loop, max(factors)


def _least(info: StageInfo, loop: For, machine: Machine) -> int:
    """The smallest group that is worth a loop: in a window whose lanes are several groups, one that fills a vector."""
    window = sliding(info)
    if window is None:
        return 2
    return machine.lanes(info.widest) if loop is window.vector else LEAST_REUSE


def _factors(info: StageInfo, loop: For) -> Iterator[int]:
    """Where the index of a loop is divided, how many of its iterations make a quotient."""
    for load in info.loads:
        for node in (node for part in load.index for node in walk(part)):
            if isinstance(node, Binary) and is_quotient(node) and isinstance(node.right, Const):
                factor = linear(node.left).terms.get(Axis(loop.loop))
                if factor is not None:
                    yield int(node.right.value) // gcd(factor, int(node.right.value))
