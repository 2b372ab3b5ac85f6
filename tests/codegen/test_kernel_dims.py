"""A call tells the dims of a kernel, by the shapes of inputs and outputs or by keyword; what contradicts itself is refused."""

from random import Random
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ir
from tensorlang.codegen.cache.signature import Signature
from tensorlang.codegen.calling.checked_call import Caller
from tensorlang.errors import CallError
from tensorlang.ir.integers import value_of
from tests.codegen import handmade
from tests.codegen.handmade import argument, build

a, b = np.arange(16, dtype="f4"), np.linspace(0, 1, 16, dtype="f4")
N, M = ir.Dim("n"), ir.Dim("m")


def test_a_dim_comes_from_the_input() -> None:
    kernel = handmade.copy("n", dims=("n",))
    for size in (5, 0, 1, 7000, 5000):
        x = np.random.default_rng(size).random(size).astype("f4")
        np.testing.assert_array_equal(kernel(x), x)
        np.testing.assert_array_equal(kernel(x, n=size), x)
        np.testing.assert_array_equal(kernel(x, out=np.empty(size, "f4")), x)
    assert kernel._fast
    assert kernel(np.zeros(7000, "f4")).ctypes.data % 64 == 0


@pytest.mark.parametrize(
    ("shape", "out"),
    [
        (("n", 3), ("n", 3)),
        ((3, "n"), (ir.Binary("mul", N, ir.const(3)),)),
        ((ir.Binary("add", N, ir.const(2)),), (ir.Binary("add", N, ir.const(2)),)),
    ],
)
def test_derived_extents_are_solved_and_computed(shape: Any, out: Any) -> None:
    kernel = build(
        handmade.COPY.format(pointers="ptr %a, ptr %out", dims=", i64 %n", count="add i64 0, 6", size=4),
        Signature("copy", (argument("A", *shape),), (argument("C", *out),), ("n",)),
    )
    x = np.arange(6, dtype="f4").reshape({2: (2, 3) if shape[0] == "n" else (3, 2), 1: (6,)}[len(shape)])
    for _ in range(2):
        np.testing.assert_array_equal(kernel(x).ravel(), x.ravel())
    assert kernel._fast


@pytest.fixture(scope="module", params=["careful", "native"])
def pair(request: Any) -> Any:
    """`C: [n, m]` from `A: [n, 2 m]` and `B: [m]`; it copies nothing."""
    text = "define i32 @shape(ptr %a, ptr %b, ptr %c, i64 %n, i64 %m) {\n  ret i32 0\n}"
    inputs = (argument("A", "n", ir.Binary("mul", ir.const(2), M)), argument("B", "m"))
    kernel = build(text, Signature("shape", inputs, (argument("C", "n", "m"),), ("n", "m")))
    if request.param == "careful":
        return kernel._linked
    kernel(np.zeros((3, 4), "f4"), np.zeros(2, "f4"))
    assert kernel._fast
    return kernel


def test_dims_agree_between_inputs(pair: Any) -> None:
    assert pair(np.zeros((3, 4), "f4"), np.zeros(2, "f4")).shape == (3, 2)
    with pytest.raises(CallError, match=r"'A' .*expected shape \(3, 6\) with m = 3, n = 3, got \(3, 4\)"):
        pair(np.zeros((3, 4), "f4"), np.zeros(3, "f4"))
    with pytest.raises(CallError, match=r"expected shape"):
        pair(np.zeros((3, 5), "f4"), np.zeros(2, "f4"))
    with pytest.raises(CallError, match=r"expected shape \(3, 2\)"):
        pair(np.zeros((3, 4), "f4"), np.zeros(2, "f4"), out=np.zeros((2, 3), "f4"))
    with pytest.raises(CallError, match=r"with m = 2, n = 4, got"):
        pair(np.zeros((3, 4), "f4"), np.zeros(2, "f4"), n=4)


@pytest.mark.parametrize("n", [-1, 2.0, "3", None, True, 2**63])
def test_a_dim_is_an_integer_from_zero(pair: Any, n: Any) -> None:
    with pytest.raises(CallError, match="dim 'n': expected an integer from 0 to"):
        pair(np.zeros((3, 4), "f4"), np.zeros(2, "f4"), n=n)


def test_a_dim_that_no_input_fixes_is_passed_by_keyword() -> None:
    text = "define i32 @free(ptr %a, ptr %c, i64 %n) {\n  ret i32 0\n}"
    kernel = build(text, Signature("free", (argument("A", ir.Binary("floordiv", N, ir.const(2))),), (argument("C", N),), ("n",)))
    with pytest.raises(CallError, match=r"do not fix dim 'n'; pass it by keyword \(n=...\)"):
        kernel(np.zeros(2, "f4"))
    assert kernel(np.zeros(2, "f4"), n=5).shape == (5,)
    assert kernel(np.zeros(2, "f4"), n=4).shape == (4,)
    with pytest.raises(CallError, match=r"expected shape \(3,\) with n = 6, got \(2,\)"):
        kernel(np.zeros(2, "f4"), n=6)


