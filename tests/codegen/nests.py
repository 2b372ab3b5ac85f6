"""Parts of which the tests of the emitter build lowered nests by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

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
    LoopKind,
    Nest,
    Param,
    Reducer,
    Stmt,
    Store,
    const,
)
from tensorlang.ir.dtype import FLOAT32, DType

Array: TypeAlias = "np.ndarray[Any, Any]"
Term: TypeAlias = "str | int | tuple[int, str] | Expr"


class Run(Protocol):
    """The fixture that compiles a nest and calls it with inputs, then outputs; gives the status."""

    def __call__(self, nest: Nest, *arrays: Array, dims: tuple[int, ...] = (), on: str = "native") -> int: ...


class Guarded(Protocol):
    """The fixture that copies an array to the end (or the start) of memory that may be touched."""

    def __call__(self, array: Array, *, before: bool = False) -> Array: ...


SUM = Reducer("sum", (Const(0.0, FLOAT32),), (Binary("add", Param("a0", FLOAT32), Param("b0", FLOAT32)),))
ZERO = Const(0.0, FLOAT32)


def arg(name: str, *shape: int | Expr, dtype: str = FLOAT32) -> Buffer:
    """An argument buffer; extents are numbers or expressions."""
    return Buffer(name, tuple(const(extent) if isinstance(extent, int) else extent for extent in shape), DType(dtype), "argument")


def index(*terms: Term) -> Expr:
    """A sum of loop names, numbers, and (number, loop name) products."""
    total: Expr | None = None
    part: Expr
    for term in terms:
        match term:
            case str():
                part = Axis(term)
            case int():
                part = const(term)
            case (int(factor), str(name)):
                part = Binary("mul", Axis(name), const(factor))
            case _:
                part = term
        total = part if total is None else Binary("add", total, part)
    assert total is not None
    return total


def loop(name: str, extent: int | Expr, body: Stmt, kind: LoopKind = "serial", lo: int | Expr = 0) -> For:
    """A loop from `lo` below `extent`."""
    first, last = (const(bound) if isinstance(bound, int) else bound for bound in (lo, extent))
    return For(name, first, last, body, kind)


def store(buffer: Buffer, place: Sequence[Expr], value: Expr, reducer: Reducer | None = None) -> Store:
    """`buffer[place] = value`, or its combination with what is there."""
    return Store(buffer.name, (buffer,), tuple(place), (value,), reducer)


def matmul_nest(m: int, n: int, k: int) -> Nest:
    """Matmul as its definition reads."""
    a, b, c = arg("A", m, k), arg("B", k, n), arg("C", m, n)
    i, j, l = Axis("C.i"), Axis("C.j"), Axis("C.k")
    clear = loop("C.init.i", m, loop("C.init.j", n, store(c, (Axis("C.init.i"), Axis("C.init.j")), ZERO)))
    product = Binary("mul", Load(a, (i, l)), Load(b, (l, j)))
    update = loop("C.i", m, loop("C.j", n, loop("C.k", k, store(c, (i, j), product, SUM))))
    return Nest("matmul", (a, b), (c,), (), Block((clear, update)))


def tile_nest(m: int, n: int, k: int, *, rows: int, lanes: int, vectors: int = 1, mask: bool = False, parallel: bool = False) -> Nest:
    """Matmul with a tile of `rows` by `vectors * lanes` accumulated in registers; n may exceed the tiles under a mask."""
    a, b, c = arg("A", m, k), arg("B", k, n), arg("C", m, n)
    width = vectors * lanes
    acc = Buffer("acc", (const(rows), const(width)), FLOAT32, "register")

    def tile(prefix: str, body: Stmt) -> Stmt:
        return loop(f"{prefix}.i", rows, loop(f"{prefix}.v", vectors, loop(f"{prefix}.j", lanes, body, "vector"), "unroll"), "unroll")

    def at(prefix: str) -> tuple[Expr, Expr]:
        return Axis(f"{prefix}.i"), index((lanes, f"{prefix}.v"), f"{prefix}.j")

    def whole(prefix: str) -> tuple[Expr, Expr]:
        return index((rows, "io"), f"{prefix}.i"), index((width, "jo"), (lanes, f"{prefix}.v"), f"{prefix}.j")

    def guard(prefix: str, body: Stmt) -> Stmt:
        return If(Compare("lt", whole(prefix)[1], const(n)), body) if mask else body

    l = Axis("k")
    product = Binary("mul", Load(a, (whole("u")[0], l)), Load(b, (l, whole("u")[1])))
    body = Block(
        (
            tile("z", store(acc, at("z"), ZERO)),
            loop("k", k, tile("u", guard("u", store(acc, at("u"), product, SUM)))),
            tile("w", guard("w", store(c, whole("w"), Load(acc, at("w"))))),
        )
    )
    nest = loop("io", m // rows, loop("jo", -(-n // width), Alloc((acc,), body)), "parallel" if parallel else "serial")
    return Nest("matmul", (a, b), (c,), (), nest)


def operands(*shapes: tuple[int, ...], seed: int = 0) -> list[Array]:
    """Random float32 arrays."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def unary(body: Stmt, x: Buffer, y: Buffer, kind: LoopKind = "serial") -> Nest:
    """The nest `y[i] = ...` over the extent of y, from one input."""
    return Nest("f", (x,), (y,), (), loop("i", y.shape[0], body, kind))
