"""Tensors and the definitions behind them: `placeholder`, `compute`, `reduce_axis`, `dim`.

A tensor is one result of a definition: a `Placeholder` (an argument of the kernel) or a `Stage` (one expression for each result over
named axes). Definitions are immutable and hold plain `ir` expressions whose loads name tensors, so that a program is the DAG that its
outputs reach. Scans, recurrences and scatters are further kinds of definition beside `Stage`.

Inside a definition an axis is spelled `name#serial`, which keeps two axes of one name apart; `lower` renames it to `stage.name`, so
nothing that a schedule, a log or a key sees depends on the serial.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np

from tensorlang import ir
from tensorlang.dtype import INT64, DType, dtype
from tensorlang.errors import DefinitionError
from tensorlang.expr import Expr, ExprLike, as_expr, convert
from tensorlang.printer import text
from tensorlang.simplify import simplify
from tensorlang.traverse import dtype_of

_serial = itertools.count()
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
MAX_EXTENT = 1 << 48


class Dim:
    """An extent known only at run time, or arithmetic on such extents. `==` compares by structure and is a bool."""

    __array_ufunc__ = None
    __slots__ = ("node",)

    def __init__(self, node: ir.Expr) -> None:
        self.node = simplify(node)

    def as_expr(self) -> Expr:
        """The extent as an int64 value of an index expression."""
        return Expr(self.node)

    def __repr__(self) -> str:
        return text(self.node)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, np.integer)):
            return self.node == ir.const(int(other))
        return isinstance(other, Dim) and self.node == other.node

    def __hash__(self) -> int:
        return hash(self.node)

    def __bool__(self) -> bool:
        raise DefinitionError(f"the extent {self!r} is known only at run time; compare it inside tl.select or where=")

    def _with(self, op: str, left: object, right: object) -> Any:
        if all(isinstance(side, (Dim, int, np.integer)) and not isinstance(side, bool) for side in (left, right)):
            return extent(ir.Binary(op, _extent_node(left, "an extent"), _extent_node(right, "an extent")))
        from tensorlang.expr import binary  # noqa: PLC0415 - only mixed arithmetic needs it

        return binary(op, as_expr(left), as_expr(right))

    def __add__(self, other: object) -> Any:
        return self._with("add", self, other)

    def __radd__(self, other: object) -> Any:
        return self._with("add", other, self)

    def __sub__(self, other: object) -> Any:
        return self._with("sub", self, other)

    def __rsub__(self, other: object) -> Any:
        return self._with("sub", other, self)

    def __mul__(self, other: object) -> Any:
        return self._with("mul", self, other)

    def __rmul__(self, other: object) -> Any:
        return self._with("mul", other, self)

    def __floordiv__(self, other: object) -> Any:
        return self._with("floordiv", self, other)

    def __mod__(self, other: object) -> Any:
        return self._with("mod", self, other)

    def __lt__(self, other: ExprLike) -> Expr:
        return self.as_expr() < as_expr(other)

    def __le__(self, other: ExprLike) -> Expr:
        return self.as_expr() <= as_expr(other)

    def __gt__(self, other: ExprLike) -> Expr:
        return self.as_expr() > as_expr(other)

    def __ge__(self, other: ExprLike) -> Expr:
        return self.as_expr() >= as_expr(other)


Extent: TypeAlias = "int | Dim"


def dim(name: str) -> Dim:
    """An extent known only at run time (int64, >= 0). Equal names are the same extent."""
    return Dim(ir.Dim(checked_name(name, "a dim")))


def extent(node: ir.Expr) -> Extent:
    """An extent from its node: an int where it is a literal."""
    plain = simplify(node)
    return int(plain.value) if isinstance(plain, ir.Const) else Dim(plain)


def _extent_node(value: object, what: str) -> ir.Expr:
    if isinstance(value, Dim):
        return value.node
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_)):
        if not -MAX_EXTENT <= value <= MAX_EXTENT:
            raise DefinitionError(f"{what} of {value} is out of range (at most 2**48)")
        return ir.const(int(value))
    raise DefinitionError(f"{what} must be an int or a tl.dim, not {value!r:.60}")


def checked_name(name: object, what: str) -> str:
    """`name`, if it can name a tensor, an axis or a dim. Raises `DefinitionError`."""
    if isinstance(name, str) and _NAME.match(name):
        return name
    raise DefinitionError(f"{name!r} cannot name {what}; use letters, digits and _")


def _optional_name(name: object, what: str) -> str | None:
    return None if name is None else checked_name(name, what)


def _shape(shape: object, what: str) -> tuple[ir.Expr, ...]:
    if isinstance(shape, (int, np.integer, Dim)):
        shape = (shape,)
    if not isinstance(shape, (tuple, list)):
        raise DefinitionError(f"the shape of {what} must be a tuple of ints and dims, not {shape!r:.60}")
    nodes = tuple(_extent_node(entry, f"an extent of {what}") for entry in shape)
    for node in nodes:
        if isinstance(node, ir.Const) and node.value < 0:
            raise DefinitionError(f"an extent of {what} is {node.value}; extents are at least 0")
    return nodes


@dataclass(frozen=True, slots=True, eq=False)
class Placeholder:
    """An argument of the kernel."""

    name: str | None
    shape: tuple[ir.Expr, ...]
    dtype: DType
    order: int


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Tensors of one shape defined by one expression each over `axes`."""

    name: str | None
    axes: tuple[str, ...]
    shape: tuple[ir.Expr, ...]
    values: tuple[ir.Expr, ...]
    order: int


