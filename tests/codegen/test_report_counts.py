"""Operations are counted exactly: the count is that of a loop in Python over every point, of `where`, `select` and triangles too."""

from __future__ import annotations

import itertools
from functools import reduce
from typing import Any

import pytest

import tensorlang as tl
from tensorlang import ir
from tensorlang.codegen.cost import definition_cost, operation_count
from tensorlang.codegen.cost.moving import made
from tensorlang.codegen.cost.operation_count import OperationCount, domain, work
from tensorlang.codegen.cost.operations import operations
from tensorlang.ir.dtype import BOOL, FLOAT32, dtype
from tensorlang.ir.integers import known_value
from tensorlang.lowering.program import lower_program


def plain(*outputs: Any) -> ir.Nest:
    return lower_program(outputs).nest


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (3, 5, 7), (256, 256, 256), (2, 0, 4)])
def test_a_matrix_product_takes_two_operations_a_term(m: int, n: int, k: int) -> None:
    A, B = tl.placeholder((m, k), name="A"), tl.placeholder((k, n), name="B")
    assert operation_count.flops(plain(tl.ops.matmul(A, B)), {}) == OperationCount(2 * m * n * k)


@pytest.mark.parametrize("n", [0, 1, 2, 17, 100])
def test_a_triangle_is_counted_as_a_triangle(n: int) -> None:
    X = tl.placeholder((n, n), name="X")
    k = tl.reduce_axis(n, name="k")
    L = tl.compute((n,), lambda i: tl.sum(X[i, k], axis=k, where=k <= i), name="L")
    assert operation_count.flops(plain(L), {}) == OperationCount(n * (n + 1) // 2)


def test_kernel_cost_agrees_with_the_exact_count() -> None:
    n = tl.dim("n")
    X = tl.placeholder((n, n), name="X")
    k = tl.reduce_axis(n, name="k")
    kernel = tl.build(tl.compute((n,), lambda i: tl.sum(X[i, k], axis=k, where=k <= i), name="L"))
    assert kernel.cost(n=10)["flops"] == 55
    assert kernel.report(n=10).flops == OperationCount(55)


def test_padding_is_no_arithmetic() -> None:
    I, W = tl.placeholder((1, 3, 6, 6), name="I"), tl.placeholder((4, 3, 3, 3), name="W")
    assert operation_count.flops(plain(tl.ops.conv2d(I, W, padding=1)), {}) == OperationCount(2 * 4 * 6 * 6 * 3 * 9)


def test_only_the_chosen_side_of_a_select_counts() -> None:
    X = tl.placeholder((10,), name="X")
    Y = tl.compute((10,), lambda i: tl.select(i < 3, X[i] * 2 + 1, X[i] * 2), name="Y")
    assert operation_count.flops(plain(Y), {}) == OperationCount(3 * 2 + 7)


def test_what_data_decides_is_an_upper_bound() -> None:
    X = tl.placeholder((10,), name="X")
    Y = tl.compute((10,), lambda i: tl.select((i < 4) & (X[i] > 0), X[i] * 2, X[i]), name="Y")
    assert operation_count.flops(plain(Y), {}) == OperationCount(4, exact=False)


def squares(times: int) -> ir.Nest:
    X = tl.placeholder((10,), name="X")

    def body(i: Any) -> Any:
        value = X[i] + 1
        for _ in range(times):
            value = value * value + 0.5
        return value

    return plain(tl.compute((10,), body, name="Y"))


def test_a_value_that_is_used_twice_is_made_once() -> None:
    assert operation_count.flops(squares(5), {}) == OperationCount(10 * (1 + 5 + 5))
    assert known_value(definition_cost.flops(squares(5)), {}) == 10 * 11


def test_equal_values_of_several_results_are_made_once() -> None:
    low, high = ir.Buffer("low", (ir.const(10),), FLOAT32), ir.Buffer("high", (ir.const(10),), FLOAT32)
    ends = [ir.Call("exp", (ir.Cast(AXES[0], FLOAT32),), FLOAT32) for _ in range(2)]
    store = ir.Store("both", (low, high), AXES[:1], (ends[0], ir.Binary("add", ends[1], ir.Const(1.0, FLOAT32))))
    assert sorted((name, chosen) for name, chosen, _ in operations(store)) == [("add", ()), ("exp", ())]


def test_what_both_sides_of_a_choice_use_is_made_in_any_case() -> None:
    X = tl.placeholder((10,), name="X")

    def body(i: Any) -> Any:
        twice = X[i] * 2
        return tl.select(X[i] > 0, twice, -twice) + tl.select(i < 3, X[i] - 5, tl.select(i < 5, X[i] - 5, X[i]))

    done = work(plain(tl.compute((10,), body, name="Y")), {})
    assert done.flops == OperationCount(10 + 10 + 10 + 5, exact=False)  # of neg data decides, of the difference the first five


def test_choices_that_overlap_are_counted_where_one_of_them_is_made() -> None:
    X = tl.placeholder((10,), name="X")
    body = lambda i: tl.select(i < 4, X[i] * 2, 0.0) + tl.select(i % 2 == 0, X[i] * 2, 1.0)  # noqa: E731
    done = operation_count.flops(plain(tl.compute((10,), body, name="Y")), {})
    assert done == OperationCount(10 + len({*range(4), *range(0, 10, 2)}))


def test_more_ways_than_are_told_apart_are_an_upper_bound() -> None:
    X, Z = tl.placeholder((10, 70), name="X"), tl.placeholder((10,), name="Z")

    def body(i: Any) -> Any:
        return reduce(lambda total, k: tl.maximum(total, tl.select((i + k) % 71 == 0, Z[i] * 2, X[i, k])), range(70), Z[i])

    found = operation_count.flops(plain(tl.compute((10,), body, name="Y")), {})
    assert found == OperationCount(10 * 70 + 10, exact=False)


def test_what_no_inner_loop_moves_is_made_once_for_all_of_its_iterations() -> None:
    X, w = tl.placeholder((5, 7), name="X"), tl.placeholder((5,), name="w")
    k = tl.reduce_axis(7, name="k")
    nest = plain(tl.compute((5,), lambda i: tl.sum(X[i, k] * tl.sqrt(w[i]) / tl.exp(w[0]), axis=k), name="Y"))
    done = work(nest, {})
    assert done.calls == {"sqrt": 5, "exp": 1}
    assert done.flops == OperationCount(5 * 7 * 3 + 5 + 1)
    assert known_value(definition_cost.flops(nest), {}) == done.flops.value


def test_what_a_step_of_a_scan_makes_moves_with_the_steps() -> None:
    """The index of a norm says nothing of the step that it is of."""
    X = tl.placeholder((8,), name="X")

    def step(_: Any, x: Any) -> Any:
        k = tl.reduce_axis(8, name="k")
        norm = tl.compute((), lambda: tl.sum(x[k] * x[k], axis=k), name="norm")
        return tl.compute((8,), lambda i: x[i] / tl.sqrt(norm[()]), name="next")

    done = work(plain(tl.scan(step, X, 11, keep="last", name="unit")), {})
    assert done.calls == {"sqrt": 11}
    assert done.flops.value == 11 * (8 * 2 + 8 + 1)


def test_named_functions_are_told_by_name() -> None:
    done = work(plain(tl.ops.softmax(tl.placeholder((4, 10), name="X"))), {})
    assert done.calls == {"exp": 40}  # once for each element
    assert done.types == {"float32": done.flops.value}


def test_a_count_beyond_what_can_be_visited_is_an_upper_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_count, "LIMIT", 50)
    n = 30
    X = tl.placeholder((n, n, n), name="X")
    j, k = tl.reduce_axis(n, name="j"), tl.reduce_axis(n, name="k")
    L = tl.compute((n,), lambda i: tl.sum(X[i, j, k], axis=(j, k), where=(j <= i) & (k <= j)), name="L")
    found = operation_count.flops(plain(L), {})
    assert not found.exact
    assert found.value >= sum(1 for a, b, c in itertools.product(range(n), repeat=3) if b <= a and c <= b)


