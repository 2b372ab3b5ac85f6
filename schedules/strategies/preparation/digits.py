"""Loops whose index is read by its digits, as `o // 4` and `o % 4`, split into them before anything else is decided.

The output channels of a grouped convolution find their group by a quotient, the pixels of a transposed one their phase by a remainder.
With a loop for each digit such a reduction is what it always was, a product or a window for each group or phase, and every operand moves
along loops of its own.

Of a stage without a reduction only its lanes ask for it, and only for digits of more than a vector, as rows of 100 in an array that was
flattened: vectors would cross these at other places each time, or divide each time. Powers of two do neither (`algebra.quotients`), and
digits within a vector are at places that are known (`RowVectors.period`).
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorlang.ir import For
from tensorlang.schedules.directives.split import Split
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.sliding import LEAST_REUSE, sliding
from tensorlang.schedules.strategies.analysis.stages import StageInfo, divisors, from_zero, is_literal, label, size, stages_of
from tensorlang.schedules.strategies.processor import Processor


def split_digits(s: Schedule, machine: Processor) -> Schedule:
    """The schedule with the loops of its reductions split by the literals that divide their indices."""
    while (found := next(_digits(s, machine), None)) is not None:
        loop, factor = found
        s = s.copy()
        if not s.attempt(Split(loop.loop, factor, "peel", (f"{label(loop)}_q", f"{label(loop)}_r"))):
            break
    return s


def _digits(s: Schedule, machine: Processor) -> Iterator[tuple[For, int]]:
    """Loops and the literals by which to split them, the largest of a loop first."""
    for info in stages_of(s.nest):
        if info.store.reducer is None:
            yield from _crossed(info, machine)
            continue
        for loop in (loop for loop in info.outer if is_literal(loop) and from_zero(loop)):
            least = _least(info, loop, machine)
            factors = [factor for factor in divisors(info, loop) if least <= factor < size(loop)]
            if factors:
                yield loop, max(factors)


def _least(info: StageInfo, loop: For, machine: Processor) -> int:
    """The smallest group that is worth a loop: in a window whose lanes are several groups, one that fills a vector."""
    window = sliding(info)
    if window is None:
        return 2
    return machine.lanes(info.widest) if loop is window.vector else LEAST_REUSE


def _crossed(info: StageInfo, machine: Processor) -> Iterator[tuple[For, int]]:
    """The loop that has the lanes, where an index tells digits of more than a vector, and not of a power of two."""
    loop, lanes = next(iter(info.outer[-1:]), None), machine.lanes(info.widest)
    if loop is not None and is_literal(loop) and from_zero(loop) and lanes > 1:
        factors = [factor for factor in divisors(info, loop, decided=True) if lanes < factor < size(loop)]
        if any(factor & (factor - 1) for factor in factors):
            yield loop, max(factors)
