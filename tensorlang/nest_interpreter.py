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

from tensorlang import meaning
from tensorlang.dtype import INT64, DType
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
    Fuse,
    If,
    Load,
    Nest,
    Param,
    Prefetch,
    Reduce,
    Relation,
    Select,
    Split,
    Stmt,
    Store,
    Unary,
    Window,
)
from tensorlang.printer import equation, text
from tensorlang.traverse import axes_of, dtype_of

Thunk: TypeAlias = Callable[[], Any]
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
    with meaning.quiet():
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
            case For(loop, lo, hi, body, _, _):
                return self._for(loop, self.value(lo), self.value(hi), body, known)
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
                return lambda: None
            case _:
                assert_never(stmt)

    def _for(self, loop: str, lo: Thunk, hi: Thunk, body: Stmt, known: frozenset[str]) -> Action:
        """The loop; where the condition of a relation that becomes known fails, no statement inside runs."""
        outside, known = known, known | {loop}
        steps: list[Step] = []
        while True:
            ready = [relation for relation in self.relations if _inputs(relation) <= known and not _derived(relation) <= known]
            if not ready:
                break
            steps += [self._step(relation) for relation in ready]
            known = known.union(*(_derived(relation) for relation in ready))
        inner, axes, bound = self.action(body, known), self.axes, known - outside

        def run() -> None:
            for value in range(lo(), hi()):
                axes[loop] = value
                if all(step() for step in steps):
                    inner()
            for name in bound:  # a use outside the loop is a fault, and not the last value
                axes.pop(name, None)

        return run

    def _step(self, relation: Relation) -> Step:
        """What derives the axes of a relation and tells whether its condition holds."""
        axes = self.axes
        match relation:
            case Split(parent, outer, inner, factor, lo, hi, tail):
                first, last = self.value(lo), self.value(hi)

                def split() -> bool:
                    offset = axes[outer] * factor
                    if tail == "shift":
                        offset = min(offset, max(0, last() - first() - factor))
                    axes[parent] = first() + offset + axes[inner]
                    return bool(axes[parent] < last())

                return split
            case Fuse(fused, outer, inner, outer_lo, inner_lo, extent):
                first, second, size = self.value(outer_lo), self.value(inner_lo), self.value(extent)

                def fuse() -> bool:
                    axes[outer], axes[inner] = first() + axes[fused] // size(), second() + axes[fused] % size()
                    return True

                return fuse
            case Window(parent, inner, base, hi, _):
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
        index = [self.value(part) for part in store.index]
        values = [self.value(value) for value in store.values]
        where = [f"{store.stage} writes {buffer.name}[{', '.join(text(part) for part in store.index)}]" for buffer in store.buffers]
        reducer = store.reducer
        results = [] if reducer is None else [self.value(result) for result in reducer.results]
        names = [buffer.name for buffer in store.buffers]

        def run() -> None:
            at = tuple([part() for part in index])
            new = [value() for value in values]
            for name, what in zip(names, where, strict=True):
                _check(self.buffers, name, at, what)
            if results:
                for n, (buffer, value) in enumerate(zip(store.buffers, new, strict=True)):
                    self.params[f"a{n}"], self.params[f"b{n}"] = _scalar(self.buffers[buffer.name][at], buffer.dtype), value
                new = [result() for result in results]
            for name, value in zip(names, new, strict=True):
                self.buffers[name][at] = value

        return run

    # Expressions

    def value(self, expr: Expr) -> Thunk:
        """What gives the value of an expression: a Python int or bool, or a NumPy scalar."""
        match expr:
            case Const(value, dtype):
                literal = _scalar(np.asarray(value, dtype.numpy)[()], dtype)
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
                inner, source = self.value(operand), dtype_of(operand)
                return lambda: _cast(inner(), source, dtype)
            case Unary(op, operand):
                return _unary(op, self.value(operand), dtype_of(operand))
            case Binary(op, left, right):
                return _binary(op, self.value(left), self.value(right), dtype_of(left))
            case Compare(op, left, right):
                order, a, b = getattr(operator, op), self.value(left), self.value(right)
                return lambda: bool(order(a(), b()))
            case Select(cond, yes, no):
                test, a, b = self.value(cond), self.value(yes), self.value(no)
                return lambda: a() if test() else b()
            case Call(function, args, dtype):
                parts, of = [self.value(arg) for arg in args], dtype_of(args[0])
                return lambda: _scalar(np.asarray(meaning.call(function, tuple([part() for part in parts]), of, dtype))[()], dtype)
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

    def _load(self, load: Load, name: str, index: list[Thunk]) -> Thunk:
        dtype, what = load.buffer.dtype, f"a read of {text(load)}"

        def run() -> Any:
            at = tuple([part() for part in index])
            _check(self.buffers, name, at, what)
            return _scalar(self.buffers[name][at], dtype)

        return run


