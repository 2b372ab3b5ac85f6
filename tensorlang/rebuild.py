"""The inverse of `canonical.describe`: definitions from plain JSON that nobody vouches for.

A log may be damaged, and a job may be sent by anybody. So every value is checked before it is used, sizes and depths are bounded, types
are derived again by the rules of the surface, and a rebuilt stage goes through the same checks as one that was just written. All that
can go wrong is a `DefinitionError` that says where.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn

from tensorlang import ir
from tensorlang.canonical import SCHEMA
from tensorlang.checks import check_stage
from tensorlang.dtype import BOOL, INT64, DType, dtype
from tensorlang.elementary import select
from tensorlang.errors import DefinitionError
from tensorlang.expr import MAX_DEPTH, MAX_SIZE, Expr, binary, compare, condition, unary
from tensorlang.functions import FUNCTIONS
from tensorlang.ir import BINARY, COMPARE, UNARY
from tensorlang.simplify import simplify
from tensorlang.extent import MAX_EXTENT, checked_name
from tensorlang.tensor import Definition, Placeholder, Stage, Tensor, fresh_axis, serial

MAX_RANK: Final = 32
MAX_DEFINITIONS: Final = 1024
MAX_NODES: Final = 8 * MAX_SIZE
MAX_EXTENT_DEPTH: Final = 32
EXTENT: Final = ("dim", "neg", "add", "sub", "mul", "floordiv", "mod")


def rebuild(document: object) -> tuple[Tensor, ...]:
    """The outputs that `describe` was given, as new definitions.

    Raises `DefinitionError` for anything that `describe` does not write, and for definitions that have no meaning.
    """
    return _Reader().document(document)


def _fail(where: str, what: str, found: object) -> NoReturn:
    raise DefinitionError(f"{where}: expected {what}, found a {type(found).__name__} ({_brief(found)})")


def _brief(value: object) -> str:
    """Text of a value from outside, however long or deep."""
    if isinstance(value, (str, list, tuple, dict)):
        return f"of length {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return f"of {value.bit_length()} bits"
    return repr(value)[:40]


def _record(value: object, where: str, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(keys):
        _fail(where, f"an object with the keys {', '.join(keys)}", value)
    return value


def _list(value: object, where: str, most: int, of: int | None = None) -> list[Any]:
    if not isinstance(value, list) or len(value) > most or (of is not None and len(value) != of):
        _fail(where, f"a list of {f'at most {most}' if of is None else of}", value)
    return value


def _number(value: object, where: str, below: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < below:
        _fail(where, f"a number from 0 to {below - 1}", value)
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or len(value) > 200:
        _fail(where, "a name", value)
    return value


def _dtype(value: object, where: str) -> DType:
    return dtype(_text(value, where))


def _const(value: object, of: DType, where: str) -> ir.Const:
    """A literal as `describe` writes it: a bool, an integer of the type's range, or a floating-point number in hexadecimal."""
    if of.is_floating:
        try:
            number = float.fromhex(_text(value, where))
        except (ValueError, OverflowError):
            _fail(where, "a floating-point literal in hexadecimal", value)
        return ir.Const(number, of)
    if of == BOOL and isinstance(value, bool):
        return ir.Const(value, of)
    if of == BOOL or not isinstance(value, int) or isinstance(value, bool) or not of.lowest <= value <= of.highest:
        _fail(where, f"a literal of {of}", value)
    return ir.Const(value, of)