def test_great_counts_do_not_wrap() -> None:
    n = tl.dim("n")
    A, B = tl.placeholder((n, n), name="A"), tl.placeholder((n, n), name="B")
    assert operation_count.flops(plain(tl.ops.matmul(A, B)), {"n": 10**8}) == OperationCount(2 * 10**24)


AXES = (ir.Axis("i"), ir.Axis("j"))
CONDITIONS: list[tuple[ir.Expr, Any]] = [
    (ir.Compare("lt", AXES[0], AXES[1]), lambda i, j: i < j),
    (ir.Unary("not", ir.Compare("lt", AXES[0], AXES[1])), lambda i, j: not i < j),
    (ir.Compare("eq", ir.Binary("mod", AXES[0], ir.const(3)), ir.const(1)), lambda i, j: i % 3 == 1),
    (
        ir.Compare("ge", ir.Binary("floordiv", ir.Binary("sub", AXES[0], AXES[1]), ir.const(2)), ir.const(-1)),
        lambda i, j: (i - j) // 2 >= -1,
    ),
    (ir.Compare("eq", ir.Binary("mod", AXES[0], AXES[1]), ir.const(0)), lambda i, j: (i % j if j else 0) == 0),
    (ir.Compare("gt", ir.Unary("abs", ir.Binary("sub", AXES[0], AXES[1])), ir.const(2)), lambda i, j: abs(i - j) > 2),
    (ir.Compare("ne", ir.Unary("neg", AXES[0]), ir.Binary("sub", AXES[1], ir.Dim("n"))), lambda i, j: -i != j - 9),
    (ir.Binary("or", ir.Compare("lt", AXES[0], ir.const(2)), ir.Compare("gt", AXES[1], ir.const(4))), lambda i, j: i < 2 or j > 4),
    (
        ir.Select(ir.Compare("lt", AXES[0], ir.const(4)), ir.Compare("lt", AXES[1], ir.const(1)), ir.Const(True, BOOL)),
        lambda i, j: j < 1 if i < 4 else True,
    ),
]


@pytest.mark.parametrize(("cond", "meaning"), CONDITIONS)
def test_a_condition_is_counted_as_python_counts_it(cond: ir.Expr, meaning: Any) -> None:
    nothing = ir.Block(())
    loops = (ir.For("i", ir.const(1), ir.Dim("n"), nothing), ir.For("j", ir.const(0), ir.Binary("add", ir.Axis("i"), ir.const(2)), nothing))
    expected = sum(1 for i in range(1, 9) for j in range(i + 2) if meaning(i, j))
    assert domain(loops, (cond,), {"n": 9}) == OperationCount(expected)


def test_a_condition_over_another_type_is_not_guessed() -> None:
    narrow = ir.Compare("lt", ir.Cast(ir.Axis("i"), dtype("int8")), ir.Const(3, dtype("int8")))
    assert domain((ir.For("i", ir.const(0), ir.const(300), ir.Block(())),), (narrow,), {}) == OperationCount(300, exact=False)


def test_indices_are_no_arithmetic() -> None:
    X = tl.placeholder((20,), name="X")
    nest = plain(tl.compute((9,), lambda i: X[2 * i + 1] - X[i], name="Y"))
    ((_, found),) = made(nest)
    assert [operation.name for operation in found] == ["sub"]
