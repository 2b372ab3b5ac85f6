"""The loop nest: the one program form between a definition and machine code.

    nest     = Nest(name, inputs, outputs, dims, body, relations, limits, products)
    stmt     = For(loop, lo, hi, kind, body, follows?, instruction?)    lo <= loop < hi
             | Store(stage, buffers, index*, values, reducer?, stream?)    one element of each buffer; with a reducer: combine(old, values)
             | Block(stmt*) | If(cond, then, else?) | Alloc(buffers, body)
             | Prefetch(buffer, index*, level)                              no effect: the element may be needed soon
    kind     = serial | parallel | vector | unroll | tensor
    relation = SplitRelation(parent, outer, inner, factor, lo, hi, tail)
                   parent = lo + outer * factor + inner                                parent < hi
             | FuseRelation(fused, outer, inner, outer_lo, inner_lo, extent)
                   outer = outer_lo + fused // extent, inner = inner_lo + fused % extent
             | WindowRelation(parent, inner, base, hi, tail)
                   parent = base + inner                                               parent < hi
    expr     = Const(value, dtype) | Axis(name) | Dim(name, least, most) | Param(name, dtype) | Load(buffer, index*, exists)
             | Cast(value, dtype) | Unary(op, value) | Binary(op, left, right) | Compare(op, left, right)
             | Select(cond, yes, no) | Call(function, args) | Reduce(reducer, values, axes, where?, component)

A directive rewrites loops; statements go on speaking of the axes of their definition. A relation says how such a *derived* axis
follows from loops: a split or a fuse states its equation once, and bounds, index recovery, the printer, the legality proof and code
generation all read it there. A statement runs only where the condition of every relation whose variables are in scope holds
(`parent < hi`); a "shift" split instead moves its last tile back, so it has a condition only where the extent is below the factor.
`lower` (in codegen) replaces derived axes by their values and conditions by loops, masks and `If`s; after it no relation is left.

Names of loops and axes are unique in a nest and read `stage.axis` ("C.i", "C.i_o", "C.init.i"). Extents and indices are int64.
`Reduce` stands only in definitions and `Param` only in reducers; a nest holds neither (see `verify`).
Buffers and expressions are defined in `expressions`, the rest here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Literal, TypeAlias

from tensorlang.ir.expressions import MOST, Buffer, Expr, Reducer
from tensorlang.system.frozen import frozen

LoopKind = Literal["serial", "parallel", "vector", "unroll", "tensor"]
Tail = Literal["guard", "mask", "peel", "shift"]


# Statements ----------------------------------------------------------------------------------------------------------------------


@frozen
class Mentions:
    """The names within a statement: of stages, of buffers allocated, and all (of loops and buffers too); in a long block, all by runs.

    `depth` is how many loops stand in one another.
    """

    stages: frozenset[str]
    allocated: frozenset[str]
    names: frozenset[str]
    runs: tuple[frozenset[str], ...] = ()
    depth: int = 0


@frozen
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


@frozen
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


@frozen
class Block:
    """Statements in order."""

    body: tuple[Stmt, ...]
    mentions: Mentions | None = field(default=None, init=False, repr=False, compare=False)


@frozen
class If:
    """A condition around statements."""

    cond: Expr
    then: Stmt
    orelse: Stmt | None = None
    mentions: Mentions | None = field(default=None, init=False, repr=False, compare=False)


@frozen
class Alloc:
    """Storage that lives while `body` runs; its first contents are undefined. `allocate` makes it.

    It holds several buffers, as a block several statements, so that a nest is no deeper for having many intermediates.
    """

    buffers: tuple[Buffer, ...]
    body: Stmt
    mentions: Mentions | None = field(default=None, init=False, repr=False, compare=False)


@frozen
class Prefetch:
    """A hint that an element is read soon, so that its line should come to the `level`-th cache (1 is the nearest).

    It has no effect, and the index may lie outside the buffer.
    """

    buffer: Buffer
    index: tuple[Expr, ...]
    level: int = 1
    mentions: Mentions | None = field(default=None, init=False, repr=False, compare=False)


Stmt: TypeAlias = "For | Store | Block | If | Alloc | Prefetch"


# Relations and nests -------------------------------------------------------------------------------------------------------------


@frozen
class SplitRelation:
    """`parent = lo + outer * factor + inner`, for `lo <= parent < hi`."""

    parent: str
    outer: str
    inner: str
    factor: int
    lo: Expr
    hi: Expr
    tail: Tail = "guard"


@frozen
class FuseRelation:
    """`outer = outer_lo + fused // extent`, `inner = inner_lo + fused % extent`; `extent` is the inner loop's."""

    fused: str
    outer: str
    inner: str
    outer_lo: Expr
    inner_lo: Expr
    extent: Expr


@frozen
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


@frozen
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

    @property
    def bounds(self) -> dict[str, tuple[int, int]]:
        """The least and the most value of each dim."""
        return dict.fromkeys(self.dims, (0, MOST)) | {name: (least, most) for name, least, most in self.limits}

    def _repr_html_(self) -> str:
        from tensorlang.ir.printer import print_nest  # noqa: PLC0415 - for notebooks alone, as the next
        from tensorlang.system import markup  # noqa: PLC0415

        return markup.display(markup.nest(print_nest(self)))


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