@dataclass(slots=True)
class _Reader:
    """Reads one document; what a later part refers to by number is kept."""

    tensors: list[Tensor] = field(default_factory=list)
    reducers: list[ir.Reducer] = field(default_factory=list)
    nodes: int = 0

    def document(self, document: object) -> tuple[Tensor, ...]:
        """The outputs."""
        top = _record(document, "a description", ("schema", "definitions", "reducers", "outputs"))
        if top["schema"] != SCHEMA or isinstance(top["schema"], bool):
            _fail("schema", str(SCHEMA), top["schema"])
        for number, entry in enumerate(_list(top["reducers"], "reducers", MAX_DEFINITIONS)):
            self.reducers.append(self.reducer(entry, f"reducer {number}"))
        for number, entry in enumerate(_list(top["definitions"], "definitions", MAX_DEFINITIONS)):
            self.definition(entry, f"definition {number}")
        numbers = _list(top["outputs"], "outputs", MAX_DEFINITIONS)
        if not numbers:
            _fail("outputs", "at least one", numbers)
        return tuple(self.tensors[_number(entry, "outputs", len(self.tensors))] for entry in numbers)

    def definition(self, entry: object, where: str) -> None:
        """One placeholder or stage, with its tensors."""
        kind = entry.get("kind") if isinstance(entry, dict) else None
        made: Definition
        if kind == "placeholder":
            record = _record(entry, where, ("kind", "name", "shape", "dtype"))
            shape = tuple(self.extent(extent, f"{where}, shape") for extent in _list(record["shape"], where, MAX_RANK))
            made, count = Placeholder(_name(record["name"], where), shape, _dtype(record["dtype"], where), serial()), 1
        elif kind == "stage":
            made = self.stage(_record(entry, where, ("kind", "name", "rank", "axes", "shape", "values")), where)
            count = len(made.values)
        else:
            _fail(where, "a placeholder or a stage", kind)
        self.tensors += [Tensor(made, component) for component in range(count)]

    def stage(self, record: dict[str, Any], where: str) -> Stage:
        """A stage that has passed the checks of the surface."""
        rank = _number(record["rank"], f"{where}, rank", MAX_RANK + 1)
        labels = [_text(label, f"{where}, axes") for label in _list(record["axes"], f"{where}, axes", MAX_DEFINITIONS)]
        if len(labels) < rank:
            _fail(f"{where}, axes", f"at least {rank} names", labels)
        axes = [fresh_axis(checked_name(label, "an axis") if label else "") for label in labels]
        shape = tuple(self.extent(extent, f"{where}, shape") for extent in _list(record["shape"], f"{where}, shape", MAX_RANK, rank))
        values = _list(record["values"], f"{where}, values", MAX_DEFINITIONS)
        if not values:
            _fail(f"{where}, values", "at least one", values)
        nodes = tuple(_Body(self, f"{where}, value {number}", axes, rank).expr(value).node for number, value in enumerate(values))
        stage = Stage(_name(record["name"], where), tuple(axes[:rank]), shape, nodes, serial())
        check_stage(stage)
        return stage

    def extent(self, value: object, where: str) -> ir.Expr:
        """An extent: a literal of at least 0, or arithmetic on dims."""
        node = self.bound(value, where)
        if isinstance(node, ir.Const) and node.value < 0:
            _fail(where, "an extent of at least 0", node.value)
        return node

    def bound(self, value: object, where: str) -> ir.Expr:
        """A bound of a reduction: a literal, or arithmetic on dims."""
        node = simplify(_Body(self, where, bound=True).expr(value).node)
        if isinstance(node, ir.Const) and not -MAX_EXTENT <= node.value <= MAX_EXTENT:
            _fail(where, "a bound of at most 2**48", node.value)
        return node

    def reducer(self, entry: object, where: str) -> ir.Reducer:
        """A reducer whose results have the types of its identities."""
        record = _record(entry, where, ("name", "identities", "results"))
        identities = []
        for value in _list(record["identities"], where, MAX_RANK):
            _, of, literal = _list(value, f"{where}, identity", MAX_RANK, 3)
            identities.append(_const(literal, _dtype(of, where), where))
        results = _list(record["results"], where, MAX_RANK, len(identities))
        types = {f"{side}{n}": identity.dtype for side in "ab" for n, identity in enumerate(identities)}
        nodes = [_Body(self, where, params=types).expr(value) for value in results]
        if not identities or any(node.dtype != identity.dtype for node, identity in zip(nodes, identities, strict=True)):
            _fail(where, "results of the identities' types", results)
        return ir.Reducer(checked_name(record["name"], "a reducer"), tuple(identities), tuple(node.node for node in nodes))


def _name(value: object, where: str) -> str | None:
    return None if value is None else checked_name(_text(value, where), "a tensor")


@dataclass(slots=True)
class _Frame:
    """An expression being read: the operands still as JSON, those already built, and what makes the whole of them."""

    operands: list[Any]
    build: Callable[[list[Expr]], Expr]
    built: list[Expr] = field(default_factory=list)