Definition: TypeAlias = "Placeholder | Stage"


class Tensor:
    """One result of a definition. `A[i, j]` is an element of it in an index expression."""

    __slots__ = ("component", "definition")

    def __init__(self, definition: Definition, component: int = 0) -> None:
        self.definition = definition
        self.component = component

    @property
    def name(self) -> str | None:
        """The name given by the user, or None."""
        name = self.definition.name
        several = isinstance(self.definition, Stage) and len(self.definition.values) > 1
        return f"{name}_{self.component}" if several and name is not None else name

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        match self.definition:
            case Placeholder(dtype=dtype):
                return dtype
            case Stage(values=values):
                return dtype_of(values[self.component])

    @property
    def shape(self) -> tuple[Extent, ...]:
        """The extents, outermost first: ints and dims."""
        return tuple(extent(node) for node in self.definition.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.definition.shape)

    def __repr__(self) -> str:
        return f"{self.name or 'tensor'}: {self.dtype}[{', '.join(str(entry) for entry in self.shape)}]"

    def __getitem__(self, index: object) -> Expr:
        entries = index if isinstance(index, tuple) else (index,)
        if len(entries) != self.ndim:
            raise DefinitionError(f"{self!r} has {self.ndim} axes and is read with {len(entries)} indices")
        parts = []
        for entry in entries:
            if isinstance(entry, slice) or entry is None or entry is Ellipsis:
                raise DefinitionError(f"{self!r} is read one element at a time; write an index for each axis, not {entry!r}")
            part = as_expr(entry)
            if not part.dtype.is_integer:
                raise DefinitionError(f"an index of {self!r} is {part!r} ({part.dtype}); indices are integers: use tl.cast")
            parts.append(convert(part, INT64))
        return Expr(ir.Load(self, tuple(part.node for part in parts)), tuple(parts))

    def __iter__(self) -> NoReturn:
        raise DefinitionError(f"{self!r} cannot be iterated over; define a tensor over its axes with tl.compute")


class ReduceAxis(Expr):
    """A reduction axis: an index expression, and the axis that a reducer runs over."""

    __slots__ = ("axis",)

    def __init__(self, axis: ir.ReduceAxis) -> None:
        super().__init__(ir.Axis(axis.name))
        self.axis = axis


def reduce_axis(domain: Extent | tuple[Extent, Extent] | Expr, name: str | None = None) -> ReduceAxis:
    """A reduction axis over `range(domain)`, or over `range(lo, hi)` for a pair.

    Raises `DefinitionError` for a domain that is neither.
    """
    pair = domain if isinstance(domain, (tuple, list)) else (0, domain)
    if len(pair) != 2:  # noqa: PLR2004 - a pair
        raise DefinitionError(f"a reduction axis runs over an extent or a pair (lo, hi), not {domain!r}")
    lo, hi = (_extent_node(bound, "a bound of a reduction axis") for bound in pair)
    label = "" if name is None else checked_name(name, "a reduction axis")
    return ReduceAxis(ir.ReduceAxis(fresh_axis(label), simplify(lo), simplify(hi)))


