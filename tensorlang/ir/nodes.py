"""The loop nest: the one program form between a definition and machine code.

    nest     = Nest(name, inputs, outputs, dims, body, relations, limits, products)
    stmt     = For(loop, lo, hi, kind, body, follows?, instruction?)    lo <= loop < hi
             | Store(stage, buffers, index*, values, reducer?, stream?)    one element of each buffer; with a reducer: combine(old, values)
             | Block(stmt*) | If(cond, then, else?) | Alloc(buffers, body)
             | Prefetch(buffer, index*)                                    no effect: the element may be needed soon
    kind     = serial | parallel | vector | unroll | tensor
    relation = SplitRelation(parent, outer, inner, factor, lo, hi, tail)
                   parent = lo + outer * factor + inner                                parent < hi
             | FuseRelation(fused, outer, inner, outer_lo, inner_lo, extent)
                   outer = outer_lo + fused // extent, inner = inner_lo + fused % extent
             | WindowRelation(parent, inner, base, hi, tail)
                   parent = base + inner                                               parent < hi
    expr     = Const(value, dtype) | Axis(name) | Dim(name, least, most) | Param(name, dtype) | Load(buffer, index*)
             | Cast(value, dtype) | Unary(op, value) | Binary(op, left, right) | Compare(op, left, right)
             | Select(cond, yes, no) | Call(function, args) | Reduce(reducer, values, axes, where?, component)

A directive rewrites loops; statements go on speaking of the axes of their definition. A relation says how such a *derived* axis
follows from loops: a split or a fuse states its equation once, and bounds, index recovery, the printer, the legality proof and code
generation all read it there. A statement runs only where the condition of every relation whose variables are in scope holds
(`parent < hi`); a "shift" split instead moves its last tile back, so it has a condition only where the extent is below the factor.
`lower` (in codegen) replaces derived axes by their values and conditions by loops, masks and `If`s; after it no relation is left.

Names of loops and axes are unique in a nest and read `stage.axis` ("C.i", "C.i_o", "C.init.i"). Extents and indices are int64.
`Reduce` stands only in definitions and `Param` only in reducers; a nest holds neither (see `verify`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from tensorlang.ir.dtype import INT64, DType
from tensorlang.system.frozen import quickly_made

LoopKind = Literal["serial", "parallel", "vector", "unroll", "tensor"]
Tail = Literal["guard", "mask", "peel", "shift"]
Memory = Literal["argument", "auto", "register", "stack", "heap"]

UNARY = ("neg", "not", "abs")
BINARY = ("add", "sub", "mul", "div", "floordiv", "mod", "and", "or", "xor", "shl", "shr", "min", "max", "fmin", "fmax")
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


MOST = 1 << 48
"""No extent is larger."""


class Source(Protocol):
    """What a `Load` reads: a `Buffer` in a nest, a tensor in a definition."""

    @property
    def dtype(self) -> DType:
        """The type of an element."""
        ...


@quickly_made
@dataclass(frozen=True, slots=True)
class Buffer:
    """Row-major storage: a name, an extent for each dimension, an element type, where it lives, and the least alignment in bytes.

    An argument may be the first part of a larger array, of extents `allocated`: its rows then lie further apart than they are long.
    Nothing but addresses depends on that: what lies between is not there for anybody. A result may lie `over` the operand of that name,
    element by element.
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    memory: Memory = "auto"
    align: int = 0
    allocated: tuple[Expr, ...] = ()
    over: str = ""

    @property
    def in_memory(self) -> tuple[Expr, ...]:
        """The extents of the array by which elements are found."""
        return self.allocated or self.shape


# Expressions ---------------------------------------------------------------------------------------------------------------------


