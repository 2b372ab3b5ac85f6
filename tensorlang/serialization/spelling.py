"""Expressions from the JSON spelling that `canonical` documents, every value of which is checked before it is used."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.definition.elementary import select
from tensorlang.definition.expr import MAX_DEPTH, MAX_SIZE, Expr, binary, compare, condition, unary
from tensorlang.definition.extent import MAX_EXTENT, dim
from tensorlang.definition.tensor import Itself, Tensor
from tensorlang.errors import DefinitionError
from tensorlang.ir import BINARY, COMPARE, UNARY
from tensorlang.ir.dtype import BOOL, INT64, DType, dtype
from tensorlang.ir.functions import FUNCTIONS
from tensorlang.language.domain import axis_bound

_HALF: Final = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON can spell and no encoding can write."""

MAX_RANK: Final = 32
MAX_DEFINITIONS: Final = 1024
MAX_NODES: Final = 8 * MAX_SIZE
MAX_EXTENT_DEPTH: Final = 32
EXTENT: Final = ("dim", "neg", "add", "sub", "mul", "floordiv", "mod")


@dataclass(slots=True)
class SymbolTable:
    """What expressions refer to by number: tensors, reducers, the time axes of the scans around; and how many nodes were read."""

    tensors: list[Tensor] = field(default_factory=list)
    reducers: list[ir.Reducer] = field(default_factory=list)
    times: list[ir.ReduceAxis] = field(default_factory=list)
    nodes: int = 0

    def extent(self, value: object, where: str) -> ir.Expr:
        """An extent: a literal of at least 0, or arithmetic on dims."""
        node = simplify(Body(self, where, extent=True).expr(value).node)
        if isinstance(node, ir.Const) and not 0 <= node.value <= MAX_EXTENT:
            fail(where, "an extent of at least 0" if node.value < 0 else "a bound of at most 2**48", node.value)
        return node

    def shape(self, value: object, where: str, rank: int | None = None) -> tuple[ir.Expr, ...]:
        """A shape."""
        return tuple(self.extent(extent, f"{where}, shape") for extent in read_list(value, f"{where}, shape", MAX_RANK, rank))


def fail(where: str, what: str, found: object) -> NoReturn:
    """Refuse `found`."""
    raise DefinitionError(f"{where}: expected {what}, found a {type(found).__name__} ({_brief(found)})")


def _brief(value: object) -> str:
    """Text of a value from outside, however long or deep."""
    if isinstance(value, (str, list, tuple, dict)):
        return f"of length {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return f"of {value.bit_length()} bits"
    return repr(value)[:40]


