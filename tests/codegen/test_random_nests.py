"""Random lowered nests: machine code computes what the nest interpreter does, whichever loops are serial, unrolled, parallel or vectors."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tensorlang.ir import (
    Axis,
    Binary,
    Block,
    Cast,
    Compare,
    Const,
    Dim,
    Expr,
    If,
    Load,
    LoopKind,
    Nest,
    Param,
    Reducer,
    Select,
    Stmt,
    Unary,
    const,
)
from tensorlang.ir.dtype import INT32, INT64
from tensorlang.semantics.nest_interpreter import run_nest
from tests.codegen.nests import Guarded, Run, arg, loop, store
from tests.thinned import few

ROWS, COLUMNS, SEEDS = 13, 7, 5
TABLE, POINTS, RESULT = arg("X", ROWS, COLUMNS, dtype=INT32), arg("P", COLUMNS, dtype=INT64), arg("Y", ROWS, COLUMNS, dtype=INT64)
PLACE = (Axis("i"), Axis("j"))
ADD = Reducer("sum", (Const(0),), (Binary("add", Param("a0", INT64), Param("b0", INT64)),))
KINDS: list[tuple[LoopKind, LoopKind]] = [
    ("serial", "serial"),
    ("serial", "vector"),
    ("vector", "serial"),
    ("unroll", "vector"),
    ("vector", "unroll"),
    ("parallel", "vector"),
    ("unroll", "unroll"),
]
OPERATIONS = ("add", "sub", "mul", "add", "sub", "floordiv", "mod", "min", "max", "shl", "shr", "xor")


def clamped(value: Expr, extent: int) -> Expr:
    return Binary("min", Binary("max", value, const(0)), const(extent - 1))


def number(rng: random.Random, depth: int) -> Expr:
    """A random int64 expression of both axes that reads only inside its buffers."""
    chance = rng.random()
    if depth == 0 or chance < 0.2:
        leaves: list[Expr] = [*PLACE, *PLACE, Dim("n"), const(rng.randint(-20, 20))]
        return rng.choice(leaves)
    if chance < 0.3:
        return Load(POINTS, (clamped(number(rng, depth - 1), COLUMNS),))
    if chance < 0.4:
        return Cast(Load(TABLE, (clamped(number(rng, depth - 1), ROWS), clamped(number(rng, depth - 1), COLUMNS))), INT64)
    if chance < 0.5:
        return Select(truth(rng, depth - 1), number(rng, depth - 1), number(rng, depth - 1))
    if chance < 0.6:
        return guarded_load(rng, depth)
    return Binary(rng.choice(OPERATIONS), number(rng, depth - 1), number(rng, depth - 1))


def guarded_load(rng: random.Random, depth: int) -> Expr:
    """A read that is in bounds only where its condition holds, at an index of any pattern."""
    i, j = PLACE
    shapes: list[Expr] = [
        Binary("add", j, const(rng.randint(-3, 3))),
        Binary("sub", i, j),
        Binary("mul", j, const(2)),
        i,
        number(rng, 1),
    ]
    at = rng.choice(shapes)
    inside = Binary("and", Compare("ge", at, const(0)), Compare("lt", at, const(COLUMNS)))
    return Select(inside, Load(POINTS, (at,)), number(rng, depth - 1))


def truth(rng: random.Random, depth: int) -> Expr:
    """A random condition."""
    chance = rng.random()
    if depth > 0 and chance < 0.3:
        return Binary(rng.choice(["and", "or", "xor"]), truth(rng, depth - 1), truth(rng, depth - 1))
    if depth > 0 and chance < 0.4:
        return Unary("not", truth(rng, depth - 1))
    return Compare(rng.choice(["eq", "ne", "lt", "le", "gt", "ge"]), number(rng, max(depth - 1, 0)), number(rng, max(depth - 1, 0)))


def statement(rng: random.Random) -> Stmt:
    """A store, and a condition around one or two reductions into it."""
    otherwise = store(RESULT, PLACE, number(rng, 2), ADD) if rng.random() < 0.5 else None
    return Block((store(RESULT, PLACE, number(rng, 4)), If(truth(rng, 2), store(RESULT, PLACE, number(rng, 3), ADD), otherwise)))


@pytest.mark.parametrize("seed", few(range(SEEDS), 2))
def test_every_kind_of_loop_computes_what_the_interpreter_does(run: Run, guarded: Guarded, seed: int) -> None:
    body, data = statement(random.Random(seed)), np.random.default_rng(seed)
    table = guarded(data.integers(-9, 9, (ROWS, COLUMNS)).astype(np.int32))
    points = guarded(data.integers(-9, 9, COLUMNS), before=bool(seed % 2))
    expected = np.zeros((ROWS, COLUMNS), np.int64)
    for kinds in KINDS:
        outer = loop("i", ROWS, loop("j", COLUMNS, body, kinds[1]), kinds[0])
        nest = Nest("f", (TABLE, POINTS), (RESULT,), ("n",), outer)
        if kinds == KINDS[0]:
            run_nest(nest, {"X": table, "P": points, "Y": expected}, {"n": 5})
        found = guarded(np.zeros((ROWS, COLUMNS), np.int64))
        assert run(nest, table, points, found, dims=(5,)) == 0
        assert np.array_equal(found, expected), kinds
