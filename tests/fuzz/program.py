"""A case to a `tensorlang` program, as given or as its integer twin.

The twin is the same program over wrap-around integers of the same widths: float32 becomes int32, named functions become polynomials.
Integer addition is associative, so the twin of a legal schedule is exactly equal whatever it re-orders: a lost, doubled or misplaced
iteration shows, with no tolerance to hide in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.definition.tensor import Tensor, definitions
from tensorlang.ir.dtype import dtype

from .case import Case, Extent, Node, value_of

TWIN: Final = {"float16": "int16", "bfloat16": "uint16", "float32": "int32", "float64": "uint64"}
HALF: Final = ("float16", "bfloat16")

BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "min": tl.minimum,
    "max": tl.maximum,
    "fmin": tl.fmin,
    "fmax": tl.fmax,
}


@dataclass(slots=True)
class Program:
    """The outputs of a case, its operands by name, and the run-time extents that no operand fixes by itself."""

    outputs: tuple[Tensor, ...]
    operands: dict[str, Tensor]
    tensors: dict[str, Tensor]


@dataclass(slots=True)
class Builder:
    """Nodes to expressions; `twin` makes everything floating an integer."""

    case: Case
    twin: bool = False
    tensors: dict[str, Any] = field(default_factory=dict)
    extents: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, Any] = field(default_factory=dict)
    outer: dict[str, Any] = field(default_factory=dict)
    myself: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        """Symbolic extents become dims."""
        bounds = self.case.get("bounds", {})
        self.extents = {
            name: tl.dim(name, *bounds.get(name, ())) if name in self.case["symbolic"] else value
            for name, value in self.case["extents"].items()
        }

    def type(self, name: str) -> str:
        """The type that stands for `name`."""
        return TWIN.get(name, name) if self.twin else name

    def extent(self, extent: Extent) -> Any:
        """An extent as an int or a dim."""
        return value_of(extent, self.extents)

    def program(self) -> Program:
        """The whole case. Raises `DefinitionError` where it is no program."""
        operands = {
            entry["name"]: tl.placeholder([self.extent(part) for part in entry["shape"]], self.type(entry["dtype"]), name=entry["name"])
            for entry in self.case["inputs"]
        }
        self.tensors.update(operands)
        for stage in self.case["stages"]:
            self.define(stage)
        outputs = tuple(self.tensors[name] for name in self.case["outputs"])
        reached = set(definitions(outputs))
        return Program(outputs, {name: tensor for name, tensor in operands.items() if tensor.definition in reached}, self.tensors)

    def define(self, stage: dict[str, Any]) -> None:
        """One stage; its results are `name`, or `name_0`, `name_1`, ... where there are several."""
        name, form = stage["name"], stage.get("form")
        shape = tuple(self.extent(part) for part in stage["shape"])
        match form:
            case None:
                made = self.computed(stage, shape)
            case "pad":
                made = tl.pad(self.tensors[stage["reads"][0]], stage["widths"], mode=stage["mode"], name=name)
            case "recurrence":
                many = [f"self{n}" for n in range(len(stage["body"]))] if len(stage["body"]) > 1 else ["self"]
                body = function(stage["axes"], lambda axes, *myself: self.body(stage, axes, myself), *many)
                made = tl.recurrence(shape, body, outside=self.literal(stage["outside"]), name=name)
            case "scatter":
                made = self.scatter(stage, shape)
            case "scan":
                made = self.scan(stage)
            case "custom":
                made = tl.compute(shape, function(stage["axes"], lambda axes: self.custom(stage, axes)), name=name)
            case _:
                raise ValueError(f"no such form: {form}")
        if isinstance(made, tuple):
            self.tensors.update({f"{name}_{component}": part for component, part in enumerate(made)})
        else:
            self.tensors[name] = made

    def computed(self, stage: dict[str, Any], shape: tuple[Any, ...]) -> Any:
        """A plain stage."""
        return tl.compute(shape, function(stage["axes"], lambda axes: self.body(stage, axes)), name=stage["name"])

    def body(self, stage: dict[str, Any], axes: list[Any], myself: tuple[Any, ...] = ()) -> Any:
        """The value, or values, of a stage at its axes."""
        self.axes, self.myself = {**self.outer, **dict(zip(stage["axes"], axes, strict=True))}, myself
        values = [self.node(value) for value in stage["body"]]
        return tuple(values) if len(values) > 1 else values[0]

    def scatter(self, stage: dict[str, Any], shape: tuple[Any, ...]) -> Any:
        """A scatter: `body` is the value, `index` where it goes."""
        start = stage["start"] if stage.get("start") is not None else ["cast", stage["type"], stage["outside"]]
        fill = {"name": f"{stage['name']}_from", "axes": stage["axes"], "body": [start]}
        axes = [tl.reduce_axis(self.extent(extent), name=axis) for axis, extent in stage["over"]]
        names = [axis for axis, _ in stage["over"]]

        def index(values: list[Any]) -> tuple[Any, ...]:
            self.axes = dict(zip(names, values, strict=True))
            return tuple(self.node(part) for part in stage["index"])

        def value(values: list[Any]) -> Any:
            self.axes = dict(zip(names, values, strict=True))
            return self.node(stage["body"][0])

        def where(values: list[Any]) -> Any:
            self.axes = dict(zip(names, values, strict=True))
            return self.node(stage["where"])

        more: dict[str, Any] = {} if stage.get("where") is None else {"where": function(names, where)}
        init, parts = self.computed(fill, shape), (function(names, index), function(names, value))
        return tl.scatter(init, tuple(axes), *parts, reduce=stage["reduce"], name=stage["name"], **more)

    def scan(self, stage: dict[str, Any]) -> Any:
        """A scan whose step has the stages `inner`; the last ones are the new states, `STATE0`, ... are the old ones."""
        init = tuple(self.tensors[name] for name in stage["reads"])

        def step(t: Any, states: Any) -> Any:
            old, self.outer = self.outer, {"t": t}
            self.tensors.update({f"STATE{n}": state for n, state in enumerate(states)})
            for part in stage["inner"]:
                self.define(part)
            self.outer = old
            return tuple(self.tensors[part["name"]] for part in stage["inner"][-len(init) :])

        return tl.scan(step, init, self.extent(stage["length"]), keep=stage["keep"], name=stage["name"])

    def custom(self, stage: dict[str, Any], axes: list[Any]) -> Any:
        """A reduction by a reducer of two components: the sum and the greatest, or the sum and the count."""
        self.axes = dict(zip(stage["axes"], axes, strict=True))
        made = tuple(self.ranges(stage["inner"]))
        values = tuple(self.node(value) for value in stage["body"])
        condition = None if stage["where"] is None else self.node(stage["where"])
        of = dtype(self.type(stage["type"]))
        if stage["reducer"] == "sum_max":
            lowest = tl.cast(of.lowest, of)
            return tl.reducer(lambda a, b: (a[0] + b[0], tl.maximum(a[1], b[1])), (0, lowest), "sum_max")(
                values, axis=made, where=condition
            )
        return tl.reducer(lambda a, b: (a[0] + b[0], a[1] + b[1]), (0, 0), "sum_count")(values, axis=made, where=condition)

    def literal(self, value: Any) -> Any:
        """A literal; the twin of a float is twice it, as an int."""
        return int(value * 2) if self.twin and isinstance(value, float) else value

    def node(self, node: Node) -> Any:
        """The expression of a node."""
        match node:
            case bool() | int() | float():
                return self.literal(node)
            case ["ax", name]:
                return self.axes[name]
            case ["ext", extent]:
                return self.extent(extent)
            case ["ld", name, index]:
                return self.tensors[name][tuple(self.node(part) for part in index)]
            case ["self", index, *which]:
                return self.myself[which[0] if which else 0][tuple(self.node(part) for part in index)]
            case ["cast", to, value]:
                return tl.cast(self.node(value), self.type(to))
            case ["neg", value]:
                return -self.node(value)
            case ["not", value]:
                return ~self.node(value)
            case ["abs", value]:
                return tl.abs(self.node(value))
            case ["sel", cond, yes, no]:
                return tl.select(self.node(cond), self.node(yes), self.node(no))
            case ["clamp", value, low, high]:
                return tl.clamp(self.node(value), self.node(low), self.node(high))
            case ["call", function, *args]:
                return self.call(function, [self.node(arg) for arg in args])
            case ["red", reducer, axes, value, where, of]:
                return self.reduce(reducer, axes, value, where, of)
            case [op, left, right]:
                return self.binary(op, self.node(left), self.node(right))
            case _:
                raise ValueError(f"no such node: {node!r:.80}")

    def binary(self, op: str, left: Any, right: Any) -> Any:
        """An operator; the twin of division is floored."""
        return BINARY["//" if self.twin and op == "/" else op](left, right)

    def call(self, name: str, args: list[Any]) -> Any:
        """A named function; its twin is a polynomial of the same arity."""
        if not self.twin:
            return getattr(tl, name)(*args)
        if name.startswith("is"):
            return args[0] > 1
        total = args[0] * (len(name) + 1) + sum(map(ord, name)) % 7
        return total + args[1] * 3 if len(args) > 1 else total

    def ranges(self, axes: list[Any]) -> list[Any]:
        """The reduction axes of a node; they are in scope from now on, those of later axes included."""
        made = []
        for name, lo, hi, *within in axes:
            ends = (self.node(lo), self.node(hi)) if within else (self.extent(lo), self.extent(hi))
            made.append(tl.reduce_axis(ends, name=name, within=self.extent(within[0]) if within else None))
            self.axes = {**self.axes, name: made[-1]}
        return made

    def reduce(self, reducer: str, axes: list[Any], value: Node, where: Node, of: str) -> Any:
        """A reduction of values of type `of`. In half precision `sum` and `prod` give their own type, so their twin is cast back."""
        outer = self.axes
        made = self.ranges(axes)
        condition = None if where is None else self.node(where)
        if self.twin and reducer == "mean":
            result = self.floored_mean(made, self.node(value), condition, known=all(len(axis) == 3 for axis in axes))
        else:
            result = getattr(tl, reducer)(self.node(value), axis=tuple(made), where=condition)
        self.axes = outer
        return tl.cast(result, TWIN[of]) if self.twin and reducer in ("sum", "prod", "mean") and of in HALF else result

    def floored_mean(self, axes: list[Any], value: Any, where: Any, *, known: bool) -> Any:
        """The twin of a mean: a sum, and a count that is a sum too where it is not known, as `tl.mean` has them."""
        total = tl.sum(value, axis=tuple(axes), where=where)
        count = tl.cast(7, "int64") if known and where is None else tl.sum(tl.cast(1, "int64"), axis=tuple(axes), where=where)
        return total // tl.cast(count, total.dtype)


def function(axes: list[str], body: Callable[..., Any], *more: str) -> Callable[..., Any]:
    """A function whose parameters are named `axes` (and `more`), as `compute` reads them."""
    names = [*axes, *more]
    inner = ", ".join(axes)
    source = f"lambda {', '.join(names)}: body([{inner}]{''.join(', ' + name for name in more)})"
    made: Callable[..., Any] = eval(source, {"body": body})  # noqa: S307 - the names are ours
    return made


def operands(program: Program, case: Case, extents: dict[str, int], *, twin: bool) -> dict[str, np.ndarray[Any, Any]]:
    """The data of the operands at these extents: reproducible, and of the kind that `fill` names."""
    found = {}
    for position, entry in enumerate(case["inputs"]):
        if entry["name"] in program.operands:
            shape = tuple(value_of(part, extents) for part in entry["shape"])
            rng = np.random.default_rng([case["seed"], position, *extents.values()])
            found[entry["name"]] = data(rng, shape, entry["dtype"], case.get("fill", "small"), twin=twin)
    return found


def _wrapped(values: Any, of: Any) -> np.ndarray[Any, Any]:
    """Integers of any size as those of a type."""
    low, count = int(of.lowest), 1 << of.bits
    return np.asarray((np.asarray(values, object) - low) % count + low).astype(of.numpy)


def data(rng: np.random.Generator, shape: tuple[int, ...], name: str, fill: str, *, twin: bool) -> np.ndarray[Any, Any]:
    """An array: small multiples of 1/4, anything of the type, or numbers with NaN, infinities and zeros of both signs among them.

    Integers that are "wild" are places near and very far.
    """
    of = dtype(TWIN.get(name, name) if twin else name)
    if of == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if of.is_integer:
        if fill == "wild":
            far = np.array([-1, 1 << 40, int(of.lowest), int(of.highest), -5, 11], object)
            near = rng.integers(0, 9, shape).astype(object)
            return _wrapped(np.where(rng.random(shape) < 0.3, rng.choice(far, shape), near), of)
        low, high = (int(of.lowest), int(of.highest)) if fill != "small" or twin else (0 if of.kind == "unsigned" else -9, 10)
        return rng.integers(low, high, shape, dtype=of.numpy, endpoint=True)
    values = rng.integers(-16, 17, shape) / 4 if fill == "small" else rng.normal(0, 2, shape)
    if fill == "special" and values.size:
        odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 1e4])
        values = np.where(rng.random(shape) < 0.1, rng.choice(odd, shape), values)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(of.numpy)
