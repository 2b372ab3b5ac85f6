"""A vector reduction keeps one partial result for each lane.

    for k_o in range(n):                            part: float32[16] in registers
        vector k_i in range(16):                    vector l in range(16): part[l] = 0
            C[i] += A[i, k]                 ->      for k_o in range(n):
                                                        vector k_i in range(16): part[k_i] += A[i, k]
                                                    ... part[l] += part[l + 8], then 4, 2, 1
                                                    C[i] += part[0]

The partial results live across all loops around the vector loop that do not move the element, so they are combined once. They are a
power of two, the identity where there are fewer lanes: LLVM 22 ends the process where it sees that 15 truth values are counted. Vector
loops stand at stores by now (`vectors.distribute`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tensorlang import ir
from tensorlang.ir import Alloc, Axis, Binary, Block, Buffer, Expr, For, If, Load, Nest, Prefetch, Stmt, Store, allocate, block
from tensorlang.mentions import allocations
from tensorlang.simplify import simplify
from tensorlang.traverse import axes_of, map_statements


def vector_partials(nest: Nest) -> Nest:
    """The nest with partial results around every vector loop over a reduction."""
    taken = {buffer.name for buffer in allocations(nest.body)}
    return replace(nest, body=_rewrite(nest.body, taken))


def _rewrite(stmt: Stmt, taken: set[str]) -> Stmt:
    found = _reduction(stmt)
    if found is None:
        return map_statements(stmt, lambda part: _rewrite(part, taken))
    vector, store = found
    lanes = int(getattr(simplify(Binary("sub", vector.hi, vector.lo)), "value", 0))
    if lanes <= 1:
        return stmt
    width = 1 << (lanes - 1).bit_length()
    local = tuple(Buffer(_fresh(f"{buffer.name}_part", taken), (ir.const(width),), buffer.dtype, "register") for buffer in store.buffers)
    lane = simplify(Binary("sub", Axis(vector.loop), vector.lo))

    def into_part(part: Stmt) -> Stmt:
        if part == store:
            return replace(store, buffers=local, index=(lane,))
        return map_statements(part, into_part)

    assert store.reducer is not None
    start = f"{vector.loop}.part"
    parts: list[Stmt] = [
        _vector(start, width, Store(f"{store.stage}.part", local, (Axis(start),), store.reducer.identities)),
        into_part(stmt),
    ]
    while width > 1:
        width //= 2
        step = f"{vector.loop}.sum{width}"
        high = tuple(Load(buffer, (Binary("add", Axis(step), ir.const(width)),)) for buffer in local)
        parts.append(_vector(step, width, Store(f"{store.stage}.part", local, (Axis(step),), high, store.reducer)))
    parts.append(replace(store, values=tuple(Load(buffer, (ir.const(0),)) for buffer in local)))
    return allocate(local, block(*parts))


def _vector(loop: str, lanes: int, body: Stmt) -> For:
    return For(loop, ir.const(0), ir.const(lanes), body, "vector" if lanes > 1 else "serial")


def _fresh(label: str, taken: set[str]) -> str:
    name, count = label, 0
    while name in taken:
        count += 1
        name = f"{label}_{count}"
    taken.add(name)
    return name


def _reduction(stmt: Stmt, outer: Sequence[str] = ()) -> tuple[For, Store] | None:
    """The vector loop and store of a nest of loops around one combining store whose element none of those loops moves."""
    match stmt:
        case For(loop, body=body, kind="vector"):
            inner = _only_store(body)
            if inner is None or inner.reducer is None or axes_of_all(inner.index) & {loop, *outer}:
                return None
            return stmt, inner
        case For(loop, body=body, kind="serial" | "unroll"):
            return _reduction(body, (*outer, loop))
        case If(_, then, None) if outer:
            return _reduction(then, outer)
        case _:
            return None


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
