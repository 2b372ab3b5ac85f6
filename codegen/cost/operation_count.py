"""Arithmetic operations, counted: every operation of every statement times the integer points at which it is made.

A value that a statement uses twice is made once (`operations`), and once for all iterations of loops that do not move it (`moving`).
A box is a product. A domain whose bounds depend on outer loops (a triangle), or that has conditions (a `where`, the chosen side of a
`select`), is enumerated over those loops that bounds or conditions speak of; the others multiply. Where data decides, or more than
`LIMIT` points would have to be visited, the condition counts as if it held, and the count then is an upper bound and says so. Ranges whose
ends are both data count as parts of one whole (`schedules.rewriting.ragged`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang import ir
from tensorlang.algebra.bounds import conjuncts, interval
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.cost.moving import Made, made
from tensorlang.codegen.cost.operations import Conditions
from tensorlang.errors import InternalError
from tensorlang.ir import Expr, For, Nest
from tensorlang.ir.dtype import INT64
from tensorlang.ir.functions import FUNCTIONS
from tensorlang.ir.traverse import axes_of, dtype_of, reads_data, walk
from tensorlang.schedules.rewriting.ragged import ragged
from tensorlang.semantics.arithmetic import quiet
from tensorlang.semantics.environment import Environment
from tensorlang.semantics.evaluate import ReferenceEvaluator

LIMIT: Final = 1 << 21
Points = dict[str, npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class OperationCount:
    """A number of operations; `exact`, or at most so many."""

    value: int
    exact: bool = True

    def __add__(self, other: OperationCount) -> OperationCount:
        return OperationCount(self.value + other.value, self.exact and other.exact)


@dataclass(frozen=True, slots=True)
class Work:
    """The arithmetic of a program: all of it, by stage, by element type, and how often each named function is called."""

    flops: OperationCount = OperationCount(0)
    stages: Mapping[str, int] = field(default_factory=dict)
    types: Mapping[str, int] = field(default_factory=dict)
    calls: Mapping[str, int] = field(default_factory=dict)


def work(nest: Nest, dims: Mapping[str, int]) -> Work:
    """The arithmetic of an unscheduled nest under these dims."""
    total = OperationCount(0)
    stages: Counter[str] = Counter()
    types: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for store, operations in made(nest):
        alike: dict[tuple[int, Conditions], list[Made]] = {}
        for operation in operations:
            alike.setdefault((len(operation.loops), operation.conditions), []).append(operation)
        for found in alike.values():
            points = domain(found[0].loops, found[0].conditions, dims)
            done = OperationCount(points.value * len(found), points.exact)
            total += done
            stages[store.stage] += done.value
            types[str(dtype_of(store.values[0]))] += done.value
            for operation in found:
                calls[operation.name] += points.value if operation.name in FUNCTIONS else 0
    return Work(total, dict(stages), dict(types), {name: times for name, times in calls.items() if times})


def flops(nest: Nest, dims: Mapping[str, int]) -> OperationCount:
    """Arithmetic operations of an unscheduled nest under these dims."""
    return work(nest, dims).flops


def domain(loops: Sequence[For], conditions: Sequence[Expr], dims: Mapping[str, int]) -> OperationCount:
    """How many iterations of a nest meet the conditions."""
    parts = conjuncts(conditions)
    keys = ragged(parts).keys
    if keys:  # their ranges are taken for parts of one whole
        whole = domain(loops, [part for part in parts if not reads_data(part)], dims)
        shared = domain([loop for loop in loops if loop.loop in keys], (), dims)
        return OperationCount(whole.value // max(1, shared.value), exact=False)
    known = [part for part in parts if all(map(_is_known, walk(part)))]
    spoken = set().union(*map(axes_of, known), *(axes_of(bound) for loop in loops for bound in (loop.lo, loop.hi)))
    points: Points = {}
    box, weight = 1, np.ones(1, np.int64)
    for depth, loop in enumerate(loops):
        length = np.maximum(_value(loop.hi, points, dims) - _value(loop.lo, points, dims), 0)
        if loop.loop not in spoken:
            box, weight = (box * int(length), weight) if length.ndim == 0 else (box, weight * length)
            continue
        trips = np.broadcast_to(length, weight.shape)
        visited = int(trips.sum())
        if visited > LIMIT:
            return OperationCount(box * int((weight * trips).sum()) * _most(loops, depth + 1, dims), exact=False)
        first = np.broadcast_to(_value(loop.lo, points, dims), weight.shape)
        steps = np.arange(visited) - np.repeat(np.cumsum(trips) - trips, trips)
        points = {name: np.repeat(values, trips) for name, values in points.items()}
        points[loop.loop] = np.repeat(first, trips) + steps
        weight = np.repeat(weight, trips)
    for part in known:
        weight = weight * np.asarray(_value(part, points, dims), bool)
    return OperationCount(box * int(weight.sum()), len(known) == len(parts))


def _most(loops: Sequence[For], start: int, dims: Mapping[str, int]) -> int:
    """The product of the greatest lengths of the loops from `start` on."""
    ranges: dict[Expr, tuple[int, int]] = {ir.Dim(name): (value, value) for name, value in dims.items()}
    total = 1
    for depth, loop in enumerate(loops):
        length = interval(simplify(ir.Binary("sub", loop.hi, loop.lo)), ranges)
        lo, hi = interval(loop.lo, ranges), interval(loop.hi, ranges)
        if length is None or lo is None or hi is None:
            raise InternalError(f"the loop {loop.loop} has no bounds")
        ranges[ir.Axis(loop.loop)] = (lo[0], max(hi[1] - 1, lo[0]))
        total *= max(length[1], 0) if depth >= start else 1
    return total


def _is_known(node: Expr) -> bool:
    """Does no data decide, and can the value be computed here?"""
    match node:
        case ir.Const() | ir.Dim() | ir.Axis() | ir.Select():
            return True
        case ir.Cast(_, dtype):
            return dtype == INT64
        case ir.Unary(op):
            return op in ("not", "neg", "abs")
        case ir.Binary() | ir.Compare():
            return dtype_of(node).kind in ("signed", "bool")
        case _:
            return False


def _value(expr: Expr, points: Points, dims: Mapping[str, int]) -> npt.NDArray[Any]:
    """The value of an expression at every point."""
    with quiet():
        return ReferenceEvaluator(dict(dims), {}).value(expr, Environment((), points))
