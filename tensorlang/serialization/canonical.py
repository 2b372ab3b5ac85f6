"""Definitions as plain JSON: to store them in logs, to rebuild them in another process, and to name them by content.

`describe` keeps everything that a schedule can see: names, structure, types. Axes are numbered within their stage in the order in
which they appear, so that no process-wide serial shows. `fingerprint` is the digest of the same description with the names left out
and everything in order of first use (`definition.first_use`), so that it does not depend on when a part was made; `family` leaves the
literal extents out too, so that one operator at two sizes is one family, and `extents` are what was left out. The inverse of `describe`
is `rebuild`.

Expressions are nested lists, spelled as the grammar of `ir`:

    int                            an int64 literal
    ["const", dtype, value]        another literal; floating-point values in hexadecimal
    ["axis", n]                    axis n of the stage
    ["dim", name]  ["dim", name, least, most]  ["param", name, dtype]  ["load", tensor, index*]  ["cast", dtype, value]
    ["neg", value] ... ["add", left, right] ... ["lt", left, right] ... ["select", cond, yes, no]
    ["call", function, dtype, args*]
    ["reduce", reducer, [values*], [[axis, lo, hi]*], where or null, component]
    ["self", index*]               an earlier element of the recurrence itself; of one of several tensors, ["past", component, index*]

The definitions of a scan's step stand in the scan; its states have the numbers after those of its `init`, and its time axis is one that
they share: `["time", n]`, counted from the outermost scan. An operand bound to an array is described as a placeholder.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Any, Final, assert_never

from tensorlang.definition.extent import limits
from tensorlang.definition.first_use import by_first_use, of_step
from tensorlang.definition.tensor import (
    Definition,
    Itself,
    Placeholder,
    Scan,
    Scatter,
    Stage,
    State,
    Tensor,
    as_outputs,
    components,
    definitions,
)
from tensorlang.errors import InternalError
from tensorlang.ir import Axis, Binary, Call, Cast, Compare, Const, Dim, Expr, Load, Param, Reduce, Reducer, Select, Unary
from tensorlang.ir.dtype import INT64
from tensorlang.ir.printer import short

SCHEMA: Final = 1
SMALL: Final = 5
"""Literals below this are structure (a stride, a filter's width); from here on one that repeats an extent is taken for that extent."""


def describe(outputs: object) -> dict[str, Any]:
    """The definitions that the outputs reach, as plain JSON values. Raises `DefinitionError` where an output is no tensor."""
    tensors = as_outputs(outputs)
    return _Writer().document(definitions(tensors), tensors)


def fingerprint(outputs: object) -> str:
    """A digest of structure, shapes and types; equal for definitions that differ in names and order alone, in every process."""
    return fingerprint_and_dims(outputs)[0]


def fingerprint_and_dims(outputs: object, order: tuple[Definition, ...] | None = None) -> tuple[str, tuple[str, ...]]:
    """The fingerprint, and the dims in order of first use: programs of one fingerprint have the same ones by other names.

    `order` is the program by first use, from whoever has it.
    """
    writer = _Writer(named=False)
    found = _digest(writer, as_outputs(outputs), order)
    return found, tuple(writer.dims)


def family(outputs: object) -> str:
    """A digest of structure and types: `fingerprint` without the literals among extents and reduction bounds.

    A larger literal elsewhere that repeats an extent (the `n` of a mean, the end of a padded row) is left out with it.
    """
    tensors = as_outputs(outputs)
    return _digest(_Writer(named=False, sized=False, repeated=frozenset(extents(tensors))), tensors)


def extents(outputs: object) -> tuple[int, ...]:
    """The literals that `family` leaves out, in order: extents of every tensor, then the bounds of its reductions."""
    writer = _Writer(named=False, sized=False)
    tensors = as_outputs(outputs)
    writer.document(by_first_use(tensors), tensors)
    return tuple(writer.left_out)


def _digest(writer: _Writer, tensors: tuple[Tensor, ...], order: tuple[Definition, ...] | None = None) -> str:
    document = writer.document(by_first_use(tensors) if order is None else order, tensors)
    return hashlib.sha256(json.dumps(document, separators=(",", ":")).encode()).hexdigest()


@dataclass(slots=True)
class _Writer:
    """Writes one document; `named` and `sized` say whether names and literal extents show."""

    named: bool = True
    sized: bool = True
    repeated: frozenset[int] = frozenset()
    left_out: list[int] = field(default_factory=list)
    tensors: dict[tuple[Definition, int], int] = field(default_factory=dict)
    reducers: dict[Reducer, int] = field(default_factory=dict)
    dims: dict[str, str] = field(default_factory=dict)
    axes: dict[str, int] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    several: bool = False

    def document(self, order: tuple[Definition, ...], outputs: tuple[Tensor, ...]) -> dict[str, Any]:
        """The whole description."""
        entries = [self.definition(definition) for definition in order]
        reducers = [self.reducer(reducer) for reducer in self.reducers]
        numbers = [self.tensors[tensor.definition, tensor.component] for tensor in outputs]
        return {"schema": SCHEMA, "definitions": entries, "reducers": reducers, "outputs": numbers}

    def definition(self, definition: Definition) -> dict[str, Any]:
        """One definition; its tensors get the next numbers."""
        written = self.body(definition)
        for component in range(components(definition)):
            self.tensors[definition, component] = len(self.tensors)
        return written

    def body(self, definition: Definition) -> dict[str, Any]:
        """What is written of a definition."""
        name = definition.name if self.named else None
        match definition:
            case Placeholder(shape=shape, dtype=dtype, allocated=allocated):
                operand = {"kind": "placeholder", "name": name, "shape": self.extents(shape), "dtype": str(dtype)}
                return {**operand, **self.larger(allocated)}
            case Stage(axes=axes, shape=shape, values=values, itself=itself, allocated=allocated, over=over):
                sizes = self.extents(shape)
                self.axes = {axis: number for number, axis in enumerate(axes)}
                self.several = len(itself) > 1
                written = [self.expr(value) for value in values]
                stage = {"kind": "stage", "name": name, "rank": len(axes), "axes": self.labels(), "shape": sizes, "values": written}
                stage |= self.larger(allocated)
                if over is not None:
                    stage["over"] = self.tensors[over.definition, over.component]
                types = [str(past.dtype) for past in itself]
                return {**stage, "kind": "recurrence", "dtype": types if len(types) > 1 else types[0]} if types else stage
            case Scatter(init=init, axes=axes, index=index, value=value, where=where, reducer=reducer):
                self.axes = {axis.name: number for number, axis in enumerate(axes)}
                ranges = [[self.lower(axis.lo), self.extent(axis.hi)] for axis in axes]
                condition = None if where is None else self.expr(where)
                parts = [self.expr(part) for part in index]
                element = self.expr(value)
                return {
                    "kind": "scatter",
                    "name": name,
                    "axes": self.labels(),
                    "ranges": ranges,
                    "init": self.tensors[init.definition, init.component],
                    "index": parts,
                    "value": element,
                    "where": condition,
                    "reduce": "set" if reducer is None else "add" if reducer.name == "sum" else reducer.name,
                }
            case Scan():
                return self.scan(definition, name)
            case State():
                raise InternalError("the state of a scan stands outside its step")
            case _:
                assert_never(definition)

    def scan(self, scan: Scan, name: str | None) -> dict[str, Any]:
        """A scan with its step."""
        init = [self.tensors[tensor.definition, tensor.component] for tensor in scan.init]
        length = self.extent(scan.axis.hi)
        self.times[scan.axis.name] = len(self.times)
        for state in scan.states:
            self.tensors[state, 0] = len(self.tensors)
        steps = [self.definition(definition) for definition in (scan.body if self.named else of_step(scan))]
        del self.times[scan.axis.name]
        return {
            "kind": "scan",
            "name": name,
            "time": short(scan.axis.name) if self.named else "",
            "length": length,
            "init": init,
            "step": steps,
            "next": [self.tensors[tensor.definition, tensor.component] for tensor in scan.following],
            "keep": scan.keep[0] if len(set(scan.keep)) == 1 else list(scan.keep),
        }

    def labels(self) -> list[str]:
        """The names of the axes of the definition that has been written."""
        return [short(axis) if self.named else "" for axis in self.axes]

    def larger(self, allocated: tuple[Expr, ...]) -> dict[str, Any]:
        """The extents of the array that an argument is a part of, if it is."""
        return {"allocated": self.extents(allocated)} if allocated else {}

    def extents(self, shape: tuple[Expr, ...]) -> list[Any]:
        """A shape."""
        return [self.extent(node) for node in shape]

    def reducer(self, reducer: Reducer) -> dict[str, Any]:
        """A reducer of the table."""
        identities = [self.const(identity, plain=False) for identity in reducer.identities]
        results = [self.expr(result) for result in reducer.results]
        return {"name": reducer.name, "identities": identities, "results": results}

    def extent(self, node: Expr) -> Any:
        """An extent or the upper bound of a reduction: a literal shows only where sizes do."""
        if isinstance(node, Const) and not self.sized:
            self.left_out.append(int(node.value))
            return "extent"
        return self.expr(node)

    def lower(self, node: Expr) -> Any:
        """The lower bound of a reduction: 0 is structure."""
        return 0 if node == Const(0) else self.extent(node)

    def const(self, const: Const, *, plain: bool = True) -> Any:
        """A literal."""
        value = const.value
        for distance in (0, 1):
            if plain and not isinstance(value, bool) and value >= SMALL and value + distance in self.repeated:
                return ["extent", distance] if const.dtype == INT64 else ["extent", distance, str(const.dtype)]
        if const.dtype == INT64 and plain:
            return int(value)
        return ["const", str(const.dtype), float(value).hex() if const.dtype.is_floating else value]

    def expr(self, expr: Expr) -> Any:
        """An expression, as the module docstring spells it."""
        match expr:
            case Const():
                return self.const(expr)
            case Axis(name) if name in self.times:
                return ["time", self.times[name]]
            case Axis(name):
                return ["axis", self.axes.setdefault(name, len(self.axes))]
            case Dim(name, least, most):
                bounds = [least, most] if limits([expr]) else []
                return ["dim", name if self.named else self.dims.setdefault(name, f"d{len(self.dims)}"), *bounds]
            case Param(name, dtype):
                return ["param", name, str(dtype)]
            case Load(Itself(component=component), index):
                return [*(["past", component] if self.several else ["self"]), *[self.expr(part) for part in index]]
            case Load(buffer, index):
                if not isinstance(buffer, Tensor):
                    raise InternalError(f"a definition reads {buffer!r}, which is no tensor")
                return ["load", self.tensors[buffer.definition, buffer.component], *[self.expr(part) for part in index]]
            case Cast(value, dtype):
                return ["cast", str(dtype), self.expr(value)]
            case Unary(op, value):
                return [op, self.expr(value)]
            case Binary(op, left, right) | Compare(op, left, right):
                return [op, self.expr(left), self.expr(right)]
            case Select(cond, yes, no):
                return ["select", self.expr(cond), self.expr(yes), self.expr(no)]
            case Call(function, args, dtype):
                return ["call", function, str(dtype), *[self.expr(arg) for arg in args]]
            case Reduce(reducer, values, axes, where, component):
                number = self.reducers.setdefault(reducer if self.named else replace(reducer, name=""), len(self.reducers))
                ranges = [[self.expr(Axis(axis.name))[1], self.lower(axis.lo), self.extent(axis.hi)] for axis in axes]
                condition = None if where is None else self.expr(where)
                return ["reduce", number, [self.expr(value) for value in values], ranges, condition, component]
            case _:
                assert_never(expr)