@pytest.mark.parametrize("size", ["abc", float("inf"), None, {}, 2.5, -5, 0, 51, True, 10**30])
def test_what_no_call_takes_for_a_dim_costs_nothing_and_has_no_report(size: object) -> None:
    n = tl.dim("n", 1, 50)
    X = tl.placeholder((n,), name="X")
    kernel = tl.build(tl.compute((n,), lambda i: X[i] + 1, name="Y"))
    for ask in (kernel.cost, kernel.report):
        with pytest.raises(CallError, match="Y: (the )?dim '?n"):
            ask(n=size)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["self", "args", "keywords"])
def test_a_dim_may_have_the_name_of_a_parameter_of_ours(name: str) -> None:
    doubled = tl.compute((tl.dim(name),), lambda i: i * 2, name="E")
    kernel = tl.build(doubled)
    assert kernel(**{name: 3}).tolist() == kernel(**{name: 3}).tolist() == tl.evaluate(doubled, {}, **{name: 3}).tolist() == [0, 2, 4]
    assert tl.Schedule(doubled).estimate(**{name: 3}).seconds > 0
    assert kernel.bind(**{name: 2})().tolist() == [0, 2] and kernel.cost(**{name: 2})["flops"] > 0


@pytest.mark.parametrize("name", ["out", "workspace", "threads"])
def test_a_dim_whose_keyword_says_something_else_has_to_be_renamed(name: str) -> None:
    kernel = tl.build(tl.compute((tl.dim(name),), lambda i: i * 2, name="E"))
    with pytest.raises(CallError, match=f"do not fix dim '{name}', and {name}= says something else; rename the dim"):
        kernel()


def extent(rng: Random) -> ir.Expr:
    """What windows with strides, their strides again, and concatenations have."""
    found: ir.Expr = ir.Binary("mul", ir.const(rng.choice((1, 1, 2))), rng.choice((N, M)))
    if rng.random() < 0.4:
        found = ir.Binary("add", found, rng.choice((N, M)))
    for _ in range(rng.randrange(3)):
        found = ir.Binary("floordiv", ir.Binary("add", found, ir.const(rng.randrange(-5, 6))), ir.const(rng.randrange(1, 5)))
    return ir.Binary("add", found, ir.const(rng.randrange(3)))


def test_quotients_of_sums_are_computed_in_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same shape, made or given, as Python computes; where it is negative, or another one is given, the same refusal."""
    text = "define i32 @shape(ptr %a, ptr %b, ptr %c, i64 %n, i64 %m) {\n  ret i32 0\n}"
    rng = Random(5)
    for _ in range(40):
        shape, made = (extent(rng), extent(rng)), (rng.randrange(1, 9), rng.randrange(1, 9))
        inputs = (argument("A", "n", "m"), argument("B", shape[0]))
        kernel = build(text, Signature("shape", inputs, (argument("C", *shape),), ("n", "m")))
        rows, columns = (value_of(part, dict(zip("nm", made, strict=True))) for part in shape)
        given = np.zeros(made, "f4"), np.zeros(max(rows, 0), "f4")
        refused = rows < 0 or columns < 0
        for _ in range(2):
            if refused:
                with pytest.raises(CallError, match="expected shape|negative"):
                    kernel(*given)
            else:
                assert kernel(*given).shape == (rows, columns)
        with pytest.raises(CallError, match="expected shape|negative"):
            kernel(given[0], np.zeros(max(rows, 0) + 1, "f4"))
        if not refused:
            assert kernel._fast
            with monkeypatch.context() as patched:
                patched.setattr(Caller, "__call__", lambda *_, **__: pytest.fail("a careful call"))
                assert kernel(*given).shape == (rows, columns)
                out = np.zeros((rows, columns), "f4")
                assert kernel(*given, out=out) is out


def test_a_negative_extent_is_refused() -> None:
    text = "define i32 @short(ptr %a, ptr %c, i64 %n) {\n  ret i32 0\n}"
    kernel = build(text, Signature("short", (argument("A", N),), (argument("C", ir.Binary("sub", N, ir.const(2))),), ("n",)))
    assert kernel(np.zeros(2, "f4")).shape == (0,)
    for _ in range(2):
        with pytest.raises(CallError, match="extent n - 2 would be negative"):
            kernel(np.zeros(1, "f4"))
