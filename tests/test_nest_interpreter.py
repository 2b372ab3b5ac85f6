"""The nest interpreter runs a loop nest statement by statement; it is the oracle for schedules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tensorlang import ir
from tensorlang.errors import InternalError
from tensorlang.ir import (
    Alloc,
    Axis,
    Binary,
    Buffer,
    Const,
    Dim,
    Expr,
    For,
    FuseRelation,
    If,
    Load,
    Nest,
    Param,
    Reducer,
    Select,
    SplitRelation,
    Store,
    WindowRelation,
)
from tensorlang.ir.dtype import BOOL, DTYPES, FLOAT32, INT64, DType
from tensorlang.ir.verify import verify
from tensorlang.lowering.program import lower_program
from tensorlang.semantics import arithmetic, scalars
from tensorlang.semantics.evaluation import evaluate
from tensorlang.semantics.nest_interpreter import run_nest
from tests.draws import examples
from tests.strategies import Program, programs

c = ir.const
rng = np.random.default_rng(5)


def buffer(name: str, *shape: int | str, dtype: DType = FLOAT32) -> Buffer:
    return Buffer(name, tuple(Dim(entry) if isinstance(entry, str) else c(entry) for entry in shape), dtype, "argument")


def add(left: Expr, right: Expr) -> Expr:
    return Binary("add", left, right)


SUM = Reducer("sum", (Const(0.0, FLOAT32),), (add(Param("a0", FLOAT32), Param("b0", FLOAT32)),))
A, B, C = buffer("A", 5, 4), buffer("B", 4, 3), buffer("C", 5, 3)


def matmul_nest() -> Nest:
    i, j, k = Axis("C.i"), Axis("C.j"), Axis("C.k")
    start = Store("C.init", (C,), (Axis("C.init.i"), Axis("C.init.j")), (Const(0.0, FLOAT32),))
    update = Store("C", (C,), (i, j), (Binary("mul", Load(A, (i, k)), Load(B, (k, j))),), SUM)
    first = For("C.init.i", c(0), c(5), For("C.init.j", c(0), c(3), start))
    second = For("C.i", c(0), c(5), For("C.j", c(0), c(3), For("C.k", c(0), c(4), update), "parallel"))
    return Nest("matmul", (A, B), (C,), (), ir.block(first, second))


def test_the_obvious_nest_of_a_matmul_computes_it() -> None:
    a, b = rng.random((5, 4), "f4"), rng.random((4, 3), "f4")
    out = np.full((5, 3), np.nan, "f4")
    run_nest(matmul_nest(), {"A": a, "B": b, "C": out}, {})
    np.testing.assert_allclose(out, a @ b, rtol=1e-6)


def count_nest(relations: tuple[ir.Relation, ...], *loops: tuple[str, int]) -> Nest:
    """Add one to Y[i] for each instance that runs."""
    Y = buffer("Y", "n", dtype=INT64)
    body: ir.Stmt = Store("Y", (Y,), (Axis("i"),), (add(Load(Y, (Axis("i"),)), c(1)),))
    for name, extent in reversed(loops):
        body = For(name, c(0), c(extent), body)
    return Nest("count", (), (Y,), ("n",), body, relations)


@pytest.mark.parametrize("tail", ["guard", "mask", "peel"])
@pytest.mark.parametrize("size", [1, 3, 4, 9])
def test_a_split_visits_every_index_once(tail: Any, size: Any) -> None:
    nest = count_nest((SplitRelation("i", "o", "u", 4, c(0), Dim("n"), tail),), ("o", -(-size // 4)), ("u", 4))
    counts = np.zeros(size, np.int64)
    run_nest(nest, {"Y": counts}, {"n": size})
    assert (counts == 1).all()


@pytest.mark.parametrize("size", [1, 3, 4, 9])
def test_the_last_tile_of_a_shift_starts_earlier(size: Any) -> None:
    nest = count_nest((SplitRelation("i", "o", "u", 4, c(0), Dim("n"), "shift"),), ("o", -(-size // 4)), ("u", 4))
    counts = np.zeros(size, np.int64)
    run_nest(nest, {"Y": counts}, {"n": size})
    assert (counts >= 1).all()
    assert counts.sum() == (8 if size == 4 * 2 else 12 if size == 9 else min(size, 4))


def test_a_relation_may_rest_on_one_that_was_made_later() -> None:
    """`i` is split, then its outer part again: the older equation needs the newer one."""
    relations = (SplitRelation("i", "o", "u", 2, c(0), Dim("n")), SplitRelation("o", "oo", "ou", 3, c(0), c(5)))
    counts = np.zeros(9, np.int64)
    run_nest(count_nest(relations, ("oo", 2), ("ou", 3), ("u", 2)), {"Y": counts}, {"n": 9})
    assert (counts == 1).all()


def test_a_fused_loop_recovers_both_axes() -> None:
    Y = buffer("Y", 3, 4, dtype=INT64)
    store = Store("Y", (Y,), (Binary("sub", Axis("i"), c(2)), Axis("j")), (Axis("f"),))
    nest = Nest("fused", (), (Y,), (), For("f", c(0), c(12), store), (FuseRelation("f", "i", "j", c(2), c(0), c(4)),))
    out = np.zeros((3, 4), np.int64)
    run_nest(nest, {"Y": out}, {})
    np.testing.assert_array_equal(out, np.arange(12).reshape(3, 4))


def test_a_window_places_a_region_and_stops_at_its_end() -> None:
    nest = count_nest((WindowRelation("i", "w", add(Axis("o"), c(1)), Dim("n")),), ("o", 4), ("w", 3))
    counts = np.zeros(5, np.int64)
    run_nest(nest, {"Y": counts}, {"n": 5})
    np.testing.assert_array_equal(counts, [0, 1, 2, 3, 3])


def test_fresh_storage_is_poisoned() -> None:
    for dtype in ("float32", "float16", "int32", "uint8"):
        Y, T = buffer("Y", 2, dtype=DType(dtype)), Buffer("T", (c(2),), DType(dtype), "stack")
        nest = Nest("poison", (), (Y,), (), Alloc((T,), For("i", c(0), c(2), Store("Y", (Y,), (Axis("i"),), (Load(T, (Axis("i"),)),)))))
        out = np.zeros(2, dtype)
        run_nest(nest, {"Y": out}, {})
        assert np.isnan(out).all() if DType(dtype).is_floating else (out.view("u1") == 0xA5).all()


def test_an_if_runs_one_of_its_parts() -> None:
    Y = buffer("Y", 4, dtype=INT64)

    def store(value: int) -> Store:
        return Store("Y", (Y,), (Axis("i"),), (c(value),))

    body = If(ir.Compare("lt", Axis("i"), c(2)), store(1), store(2))
    out = np.zeros(4, np.int64)
    run_nest(Nest("if", (), (Y,), (), For("i", c(0), c(4), body)), {"Y": out}, {})
    np.testing.assert_array_equal(out, [1, 1, 2, 2])


def test_a_select_reads_only_its_chosen_side() -> None:
    X, Y = buffer("X", 4), buffer("Y", 4)
    before = Load(X, (Binary("sub", Axis("i"), c(1)),))
    value = Select(ir.Compare("gt", Axis("i"), c(0)), before, Const(-1.0, FLOAT32))
    nest = Nest("shift", (X,), (Y,), (), For("i", c(0), c(4), Store("Y", (Y,), (Axis("i"),), (value,))))
    x, out = np.arange(4, dtype="f4"), np.zeros(4, "f4")
    run_nest(nest, {"X": x, "Y": out}, {})
    np.testing.assert_array_equal(out, [-1, 0, 1, 2])


def test_an_access_out_of_bounds_is_an_internal_error() -> None:
    X, Y = buffer("X", 4), buffer("Y", 4)
    read = Store("Y", (Y,), (Axis("i"),), (Load(X, (add(Axis("i"), c(1)),)),))
    write = Store("Y", (Y,), (Binary("sub", Axis("i"), c(1)),), (Load(X, (Axis("i"),)),))
    arrays = {"X": np.zeros(4, "f4"), "Y": np.zeros(4, "f4")}
    with pytest.raises(InternalError, match=r"a read of X\[i \+ 1\]: at \[4\], outside \[4\]"):
        run_nest(Nest("f", (X,), (Y,), (), For("i", c(0), c(4), read)), arrays, {})
    with pytest.raises(InternalError, match=r"Y writes Y\[i - 1\]: at \[-1\], outside \[4\]"):
        run_nest(Nest("f", (X,), (Y,), (), For("i", c(0), c(4), write)), arrays, {})


def test_an_axis_has_no_value_outside_its_loop() -> None:
    Y = buffer("Y", 4)
    store = Store("Y", (Y,), (Axis("i"),), (Const(0.0, FLOAT32),))
    with pytest.raises(InternalError, match="the axis i has no value here"):
        run_nest(Nest("f", (), (Y,), (), ir.block(For("i", c(0), c(4), store), store)), {"Y": np.zeros(4, "f4")}, {})


def test_an_argument_that_does_not_fit_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match=r"the argument A should be float32\[5, 4\], but is float64\[5, 4\]"):
        run_nest(matmul_nest(), {"A": np.zeros((5, 4)), "B": np.zeros((4, 3), "f4"), "C": np.zeros((5, 3), "f4")}, {})


INTEGERS = [dtype for dtype in DTYPES if dtype.is_integer]


@given(st.sampled_from(INTEGERS), st.sampled_from([op for op in ir.BINARY if op != "div"]), st.data())
def test_integer_operators_agree_with_the_evaluator(dtype: Any, op: Any, data: Any) -> None:
    """Python integers that wrap and NumPy arrays are two separate statements of one meaning."""
    numbers = st.integers(int(dtype.lowest), int(dtype.highest)) | st.sampled_from(
        [int(dtype.lowest), 0, 1, -1 if dtype.kind == "signed" else 2, 63]
    )
    left, right = data.draw(numbers), data.draw(numbers)
    Y = buffer("Y", 1, dtype=dtype)
    nest = Nest("op", (), (Y,), (), Store("Y", (Y,), (c(0),), (Binary(op, Const(left, dtype), Const(right, dtype)),)))
    out = np.zeros(1, dtype.numpy)
    run_nest(nest, {"Y": out}, {})
    with arithmetic.quiet():
        assert out[0] == arithmetic.binary(op, np.asarray(left, dtype.numpy), np.asarray(right, dtype.numpy), dtype)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "min", "max", "fmin", "fmax"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floating_operators_agree_with_the_evaluator_to_the_bit(dtype: str, op: str) -> None:
    of = DType(dtype)
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 65504.0, 6e-8]
    values = np.array([*special, *np.random.default_rng(1).standard_normal(16)]).astype(of.numpy)
    with arithmetic.quiet():
        act = scalars.operation(op, of)
        for left in values:
            for right in values:
                got, want = act(left, right), np.asarray(arithmetic.binary(op, left, right, of))[()]
                assert type(got) is type(want)
                assert got.tobytes() == want.tobytes() or (np.isnan(got) and np.isnan(want))


@given(st.sampled_from(DTYPES), st.sampled_from(DTYPES), st.data())
def test_casts_agree_with_the_evaluator(source: Any, target: Any, data: Any) -> None:
    if source == BOOL:
        value: float | int | bool = data.draw(st.booleans())
    elif source.is_floating:
        value = data.draw(st.floats(width=16) | st.sampled_from([1e30, -1e30, 2.0**31, 2.0**63, -(2.0**63), 254.9, -0.5]))
    else:
        value = data.draw(st.integers(int(source.lowest), int(source.highest)))
    Y = buffer("Y", 1, dtype=target)
    with arithmetic.quiet():
        given_ = np.asarray(value, np.float64).astype(source.numpy) if source.is_floating else np.asarray(value, source.numpy)
        want = arithmetic.cast(given_, source, target)
    const = Const(float(given_) if source.is_floating else value, source)
    out = np.zeros(1, target.numpy)
    run_nest(Nest("cast", (), (Y,), (), Store("Y", (Y,), (c(0),), (ir.Cast(const, target),))), {"Y": out}, {})
    np.testing.assert_array_equal(out[0], want)


@examples(60)
@given(programs())
def test_the_nest_of_a_definition_means_the_definition(program: Program) -> None:
    """Two interpreters agree to the last bit: the one of definitions, and the one of the nest that a definition is lowered to."""
    nest = lower_program(program.outputs).nest
    verify(nest)
    wanted = dict(zip((buffer.name for buffer in nest.outputs), evaluate(program.outputs, program.feeds), strict=True))
    made = {name: np.zeros_like(want) for name, want in wanted.items()}
    operands = dict(zip((buffer.name for buffer in nest.inputs), program.feeds.values(), strict=True))
    run_nest(nest, {**operands, **made}, {})
    for name, want in wanted.items():
        np.testing.assert_array_equal(made[name], want)
