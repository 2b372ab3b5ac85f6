"""Kernels that do one thing: each keeps one resource of a core busy and asks little of the others.

    clock            a chain of an addition and an exclusive or of integers, one cycle each on every core in the table
    multiply_adds    a tile of accumulators in registers; one vector alone is a chain, and tells the latency
    quotients, roots divisions and square roots, each of the result of the one before
    sums             an array read again and again, by vectors that are added up
    added            an array added to in place: a load and a store for each vector
    doubled, filled  through memory that no cache holds, the second one past the caches
    chase            each load says where the next one is
    indexed          loads that do not wait for each other, at places that an array tells; by lanes of vectors they are gathers
    alone            next to nothing, as a call alone
    shares           a chain of additions for each thread of a parallel loop, or one

All are scheduled by hand: default schedules depend on what is measured here. Tables have a power of two of elements, so that a mask
proves every place inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang.codegen.calling.runnable import Runnable
from tensorlang.codegen.compilation import of_schedule
from tensorlang.codegen.target import Target
from tensorlang.definition.elementary import sqrt
from tensorlang.definition.expr import cast
from tensorlang.definition.extent import dim
from tensorlang.definition.tensor import Tensor
from tensorlang.ir.dtype import DType, dtype
from tensorlang.language.definitions import compute, placeholder, reduce_axis
from tensorlang.language.reduction import sum as total
from tensorlang.language.scan import scan
from tensorlang.schedules.schedule import Schedule

FLOAT: Final = dtype("float32")
DEPTH: Final = 4096
TILES: Final = ((5, 2), (4, 4))
SUMMANDS: Final = 2048
"""Of a share: some 2 us, several times what a thread that is awake takes to begin."""
"""Rows and columns of vectors that fit 16 and 32 registers: the accumulators that two units of latency five, or four of four, need."""
CYCLES: Final = 8
"""Of a step of `clock`."""
STEPS: Final = 8
"""Places that `indexed` looks at between two jumps."""


def linked(schedule: Schedule, machine: Target) -> Runnable:
    """The kernel of a schedule."""
    return Runnable(of_schedule(schedule, machine).program())


def clock() -> Schedule:
    """`2 * n` steps of eight cycles."""
    X = placeholder((1,), "int64", name="X")

    def turned(state: Any) -> Any:
        for _ in range(CYCLES // 2):
            state = (state + X[0]) ^ X[0]
        return state

    return _steps(lambda state: compute((1,), lambda i: turned(state[i])), X)


def tile_of(machine: Target) -> tuple[int, int]:
    """The tile that reaches the peak."""
    return TILES[machine.registers >= 32]


def multiply_adds(machine: Target, threads: int, element: DType, tile: tuple[int, int] | None = None) -> Schedule:
    """Nothing but multiply-adds, on each thread: four times `DEPTH` steps of a tile of rows by columns of vectors."""
    height, columns = tile or tile_of(machine)
    lanes = machine.lanes(element)
    A, B = placeholder((height,), element, name="A"), placeholder((columns * lanes,), element, name="B")
    k = reduce_axis(DEPTH, name="k")
    s = Schedule(compute((4 * threads, height, columns * lanes), lambda _, r, i: total(A[r] * B[i], axis=k), name="P"))
    group, row, lane, depth = s.loops("P")
    column, inner = s.split(lane, lanes)
    s.reorder(group, depth, row, column, inner)
    s.vectorize(inner)
    s.unroll(row)
    s.unroll(column)
    s.accumulate("P", at=group)
    if threads > 1:
        s.parallel(group)
    return s


def factors(machine: Target, element: DType, tile: tuple[int, int] | None = None) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The operands of `multiply_adds`: ones, so that sums stay finite."""
    height, columns = tile or tile_of(machine)
    return np.ones(height, element.numpy), np.ones(columns * machine.lanes(element), element.numpy)


def operations(machine: Target, threads: int, element: DType) -> int:
    """What a call of `multiply_adds` does; a multiply-add is two."""
    height, columns = tile_of(machine)
    return 2 * 4 * threads * DEPTH * height * columns * machine.lanes(element)


def quotients(machine: Target, vectors: int) -> Schedule:
    """`2 * n` steps of a division on so many vectors."""
    X = placeholder((vectors * machine.lanes(FLOAT),), FLOAT, name="X")
    return _steps(lambda state: compute(X.shape, lambda i: X[i] / state[i]), X, machine)


def roots(machine: Target, vectors: int) -> Schedule:
    """`2 * n` steps of a square root on so many vectors."""
    X = placeholder((vectors * machine.lanes(FLOAT),), FLOAT, name="X")
    return _steps(lambda state: compute(X.shape, lambda i: sqrt(state[i])), X, machine)