def read_record(value: object, where: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """An object with exactly these keys."""
    if not isinstance(value, dict) or set(value) != set(keys):
        fail(where, f"an object with the keys {', '.join(keys)}", value)
    return value


def read_list(value: object, where: str, most: int, of: int | None = None) -> list[Any]:
    """A list of `of`, or at most `most`."""
    if not isinstance(value, list) or len(value) > most or (of is not None and len(value) != of):
        fail(where, f"a list of {f'at most {most}' if of is None else of}", value)
    return value


def read_number(value: object, where: str, below: int) -> int:
    """A number from 0 on."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < below:
        fail(where, f"a number from 0 to {below - 1}", value)
    return value


def read_text(value: object, where: str, most: int = 200) -> str:
    """A string of at most so many characters, all of them whole."""
    if not isinstance(value, str) or len(value) > most or _HALF.search(value):
        fail(where, "a name" if most == 200 else f"a text of at most {most} characters", value)
    return value


def read_dtype(value: object, where: str) -> DType:
    """A type."""
    return dtype(read_text(value, where))


def read_const(value: object, of: DType, where: str) -> ir.Const:
    """A literal as `describe` writes it: a bool, an integer of the type's range, or a floating-point number in hexadecimal."""
    if of.is_floating:
        try:
            number = float.fromhex(read_text(value, where))
        except (ValueError, OverflowError):
            fail(where, "a floating-point literal in hexadecimal", value)
        return ir.Const(number, of)
    if of == BOOL and isinstance(value, bool):
        return ir.Const(value, of)
    if of == BOOL or not isinstance(value, int) or isinstance(value, bool) or not of.lowest <= value <= of.highest:
        fail(where, f"a literal of {of}", value)
    return ir.Const(value, of)


@dataclass(slots=True)
class _Frame:
    """An expression being read: the operands still as JSON, those already built, and what makes the whole of them."""

    operands: list[Any]
    build: Callable[[list[Expr]], Expr]
    built: list[Expr] = field(default_factory=list)


def _element(itself: Itself, index: list[Expr]) -> Expr:
    if any(part.dtype != INT64 for part in index):
        raise DefinitionError("self: an index is not int64")
    return Expr(ir.Load(itself, tuple(part.node for part in index)), tuple(index))


@dataclass(slots=True)
class Body:
    """Reads expressions of one stage (`rank` of its axes are the output's), one reducer (`params`) or one extent (`extent`)."""

    known: SymbolTable
    where: str
    axes: list[str] = field(default_factory=list)
    rank: int = 0
    params: dict[str, DType] | None = None
    extent: bool = False
    itself: tuple[Itself, ...] = ()

    def expr(self, value: object) -> Expr:
        """One expression, without recursion, since nobody vouches for its depth."""
        stack = [self._frame(value)]
        while True:
            top = stack[-1]
            if len(top.built) < len(top.operands):
                stack.append(self._frame(top.operands[len(top.built)]))
            else:
                result = top.build(top.built)
                if self.extent and result.dtype != INT64:
                    fail(self.where, "an int64 extent", result.dtype)
                stack.pop()
                if not stack:
                    return result
                stack[-1].built.append(result)
            self.known.nodes += 1
            deepest = MAX_EXTENT_DEPTH if self.extent else MAX_DEPTH
            if len(stack) > deepest + 1 or self.known.nodes > MAX_NODES:
                raise DefinitionError(f"{self.where}: too large (at most {MAX_NODES // 2} nodes in all, {deepest} deep)")

    def _frame(self, value: object) -> _Frame:
        if isinstance(value, int) and not isinstance(value, bool):
            return self._leaf(read_const(value, INT64, self.where))
        parts = read_list(value, self.where, MAX_NODES)
        op = read_text(parts[0] if parts else None, self.where)
        rest = parts[1:]
        if self.extent and op not in EXTENT:
            fail(self.where, "an extent made of literals and dims", op)
        match op:
            case "const":
                of, literal = self._exactly(rest, 2)
                return self._leaf(read_const(literal, read_dtype(of, self.where), self.where))
            case "axis" if self.params is None:
                (number,) = self._exactly(rest, 1)
                return self._leaf(ir.Axis(self.axes[read_number(number, self.where, len(self.axes))]))
            case "dim":
                name, *bounds = self._exactly(rest, len(rest) if len(rest) in (1, 3) else 1)
                pair = [read_number(bound, f"{self.where}, bound of a dim", MAX_EXTENT + 1) for bound in bounds]
                return self._leaf(dim(read_text(name, self.where), *pair).node)
            case "param" if self.params is not None:
                name, of = self._exactly(rest, 2)
                if self.params.get(read_text(name, self.where)) != read_dtype(of, self.where):
                    fail(self.where, "an operand of the reducer", name)
                return self._leaf(ir.Param(name, self.params[name]))
            case "load" if self.params is None and rest:
                tensor = self.known.tensors[read_number(rest[0], f"{self.where}, tensor", len(self.known.tensors))]
                return _Frame(self._exactly(rest[1:], tensor.ndim), lambda index: tensor[tuple(index)])
            case "self" | "past" if len(self.itself) > (1 if op == "past" else 0):
                component = read_number(rest.pop(0) if op == "past" and rest else 0, f"{self.where}, component", len(self.itself))
                itself = self.itself[component]
                return _Frame(self._exactly(rest, self.rank), lambda index: _element(itself, index))
            case "time" if self.params is None:
                (number,) = self._exactly(rest, 1)
                return self._leaf(ir.Axis(self.known.times[read_number(number, self.where, len(self.known.times))].name))
            case "cast":
                of, inner = self._exactly(rest, 2)
                to = read_dtype(of, self.where)
                return _Frame([inner], lambda built: Expr(ir.Cast(built[0].node, to), tuple(built)))
            case "select":
                return _Frame(self._exactly(rest, 3), lambda built: self._same(select, built))
            case "call":
                return self._call(rest)
            case "reduce" if self.params is None:
                return self._reduce(*self._exactly(rest, 5))
            case _ if op in UNARY:
                return _Frame(self._exactly(rest, 1), lambda built: unary(op, built[0]))
            case _ if op in COMPARE:
                return _Frame(self._exactly(rest, 2), lambda built: self._same(partial(compare, op), built))
            case _ if op in BINARY:
                return _Frame(self._exactly(rest, 2), lambda built: self._same(partial(binary, op), built))
            case _:
                raise DefinitionError(f"{self.where}: {op[:40]!r} is no expression here")

    def _exactly(self, parts: object, count: int) -> list[Any]:
        return read_list(parts, self.where, MAX_NODES, count)

    def _leaf(self, node: ir.Expr) -> _Frame:
        return _Frame([], lambda _: Expr(node))

    def _same(self, build: Callable[..., Expr], operands: list[Expr]) -> Expr:
        """What the surface converts by itself was written as a cast, so the operands have one type."""
        if operands[-1].dtype != operands[-2].dtype:
            raise DefinitionError(f"{self.where}: operands of different types, {operands[-2].dtype} and {operands[-1].dtype}")
        return build(*operands)

    def _call(self, parts: list[Any]) -> _Frame:
        name = read_text(parts[0] if parts else None, self.where)
        row = FUNCTIONS.get(name)
        if row is None:
            raise DefinitionError(f"{self.where}: {name[:40]!r} is no function")
        _, of, *operands = self._exactly(parts, row.arity + 2)
        to = read_dtype(of, self.where)

        def build(args: list[Expr]) -> Expr:
            own = args[0].dtype
            if not own.is_floating or any(arg.dtype != own for arg in args) or to != (BOOL if row.gives == "bool" else own):
                raise DefinitionError(f"{self.where}: {name} does not take {', '.join(arg.dtype for arg in args)} to {to}")
            return Expr(ir.Call(name, tuple(arg.node for arg in args), to), tuple(args))

        return _Frame(operands, build)

    def _reduce(self, number: object, values: object, ranges: object, where: object, component: object) -> _Frame:
        reducer = self.known.reducers[read_number(number, f"{self.where}, reducer", len(self.known.reducers))]
        types = [identity.dtype for identity in reducer.identities]
        operands = self._exactly(values, len(types))
        which = read_number(component, f"{self.where}, component", len(types))
        names, bounds = list[str](), list[Any]()
        for entry in read_list(ranges, self.where, MAX_RANK):
            axis, lo, hi = self._exactly(entry, 3)
            chosen = read_number(axis, f"{self.where}, reduction axis", len(self.axes))
            names.append(self.axes[chosen] if chosen >= self.rank else "")
            bounds += [lo, hi]
        if not names or "" in names or len(set(names)) != len(names):
            fail(self.where, "different axes that are not the output's", ranges)

        def build(built: list[Expr]) -> Expr:
            ends = [self.bounding(end) for end in built[len(types) : len(types) + len(bounds)]]
            axes = tuple(ir.ReduceAxis(name, *ends[2 * n : 2 * n + 2]) for n, name in enumerate(names))
            cond = None if where is None else condition(built[-1], f"{self.where}, where")
            for value, of in zip(built[: len(types)], types, strict=True):
                if value.dtype != of:
                    raise DefinitionError(f"{self.where}: {reducer.name} takes {', '.join(types)}, not {value.dtype}")
            nodes = tuple(value.node for value in built[: len(types)])
            return Expr(ir.Reduce(reducer, nodes, axes, None if cond is None else cond.node, which), tuple(built))

        return _Frame([*operands, *bounds, *(() if where is None else (where,))], build)

    def bounding(self, bound: Expr) -> ir.Expr:
        """A bound of an axis, by the rules of `reduce_axis`."""
        if bound.dtype != INT64:
            fail(self.where, "an int64 bound", bound.dtype)
        node = simplify(axis_bound(bound).node)
        if isinstance(node, ir.Const) and not -MAX_EXTENT <= node.value <= MAX_EXTENT:
            fail(self.where, "a bound of at most 2**48", node.value)
        return node
