"""Which loop of a stage without reuse has the lanes: the one along which what it reads lies side by side.

    Y[i, j] = X[i, j] + b[j]: the lanes are along j          S[i] += X[i, k]: along k, where it fills them

A sum over few elements leaves most lanes of a vector idle: then the model tells which loop over its results is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tensorlang.ir import Axis, Binary, Call, Expr, For, Select
from tensorlang.ir.traverse import axes_of, reads_data, walk
from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.rewriting.small_tables import small_table
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_dear, is_literal, size, tensor_of
from tensorlang.schedules.strategies.loops.thread_loop import seconds_in_lanes
from tensorlang.schedules.strategies.processor import Processor

GATHERED: Final = 32
"""Bits of the elements that processors gather, at least; narrower ones are taken out of, and put into, vectors one by one."""
LITTLE: Final = 8
"""Operations that lanes do not make up for that: it takes two cycles an element more than loading and storing it, of four slots each."""
RAGGED_FROM: Final = 4
"""Vectors in a range that data tells, on average, below which masks at both of its ends cost more than lanes give."""
DEAR_FROM: Final = 1 / 4
"""The same where each element takes a root, a division or a function, which take as long for one lane as for all."""


def lane_loop(stage: StageInfo, lanes: int, machine: Processor) -> For | None:
    """The loop whose iterations become lanes: the one along which most operands lie contiguous, and the fewest are scattered.

    An index that is clamped at the ends of a row is contiguous between them. The output's last axis wins ties, and loops much shorter than
    a vector lose. The loops of a scatter are no axes of its output: where the last one is that short, any may have the lanes. None where a
    stage does little but look bytes up.
    """
    if _looks_up(stage, machine):
        return None
    last = stage.outer[-1:]
    short = [loop for loop in last if 2 * size(loop) < lanes and Axis(loop.loop) not in stage.store.index]
    outer = stage.outer[::-1] if short and any(map(reads_data, stage.store.index)) else last
    candidates = [loop for loop in (*outer, *stage.reduced[::-1]) if loop.loop not in stage.ragged.keys and _fills(stage, loop, lanes)]
    loads = [replace(load, index=tuple(map(_between_ends, load.index))) for load in stage.loads]

    def score(loop: For) -> tuple[bool, int, bool, int]:
        moves = [move for load in loads if (move := stage.moves(load, loop)) != 0]
        beside = sum(move == 1 for move in moves)
        whole = loop in stage.outer and size(loop) >= lanes and beside > 0  # each lane has a sum to itself
        return 2 * size(loop) >= lanes, beside - len(moves), whole, beside

    return max(candidates, key=score, default=None)


def _fills(stage: StageInfo, loop: For, lanes: int) -> bool:
    """Is a range that data tells long enough for lanes?"""
    if loop.loop not in stage.ragged.bounded:
        return True
    length, dear = stage.length(loop), any(map(is_dear, stage.store.values))
    return length >= (DEAR_FROM if dear else RAGGED_FROM) * lanes


def worth_lanes(stage: StageInfo, loop: For, plain: Sequence[Part], machine: Processor) -> bool:
    """Are lanes predicted to be faster than one element at a time? It is asked of ranges that data tell, whose ends they run over."""
    if loop.loop not in stage.ragged.bounded or stage.is_idle:
        return True
    alone = estimated(numbered(Sketch.of(plain, stage.name).parts()), machine.core).seconds
    return seconds_in_lanes(stage, loop, plain, machine) < alone


def longer_loop(stage: StageInfo, short: For, lanes: int, plain: Sequence[Part], machine: Processor) -> For:
    """Instead of a loop of a reduction that does not fill lanes one over its elements, where that is predicted to be faster."""
    others = [loop for loop in stage.outer if size(loop) >= lanes]
    if not others or short not in stage.reduced or not is_literal(short) or stage.is_idle:
        return short
    return min((short, *others), key=lambda loop: seconds_along(stage, loop, lanes, plain, machine))


def _looks_up(stage: StageInfo, machine: Processor) -> bool:
    """Does a stage read elements that no processor gathers at places which data tells, along its last axis, and do little with them?"""
    last = stage.outer[-1].loop if stage.outer and not stage.reduced else ""
    narrow = [load for load in stage.loads if load.buffer.dtype.bits < GATHERED]
    narrow = [load for load in narrow if not small_table(tensor_of(load), load.index, machine.isa)]
    if not any(last in axes_of(part) and reads_data(part) for load in narrow for part in load.index):
        return False
    return sum(isinstance(part, Binary | Call | Select) for value in stage.store.values for part in walk(value)) <= LITTLE


def seconds_along(stage: StageInfo, loop: For, lanes: int, plain: Sequence[Part], machine: Processor) -> float:
    """What a reduction takes with a loop in lanes, which sum up in registers where it moves the element."""
    if loop in stage.reduced:
        return seconds_in_lanes(stage, loop, plain, machine)
    sketch = Sketch.of(plain, stage.name)
    outer, inner = sketch.split(loop.loop, lanes, lanes)
    around = [outer if part is loop else part.loop for part in stage.outer]
    sketch.reorder(*around, *(part.loop for part in stage.reduced), inner)
    sketch.mark(inner, "vector")
    sketch.accumulate(around[-1], loads=False)
    return estimated(numbered(sketch.parts()), machine.core).seconds


def _between_ends(index: Expr) -> Expr:
    """An index without the ends to which it is clamped."""
    match index:
        case Binary("min" | "max", left, right) if not axes_of(right):
            return _between_ends(left)
        case Binary("min" | "max", left, right) if not axes_of(left):
            return _between_ends(right)
        case _:
            return index
