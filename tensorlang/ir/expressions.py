"""Expressions, and the buffers that they read, as the grammar at the top of `nodes` has them."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, Protocol, TypeAlias

from tensorlang.ir.dtype import INT64, DType
from tensorlang.system.frozen import frozen

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


@frozen
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


@frozen
class Const:
    """A literal. Equality is by type and spelling, so that -0.0 and 0.0 stay apart and NaN equals itself."""

    value: float | int | bool
    dtype: DType = INT64

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self.dtype == other.dtype and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash((self.dtype, repr(self.value)))


@frozen
class Axis:
    """A loop or a derived axis, by name."""

    name: str


@frozen
class Dim:
    """An extent known only at run time (int64), `least <= dim <= most`. Equal names are the same dim: bounds do not tell dims apart."""

    name: str
    least: int = field(default=0, compare=False)
    most: int = field(default=MOST, compare=False)


@frozen
class Param:
    """An operand of a reducer's combination."""

    name: str
    dtype: DType


@frozen
class Load:
    """One element of a buffer; does it `exist` for sure, so that it may be read where nobody asks for it? (Told by lowering.)"""

    buffer: Source
    index: tuple[Expr, ...]
    exists: bool = False


@frozen
class Cast:
    """Conversion: saturating from floating point (NaN becomes 0), wrapping between integers.

    `fits` tells that the value lies within the type, and is a number.
    """

    value: Expr
    dtype: DType
    fits: bool = False


@frozen
class Unary:
    """`neg`, `abs` (integers wrap), `not` (bitwise; logical on bool)."""

    op: str
    value: Expr


@frozen
class Binary:
    """Arithmetic on two values of one type. `div` is floating; `floordiv` and `mod` are floored; all are total."""

    op: str
    left: Expr
    right: Expr


@frozen
class Compare:
    """A comparison of two values of one type; bool."""

    op: str
    left: Expr
    right: Expr


@frozen
class Select:
    """`yes` where `cond`, else `no`; only the chosen side is read."""

    cond: Expr
    yes: Expr
    no: Expr


@frozen
class Call:
    """A named function of the table in `functions`."""

    function: str
    args: tuple[Expr, ...]
    dtype: DType


@frozen
class Reducer:
    """An associative, commutative combination of states of one or several components.

    `results[c]` is component c of `combine(a, b)`, over `Param("a0") ...` (the state so far) and `Param("b0") ...` (the new value).
    """

    name: str
    identities: tuple[Const, ...]
    results: tuple[Expr, ...]


@frozen
class ReduceAxis:
    """The range of a reduction axis, `lo <= name < hi`."""

    name: str
    lo: Expr
    hi: Expr


@frozen
class Reduce:
    """The combination of `values` over `axes` where `where` holds; its value is component `component` of the final state."""

    reducer: Reducer
    values: tuple[Expr, ...]
    axes: tuple[ReduceAxis, ...]
    where: Expr | None
    component: int = 0


Expr: TypeAlias = "Const | Axis | Dim | Param | Load | Cast | Unary | Binary | Compare | Select | Call | Reduce"


def const(value: int) -> Const:
    """An int64 literal."""
    return Const(value, INT64)
