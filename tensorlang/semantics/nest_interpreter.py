"""The meaning of loop nests: statements run one by one, in program order, on scalars. The oracle for schedules.

It reads a nest as `ir` defines it and shares nothing with `lower`: derived axes come from their relations, a statement runs only where
the conditions of all relations in scope hold, every access is checked, and fresh storage is poisoned (NaN, or bytes of 0xA5), so that
a read of something never written shows. All loop kinds run serially. Integers are Python's, wrapped to their width after each
operation, which makes this a second opinion on the vectorised evaluator and not a copy of it.

Expressions are turned into closures once; a nest of a hundred thousand statements takes about a second.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, assert_never

import numpy as np

from tensorlang.errors import InternalError
from tensorlang.ir import (
    Alloc,
    Axis,
    Binary,
    Block,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Dim,
    Expr,
    For,
    FuseRelation,
    If,
    Load,
    Nest,
    Param,
    Prefetch,
    Reduce,
    Relation,
    Select,
    SplitRelation,
    Stmt,
    Store,
    Unary,
    WindowRelation,
)
from tensorlang.ir.dtype import DType
from tensorlang.ir.printer import equation, text
from tensorlang.ir.relations import is_ready, sides
from tensorlang.ir.traverse import dtype_of
from tensorlang.semantics import arithmetic
from tensorlang.semantics.scalars import Thunk, binary, caster, operation, scalar, unary

Action: TypeAlias = Callable[[], None]
Step: TypeAlias = Callable[[], bool]

POISON: Final = 0xA5


def run_nest(nest: Nest, arrays: Mapping[str, np.ndarray[Any, Any]], dims: Mapping[str, int]) -> None:
    """Execute `nest` on its argument buffers, which are written in place.

    Raises `InternalError` for an access out of bounds, an axis out of scope or an argument that does not fit its declaration.
    """
    machine = _Machine(nest.relations, dict(dims))
    for buffer in (*nest.inputs, *nest.outputs):
        array = arrays.get(buffer.name)
        shape = tuple(machine.value(extent)() for extent in buffer.shape)
        if array is None or array.shape != shape or array.dtype != buffer.dtype.numpy:
            found = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise InternalError(f"the argument {buffer.name} should be {buffer.dtype}{list(shape)}, but is {found}")
        machine.buffers[buffer.name] = array
    with arithmetic.quiet():
        machine.action(nest.body, frozenset())()


@dataclass(slots=True)
class _Machine:
    """The state of a run, and the closures over it."""

    relations: tuple[Relation, ...]
    dims: dict[str, int]
    axes: dict[str, int] = field(default_factory=dict)
    buffers: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)

    # Statements

    def action(self, stmt: Stmt, known: frozenset[str]) -> Action:
        """What runs `stmt` where the axes in `known` have values."""
        match stmt:
            case For():
                return self._for(stmt, known)
            case Store():
                return self._store(stmt)
            case Block(body):
                actions = [self.action(part, known) for part in body]

                def block() -> None:
                    for act in actions:
                        act()

                return block
            case If(cond, then, orelse):
                test, yes = self.value(cond), self.action(then, known)
                no = None if orelse is None else self.action(orelse, known)

                def choose() -> None:
                    if test():
                        yes()
                    elif no is not None:
                        no()

                return choose
            case Alloc(buffers, body):
                action = self.action(body, known)
                for buffer in reversed(buffers):
                    action = self._alloc(buffer, action)
                return action
            case Prefetch():
                return _nothing
            case _:
                assert_never(stmt)

    def _for(self, stmt: For, known: frozenset[str]) -> Action:
        """The loop; where the condition of a relation that becomes known fails, no statement inside runs."""
        loop, lo, hi = stmt.loop, self.value(stmt.lo), self.value(stmt.hi)
        outside, known = known, known | {loop}
        steps: list[Step] = []
        while True:
            ready = [relation for relation in self.relations if is_ready(relation, known) and not known.issuperset(sides(relation)[1])]
            if not ready:
                break
            steps += [self._step(relation) for relation in ready]
            known = known.union(*(sides(relation)[1] for relation in ready))
        inner, axes, bound = self.action(stmt.body, known), self.axes, known - outside
        if inner is _nothing and not steps and isinstance(stmt.lo, Const) and isinstance(stmt.hi, Const):
            return _nothing

        def run() -> None:
            for value in range(lo(), hi()):
                axes[loop] = value
                for step in steps:
                    if not step():
                        break
                else:
                    inner()
            for name in bound:  # a use outside the loop is a fault, and not the last value
                axes.pop(name, None)

        return run

    def _step(self, relation: Relation) -> Step:
        """What derives the axes of a relation and tells whether its condition holds."""
        axes = self.axes
        match relation:
            case SplitRelation(parent, outer, inner, factor, lo, hi, tail):
                first, last = self.value(lo), self.value(hi)

                def split() -> bool:
                    offset = axes[outer] * factor
                    if tail == "shift":
                        offset = min(offset, max(0, last() - first() - factor))
                    axes[parent] = first() + offset + axes[inner]
                    return bool(axes[parent] < last())

                return split
            case FuseRelation(fused, outer, inner, outer_lo, inner_lo, extent):
                first, second, size = self.value(outer_lo), self.value(inner_lo), self.value(extent)

                def fuse() -> bool:
                    axes[outer], axes[inner] = first() + axes[fused] // size(), second() + axes[fused] % size()
                    return True

                return fuse
            case WindowRelation(parent, inner, base, hi, _):
                start, end = self.value(base), self.value(hi)

                def window() -> bool:
                    axes[parent] = start() + axes[inner]
                    return bool(axes[parent] < end())

                return window
            case _:
                assert_never(relation)

    def _alloc(self, buffer: Buffer, body: Action) -> Action:
        extents = [self.value(extent) for extent in buffer.shape]
        poison = np.nan if buffer.dtype.is_floating else np.frombuffer(bytes([POISON] * buffer.dtype.bytes), buffer.dtype.numpy)[0]

        def allocate() -> None:
            self.buffers[buffer.name] = np.full([max(0, extent()) for extent in extents], poison, buffer.dtype.numpy)
            body()
            del self.buffers[buffer.name]

        return allocate

    def _store(self, store: Store) -> Action:
        where, values = self._place(store.index, [self.value(part) for part in store.index]), [self.value(value) for value in store.values]
        what = [f"{store.stage} writes {buffer.name}[{', '.join(map(text, store.index))}]" for buffer in store.buffers]
        if len(store.buffers) > 1:
            return self._store_all(store, where, values, what)
        buffers, (buffer,), (value,), (written,) = self.buffers, store.buffers, values, what
        name, of = buffer.name, buffer.dtype
        if store.reducer is None:

            def put() -> None:
                at = where()
                new = value()
                _checked(buffers, name, at, written)[at] = new

            return put
        combine = self._combination(store.reducer.results[0], of)

        def accumulate() -> None:
            at = where()
            new = value()
            array = _checked(buffers, name, at, written)
            array[at] = combine(scalar(array[at], of), new)

        return accumulate

    def _store_all(self, store: Store, where: Thunk, values: list[Thunk], what: list[str]) -> Action:
        """What stores an element of each of several buffers: all is read before anything is written."""
        params, reducer, dtypes = self.params, store.reducer, [buffer.dtype for buffer in store.buffers]
        results = [] if reducer is None else [self.value(result) for result in reducer.results]

        def run() -> None:
            at = where()
            new = [value() for value in values]
            arrays = [_checked(self.buffers, buffer.name, at, which) for buffer, which in zip(store.buffers, what, strict=True)]
            if results:
                for n, (array, dtype, value) in enumerate(zip(arrays, dtypes, new, strict=True)):
                    params[f"a{n}"], params[f"b{n}"] = scalar(array[at], dtype), value
                new = [result() for result in results]
            for array, value in zip(arrays, new, strict=True):
                array[at] = value

        return run

    def _combination(self, result: Expr, of: DType) -> Callable[[Any, Any], Any]:
        """What combines the state so far with a new value, where there is one component."""
        match result:
            case Binary(op, Param("a0"), Param("b0")):
                return operation(op, of)
            case _:
                params, made = self.params, self.value(result)

                def combined(old: Any, new: Any) -> Any:
                    params["a0"], params["b0"] = old, new
                    return made()

                return combined

    # Expressions

    def value(self, expr: Expr) -> Thunk:
        """What gives the value of an expression: a Python int or bool, or a NumPy scalar."""
        match expr:
            case Const(value, dtype):
                literal = scalar(dtype.rounded(value)[()], dtype)
                return lambda: literal
            case Axis(name):
                return self._named("axis", name, self.axes)
            case Dim(name):
                return self._named("dim", name, self.dims)
            case Param(name, _):
                return self._named("operand", name, self.params)
            case Load(buffer, index):
                return self._load(expr, getattr(buffer, "name", None) or "?", [self.value(part) for part in index])
            case Cast(operand, dtype):
                inner, convert = self.value(operand), caster(dtype_of(operand), dtype)
                return lambda: convert(inner())
            case Unary(op, operand):
                return unary(op, self.value(operand), dtype_of(operand))
            case Binary(op, left, right):
                return binary(op, self.value(left), self.value(right), dtype_of(left))
            case Compare(op, left, right):
                order, a, b = getattr(operator, op), self.value(left), self.value(right)
                return lambda: bool(order(a(), b()))
            case Select(cond, yes, no):
                test, a, b = self.value(cond), self.value(yes), self.value(no)
                return lambda: a() if test() else b()
            case Call(function, args, dtype):
                operands, of = _together([self.value(arg) for arg in args]), dtype_of(args[0])
                return lambda: scalar(np.asarray(arithmetic.call(function, operands(), of, dtype))[()], dtype)
            case Reduce():
                raise InternalError(f"a reduction stands in a nest: {text(expr)}")
            case _:
                assert_never(expr)

    def _named(self, kind: str, name: str, values: Mapping[str, Any]) -> Thunk:
        def read() -> Any:
            try:
                return values[name]
            except KeyError:
                explained = "; ".join(equation(relation, str) for relation in self.relations)
                raise InternalError(f"the {kind} {name} has no value here; relations: {explained or 'none'}") from None

        return read

    def _place(self, index: tuple[Expr, ...], parts: list[Thunk]) -> Callable[[], tuple[Any, ...]]:
        """What gives the place of an element; where indices are axes, these are looked up together."""
        each, names, axes = _together(parts), [part.name for part in index if isinstance(part, Axis)], self.axes
        if len(names) < 2 or len(names) < len(index):
            return each
        all_of = operator.itemgetter(*names)

        def at() -> tuple[Any, ...]:
            try:
                found: tuple[Any, ...] = all_of(axes)
            except KeyError:
                return each()  # which tells what has no value
            return found

        return at

    def _load(self, load: Load, name: str, index: list[Thunk]) -> Thunk:
        buffers, where, what = self.buffers, self._place(load.index, index), f"a read of {text(load)}"

        def floating() -> Any:
            at = where()
            return _checked(buffers, name, at, what)[at]

        def whole() -> Any:
            at = where()
            return _checked(buffers, name, at, what).item(at)

        return floating if load.buffer.dtype.is_floating else whole


def _nothing() -> None:
    """Do nothing, as a hint does."""


def _together(parts: list[Thunk]) -> Callable[[], tuple[Any, ...]]:
    """One closure that gives the values of several as a tuple."""
    match parts:
        case [one]:
            return lambda: (one(),)
        case [one, two]:
            return lambda: (one(), two())
        case _:
            return lambda: tuple([part() for part in parts])


def _checked(buffers: Mapping[str, np.ndarray[Any, Any]], name: str, at: tuple[int, ...], what: str) -> np.ndarray[Any, Any]:
    """The array in which an element is to be accessed. Raises `InternalError` where there is no such element."""
    array = buffers.get(name)
    if array is None:
        raise InternalError(f"{what}: no such buffer here")
    shape, rank = array.shape, len(at)
    inside = rank == len(shape)
    if rank == 2 and inside:  # the most frequent, without a loop
        inside = 0 <= at[0] < shape[0] and 0 <= at[1] < shape[1]
    elif inside:
        for part, size in zip(at, shape):  # noqa: B905 - there are as many
            inside = inside and 0 <= part < size
    if not inside:
        raise InternalError(f"{what}: at {list(at)}, outside {list(shape)}")
    return array