def fresh_axis(label: str) -> str:
    """A new spelling of an axis; an empty label is named at lowering (`r0`, `r1`, ...)."""
    return f"{label}#{next(_serial)}"


def placeholder(shape: object, dtype: object = "float32", name: str | None = None) -> Tensor:
    """An argument of the kernel, of the given shape (ints and dims) and type.

    Raises `DefinitionError` for a bad extent, type or name.
    """
    label = _optional_name(name, "a tensor")
    return Tensor(Placeholder(label, _shape(shape, f"placeholder {label or ''}".strip()), _dtype(dtype), next(_serial)))


_dtype = dtype


def compute(shape: object, fn: Callable[..., Any], name: str | None = None) -> Any:
    """The tensor whose element at each index is `fn(*index)`; a tuple of tensors where `fn` returns a tuple.

    `shape` is a tuple of ints and dims; `fn` takes one parameter for each axis, which names it (`*i`: `i0`, `i1`, ...).
    Raises `DefinitionError` where the expression can read outside a tensor, uses an axis it does not own, or mixes kinds.
    """
    label = _optional_name(name, "a tensor")
    what = f"tensor {label}" if label else "a tensor"
    extents = _shape(shape, what)
    axes = tuple(fresh_axis(axis) for axis in _parameters(fn, len(extents), what))
    result = fn(*(Expr(ir.Axis(axis)) for axis in axes))
    if isinstance(result, Tensor):
        raise DefinitionError(f"the body of {what} is {result!r} itself; index it, as in A[i, j]")
    values = tuple(as_expr(value) for value in (result if isinstance(result, tuple) else (result,)))
    if not values:
        raise DefinitionError(f"the body of {what} returns an empty tuple; return at least one expression")
    stage = Stage(label, axes, extents, tuple(value.node for value in values), next(_serial))
    from tensorlang.checks import check_stage  # noqa: PLC0415 - the checks read definitions

    check_stage(stage)
    tensors = tuple(Tensor(stage, component) for component in range(len(values)))
    return tensors if isinstance(result, tuple) else tensors[0]


def _parameters(fn: Callable[..., Any], rank: int, what: str) -> tuple[str, ...]:
    if not callable(fn):
        raise DefinitionError(f"the body of {what} must be a function of its axes, not {fn!r:.60}")
    names: list[str] = []
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}{n}" for n in range(rank - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) and parameter.default is parameter.empty:
            names.append(checked_name(parameter.name, "an axis"))
    if len(names) != rank:
        raise DefinitionError(f"{what} has {rank} axes but its body takes {len(names)} parameters ({', '.join(names) or 'none'})")
    return tuple(names)


def operands(definition: Definition) -> Iterator[Tensor]:
    """The tensors that a definition reads, in order of first reading."""
    from tensorlang.traverse import loads_of  # noqa: PLC0415 - keeps the import list of the surface short

    seen: set[int] = set()
    if isinstance(definition, Stage):
        for value in definition.values:
            for load in loads_of(value):
                if isinstance(load.buffer, Tensor) and id(load.buffer) not in seen:
                    seen.add(id(load.buffer))
                    yield load.buffer


def definitions(outputs: tuple[Tensor, ...]) -> tuple[Definition, ...]:
    """Every definition that the outputs reach, in definition order (operands before users)."""
    found: dict[int, Definition] = {}
    stack = [tensor.definition for tensor in outputs]
    while stack:
        definition = stack.pop()
        if id(definition) not in found:
            found[id(definition)] = definition
            stack += [tensor.definition for tensor in operands(definition)]
    return tuple(sorted(found.values(), key=lambda definition: definition.order))


def as_outputs(outputs: object, *more: object) -> tuple[Tensor, ...]:
    """Outputs given one by one or as a tuple. Raises `DefinitionError` for anything that is not a tensor, or for none."""
    flat = (*outputs, *more) if isinstance(outputs, (tuple, list)) else (outputs, *more)
    for tensor in flat:
        if not isinstance(tensor, Tensor):
            raise DefinitionError(f"an output must be a tensor, not {tensor!r:.60}")
    if not flat:
        raise DefinitionError("at least one output is needed")
    return flat
