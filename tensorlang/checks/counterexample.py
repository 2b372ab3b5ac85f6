"""Examples that occur: points of axes, dims and data at which conditions hold, found where isl is not sure and checked by the evaluator.

A point of `polyhedra.find` is exact but for opaque expressions. So it is only a proposal: operands are made up around it, and the
conditions are evaluated with them as `evaluate` would. If that shows nothing, other points and other data are tried, the ends of ranges
and of types above all. What is shown in an error has happened.

The other way round, `impossible` looks at every point where there are few: axes, dims and opaque values within small bounds. That decides
what no linear reasoning sees, such as `(i * i) & 7`.

Data are not stored. An element of an operand is a telling value, chosen by a hash of the tensor, the index and the lane; each lane is a
point with data of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tensorlang.algebra.bounds import Bounds, conjuncts
from tensorlang.checks.question import Question, Witness
from tensorlang.definition.tensor import Placeholder, Stage, Tensor
from tensorlang.errors import TensorlangError
from tensorlang.ir import Axis, Call, Cast, Compare, Const, Dim, Expr, Load, Param, Reduce
from tensorlang.ir.dtype import DType
from tensorlang.ir.printer import text
from tensorlang.ir.traverse import children, dtype_of, map_children, walk
from tensorlang.semantics import arithmetic
from tensorlang.semantics.arithmetic import Array
from tensorlang.semantics.environment import Environment
from tensorlang.semantics.evaluate import ReferenceEvaluator

MAX_POINTS: Final = 1 << 18
MAX_STEPS: Final = 1 << 22
MAX_NODES: Final = 400
LANES: Final = 1 << 11
VARIANTS: Final = 16
MAX_SHOWN: Final = 6
MAX_INLINE: Final = 3
_DIMS: Final = (None, 0, 1, 2, 3, 5, 8, 64)


class _UnsureError(Exception):
    """An element is read that is computed in an order, so that nobody knows which values it can have."""


@dataclass(slots=True)
class _Data:
    """The made-up contents of all operands."""

    lanes: Array
    telling: tuple[int, ...]
    proposed: Mapping[Expr, int] = field(default_factory=dict)
    fixed: dict[tuple[int, int, tuple[int, ...]], Any] = field(default_factory=dict)

    def elements(self, tensor: Tensor, load: Load, index: tuple[Array, ...]) -> Array:
        """What is read at an index: what was proposed for this load, or a telling value by the hash of the element."""
        definition = tensor.definition
        if self.lanes.size == 1 and all(part.size == 1 for part in index):
            key = (id(definition), tensor.component, tuple(int(part.reshape(())) for part in index))
            if key not in self.fixed and load in self.proposed:
                self.fixed[key] = np.asarray(self.proposed[load]).astype(tensor.dtype.numpy)
            if key in self.fixed:
                return np.asarray(self.fixed[key])
        pool = _pool(tensor.dtype, self.telling)
        mixed = self.lanes * np.uint64(0x9E3779B97F4A7C15) + np.uint64(definition.order * 97 + tensor.component + 1)
        for part in index if tensor.ndim else ():
            part = np.where(self.lanes % np.uint64(3) == 0, 0, part)  # noqa: PLW2901 - in every third lane all elements are equal
            mixed = (mixed ^ part.astype(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = mixed ^ (mixed >> np.uint64(29))
        return np.asarray(pool[(mixed >> np.uint64(7)) % np.uint64(len(pool))])


def _pool(of: DType, telling: tuple[int, ...]) -> Array:
    """Values of a type that show something: its ends, and what was proposed."""
    if of.is_floating:
        ends: list[float] = [-math.inf, math.inf, math.nan, -0.5, 0.5, -1e30, 1e30]
        return np.array([*ends, *map(float, telling)]).astype(of.numpy)
    if of == "bool":
        return np.array([False, True])
    low, high = int(of.lowest), int(of.highest)
    middle = 1 << (of.bits - 2 + (low == 0))
    inside = [value for value in (low, low + 1, high, high - 1, middle, middle - 1, *telling) if low <= value <= high]
    return np.array(list(dict.fromkeys(inside)), of.numpy)


class _Probe(ReferenceEvaluator):
    """The evaluator on made-up data: stages are evaluated where they are read, everything else is data."""

    def __init__(self, dims: dict[str, int], data: _Data) -> None:
        super().__init__(dims, {})
        self.data = data
        self.depth = 0

    def _reduce(self, node: Reduce, scope: Environment) -> Array:
        if math.prod(self.sizes(node.axes, scope)) * math.prod(scope.shape) > MAX_STEPS:
            raise _UnsureError
        return super()._reduce(node, scope)

    def value(self, expr: Expr, scope: Environment) -> Array:
        """As of the evaluator."""
        if not isinstance(expr, Load):
            return super().value(expr, scope)
        index = tuple(np.asarray(self.value(part, scope)) for part in expr.index)
        if not isinstance(expr.buffer, Tensor):
            raise _UnsureError
        definition = expr.buffer.definition
        match definition:
            case Placeholder():
                return self.data.elements(expr.buffer, expr, index)
            case Stage(itself=(), values=values, axes=axes, within=()) if self.depth < MAX_INLINE:
                self.depth += 1
                found = self.value(
                    values[expr.buffer.component], Environment(scope.shape, dict(zip(axes, index, strict=True)), scope.active)
                )
                self.depth -= 1
                return found
            case _:
                raise _UnsureError


def search(question: Question, proposed: Mapping[Expr, int]) -> Witness | None:
    """An example of the question, near the proposed point first; None where none was found."""
    proposed = {part: value for part, value in proposed.items() if abs(value) < 1 << 63}
    dims = {node.name: node for expr in _all(question) for node in walk(expr) if isinstance(node, Dim)}
    telling = _telling(question, proposed)
    choices = list(_DIMS[: None if dims else 1])
    with arithmetic.quiet():
        for number in range(VARIANTS):
            found = _at(question, proposed, {name: proposed.get(dim, dim.least) for name, dim in dims.items()}, telling, number)
            if found is not None:
                return found
        for least in choices:
            sizes = {
                name: proposed.get(dim, dim.least) if least is None else min(max(least, dim.least), dim.most) for name, dim in dims.items()
            }
            found = _anywhere(question, sizes, telling)
            if found is not None:
                return found
    return None


def _all(question: Question) -> tuple[Expr, ...]:
    """Everything that an example depends on."""
    return (*(bound for _, low, high in question.ranges for bound in (low, high)), *question.told(), *question.extents)


def _telling(question: Question, proposed: Mapping[Expr, int]) -> tuple[int, ...]:
    """Numbers near which something may happen: those of the question and of the proposed point, and their neighbours."""
    literals = [int(node.value) for expr in _all(question) for node in walk(expr) if isinstance(node, Const) and _whole(node)]
    near = {value + off for value in (0, *literals, *proposed.values()) for off in (-1, 0, 1)}
    return tuple(sorted(value for value in near if abs(value) < 1 << 63))[:200]


def _whole(const: Const) -> bool:
    return math.isfinite(const.value) and abs(const.value) < 1 << 63


def _at(question: Question, proposed: Mapping[Expr, int], dims: dict[str, int], telling: tuple[int, ...], number: int) -> Witness | None:
    """The proposed point, with data that are made up where nothing was proposed for them; float operands follow the casts made of them."""
    loads = {**_through_casts(question, proposed), **proposed}
    data = _Data(np.full(1, number, np.uint64), telling, loads)
    axes = {name: np.full(1, proposed.get(Axis(name), 0), np.int64) for name, _, _ in question.ranges}
    return _seen(question, _Probe(dims, data), axes, np.ones(1, bool))


def _through_casts(question: Question, proposed: Mapping[Expr, int]) -> dict[Expr, int]:
    """What a load has to be for a cast of it to be as proposed."""
    casts = (node for expr in _all(question) for node in walk(expr) if isinstance(node, Cast) and node in proposed)
    return {node.value: proposed[node] for node in casts if isinstance(node.value, Load)}


def _anywhere(question: Question, dims: dict[str, int], telling: tuple[int, ...]) -> Witness | None:
    """Many points at once, at the ends of ranges and within, each with data of its own."""
    lanes = np.arange(LANES, dtype=np.uint64)
    rng = np.random.default_rng(LANES)
    probe = _Probe(dims, _Data(lanes, telling))
    axes: dict[str, Array] = {}
    active = np.ones(LANES, bool)
    try:
        for name, low, high in question.ranges:
            scope = Environment((LANES,), axes)
            first, size = probe.value(low, scope), probe.value(high, scope) - probe.value(low, scope)
            active = active & (size > 0)
            steps = np.minimum(rng.integers(0, np.maximum(size, 1), LANES), rng.choice([0, 1, 1 << 60, 1 << 60], LANES))
            last = rng.choice([False, True], LANES, p=[0.8, 0.2])
            axes[name] = np.broadcast_to(first + np.where(last, np.maximum(size - 1, 0), steps), (LANES,))
    except (_UnsureError, TensorlangError):
        return None
    return _seen(question, probe, axes, active) if active.any() else None


def _seen(question: Question, probe: _Probe, axes: dict[str, Array], active: Array) -> Witness | None:
    """The first lane that lies in the ranges and meets the conditions."""
    shape = active.shape
    try:
        scope = Environment(shape, axes, active)
        for name, low, high in question.ranges:
            here = (axes[name] >= probe.value(low, scope)) & (axes[name] < probe.value(high, scope))
            scope = scope.where(np.broadcast_to(here, shape))
        for extent in question.extents:
            if probe.extent(extent) < 0:
                return None
        for condition in question.conditions:
            if not np.any(scope.active):
                return None
            scope = scope.where(np.broadcast_to(probe.value(condition, scope), shape))
        lanes = np.flatnonzero(np.broadcast_to(active if scope.active is None else scope.active, shape))
        if not lanes.size:
            return None
        at = int(lanes[0])

        def one(expr: Expr) -> Any:
            return np.broadcast_to(probe.value(expr, scope), shape)[at].item()

        point = {name: int(axes[name][at]) for name, _, _ in question.ranges}
        data = {}
        for expr in (*question.shown, *question.conditions):
            for load in _open_loads(expr):
                data[text(Load(load.buffer, tuple(Const(one(part)) for part in load.index)))] = one(load)
        return Witness({**point, **probe.dims}, dict(list(data.items())[:MAX_SHOWN]), tuple(int(one(expr)) for expr in question.shown))
    except (_UnsureError, TensorlangError):
        return None


def _open_loads(expr: Expr) -> Iterable[Load]:
    """The loads of an expression outside of reductions, inner ones first."""
    if isinstance(expr, Reduce):
        return
    for part in expr.index if isinstance(expr, Load) else children(expr):
        yield from _open_loads(part)
    if isinstance(expr, Load):
        yield expr


# All points ----------------------------------------------------------------------------------------------------------------------


def impossible(question: Question) -> bool:
    """Do the conditions hold nowhere, as a look at every point shows? False where there are too many points to look at.

    The last condition is the one in question; of the others, those are looked at that do not make it too many.
    """
    *others, claim = conjuncts(question.facts())
    bounds = Bounds(exact=frozenset(question.exact())).under((*others, claim))
    points = _Points(bounds)
    if not points.add(claim):
        return False
    for part in others:
        points.add(part)
    return points.none()


@dataclass(slots=True)
class _Points:
    """The points of conditions over few values: of axes and dims, and of loads and other opaque parts, whatever these stand for."""

    bounds: Bounds
    conditions: list[Expr] = field(default_factory=list)
    variables: dict[Expr, Axis] = field(default_factory=dict)

    def add(self, condition: Expr) -> bool:
        """Look at a condition as well, unless that takes too many points."""
        before = dict(self.variables)
        opened = self._opened(condition)
        spans = [self.bounds.values(part) for part in self.variables]
        points = math.prod(high - low + 1 for low, high in spans)
        if points <= MAX_POINTS and all(high < 1 << 63 for _, high in spans) and sum(1 for _ in walk(opened)) <= MAX_NODES:
            self.conditions.append(opened)
            return True
        self.variables = before
        return False

    def _opened(self, expr: Expr) -> Expr:
        """The expression with a variable for each part that is not computed from others here."""
        match expr:
            case Const():
                return expr
            case Cast(value, _) | Compare(_, value, _) if dtype_of(value).is_floating:
                pass
            case Axis() | Dim() | Load() | Reduce() | Call() | Param():
                pass
            case _:
                return map_children(expr, self._opened)
        return Cast(self.variables.setdefault(expr, Axis(f"v{len(self.variables)}")), dtype_of(expr))

    def none(self) -> bool:
        """Do the conditions hold together at no point?"""
        spans = [self.bounds.values(part) for part in self.variables]
        shape = tuple(high - low + 1 for low, high in spans)
        grid = np.ix_(*(np.arange(low, high + 1, dtype=np.int64) for low, high in spans))
        scope = Environment(
            shape, {axis.name: values for axis, values in zip(self.variables.values(), grid, strict=True)}, np.ones(shape, bool)
        )
        probe = _Probe({}, _Data(np.zeros(1, np.uint64), ()))
        with arithmetic.quiet():
            for condition in self.conditions:
                scope = scope.where(np.broadcast_to(probe.value(condition, scope), shape))
                if not np.any(scope.active):
                    return True
        return False