def _check(buffers: Mapping[str, np.ndarray[Any, Any]], name: str, at: tuple[int, ...], what: str) -> None:
    if name not in buffers:
        raise InternalError(f"{what}: no such buffer here")
    shape = buffers[name].shape
    if len(at) != len(shape) or not all(0 <= part < size for part, size in zip(at, shape, strict=True)):
        raise InternalError(f"{what}: at {list(at)}, outside {list(shape)}")


def _inputs(relation: Relation) -> frozenset[str]:
    """The axes that a relation's equation and condition need."""
    match relation:
        case Split(_, outer, inner, _, lo, hi, _):
            return axes_of(lo) | axes_of(hi) | {outer, inner}
        case Fuse(fused, _, _, outer_lo, inner_lo, extent):
            return axes_of(outer_lo) | axes_of(inner_lo) | axes_of(extent) | {fused}
        case Window(_, inner, base, hi, _):
            return axes_of(base) | axes_of(hi) | {inner}
        case _:
            assert_never(relation)


def _derived(relation: Relation) -> frozenset[str]:
    """The axes that a relation gives."""
    match relation:
        case Split(parent=parent) | Window(parent=parent):
            return frozenset({parent})
        case Fuse(outer=outer, inner=inner):
            return frozenset({outer, inner})
        case _:
            assert_never(relation)


# Scalars -------------------------------------------------------------------------------------------------------------------------

_FLOATING: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
    "fmin": np.fmin,
    "fmax": np.fmax,
}
_WHOLE: Final[dict[str, Callable[[Any], Any]]] = {"neg": operator.neg, "abs": abs, "not": operator.invert}


def _scalar(value: Any, dtype: DType) -> Any:
    """A NumPy scalar as what expressions compute with."""
    if dtype.is_floating:
        return value
    return bool(value) if dtype.kind == "bool" else int(value)


def _wrapped(value: int, dtype: DType) -> Any:
    if dtype.kind == "bool":
        return bool(value)
    if dtype == INT64 and -(1 << 63) <= value < 1 << 63:  # by far the most frequent: an index
        return value
    low = value & ((1 << dtype.bits) - 1)
    return low - (1 << dtype.bits) if dtype.kind == "signed" and low >> (dtype.bits - 1) else low


def _cast(value: Any, source: DType, target: DType) -> Any:
    if source.is_floating or target.is_floating:
        return _scalar(np.asarray(meaning.cast(np.asarray(value, source.numpy), source, target))[()], target)
    return value != 0 if target.kind == "bool" else _wrapped(int(value), target)


def _unary(op: str, inner: Thunk, of: DType) -> Thunk:
    if of.is_floating:
        return (lambda: -inner()) if op == "neg" else (lambda: abs(inner()))
    if of.kind == "bool":
        return lambda: not inner()
    plain = _WHOLE[op]
    return lambda: _wrapped(plain(inner()), of)


def _integer(op: str, a: int, b: int, of: DType) -> int:
    match op:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "floordiv":
            return a // b if b else 0
        case "mod":
            return a % b if b else 0
        case "and":
            return a & b
        case "or":
            return a | b
        case "xor":
            return a ^ b
        case "shl":
            return a << b if 0 <= b < of.bits else 0
        case "shr":
            return a >> (b if 0 <= b < of.bits else of.bits)
        case "min" | "fmin":
            return min(a, b)
        case "max" | "fmax":
            return max(a, b)
        case _:
            raise InternalError(f"{op} has no meaning on {of}")


def _binary(op: str, left: Thunk, right: Thunk, of: DType) -> Thunk:
    if not of.is_floating:
        return lambda: _wrapped(_integer(op, left(), right(), of), of)
    if of in meaning.HALF:
        return lambda: np.asarray(meaning.binary(op, left(), right(), of))[()]
    act = _FLOATING[op]
    return lambda: act(left(), right())