@dataclass(slots=True)
class _Body:
    """Reads expressions of one stage (`rank` of its axes are the output's), one reducer (`params`) or one extent (`bound`)."""

    reader: _Reader
    where: str
    axes: list[str] = field(default_factory=list)
    rank: int = 0
    params: dict[str, DType] | None = None
    bound: bool = False

    def expr(self, value: object) -> Expr:
        """One expression, without recursion, since nobody vouches for its depth."""
        stack = [self._frame(value)]
        while True:
            top = stack[-1]
            if len(top.built) < len(top.operands):
                stack.append(self._frame(top.operands[len(top.built)]))
            else:
                result = top.build(top.built)
                if self.bound and result.dtype != INT64:
                    _fail(self.where, "an int64 extent", result.dtype)
                stack.pop()
                if not stack:
                    return result
                stack[-1].built.append(result)
            self.reader.nodes += 1
            deepest = MAX_EXTENT_DEPTH if self.bound else MAX_DEPTH
            if len(stack) > deepest + 1 or self.reader.nodes > MAX_NODES:
                raise DefinitionError(f"{self.where}: too large (at most {MAX_NODES // 2} nodes in all, {deepest} deep)")

    def _frame(self, value: object) -> _Frame:
        if isinstance(value, int) and not isinstance(value, bool):
            return self._leaf(_const(value, INT64, self.where))
        parts = _list(value, self.where, MAX_NODES)
        op = _text(parts[0] if parts else None, self.where)
        rest = parts[1:]
        if self.bound and op not in EXTENT:
            _fail(self.where, "an extent made of literals and dims", op)
        match op:
            case "const":
                of, literal = self._exactly(rest, 2)
                return self._leaf(_const(literal, _dtype(of, self.where), self.where))
            case "axis" if self.params is None:
                (number,) = self._exactly(rest, 1)
                return self._leaf(ir.Axis(self.axes[_number(number, self.where, len(self.axes))]))
            case "dim":
                (name,) = self._exactly(rest, 1)
                return self._leaf(ir.Dim(checked_name(_text(name, self.where), "a dim")))
            case "param" if self.params is not None:
                name, of = self._exactly(rest, 2)
                if self.params.get(_text(name, self.where)) != _dtype(of, self.where):
                    _fail(self.where, "an operand of the reducer", name)
                return self._leaf(ir.Param(name, self.params[name]))
            case "load" if self.params is None and rest:
                tensor = self.reader.tensors[_number(rest[0], f"{self.where}, tensor", len(self.reader.tensors))]
                return _Frame(self._exactly(rest[1:], tensor.ndim), lambda index: tensor[tuple(index)])
            case "cast":
                of, inner = self._exactly(rest, 2)
                to = _dtype(of, self.where)
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
        return _list(parts, self.where, MAX_NODES, count)

    def _leaf(self, node: ir.Expr) -> _Frame:
        return _Frame([], lambda _: Expr(node))

    def _same(self, build: Callable[..., Expr], operands: list[Expr]) -> Expr:
        """What the surface converts by itself was written as a cast, so the operands have one type."""
        if operands[-1].dtype != operands[-2].dtype:
            raise DefinitionError(f"{self.where}: operands of different types, {operands[-2].dtype} and {operands[-1].dtype}")
        return build(*operands)

    def _call(self, parts: list[Any]) -> _Frame:
        name = _text(parts[0] if parts else None, self.where)
        row = FUNCTIONS.get(name)
        if row is None:
            raise DefinitionError(f"{self.where}: {name[:40]!r} is no function")
        _, of, *operands = self._exactly(parts, row.arity + 2)
        to = _dtype(of, self.where)

        def build(args: list[Expr]) -> Expr:
            own = args[0].dtype
            if not own.is_floating or any(arg.dtype != own for arg in args) or to != (BOOL if row.gives == "bool" else own):
                raise DefinitionError(f"{self.where}: {name} does not take {', '.join(arg.dtype for arg in args)} to {to}")
            return Expr(ir.Call(name, tuple(arg.node for arg in args), to), tuple(args))

        return _Frame(operands, build)

    def _reduce(self, number: object, values: object, ranges: object, where: object, component: object) -> _Frame:
        reducer = self.reader.reducers[_number(number, f"{self.where}, reducer", len(self.reader.reducers))]
        types = [identity.dtype for identity in reducer.identities]
        operands = self._exactly(values, len(types))
        which = _number(component, f"{self.where}, component", len(types))
        axes = []
        for entry in _list(ranges, self.where, MAX_RANK):
            axis, lo, hi = self._exactly(entry, 3)
            chosen = _number(axis, f"{self.where}, reduction axis", len(self.axes))
            name = self.axes[chosen] if chosen >= self.rank else ""
            axes.append(ir.ReduceAxis(name, self.reader.bound(lo, self.where), self.reader.bound(hi, self.where)))
        names = {axis.name for axis in axes}
        if not axes or "" in names or len(names) != len(axes):
            _fail(self.where, "different axes that are not the output's", ranges)

        def build(built: list[Expr]) -> Expr:
            cond = None if where is None else condition(built[-1], f"{self.where}, where")
            for value, of in zip(built[: len(types)], types, strict=True):
                if value.dtype != of:
                    raise DefinitionError(f"{self.where}: {reducer.name} takes {', '.join(types)}, not {value.dtype}")
            nodes = tuple(value.node for value in built[: len(types)])
            return Expr(ir.Reduce(reducer, nodes, tuple(axes), None if cond is None else cond.node, which), tuple(built))

        return _Frame(operands if where is None else [*operands, where], build)
