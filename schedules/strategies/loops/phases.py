"""Choices by the remainder of the lanes' index, and reads by its quotient: each remainder computed in vectors of its own.

    vector j in range(16):                                  unroll p in range(2):
        B[j] = select(j % 2 == 0, f(j), g(j // 2))  ->          vector v in range(8):
                                                                    B[2 v + p] = f(2 v), then g(v)

In one vector both sides are computed in all lanes, and half of either is thrown away; what `j // 2` reads is spread over the lanes, byte by
byte where elements are short. By remainders every side is computed where it is wanted, reads are contiguous, and the results are
interleaved in registers when they are stored. A condition that asks other loops too, as `(i + j) % 2`, is not decided by the remainder, so
that nothing would be saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd, lcm, log2
from typing import Final

from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Call, Compare, Const, Expr, For, Load, Select, Unary, const
from tensorlang.ir.dtype import FLOAT32
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of, children, reads_data, substitute, walk
from tensorlang.schedules.directives.loop_kinds import Unroll, Vectorize
from tensorlang.schedules.directives.reorder import Reorder
from tensorlang.schedules.legality.code_size import function_size
from tensorlang.schedules.model.issue import PICKED
from tensorlang.schedules.rewriting.quotients import is_quotient
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.stages import StageInfo, from_zero, is_literal, tensor_of

MOST_PHASES: Final = 4
"""Remainders, at most: so many vectors are interleaved when they are stored."""
WAITED: Final = 2.0
"""Slots in which a step of a recurrence waits for each vector that the one before wrote: through the shuffles of a store and of a load."""


@dataclass(frozen=True, slots=True)
class Phases:
    """The `count` of remainders of a loop that decide what is chosen or read; does it pay to compute each by itself?

    `chosen`: is anything chosen by them?
    """

    count: int = 1
    pay: bool = False
    chosen: bool = False

    @classmethod
    def of(cls, stage: StageInfo, vector: For, lanes: int) -> Phases:
        """Those of a stage without a reduction.

        Apart, all but one in `count` of the operations of the sides are saved, and the shuffles that spread what a quotient reads, of which
        each is loaded once for all remainders; what was read contiguously is read with a stride, and results are interleaved. A recurrence
        waits for both, since it reads what it has stored a step before.
        """
        count = _count(stage, vector, lanes)
        if count == 1:
            return TOGETHER
        sides = [side for node in _choices(stage, vector) for side in (node.yes, node.no)]
        saved = sum(_operations(side) for side in sides) * (1 - 1 / count)
        near = [load for load in dict.fromkeys(stage.loads) if abs(stage.stride(load, vector) or 0) == 1]
        own = sum(tensor_of(load) in stage.store.buffers for load in near)
        lost = log2(count) * len(stage.store.values) + len(near) + WAITED * own
        for load in _spread(stage, vector):
            apart = _apart(load, vector, count)
            saved += (lanes if tensor_of(load).dtype.bits < PICKED else 2 - 1 / count) if apart in (0, 1) else 0
            lost += apart is not None and apart > 1
        return cls(count, saved > lost, _decided(stage, vector) > 1)


TOGETHER: Final = Phases()
"""No remainder decides anything."""


def _choices(stage: StageInfo, vector: For) -> list[Select]:
    """The choices whose conditions ask for a loop, those inside of others left out."""
    found: list[Select] = []
    pending = list(stage.store.values)
    while pending:
        node = pending.pop()
        if isinstance(node, Select) and vector.loop in axes_of(node.cond):
            found.append(node)
        else:
            pending += children(node)
    return found


def _operations(expr: Expr) -> float:
    """Issue slots of the arithmetic on data."""
    own = {Call: 1.0, Binary: 1.0, Unary: 1.0, Compare: 1.0, Select: 1.0}.get(type(expr), 0.0)
    if isinstance(expr, Call):
        own = float(function_size(expr, FLOAT32))
    if not reads_data(expr):
        return 0.0
    inside = () if isinstance(expr, Load) else children(expr)
    return own + sum(map(_operations, inside))


def _count(stage: StageInfo, vector: For, lanes: int) -> int:
    if stage.reduced or not is_literal(vector) or not from_zero(vector) or stage.stride(stage.store, vector) != 1:
        return 1
    found = _decided(stage, vector)
    read = lcm(found, *(by for load in _spread(stage, vector) for _, by in _quotients(vector, load.index)))
    return next((count for count in (read, found) if count <= MOST_PHASES and lanes % count == 0), 1)


def _decided(stage: StageInfo, vector: For) -> int:
    """The number of remainders that decide all conditions of choices that ask for them."""
    chosen = [node.cond for value in stage.store.values for node in walk(value) if isinstance(node, Select)]
    return lcm(*(by for op, by in _quotients(vector, chosen) if op == "mod"))


def _spread(stage: StageInfo, vector: For) -> list[Load]:
    """What several neighbouring lanes read; what remainders alone tell is the same in each step, and read before."""
    return [load for load in dict.fromkeys(stage.loads) if any(op == "floordiv" for op, _ in _quotients(vector, load.index))]


def _apart(load: Load, vector: For, count: int) -> int | None:
    """How far lanes of one remainder read from one another; None where that is no number, as at clamps."""
    far = [substitute(load.index[-1], {vector.loop: const(at)}) for at in (count, 0)]
    moved = linear(simplify(Binary("sub", *far)))
    elsewhere = any(vector.loop in axes_of(part) for part in load.index[:-1])
    return None if moved.terms or elsewhere else abs(moved.constant)


def _quotients(vector: For, exprs: Iterable[Expr]) -> Iterator[tuple[str, int]]:
    """The quotients and remainders of a loop alone, each by its operation and how many iterations decide it."""
    for node in (node for expr in exprs for node in walk(expr)):
        if isinstance(node, Binary) and is_quotient(node) and isinstance(node.right, Const) and axes_of(node) == {vector.loop}:
            by, factor = int(node.right.value), linear(node.left).terms.get(Axis(vector.loop))
            if factor is not None:
                yield node.op, by // gcd(factor, by)


def vectorize_phases(s: Schedule, loop: str, phases: int) -> bool:
    """Let each remainder of a loop be a vector; False, with the schedule as it was, where that is not legal."""
    before = len(s.directives)
    lanes, phase = s.split(loop, phases, "peel")
    if s.attempt(Reorder((phase, lanes))) and s.attempt(Vectorize(lanes)) and s.attempt(Unroll(phase)):
        return True
    s.undo(len(s.directives) - before)
    return False
