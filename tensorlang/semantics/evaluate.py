"""The meaning of definitions: a slow, simple evaluator that shares no lowering and no code generation with kernels.

Definitions are evaluated in definition order, straight from their expressions: a recurrence in row-major order, a scan step by step, a
scatter element by element. A value is a NumPy array over the whole output domain in
which every axis is a broadcast range, so that memory stays in proportion to the output; a reduction adds a leading dimension and runs
over it in order, in chunks that keep arrays small. Lanes in which a condition does not hold are masked: they are computed with the
rest, but read nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, assert_never

import numpy as np

from tensorlang.algebra.bounds import INDEX_LIMIT
from tensorlang.definition.sequential import leading
from tensorlang.definition.tensor import (
    Definition,
    Itself,
    Placeholder,
    Scan,
    Scatter,
    Stage,
    State,
    Tensor,
    operands,
)
from tensorlang.errors import InternalError
from tensorlang.ir import Axis, Binary, Call, Cast, Compare, Const, Dim, Expr, Load, Param, Reduce, ReduceAxis, Reducer, Select, Unary
from tensorlang.ir.integers import known_value
from tensorlang.ir.printer import text
from tensorlang.ir.traverse import dtype_of, walk
from tensorlang.semantics import arithmetic
from tensorlang.semantics.arithmetic import Array
from tensorlang.semantics.binding import shape_of
from tensorlang.semantics.environment import Environment, clipped_index, is_exact, is_plain, plain, with_leading_axis
from tensorlang.semantics.partial_array import PartialArray

CHUNK: Final = 1 << 16
"""Elements that a chunk of a reduction may hold, unless the output alone is larger."""


class ReferenceEvaluator:
    """The arrays known so far, and the value of expressions over them."""

    def __init__(self, dims: dict[str, int], arrays: dict[tuple[Definition, int], Array]) -> None:
        self.dims = dims
        self.arrays = arrays
        self.partial: dict[tuple[Definition, int], PartialArray] = {}
        self.time: dict[str, Array] = {}
        self.past: dict[Itself, Array] = {}

    def extent(self, node: Expr) -> int:
        """The value of a bound."""
        value = known_value(node, self.dims)
        if value is None:
            raise InternalError(f"the bound {text(node)} is not a literal and not made of dims")
        return value

    def sizes(self, axes: tuple[ReduceAxis, ...], scope: Environment) -> list[int]:
        """The greatest extent that each axis of a domain has in any lane that counts."""
        found: list[int] = []
        for depth, axis in enumerate(axes):
            size = 0
            for inner in self.points(axes[:depth], found, scope):
                lo, hi = (np.clip(self.value(bound, inner), -INDEX_LIMIT, INDEX_LIMIT) for bound in (axis.lo, axis.hi))
                extents = hi - lo if inner.active is None else np.where(inner.active, hi - lo, 0)
                size = max(size, int(np.max(extents, initial=0)))
                if is_plain(axis):
                    break
            found.append(size)
        return found

    def points(
        self, axes: tuple[ReduceAxis, ...], sizes: list[int], scope: Environment, length: int | None = None
    ) -> Iterator[Environment]:
        """The points of a domain in row-major order, chunk by chunk: scopes with a leading dimension, in which other points are masked."""
        total = math.prod(sizes)
        length = length or max(1, CHUNK // max(1, math.prod(scope.shape)))
        for start in range(0, total, length):
            positions = np.arange(start, min(total, start + length), dtype=np.int64)
            inner = replace(scope, shape=(len(positions), *scope.shape), axes=dict(scope.axes))
            steps: list[Array] = []
            for size in reversed(sizes):
                positions, step = np.divmod(positions, size)
                steps.append(step.reshape([-1] + [1] * len(scope.shape)))
            for axis, step in zip(axes, reversed(steps), strict=True):
                lo, hi = (np.clip(self.value(bound, inner), -INDEX_LIMIT, INDEX_LIMIT) for bound in (axis.lo, axis.hi))
                inner.axes[axis.name] = lo + step
                if not is_plain(axis):
                    inner = inner.where(lo + step < hi)
            yield inner

    def steps(self, definition: Definition) -> int:
        """About how many scalar steps all elements of a stage take; 0 for what can only be evaluated whole."""
        if not isinstance(definition, Stage) or definition.itself:
            return 0
        reductions = [node for value in definition.values for node in walk(value) if isinstance(node, Reduce)]
        inner = sum(math.prod(self.sizes(tuple(filter(is_plain, node.axes)), Environment((), {}))) for node in reductions)
        return math.prod(shape_of(Tensor(definition), self.dims)) * (1 + inner)

    def materialise(self, definition: Definition) -> None:
        """Evaluate every element of a definition."""
        match definition:
            case Placeholder() | State():
                pass
            case Stage(_, axes, _, values, _, ()):
                shape = shape_of(Tensor(definition), self.dims)
                ranges = self._grid(axes, shape)
                for component, value in enumerate(values):
                    result = self.value(value, Environment(shape, ranges)) if math.prod(shape) else np.zeros((), dtype_of(value).numpy)
                    self.arrays[definition, component] = np.ascontiguousarray(np.broadcast_to(result, shape)).reshape(shape)
            case Stage():
                self._recurrence(definition)
            case Scatter():
                self._scatter(definition)
            case Scan():
                self._scan(definition)
            case _:
                assert_never(definition)

    def _grid(self, axes: tuple[str, ...], shape: tuple[int, ...]) -> dict[str, Array]:
        """The values of axes over a shape, and of the scans around."""
        grid = np.ix_(*(np.arange(size, dtype=np.int64) for size in shape))
        return {**self.time, **dict(zip(axes, grid, strict=True))}

    def _recurrence(self, stage: Stage) -> None:
        """Row-major order: together only the elements that read none of each other."""
        shape = shape_of(Tensor(stage), self.dims)
        depth = leading(stage)
        results = [np.zeros(shape, dtype_of(value).numpy) for value in stage.values]
        for itself, result in zip(stage.itself, results, strict=True):
            self.past[itself] = self.arrays[stage, itself.component] = result
        inner = self._grid(stage.axes[depth:], shape[depth:])
        for place in np.ndindex(shape[:depth]) if math.prod(shape) else ():
            fixed = {axis: np.asarray(value, np.int64) for axis, value in zip(stage.axes, place, strict=False)}
            scope = Environment(shape[depth:], {**inner, **fixed})
            for result, value in zip(results, [self.value(value, scope) for value in stage.values], strict=True):
                result[place] = value
        for itself in stage.itself:
            del self.past[itself]

    def _scatter(self, scatter: Scatter) -> None:
        """Every store after the other, in row-major order of the axes."""
        init = Tensor(scatter)
        result = np.array(self._whole(scatter.init), order="C").reshape(shape_of(init, self.dims))
        self.arrays[scatter, 0] = result
        outer = Environment((), dict(self.time))
        sizes = self.sizes(scatter.axes, outer)
        for scope in self.points(scatter.axes, sizes, outer, math.prod(sizes)):
            self._scattered(scatter, scope, result)

    def _scattered(self, scatter: Scatter, scope: Environment, result: Array) -> None:
        """The stores of some points of a scatter's domain."""
        shape = scope.shape
        active = np.ones(shape, bool) if scope.active is None else np.broadcast_to(scope.active, shape)
        if scatter.where is not None and active.any():
            active = active & np.broadcast_to(self.value(scatter.where, scope), shape)
            scope = scope.where(active)
        if not active.any():
            return
        places = [np.broadcast_to(self.value(part, scope), shape)[active] for part in scatter.index]
        values = np.broadcast_to(self.value(scatter.value, scope), shape)[active]
        for *place, value in zip(*places, values, strict=True):
            at = tuple(place)
            if scatter.reducer is not None:
                (value,) = self._combined(scatter.reducer, (np.asarray(result[at]),), (np.asarray(value),))  # noqa: PLW2901 - combined
            result[at] = value

    def _scan(self, scan: Scan) -> None:
        """Step after step, each from the states that the one before left."""
        length = self.extent(scan.axis.hi)
        states = [self._whole(init) for init in scan.init]
        kept: list[list[Array]] = [[] for _ in states]
        for time in range(length):
            self.time[scan.axis.name] = np.asarray(time, np.int64)
            for state, array in zip(scan.states, states, strict=True):
                self.arrays[state, 0] = array
            for definition in scan.body:
                self.materialise(definition)
            states = [self._whole(tensor) for tensor in scan.following]
            for stack, array in zip(kept, states, strict=True):
                stack.append(array)
        self.time.pop(scan.axis.name, None)
        for component, (stack, last) in enumerate(zip(kept, states, strict=True)):
            whole = np.stack(stack) if stack else np.zeros((0, *last.shape), last.dtype)
            self.arrays[scan, component] = whole if scan.keep[component] == "all" else last

    def _whole(self, tensor: Tensor) -> Array:
        """A tensor that has been evaluated, or is evaluated now."""
        if (tensor.definition, tensor.component) not in self.arrays:
            for read in operands(tensor.definition):
                self._whole(read)
            self.materialise(tensor.definition)
        return self.arrays[tensor.definition, tensor.component]

    def elements(self, tensor: Tensor, index: tuple[Array, ...], count: int) -> Array:
        """`count` elements of a tensor, read where it is known and evaluated where not."""
        known = self.arrays.get((tensor.definition, tensor.component))
        definition = tensor.definition
        if known is None and not (isinstance(definition, Stage) and not definition.itself):
            known = self._whole(tensor)
        if known is not None:
            return np.array(np.broadcast_to(known[index], (count,)))
        assert isinstance(definition, Stage)
        axes = {**self.time, **dict(zip(definition.axes, index, strict=True))}
        value = definition.values[tensor.component]
        result = self.value(value, Environment((count,), axes)) if count else np.zeros((), dtype_of(value).numpy)
        return np.array(np.broadcast_to(result, (count,)))

    def value(self, expr: Expr, scope: Environment) -> Array:
        """The value of an expression, of a shape that broadcasts to the scope's."""
        match expr:
            case Const():
                return arithmetic.literal(expr)
            case Axis(name):
                return scope.axes[name]
            case Dim():
                return np.asarray(self.extent(expr), np.int64)
            case Param(name, _):
                return scope.params[name]
            case Cast(operand, dtype):
                return np.asarray(arithmetic.cast(self.value(operand, scope), dtype_of(operand), dtype))
            case Unary(op, operand):
                return np.asarray(arithmetic.unary(op, self.value(operand, scope), dtype_of(operand)))
            case Binary(op, left, right):
                return np.asarray(arithmetic.binary(op, self.value(left, scope), self.value(right, scope), dtype_of(left)))
            case Compare(op, left, right):
                return np.asarray(arithmetic.compare(op, self.value(left, scope), self.value(right, scope), dtype_of(left)))
            case Call(function, args, dtype):
                return np.asarray(arithmetic.call(function, tuple([self.value(arg, scope) for arg in args]), dtype_of(args[0]), dtype))
            case Select(cond, yes, no):
                chosen = self.value(cond, scope)
                on, off = scope.where(chosen), scope.where(~chosen)
                if not np.any(off.active):
                    return self.value(yes, scope)
                if not np.any(on.active):
                    return self.value(no, scope)
                return np.where(chosen, self.value(yes, on), self.value(no, off))
            case Load(buffer, index):
                places = tuple([self.value(part, scope) for part in index])
                if isinstance(buffer, Itself):
                    past = self.past[buffer]
                    return np.asarray(past[clipped_index(places, past.shape, scope.active, text(expr))])
                if not isinstance(buffer, Tensor):
                    raise InternalError(f"{text(expr)} does not read a tensor")
                return self._load(buffer, places, scope.active)
            case Reduce():
                return self._reduce(expr, scope)
            case _:
                assert_never(expr)

    def _load(self, tensor: Tensor, index: tuple[Array, ...], active: Array | None) -> Array:
        shape = shape_of(tensor, self.dims)
        known = self.arrays.get((tensor.definition, tensor.component))
        places = clipped_index(index, shape, active, repr(tensor))
        if 0 in shape:
            return np.zeros((), tensor.dtype.numpy)
        if known is not None:
            return np.asarray(known[places])
        lanes = np.broadcast_arrays(*places)
        flat = np.ravel_multi_index(tuple(lanes), shape) if shape else np.zeros((), np.int64)
        key = tensor.definition, tensor.component
        if key not in self.partial:
            self.partial[key] = PartialArray(math.prod(shape), tensor.dtype.numpy)
        return self.partial[key].read(
            np.asarray(flat), lambda places: self.elements(tensor, np.unravel_index(places, shape) if shape else (), len(places))
        )

    def _reduce(self, node: Reduce, scope: Environment) -> Array:
        """The final state's component, over the domain in row-major order, chunk by chunk."""
        masked = node.where is not None or not all(map(is_plain, node.axes))
        state = tuple(arithmetic.literal(identity) for identity in node.reducer.identities)
        for inner in self.points(node.axes, self.sizes(node.axes, scope), scope):
            shape = inner.shape
            if node.where is not None and (inner.active is None or np.any(inner.active)):
                inner = inner.where(self.value(node.where, inner))  # noqa: PLW2901 - the lanes that count
            if masked and not np.any(inner.active):
                continue
            values = [with_leading_axis(self.value(value, inner), shape) for value in node.values]
            active = with_leading_axis(inner.active, shape) if masked and inner.active is not None else None
            state = self._combine(node.reducer, state, values, active)
        return state[node.component]

    def _combine(self, reducer: Reducer, state: tuple[Array, ...], values: list[Array], active: Array | None) -> tuple[Array, ...]:
        """`state` combined with `values` along their leading dimension, in order, in the active lanes."""
        op = plain(reducer)
        if op is not None:
            dtype = reducer.identities[0].dtype
            rest = arithmetic.neutral(op, dtype)
            if rest is not None:
                chosen = values[0] if active is None else np.where(active, values[0], rest)
                return (arithmetic.fold(op, state[0], chosen),)
        if is_exact(reducer):
            parts = tuple(values)
            if active is not None:
                identities = [arithmetic.literal(identity) for identity in reducer.identities]
                parts = tuple(np.where(active, value, identity) for value, identity in zip(parts, identities, strict=True))
            while len(parts[0]):
                half = len(parts[0]) // 2
                if len(parts[0]) % 2:
                    state = self._combined(reducer, state, tuple(part[-1] for part in parts))
                if not half:
                    break
                pairs = (tuple(part[:half] for part in parts), tuple(part[half : 2 * half] for part in parts))
                parts = tuple(with_leading_axis(part, (half, *values[0].shape[1:])) for part in self._combined(reducer, *pairs))
            return state
        for step in range(len(values[0])):
            new = self._combined(reducer, state, tuple(value[step] for value in values))
            state = new if active is None else tuple(np.where(active[step], a, b) for a, b in zip(new, state, strict=True))
        return state

    def _combined(self, reducer: Reducer, old: tuple[Array, ...], new: tuple[Array, ...]) -> tuple[Array, ...]:
        params = {f"{side}{n}": value for side, parts in (("a", old), ("b", new)) for n, value in enumerate(parts)}
        scope = Environment(np.broadcast_shapes(*(value.shape for value in params.values())), {}, None, params)
        return tuple(self.value(result, scope) for result in reducer.results)


def combine(reducer: Reducer, old: tuple[Array, ...], new: tuple[Array, ...]) -> tuple[Array, ...]:
    """What a reducer makes of two states, element by element."""
    with arithmetic.quiet():
        return ReferenceEvaluator({}, {})._combined(reducer, old, new)  # noqa: SLF001 - the same module
