"""Stages that stand one after the other in a row, with the loops along that row joined.

    for i:                                          for i:
        for j_o: s[j] = x[i, j] + r[i, j]               for j_o:
        for j_o: total += s[j]                ->            s[j] = x[i, j] + r[i, j]
        for j_o: y[i, j] = s[j] * total                     total += s[j]
                                                        for j_o: y[i, j] = s[j] * total

What one stage stores and the next one loads stays in registers, and what both load is loaded once: of a row that is near anyway, its loads
and stores are what takes time. The loops join where their tiles are as long and the legality of `fuse_loops` lets them; whether it is
faster the cost model says, which counts what is loaded in an iteration once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from tensorlang.ir import Alloc, Block, For, Stmt
from tensorlang.ir.traverse import statements
from tensorlang.schedules.directives.fuse_loops import FuseLoops
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.rewriting.edit import find_loop, literal_extent
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.processor import Processor

JOINED: Final = 0.99
"""The share of a program's time below which two loops along a row become one. A row has many stages, and each pair saves a little."""

MOST_ASKED: Final = 24
"""Pairs of loops that are tried, those of the outermost rows first: each takes proofs against the whole nest."""


def join_rows(s: Schedule, machine: Processor) -> Schedule:
    """The schedule with loops along the same row joined where the cost model says that this is faster."""
    seconds, asked = estimate(s.nest, machine.core).seconds, set[tuple[str, str]]()
    while len(asked) < MOST_ASKED:
        pair = next((pair for pair in _neighbours(s.nest.body) if pair not in asked), None)
        if pair is None:
            break
        asked.add(pair)
        trial = _joined(s, *pair)
        if trial is not None and (less := estimate(trial.nest, machine.core).seconds) < JOINED * seconds:
            s, seconds = trial, less
    return s


def _neighbours(body: Stmt) -> Iterator[tuple[str, str]]:
    """Serial loops that follow one another in each iteration of a serial one, and run equally often."""
    for around in statements(body):
        if isinstance(around, For) and around.kind in ("serial", "parallel"):
            for first, second in pairwise(_loops_in(around.body)):
                if first.kind == second.kind == "serial" and literal_extent(first) == literal_extent(second) is not None:
                    yield first.loop, second.loop


def _loops_in(body: Stmt) -> list[For]:
    """The loops of a block, whatever storage is between them."""
    match body:
        case For():
            return [body]
        case Alloc():
            return _loops_in(body.body)
        case Block():
            return [loop for part in body.body for loop in _loops_in(part)]
        case _:
            return []


def _joined(s: Schedule, first: str, second: str) -> Schedule | None:
    """The schedule with two loops as one, and so with the last of the loops in the one and the first in the other, down to vectors."""
    trial = s.copy()
    while True:
        inside = _loops_in(find_loop(trial.nest, first).body)[-1:], _loops_in(find_loop(trial.nest, second).body)[:1]
        if not trial.attempt(FuseLoops(first, second)):
            return None
        if not all(inside) or any(found[0].kind != "serial" for found in inside):
            return trial
        (one,), (other,) = inside
        if literal_extent(one) is None or literal_extent(one) != literal_extent(other):
            return None
        first, second = one.loop, other.loop