@quickly_made
@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A literal. Equality is by type and spelling, so that -0.0 and 0.0 stay apart and NaN equals itself."""

    value: float | int | bool
    dtype: DType = INT64

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self.dtype == other.dtype and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash((self.dtype, repr(self.value)))


@quickly_made
@dataclass(frozen=True, slots=True)
class Axis:
    """A loop or a derived axis, by name."""

    name: str


@quickly_made
@dataclass(frozen=True, slots=True)
class Dim:
    """An extent known only at run time (int64), `least <= dim <= most`. Equal names are the same dim: bounds do not tell dims apart."""

    name: str
    least: int = field(default=0, compare=False)
    most: int = field(default=MOST, compare=False)


@quickly_made
@dataclass(frozen=True, slots=True)
class Param:
    """An operand of a reducer's combination."""

    name: str
    dtype: DType


@quickly_made
@dataclass(frozen=True, slots=True)
class Load:
    """One element of a buffer."""

    buffer: Source
    index: tuple[Expr, ...]


@quickly_made
@dataclass(frozen=True, slots=True)
class Cast:
    """Conversion: saturating from floating point (NaN becomes 0), wrapping between integers."""

    value: Expr
    dtype: DType


@quickly_made
@dataclass(frozen=True, slots=True)
class Unary:
    """`neg`, `abs` (integers wrap), `not` (bitwise; logical on bool)."""

    op: str
    value: Expr


@quickly_made
@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic on two values of one type. `div` is floating; `floordiv` and `mod` are floored; all are total."""

    op: str
    left: Expr
    right: Expr


@quickly_made
@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of two values of one type; bool."""

    op: str
    left: Expr
    right: Expr


@quickly_made
@dataclass(frozen=True, slots=True)
class Select:
    """`yes` where `cond`, else `no`; only the chosen side is read."""

    cond: Expr
    yes: Expr
    no: Expr


@quickly_made
@dataclass(frozen=True, slots=True)
class Call:
    """A named function of the table in `functions`."""

    function: str
    args: tuple[Expr, ...]
    dtype: DType


@quickly_made
@dataclass(frozen=True, slots=True)
class Reducer:
    """An associative, commutative combination of states of one or several components.

    `results[c]` is component c of `combine(a, b)`, over `Param("a0") ...` (the state so far) and `Param("b0") ...` (the new value).
    """

    name: str
    identities: tuple[Const, ...]
    results: tuple[Expr, ...]


@quickly_made
@dataclass(frozen=True, slots=True)
class ReduceAxis:
    """The range of a reduction axis, `lo <= name < hi`."""

    name: str
    lo: Expr
    hi: Expr


@quickly_made
@dataclass(frozen=True, slots=True)
class Reduce:
    """The combination of `values` over `axes` where `where` holds; its value is component `component` of the final state."""

    reducer: Reducer
    values: tuple[Expr, ...]
    axes: tuple[ReduceAxis, ...]
    where: Expr | None
    component: int = 0


Expr: TypeAlias = "Const | Axis | Dim | Param | Load | Cast | Unary | Binary | Compare | Select | Call | Reduce"


# Statements ----------------------------------------------------------------------------------------------------------------------


@quickly_made
@dataclass(frozen=True, slots=True)
class Mentions:
    """The names within a statement: of stages, of buffers allocated, and all (of loops and buffers too); in a long block, all by runs."""

    stages: frozenset[str]
    allocated: frozenset[str]
    names: frozenset[str]
    runs: tuple[frozenset[str], ...] = ()


@quickly_made
@dataclass(frozen=True, slots=True)
class For:
    """A loop. One that `follows` another takes every directive of that loop too (the copies of an accumulated tile).

    The loops of a "tensor" nest are what `instruction`, named at the outermost of them, computes at once where the target has it.
    """

    loop: str
    lo: Expr
    hi: Expr
    body: Stmt
    kind: LoopKind = "serial"
    follows: str | None = None
    instruction: str | None = None
    mentions: Mentions | None = field(default=None, init=False, repr=False, compare=False)


@quickly_made
@dataclass(frozen=True, slots=True)
class Store:
    """One instance of a stage: `buffer[index] = value` for each buffer, or `combine(buffer[index], values)` under a reducer.

    A `stream` store asks to pass the caches by: what it writes is not read again soon.
    """

    stage: str
    buffers: tuple[Buffer, ...]
    index: tuple[Expr, ...]
    values: tuple[Expr, ...]
    reducer: Reducer | None = None
    stream: bool = False
    mentions: Mentions | None = field(default=None, init=False, repr=False, compare=False)