def _steps(step: Callable[[Any], Tensor], start: Tensor, machine: Target | None = None) -> Schedule:
    """`2 * n` steps from a state to the next, which stays in registers: even and odd places of the ring are unrolled."""
    s = Schedule(scan(lambda t, state: step(state), start, 2 * dim("n", 1), keep="last"))
    _, inner = s.split("t", 2)
    s.unroll(inner)
    if machine is not None:
        for stage in s.stages():
            outer, inner = s.split(s.loops(stage)[-1], machine.lanes(FLOAT))
            s.vectorize(inner)
            s.unroll(outer)
    return s


def sums(machine: Target, threads: int) -> Schedule:
    """Each thread sums its own array, again and again."""
    n, again = dim("n"), dim("again")
    lanes = machine.lanes(FLOAT)
    X = placeholder((threads, n, row_of_sums(machine)), FLOAT, name="X")
    k = reduce_axis(n, name="k")
    s = Schedule(compute((threads, again, X.shape[2]), lambda p, _, i: total(X[p, k, i], axis=k), name="S"))
    thread, turn, lane, depth = s.loops("S")
    outer, inner = s.split(lane, lanes)
    s.reorder(thread, turn, depth, outer, inner)
    s.vectorize(inner)
    s.unroll(outer)
    s.accumulate("S", at=turn)
    if threads > 1:
        s.parallel(thread)
    return s


def row_of_sums(machine: Target) -> int:
    """Elements that `sums` adds to accumulators of their own."""
    return 12 * machine.lanes(FLOAT)


def added(machine: Target, size: int, again: int) -> Schedule:
    """An array of `size` elements, to which a number is added in place, again and again."""
    X, k = placeholder((again,), FLOAT, name="X"), reduce_axis(again, name="k")
    s = Schedule(compute((size,), lambda i: total(X[k], axis=k), name="S"))
    lanes = machine.lanes(FLOAT)
    outer, inner = s.split("S.i", 4 * lanes)
    vectors, lane = s.split(inner, lanes)
    s.reorder("k", outer, vectors, lane)
    s.vectorize(lane)
    s.unroll(vectors)
    return s


def doubled(machine: Target, size: int, threads: int = 1) -> Schedule:
    """Twice an array, a part of it on each thread."""
    X = placeholder((size,), FLOAT, name="X")
    s = Schedule(compute(X.shape, lambda i: X[i] * 2, name="Y"))
    if threads > 1:
        part, inner = s.split("i", -(-size // threads))
        s.parallel(part)
        _vectors_of(s, machine, inner)
    else:
        _vectors_of(s, machine)
    s.stream_stores("Y")
    return s


def filled(machine: Target, size: int) -> Schedule:
    """An array of one number, past the caches."""
    X = placeholder((1,), FLOAT, name="X")
    s = Schedule(compute((size,), lambda i: X[0], name="Y"))
    _vectors_of(s, machine)
    s.stream_stores("Y")
    return s


def _vectors_of(s: Schedule, machine: Target, loop: str = "i") -> None:
    _, inner = s.split(loop, 4 * machine.lanes(FLOAT))
    vectors, lane = s.split(inner, machine.lanes(FLOAT))
    s.vectorize(lane)
    s.unroll(vectors)


def chase(elements: int) -> Schedule:
    """`2 * n` steps through a table in which each element says where the next one is."""
    N, at = placeholder((elements,), "int64", name="N"), placeholder((1,), "int64", name="at")
    return _steps(lambda state: compute((1,), lambda i: N[state[i] & (elements - 1)]), at)


def indexed(elements: int) -> Schedule:
    """The sum of the elements of a table at `n` places, once."""
    X, n = placeholder((elements,), "int64", name="X"), dim("n")
    at, k = placeholder((n,), "int32", name="at"), reduce_axis(n, name="k")
    s = Schedule(compute((1,), lambda i: total(X[cast(at[k], "int64") & (elements - 1)], axis=k), name="S"))
    _, inner = s.split("k", STEPS)
    s.unroll(inner)
    s.accumulate("S", at="i")
    return s


def gathered(machine: Target, size: int, again: int) -> Schedule:
    """Elements of a table of `size` at as many places, by vectors, again and again."""
    X, at = placeholder((size,), FLOAT, name="X"), placeholder((size,), "int32", name="at")
    s = Schedule(compute((again, size), lambda _, i: X[cast(at[i], "int64") & (size - 1)], name="Y"))
    _vectors_of(s, machine)
    return s


def alone() -> Schedule:
    """An addition."""
    X = placeholder((2,), FLOAT, name="X")
    return Schedule(compute(X.shape, lambda i: X[i] + 1, name="Y"))


def shares(count: int) -> Schedule:
    """So many sums of `SUMMANDS`, one after the other or each by a thread: long enough for the others to begin before all is done."""
    X, k = placeholder((count, SUMMANDS), FLOAT, name="X"), reduce_axis(SUMMANDS, name="k")
    s = Schedule(compute((count,), lambda i: total(X[i, k], k), name="Y"))
    if count > 1:
        s.parallel("Y.i")
    return s
