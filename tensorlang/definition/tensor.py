"""Tensors and the definitions behind them, as values.

A tensor is one result of a definition: a `Placeholder` (an argument of the kernel) or a `Stage` (one expression for each result over
named axes). Definitions are immutable and hold plain `ir` expressions whose loads name tensors, so that a program is the DAG that its
outputs reach. A stage that reads its own earlier elements is a recurrence; `Scatter` and `Scan` are further kinds of definition. What a
scan's step reads are `State`s, and the definitions made in the step belong to the scan and to no program.

Inside a definition an axis is spelled `name#serial`, which keeps two axes of one name apart; `lower` renames it to `stage.name`, so
nothing that a schedule, a log or a key sees depends on the serial.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn, TypeAlias

import numpy as np

from tensorlang import ir
from tensorlang.definition.expr import Expr, as_expr, convert
from tensorlang.definition.extent import Extent, extent
from tensorlang.definition.hints import TOGETHER, Whole
from tensorlang.errors import DefinitionError
from tensorlang.ir.dtype import INT64, DType
from tensorlang.ir.traverse import axes_of, dtype_of, loads_of

_serial = itertools.count()


def serial() -> int:
    """The next number of a definition or an axis: a definition's is larger than those of all that it reads."""
    return next(_serial)


@dataclass(frozen=True, slots=True, eq=False)
class Placeholder:
    """An argument of the kernel; with an `array`, an operand that is bound to it and not passed.

    With `allocated` it is the first part of an array of these extents (see `ir.Buffer`).
    """

    name: str | None
    shape: tuple[ir.Expr, ...]
    dtype: DType
    order: int
    array: np.ndarray[Any, Any] | None = None
    allocated: tuple[ir.Expr, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Itself:
    """What a recurrence reads of one of its own tensors: elements that come earlier in row-major order."""

    dtype: DType
    component: int = 0
    name: str = "self"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Stage:
    """Tensors of one shape defined by one expression each over `axes`; a recurrence where there is an `itself` for each of them.

    `within` are the axes of the scans around the stage that it uses. An output with `allocated` is written to the first part of an array
    of these extents (see `ir.Buffer`); one with `over` may lie where that operand lies.
    """

    name: str | None
    axes: tuple[str, ...]
    shape: tuple[ir.Expr, ...]
    values: tuple[ir.Expr, ...]
    order: int
    itself: tuple[Itself, ...] = ()
    within: tuple[ir.ReduceAxis, ...] = ()
    allocated: tuple[ir.Expr, ...] = ()
    over: Tensor | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    """`init` with `value` combined into (or, without a reducer, stored to) the element `index`, in row-major order of `axes`."""

    name: str | None
    init: Tensor
    axes: tuple[ir.ReduceAxis, ...]
    index: tuple[ir.Expr, ...]
    value: ir.Expr
    where: ir.Expr | None
    reducer: ir.Reducer | None
    order: int
    within: tuple[ir.ReduceAxis, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What a step of a scan reads: `init` at first, then what the step before made."""

    shape: tuple[ir.Expr, ...]
    dtype: DType
    order: int
    name: str = "state"


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """`length` steps, each with the definitions `body`: `states` are what a step reads and `following` what it makes of them.

    Each of its tensors is a state after every step, stacked along a first axis, or after the last one, as `keep` says for each of them.
    """

    name: str | None
    axis: ir.ReduceAxis
    init: tuple[Tensor, ...]
    states: tuple[State, ...]
    following: tuple[Tensor, ...]
    body: tuple[Definition, ...]
    keep: tuple[Keep, ...]
    order: int
    within: tuple[ir.ReduceAxis, ...] = ()


Keep: TypeAlias = Literal["all", "last"]
Definition: TypeAlias = "Placeholder | Stage | Scatter | State | Scan"

ENCLOSING: Final[ContextVar[tuple[ir.ReduceAxis, ...]]] = ContextVar("ENCLOSING", default=())
"""The axes of the scans whose step is being written."""


def enclosing(*exprs: ir.Expr | None) -> tuple[ir.ReduceAxis, ...]:
    """The axes of the scans being written that expressions use."""
    around = ENCLOSING.get()
    used = frozenset().union(*(axes_of(expr) for expr in exprs if expr is not None)) if around else frozenset()
    return tuple(axis for axis in around if axis.name in used)


class Tensor(Whole):
    """One result of a definition. `A[i, j]` is an element of it in an index expression.

    Type and extents are found when it is made, from those of the tensors that it reads: asked for later, they would be looked for through
    the whole chain of stages behind it.
    """

    __slots__ = ("component", "definition", "dtype", "extents")

    def __init__(self, definition: Definition, component: int = 0) -> None:
        self.definition: Final = definition
        self.component: Final = component
        self.dtype: Final = _element(definition, component)
        self.extents: Final = _extents(definition, component)

    @property
    def name(self) -> str | None:
        """The name given by the user, or None."""
        name = self.definition.name
        return f"{name}_{self.component}" if name is not None and components(self.definition) > 1 else name

    @property
    def shape(self) -> tuple[Extent, ...]:
        """The extents, outermost first: ints and dims."""
        return tuple(extent(node) for node in self.extents)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.extents)

    def __repr__(self) -> str:
        return f"{self.name or 'tensor'}: {self.dtype}[{', '.join(str(entry) for entry in self.shape)}]"

    def _repr_html_(self) -> str:
        from tensorlang.definition.listing import html  # noqa: PLC0415 - for notebooks alone

        return html(self)

    def __getitem__(self, index: object) -> Expr:
        parts = index_parts(repr(self), self.ndim, index)
        return Expr(ir.Load(self, tuple(part.node for part in parts)), parts)

    def __iter__(self) -> NoReturn:
        raise DefinitionError(f"{self!r} cannot be iterated over; define a tensor over its axes with tl.compute")


def _element(definition: Definition, component: int) -> DType:
    """The type of the elements of one tensor of a definition."""
    match definition:
        case Placeholder(dtype=kind) | State(dtype=kind):
            return kind
        case Stage(values=values):
            return dtype_of(values[component])
        case Scatter(init=init):
            return init.dtype
        case Scan(init=init):
            return init[component].dtype


def _extents(definition: Definition, component: int) -> tuple[ir.Expr, ...]:
    """The extents of one tensor of a definition as nodes, outermost first."""
    match definition:
        case Placeholder(shape=shape) | State(shape=shape) | Stage(shape=shape):
            return shape
        case Scatter(init=init):
            return init.extents
        case Scan(axis=axis, init=init, keep=keep):
            state = init[component].extents
            return (axis.hi, *state) if keep[component] == "all" else state


def index_parts(what: str, rank: int, index: object) -> tuple[Expr, ...]:
    """The int64 expressions of an index, one for each axis. Raises `DefinitionError`."""
    entries = index if isinstance(index, tuple) else (index,)
    if len(entries) != rank:
        hint = "" if isinstance(index, tuple) else f"; {TOGETHER}"
        raise DefinitionError(f"{what} has {rank} axes and is read with {len(entries)} indices{hint}")
    parts = []
    for entry in entries:
        if isinstance(entry, slice) or entry is None or entry is Ellipsis:
            raise DefinitionError(f"{what} is read one element at a time; write an index for each axis, not {entry!r}")
        part = as_expr(entry)
        if not part.dtype.is_integer:
            raise DefinitionError(f"an index of {what} is {part!r} ({part.dtype}); indices are integers: use tl.cast")
        parts.append(convert(part, INT64))
    return tuple(parts)


class ReduceAxis(Expr):
    """A reduction axis: an index expression, and the axis that a reducer runs over, with its bounds as they were written."""

    __slots__ = ("axis", "bounds")

    def __init__(self, axis: ir.ReduceAxis, bounds: tuple[Expr, ...] = ()) -> None:
        super().__init__(ir.Axis(axis.name))
        self.axis = axis
        self.bounds = bounds


def fresh_axis(label: str) -> str:
    """A new spelling of an axis; an empty label is named at lowering (`r0`, `r1`, ...)."""
    return f"{label}#{serial()}"


def components(definition: Definition) -> int:
    """How many tensors a definition gives."""
    match definition:
        case Stage(values=several) | Scan(init=several):
            return len(several)
        case Placeholder() | Scatter() | State():
            return 1


def expressions(definition: Definition) -> tuple[ir.Expr, ...]:
    """The expressions that a definition itself holds, extents aside."""
    match definition:
        case Stage(values=values):
            return values
        case Scatter(axes=axes, index=index, value=value, where=where):
            bounds = (bound for axis in axes for bound in (axis.lo, axis.hi))
            return (*bounds, *index, value, *(() if where is None else (where,)))
        case Placeholder() | State() | Scan():
            return ()


def operands(definition: Definition) -> Iterator[Tensor]:
    """The tensors that a definition reads, in order of first reading; of a scan, those from outside its step."""
    found: list[Tensor] = []
    match definition:
        case Scan(init=init, states=states, following=following, body=body):
            own = {id(part) for part in (*states, *body)}
            read = [*following, *(tensor for part in body for tensor in operands(part))]
            found = [*init, *(tensor for tensor in read if id(tensor.definition) not in own)]
        case Scatter(init=init):
            found = [init]
        case Placeholder() | State() | Stage():
            pass
    found += [load.buffer for expr in expressions(definition) for load in loads_of(expr) if isinstance(load.buffer, Tensor)]
    yield from {id(tensor): tensor for tensor in found}.values()


def reached(outputs: tuple[Tensor, ...]) -> tuple[Definition, ...]:
    """Every definition that the outputs reach, steps of scans aside, in definition order (operands before users)."""
    found: dict[int, Definition] = {}
    stack = [tensor.definition for tensor in outputs]
    while stack:
        definition = stack.pop()
        if id(definition) not in found:
            found[id(definition)] = definition
            stack += [tensor.definition for tensor in operands(definition)]
    return tuple(sorted(found.values(), key=lambda definition: definition.order))


def definitions(outputs: tuple[Tensor, ...]) -> tuple[Definition, ...]:
    """The program of the outputs: every definition that they reach, in definition order.

    Raises `DefinitionError` where one belongs to the step of a scan.
    """
    return outside_scans(reached(outputs))


def outside_scans(found: tuple[Definition, ...]) -> tuple[Definition, ...]:
    """The definitions of a program, none of which is part of a scan's step. Raises `DefinitionError` where one is."""
    for definition in found:
        if isinstance(definition, State) or (not isinstance(definition, Placeholder) and definition.within):
            raise DefinitionError(
                f"{Tensor(definition)!r} belongs to one step of a scan; return it from the step and use what tl.scan gives"
            )
    return found


def with_steps(program: tuple[Definition, ...]) -> tuple[Definition, ...]:
    """The definitions of a program and of the steps of its scans, in definition order."""
    inner = [part for definition in program if isinstance(definition, Scan) for part in with_steps(definition.body)]
    return tuple(sorted((*program, *inner), key=lambda definition: definition.order))


def as_outputs(outputs: object, *more: object) -> tuple[Tensor, ...]:
    """Outputs given one by one or as a tuple. Raises `DefinitionError` for anything that is not a tensor, or for none."""
    flat = (*outputs, *more) if isinstance(outputs, (tuple, list)) else (outputs, *more)
    for tensor in flat:
        if not isinstance(tensor, Tensor):
            raise DefinitionError(f"an output must be a tensor, not {tensor!r:.60}")
    if not flat:
        raise DefinitionError("at least one output is needed")
    return tuple(tensor for tensor in flat if isinstance(tensor, Tensor))


def as_tensor(value: object, what: str) -> Tensor:
    """`value`, if it is a tensor. Raises `DefinitionError`."""
    if isinstance(value, Tensor):
        return value
    raise DefinitionError(f"{what} must be a tensor, not {value!r:.60}")


def as_inputs(inputs: object) -> tuple[Tensor, ...] | None:
    """The arguments of a kernel in the order given, or None for the default order.

    A placeholder that nothing reads may be among them: it is passed, checked and left alone. Raises `DefinitionError` for anything that is
    not a placeholder of the call, or stands there twice.
    """
    if inputs is None:
        return None
    if not isinstance(inputs, (tuple, list)):
        raise DefinitionError(f"inputs= takes a tuple of placeholders, as in inputs=(A, B), not {inputs!r:.60}")
    found: list[Tensor] = []
    for entry in inputs:
        if not isinstance(entry, Tensor):
            raise DefinitionError(f"inputs= takes placeholders, and {entry!r:.60} is no tensor")
        if not isinstance(entry.definition, Placeholder):
            raise DefinitionError(f"inputs= takes placeholders, and {entry!r} is computed; leave it out")
        if entry.definition.array is not None:
            raise DefinitionError(f"inputs= takes what is passed at the call, and {entry!r} is bound by tl.buffer; leave it out")
        if any(entry.definition is other.definition for other in found):
            raise DefinitionError(f"inputs= takes each placeholder once, and {entry!r} stands there twice")
        found.append(entry)
    return tuple(found)
