"""A vector reduction keeps one partial result for each lane.

    for k_o in range(n):                            part: float32[16] in registers
        vector k_i in range(16):                    vector l in range(16): part[l] = 0
            C[i] += A[i, k]                 ->      for k_o in range(n):
                                                        vector k_i in range(16): part[k_i] += A[i, k]
                                                    ... part[l] += part[l + 8], then 4, 2, 1
                                                    C[i] += part[0]

The partial results live across all loops around the vector loop that do not move the element, so they are combined once, unless something
else there reads or writes the element's buffer. They are a power of two, the identity where there are fewer lanes: LLVM 22 ends the process
where it sees that 15 truth values are counted. Vector loops stand at stores by now (`vectors.distribute`).

Loops that are written out between them may move the element: each of its places has partial results of its own, `part[c, l]`.

Between the loops may be a condition that alone keeps the element inside (`H[I[i]]` where I[i] is a row of H). Then lanes also note that
they ran, and the partial results are combined only if one did:

    vector k_i in range(16): if c: part[k_i] += A[i, k]
    vector k_i in range(16): if c: ran[k_i] = 1
    ... if ran[0] != 0: H[I[i]] += part[0]

A condition that no lane and no iteration changes stands around all of this: rows that it leaves out have nothing to combine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import (
    Alloc,
    Axis,
    Binary,
    Block,
    Buffer,
    Compare,
    Const,
    Expr,
    For,
    If,
    Load,
    Nest,
    Prefetch,
    Reducer,
    Stmt,
    Store,
    Unary,
    allocate,
    block,
)
from tensorlang.ir.dtype import INT32
from tensorlang.ir.mentions import allocations, mentions
from tensorlang.ir.names import unique
from tensorlang.ir.traverse import axes_of, loads_of, map_expressions, map_statements, reads_data, statements, substitute
from tensorlang.language.reduction import single
from tensorlang.schedules.legality.accesses import facts_of
from tensorlang.schedules.legality.in_bounds import sides_left
from tensorlang.schedules.rewriting.edit import literal_extent


def vector_partials(nest: Nest) -> Nest:
    """The nest with partial results around every vector loop over a reduction."""
    taken = {buffer.name for buffer in allocations(nest.body)}
    return replace(nest, body=_rewrite(nest.body, taken, ()))


def _rewrite(stmt: Stmt, taken: set[str], facts: tuple[Expr, ...]) -> Stmt:
    found = _reduction(stmt)
    if found is None:
        match stmt:
            case For():
                return replace(stmt, body=_rewrite(stmt.body, taken, (*facts, *facts_of(stmt))))
            case If(cond, then, orelse):
                other = None if orelse is None else _rewrite(orelse, taken, (*facts, Unary("not", cond)))
                return replace(stmt, then=_rewrite(then, taken, (*facts, cond)), orelse=other)
            case _:
                return map_statements(stmt, lambda part: _rewrite(part, taken, facts))
    vector, store, planes = found
    if (asked := _asked_once(stmt, store)) is not None:
        cond, inner = asked
        return If(cond, _rewrite(inner, taken, (*facts, cond)))
    lanes = int(getattr(simplify(Binary("sub", vector.hi, vector.lo)), "value", 0))
    if lanes <= 1:
        return stmt
    assert store.reducer is not None
    width = 1 << (lanes - 1).bit_length()
    lane = simplify(Binary("sub", Axis(vector.loop), vector.lo))
    shape = tuple(simplify(Binary("sub", plane.hi, plane.lo)) for plane in planes)
    local = tuple(
        Buffer(unique(f"{buffer.name}_part", taken), (*shape, ir.const(width)), buffer.dtype, "register") for buffer in store.buffers
    )
    partial = _Partials(f"{store.stage}.part", vector.loop, local, width, store.reducer, planes)
    into = _edited(vector, store, replace(store, buffers=local, index=(*partial.places, lane)))
    combined = replace(store, values=partial.first())
    if not _only_sometimes(stmt, store, (*facts, *(fact for plane in planes for fact in facts_of(plane)))):
        rest = _rewrite(_edited(stmt, vector, into), taken, facts)  # sums of other stages may stand beside this one
        return partial.allocated(block(partial.start(), rest, partial.halved(), partial.each(combined)))
    ran = Buffer(unique(f"{store.buffers[0].name}_ran", taken), (*shape, ir.const(width)), INT32, "register")
    flags = _Partials(f"{store.stage}.ran", f"{vector.loop}.ran", (ran,), width, single("max", "max", 0, INT32), planes)
    note = _edited(vector, store, Store(flags.stage, (ran,), (*flags.places, lane), (Const(1, INT32),)))
    noted = _renamed(note, vector.loop, flags.loop)
    sometimes = partial.each(If(Compare("gt", flags.first()[0], Const(0, INT32)), combined))
    body = block(partial.start(), flags.start(), _edited(stmt, vector, block(into, noted)), partial.halved(), flags.halved(), sometimes)
    return flags.allocated(partial.allocated(body))


@dataclass(frozen=True, slots=True)
class _Partials:
    """One value for each of `width` lanes and each iteration of `planes`, combined by `reducer`; its loops are named after `loop`."""

    stage: str
    loop: str
    local: tuple[Buffer, ...]
    width: int
    reducer: Reducer
    planes: tuple[For, ...] = ()

    @property
    def places(self) -> tuple[Expr, ...]:
        """Where the values of an iteration of `planes` are."""
        return tuple(simplify(Binary("sub", Axis(plane.loop), plane.lo)) for plane in self.planes)

    def each(self, body: Stmt) -> Stmt:
        """A statement for each iteration of `planes`."""
        for plane in reversed(self.planes):
            body = replace(plane, body=body)
        return body

    def start(self) -> Stmt:
        """Every lane at the identity."""
        axis = f"{self.loop}.part"
        return self.each(_vector(axis, self.width, Store(self.stage, self.local, (*self.places, Axis(axis)), self.reducer.identities)))

    def halved(self) -> Stmt:
        """All lanes combined into the first."""
        parts: list[Stmt] = []
        width = self.width
        while width > 1:
            width //= 2
            axis = f"{self.loop}.sum{width}"
            high = tuple(Load(buffer, (*self.places, Binary("add", Axis(axis), ir.const(width)))) for buffer in self.local)
            parts.append(_vector(axis, width, Store(self.stage, self.local, (*self.places, Axis(axis)), high, self.reducer)))
        return self.each(block(*parts))

    def first(self) -> tuple[Expr, ...]:
        """The values of the first lane."""
        return tuple(Load(buffer, (*self.places, ir.const(0))) for buffer in self.local)

    def allocated(self, body: Stmt) -> Stmt:
        """A statement inside the storage of the partial results."""
        return allocate(self.local, body)


def _asked_once(stmt: Stmt, store: Store, outer: tuple[For, ...] = ()) -> tuple[Expr, Stmt] | None:
    """The first condition around the store that is the same in all loops of `stmt`, and the statement without it.

    Loops that may be empty stay around it: what it reads need not exist then.
    """
    match stmt:
        case For(body=body) if literal_extent(stmt):
            found = _asked_once(body, store, (*outer, stmt))
            return None if found is None else (found[0], replace(stmt, body=found[1]))
        case If(cond, then, None) if outer and axes_of(cond).isdisjoint(loop.loop for loop in outer):
            written = {buffer.name for buffer in store.buffers}
            return None if any(isinstance(load.buffer, Buffer) and load.buffer.name in written for load in loads_of(cond)) else (cond, then)
        case _:
            return None


def _only_sometimes(stmt: Stmt, store: Store, facts: tuple[Expr, ...]) -> bool:
    """Does a condition within `stmt` stand between the element of the store and being out of bounds?"""
    if not any(isinstance(part, If) for part in statements(stmt)):
        return False
    read = any(map(reads_data, store.index))
    return read or bool(sides_left(store.index, store.buffers[0].shape, facts))


def _edited(stmt: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """`stmt` with `old` replaced."""
    return new if stmt == old else map_statements(stmt, lambda part: _edited(part, old, new))


def _renamed(stmt: Stmt, loop: str, name: str) -> Stmt:
    """A vector loop under another name."""
    assert isinstance(stmt, For)
    values: dict[str, Expr] = {loop: Axis(name)}
    return replace(stmt, loop=name, body=map_expressions(stmt.body, lambda expr: substitute(expr, values)))


def _vector(loop: str, lanes: int, body: Stmt) -> For:
    return For(loop, ir.const(0), ir.const(lanes), body, "vector" if lanes > 1 else "serial")


def _reduction(stmt: Stmt, outer: Sequence[For] = ()) -> tuple[For, Store, tuple[For, ...]] | None:
    """The vector loop and store of a nest of loops around one combining store, and those of the loops that move its element.

    These are written out, and stand inside one that does not move it.
    """
    match stmt:
        case For(loop, body=body, kind="vector"):
            inner = _only_store(body)
            if inner is None or inner.reducer is None:
                return None
            follows = axes_of_all(inner.index)
            planes = tuple(around for around in outer if around.loop in follows)
            if loop in follows or outer[:1] == planes[:1] != () or not all(map(_is_written_out, planes)):
                return None
            return stmt, inner, planes
        case For(body=body, kind="serial" | "unroll"):
            return _reduction(body, (*outer, stmt))
        case If(_, then, None) if outer:
            return _reduction(then, outer)
        case Block(body) if outer:
            found = ((part, _reduction(part, outer)) for part in body)
            return next((inner for part, inner in found if inner is not None and _is_alone(inner[1], part, body)), None)
        case _:
            return None


def _is_written_out(loop: For) -> bool:
    return loop.kind == "unroll" and isinstance(simplify(Binary("sub", loop.hi, loop.lo)), Const)


def _is_alone(store: Store, own: Stmt, body: Sequence[Stmt]) -> bool:
    """Does nothing in a block but the store's own part touch what it writes to?"""
    written = {buffer.name for buffer in store.buffers}
    return all(part is own or mentions(part).names.isdisjoint(written) for part in body)


def _only_store(stmt: Stmt) -> Store | None:
    match stmt:
        case Store():
            return stmt
        case If(_, then, None):
            return _only_store(then)
        case Block() | Alloc() | For() | If() | Prefetch():
            return None


def axes_of_all(exprs: Sequence[Expr]) -> frozenset[str]:
    """The axes that any of the expressions reads."""
    return frozenset().union(*(axes_of(expr) for expr in exprs)) if exprs else frozenset()