@quickly_made
@dataclass(frozen=True, slots=True)
class Block:
    """Statements in order."""

    body: tuple[Stmt, ...]
    mentions: Mentions | None = field(default=None, init=False, repr=False, compare=False)


@quickly_made
@dataclass(frozen=True, slots=True)
class If:
    """A condition around statements."""

    cond: Expr
    then: Stmt
    orelse: Stmt | None = None
    mentions: Mentions | None = field(default=None, init=False, repr=False, compare=False)


@quickly_made
@dataclass(frozen=True, slots=True)
class Alloc:
    """Storage that lives while `body` runs; its first contents are undefined. `allocate` makes it.

    It holds several buffers, as a block several statements, so that a nest is no deeper for having many intermediates.
    """

    buffers: tuple[Buffer, ...]
    body: Stmt
    mentions: Mentions | None = field(default=None, init=False, repr=False, compare=False)


@quickly_made
@dataclass(frozen=True, slots=True)
class Prefetch:
    """A hint that an element is read soon. It has no effect, and the index may lie outside the buffer."""

    buffer: Buffer
    index: tuple[Expr, ...]
    mentions: Mentions | None = field(default=None, init=False, repr=False, compare=False)


Stmt: TypeAlias = "For | Store | Block | If | Alloc | Prefetch"


# Relations and nests -------------------------------------------------------------------------------------------------------------


@quickly_made
@dataclass(frozen=True, slots=True)
class SplitRelation:
    """`parent = lo + outer * factor + inner`, for `lo <= parent < hi`."""

    parent: str
    outer: str
    inner: str
    factor: int
    lo: Expr
    hi: Expr
    tail: Tail = "guard"


@quickly_made
@dataclass(frozen=True, slots=True)
class FuseRelation:
    """`outer = outer_lo + fused // extent`, `inner = inner_lo + fused % extent`; `extent` is the inner loop's."""

    fused: str
    outer: str
    inner: str
    outer_lo: Expr
    inner_lo: Expr
    extent: Expr


@quickly_made
@dataclass(frozen=True, slots=True)
class WindowRelation:
    """`parent = base + inner`, for `parent < hi`: a region of constant size placed at `base`."""

    parent: str
    inner: str
    base: Expr
    hi: Expr
    tail: Tail = "guard"


Relation: TypeAlias = "SplitRelation | FuseRelation | WindowRelation"
Limit: TypeAlias = tuple[str, int, int]
"""The least and the most value of a dim, where they say more than 0 and `MOST`."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Nest:
    """A whole program: argument buffers, run-time extents, statements, the relations of derived axes (oldest first), the bounded dims.

    `products` are the extents in which dims are multiplied, which a call keeps to the range of extents.
    """

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    dims: tuple[str, ...]
    body: Stmt
    relations: tuple[Relation, ...] = ()
    limits: tuple[Limit, ...] = ()
    products: tuple[Expr, ...] = ()

    def _repr_html_(self) -> str:
        from tensorlang.ir.printer import print_nest  # noqa: PLC0415 - for notebooks alone, as the next
        from tensorlang.system import markup  # noqa: PLC0415

        return markup.display(markup.nest(print_nest(self)))


def const(value: int) -> Const:
    """An int64 literal."""
    return Const(value, INT64)


def block(*parts: Stmt) -> Stmt:
    """Statements in order, nested blocks flattened; a single one stands alone."""
    flat = [piece for part in parts for piece in (part.body if isinstance(part, Block) else (part,))]
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def allocate(buffers: Iterable[Buffer], body: Stmt) -> Stmt:
    """`body` inside storage, joined with what stands directly in it; for no storage, `body` alone."""
    own = tuple(buffers)
    if not own:
        return body
    return Alloc((*own, *body.buffers), body.body) if isinstance(body, Alloc) else Alloc(own, body)
