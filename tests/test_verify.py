"""`verify` accepts every well-formed nest and names the invariant that a broken one breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tensorlang import ir
from tensorlang.errors import InternalError
from tensorlang.ir import (
    Alloc,
    Axis,
    Binary,
    Buffer,
    Call,
    Compare,
    Const,
    Dim,
    Expr,
    For,
    If,
    Load,
    Nest,
    Param,
    Reduce,
    Reducer,
    Select,
    SplitRelation,
    Stmt,
    Store,
    Unary,
    WindowRelation,
)
from tensorlang.ir.dtype import BOOL, FLOAT32, FLOAT64
from tensorlang.ir.verify import verify
from tests.work import work

c = ir.const
SUM = Reducer("sum", (Const(0.0, FLOAT32),), (Binary("add", Param("a0", FLOAT32), Param("b0", FLOAT32)),))
A, B, C = (Buffer(name, (Dim("n"), c(8)), FLOAT32, "argument") for name in "ABC")
I, J = Axis("i"), Axis("j")
ONE = Const(1.0, FLOAT32)


def loops(body: Stmt, *names: str, kind: ir.LoopKind = "serial") -> Stmt:
    for name in reversed(names):
        body = For(name, c(0), Dim("n") if name == "i" else c(8), body, kind)
    return body


def nest(body: Stmt, *relations: ir.Relation) -> Nest:
    return Nest("f", (A, B), (C,), ("n",), body, relations)


def storing(value: Expr, buffer: Buffer = C, index: tuple[Expr, ...] = (I, J)) -> Stmt:
    return loops(Store("C", (buffer,), index, (value,)), "i", "j")


def blocked() -> Nest:
    """A matrix product, split, with a packed operand."""
    pack = Buffer("B_pack", (c(4), c(8)), FLOAT32, "stack")
    k = Axis("k")
    copied = For(
        "k_p",
        c(0),
        c(4),
        For("j_p", c(0), c(8), Store("B_pack", (pack,), (Axis("k_p"), Axis("j_p")), (Load(B, (Axis("k_q"), Axis("j_p"))),))),
    )
    product = Binary("mul", Load(A, (I, k)), Load(pack, (Axis("k_i"), J)))
    update = Store("C", (C,), (I, J), (product,), SUM)
    inner = For("i_o", c(0), Dim("n"), For("k_i", c(0), c(4), For("i_i", c(0), c(6), For("j", c(0), c(8), update, "vector"), "unroll")))
    body = ir.block(storing(Const(0.0, FLOAT32)), For("k_o", c(0), c(2), Alloc((pack,), ir.block(copied, inner))))
    relations = (
        SplitRelation("i", "i_o", "i_i", 6, c(0), Dim("n")),
        SplitRelation("k", "k_o", "k_i", 4, c(0), c(8)),
        WindowRelation("k_q", "k_p", Binary("mul", c(4), Axis("k_o")), c(8)),
    )
    return nest(body, *relations)


def test_a_blocked_matmul_is_well_formed() -> None:
    verify(blocked())


def test_a_nest_is_verified_in_one_walk() -> None:
    once = blocked()
    often = replace(once, body=ir.block(*[once.body] * 10))
    assert work(lambda: verify(often)) < 10.5 * work(lambda: verify(once))


BROKEN: dict[str, tuple[Nest | Callable[[], Nest], str]] = {
    "an axis without a loop": (nest(loops(Store("C", (C,), (I, J), (ONE,)), "i")), "the axis j is not in scope; there are i"),
    "an axis after its loop": (
        nest(ir.block(storing(ONE), Store("C", (C,), (I, J), (ONE,)))),
        "the axis i is not in scope; there are none",
    ),
    "a dim that is not declared": (nest(For("i", c(0), Dim("m"), storing(ONE))), "the dim m is not declared|runs inside"),
    "one loop in another of its name": (nest(For("i", c(0), c(2), storing(ONE))), "the loop i runs inside an axis of its own name"),
    "a loop named as a derived axis": (
        nest(For("o", c(0), c(2), For("u", c(0), c(2), storing(ONE))), SplitRelation("i", "o", "u", 2, c(0), Dim("n"))),
        "the loop i runs inside an axis of its own name",
    ),
    "a buffer that is not declared": (nest(storing(Load(Buffer("T", (c(8),), FLOAT32), (J,)))), "the buffer T is not declared here"),
    "a buffer unlike its declaration": (
        nest(storing(Load(replace(A, dtype=FLOAT64), (I, J)))),
        "the buffer A differs from its declaration",
    ),
    "a buffer declared twice": (nest(Alloc((A,), storing(ONE))), "the buffer A is declared twice"),
    "a store to an input": (nest(storing(ONE, A)), "A is an input"),
    "too few indices": (nest(storing(ONE, index=(I,))), "1 indices for the 2 axes of C"),
    "an index that is not int64": (nest(storing(ONE, index=(I, ONE))), "1.0 is float32, not int64"),
    "a value of another type": (nest(storing(c(1))), "1 is int64, the buffer float32"),
    "operands of two types": (nest(storing(Binary("add", ONE, c(1)))), r"operands of different types, float32 and int64: 1.0 \+ 1"),
    "an operator on a wrong type": (nest(storing(Binary("mod", ONE, ONE))), "mod of float32: 1.0 % 1.0"),
    "an unknown operator": (nest(storing(Binary("plus", ONE, ONE))), "plus of float32"),
    "not of floating point": (nest(storing(Unary("not", ONE))), "not of float32: ~1.0"),
    "a condition that is not bool": (nest(storing(Select(ONE, ONE, ONE))), "the condition 1.0 is not bool"),
    "an if that is not bool": (nest(If(c(1), storing(ONE))), "the condition 1 is not bool"),
    "an unknown function": (nest(storing(Call("gamma", (ONE,), FLOAT32))), "the table of functions does not have: gamma"),
    "a function of too many operands": (nest(storing(Call("exp", (ONE, ONE), FLOAT32))), r"does not have: exp\(1.0, 1.0\)"),
    "a function of another result": (nest(storing(Call("isnan", (ONE,), FLOAT32))), r"isnan\(1.0\) gives float32"),
    "a reduction": (nest(storing(Reduce(SUM, (ONE,), (ir.ReduceAxis("k", c(0), c(2)),), None))), "a reduction stands in a nest"),
    "a parameter": (nest(storing(Param("a0", FLOAT32))), "the operand a0: float32 of a reducer stands where there is none"),
    "a reducer of another type": (
        nest(loops(Store("C", (C,), (I, J), (ONE,), Reducer("sum", (c(0),), (Param("a0", c(0).dtype),))), "i", "j")),
        "the reducer sum does not combine float32",
    ),
    "a vector loop in a vector loop": (
        nest(loops(Store("C", (C,), (I, J), (ONE,)), "i", "j", kind="vector")),
        "the vector loop j runs inside the vector loop i",
    ),
    "an unknown kind": (nest(loops(Store("C", (C,), (I, J), (ONE,)), "i", "j", kind="warp")), "'warp', which is none of serial"),  # type: ignore[arg-type]
    "a split by nothing": (nest(storing(ONE), SplitRelation("p", "i", "j", 0, c(0), c(8))), "a split by 0"),
    "a split of itself": (nest(storing(ONE), SplitRelation("i", "i", "j", 2, c(0), c(8))), "a relation between axes of one name"),
    "a relation with a bound out of scope": (nest(storing(ONE), SplitRelation("p", "i", "j", 2, c(0), Axis("q"))), "which needs q"),
    "more values than buffers": (nest(loops(Store("C", (C,), (I, J), (ONE, ONE)), "i", "j")), "1 buffers and 2 values"),
    "two arguments of one name": (Nest("f", (A,), (A,), ("n",), storing(ONE)), "two arguments share a name: A, A"),
    "an unordered comparison": (nest(storing(Select(Compare("<", I, J), ONE, ONE))), "'<' is not a comparison"),
    "memory of no kind": (nest(Alloc((Buffer("T", (), BOOL, "moon"),), storing(ONE))), "'moon', which is none of"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_nest_is_an_internal_error_that_says_what_is_broken(name: Any) -> None:
    program, message = BROKEN[name]
    assert isinstance(program, Nest)
    with pytest.raises(InternalError, match=message):
        verify(program)
