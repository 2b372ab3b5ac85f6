"""`specialize` makes a version of the nest for extents that satisfy a condition; both versions compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.ir.printer import print_nest
from tensorlang.ir.traverse import statements
from tensorlang.schedules.schedule import Verdict
from tests.schedules.programs import blur, check, matmul, scale

m, n = tl.dim("m"), tl.dim("n")


def test_the_version_keeps_the_names_and_the_rest_is_generic() -> None:
    s = tl.Schedule(scale(3, n))
    s.specialize("n == 64")
    s.vectorize("j")
    s.split("i_generic", 2)
    expected = """\
Y(X: float32[3, n]) -> Y: float32[3, n]
    if n == 64:
        for i in range(3):
            vector j in range(64):
                Y[i, j] = X[i, j] * 3.0 + 1.0                # Y
    else:
        for i_generic_o in range(2):                         # i_generic = 2 i_generic_o + i_generic_i   guard
            for i_generic_i in range(2):
                for j_generic in range(n):
                    Y[i_generic, j_generic] = X[i_generic, j_generic] * 3.0 + 1.0 # Y"""
    assert str(s) == expected
    for extent in (0, 1, 63, 64):
        check(s, dims={"n": extent}, interpret=extent < 10)


def test_a_factor_that_divides_leaves_no_condition_in_the_tiles() -> None:
    for tail in ("guard", "peel", "mask"):
        s = tl.Schedule(scale(m, n))
        s.specialize("n % 8 == 0")
        s.vectorize(s.split("j", 8, tail=tail)[1])
        version = print_nest(lower(s.nest, target("native"))).split("else:")[0]
        assert "if " not in version.split("if n % 8 == 0:")[1]
        for extent in (0, 1, 7, 8, 16):
            check(s, dims={"m": 2, "n": extent})


@pytest.mark.parametrize("condition", ["n >= 4", "(n % 4 == 0) & (m > 2)", "~(n < m)", "n // 2 == m", "minimum(n, m) != 3", "-n < -3"])
def test_conditions_may_be_any_arithmetic_of_dims(condition: str) -> None:
    s = tl.Schedule(matmul(m, 5, n))
    s.specialize(condition)
    s.vectorize(s.split("j", 4)[1])
    for extents in ((0, 0), (3, 4), (2, 4), (3, 3), (5, 2)):
        check(s, dims=dict(zip("mn", extents, strict=True)))


def test_a_condition_may_be_an_expression() -> None:
    s = tl.Schedule(scale(m, n))
    s.specialize((n >= 16) & (m.as_expr() == 2))
    assert repr(s) == "s = tl.Schedule(Y)\ns.specialize('(n >= 16) & (m == 2)')"
    s.unroll("i")
    check(s, dims={"m": 2, "n": 20})
    check(s, dims={"m": 3, "n": 2})


def test_producers_reductions_and_tiles_are_specialised_with_their_storage() -> None:
    s = tl.Schedule(matmul(3, m, n))
    s.split("k", 4, tail="peel")
    s.specialize("n % 4 == 0")
    s.specialize("n == 8")
    s.accumulate("C", at="C.k_o")
    for extents in ((2, 0), (2, 4), (2, 8), (2, 9)):
        check(s, dims=dict(zip("mn", extents, strict=True)))
    x = tl.placeholder((n,), name="X")
    h = tl.compute((n,), lambda i: x[i] + 1, name="h")
    s = tl.Schedule(tl.compute((n,), lambda i: h[i] * 2, name="v"))
    s.compute_at("h", s.split("v.i", 4)[0])
    s.specialize("n >= 8")
    s.parallel("v.i_o")
    for extent in (0, 3, 8, 9):
        check(s, dims={"n": extent})


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (False, "== between extents compares how they are written; give the condition as text, 'n % 8 == 0'"),
        ("n", "'n' is no condition; compare it, as in 'n % 8 == 0'"),
        ("q > 3", "the condition 'q > 3' names 'q', which is no dim here; known: 'm', 'n'"),
        ("n.x > 3", "'n.x' has no place in a condition on extents"),
        ("f(n) > 3", "'f(n)' has no place in a condition on extents"),
        ("n >", "'n >' cannot be read as a condition"),
        ("1 < 2", "the condition '1 < 2' is always true"),
        ("(n > 1) + 2 > 1", "'n > 1' in '(n > 1) + 2 > 1' is bool, where int64 is needed"),
        (3, "a condition is an expression over dims and tables or its text, not 3"),
        (scale()[0, 0] > 2, "'Y[0, 0] > 2.0' does not depend on dims and integers of tables alone"),
    ],
)
def test_what_is_no_condition_on_dims_is_refused(condition: Any, reason: str) -> None:
    s = tl.Schedule(scale(m, n))
    with pytest.raises(tl.ScheduleError) as refused:
        s.specialize(condition)
    assert (refused.value.code, refused.value.reason) == ("TL-S005", reason)
    assert not s.directives


def code(verdict: Verdict) -> str:
    return verdict.error.code if verdict.error is not None else ""


def test_text_of_any_size_and_depth_is_refused_not_run() -> None:
    s = tl.Schedule(scale(m, n))
    for hostile in ("n*" * 1000, "(" * 400 + "n" + ")" * 400, "-" * 900 + "n > 1", "n > 10**400", "n > " + "9" * 900, "n\x00 > 1"):
        assert code(s.can("specialize", hostile)) in ("", "TL-S005")


def test_too_much_code_and_moving_one_of_the_versions_are_refused() -> None:
    s = tl.Schedule(blur())
    assert not s.can("specialize", "n > 3")
    x = tl.placeholder((n, 64), name="X")
    h = tl.compute((n, 64), lambda i, j: x[i, j] + 1, name="h")
    s = tl.Schedule(tl.compute((n, 64), lambda i, j: h[i, j] * 2, name="v"))
    s.specialize("n > 3")
    assert code(s.can("compute_at", "h", "v.i")) == "TL-S301"
    s.unroll("v.j")
    for at in range(6):
        if not s.can("specialize", f"n > {at + 4}"):
            break
        s.specialize(f"n > {at + 4}")
    assert code(s.can("specialize", "n > 20")) == "TL-S202"


def copied_in_each_row() -> tuple[Any, Any, Any]:
    """A schedule in which the extent of a copy speaks of the loop around it."""
    n = tl.dim("n")
    A = tl.placeholder((n,), "int32", name="A")
    P = tl.compute((4, n), lambda i, j: tl.cast(i, "int32") + tl.cast(j, "int32"), name="P")
    C = tl.compute((n + 3,), lambda i: tl.select((i >= 1) & (i - 1 < n), P[tl.clamp(3 * i - 1, 0, 3), i - 1] + A[i - 1], 0), name="C")
    s = tl.Schedule(C)
    s.compute_at("P", "C.i")
    s.cache_write("P", at="P.i")
    return A, C, s


@pytest.mark.parametrize("copy", ["s.specialize('n == 8')", "s.peel('C.i', first=1)", "s.fission('C.i')"])
def test_storage_whose_extents_speak_of_a_loop_is_renamed_with_it(copy: str) -> None:
    A, C, s = copied_in_each_row()
    eval(copy)  # noqa: S307
    for size in (1, 5, 8):
        a = np.arange(size, dtype="i4")
        np.testing.assert_array_equal(tl.build(s, inputs=[A])(a), tl.evaluate(C, {A: a}))


@pytest.mark.parametrize("step", ["s.set_memory('P_cache', 'heap')", "s.pad_to('P_cache', 0, 8)", "s.align('P_cache', 64)"])
def test_each_version_keeps_its_own_storage(step: str) -> None:
    A, C, s = copied_in_each_row()
    s.specialize("n >= 8")
    eval(step)  # noqa: S307
    for size in (1, 5, 9):
        a = np.arange(size, dtype="i4")
        np.testing.assert_array_equal(tl.build(s, inputs=[A])(a), tl.evaluate(C, {A: a}))


def test_storage_is_folded_in_every_version() -> None:
    n = tl.dim("n")
    A = tl.placeholder((n + 1,), "int32", name="A")
    h = tl.compute((n + 1,), lambda i: A[i] * 2, name="h")
    y = tl.compute((n,), lambda i: h[i] + h[i + 1], name="y")
    s = tl.Schedule(y)
    s.compute_at("h", "y.i")
    s.store_root("h")
    s.specialize("n >= 8")
    s.fold_storage("h", 0, 2)
    assert str(s).count("h: int32[2]") == 2
    for size in (1, 5, 9):
        a = np.arange(size + 1, dtype="i4")
        np.testing.assert_array_equal(tl.build(s, inputs=[A])(a), tl.evaluate(y, {A: a}))


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("version", ["", "_generic"])
def test_a_sum_that_names_no_loop_is_accumulated_in_one_version_alone(version: str, partial: bool) -> None:
    A, k = tl.placeholder((n, 6), "int32", name="A"), tl.reduce_axis(6, "k")
    Y = tl.compute((n,), lambda i: tl.sum(A[i, k], axis=k) + 1, name="Y")
    s = tl.Schedule(Y)
    s.specialize("n % 2 == 0")
    s.accumulate("Y.1", at=f"Y.1.k{version}", partial=partial)
    for size in (1, 2, 5, 6):
        a = np.arange(6 * size, dtype="i4").reshape(size, 6)
        np.testing.assert_array_equal(tl.build(s, inputs=[A])(a), a.sum(axis=1) + 1)


def test_every_statement_of_a_copy_is_its_own() -> None:
    A, k = tl.placeholder((4,), name="A"), tl.reduce_axis(4, "k")
    s = tl.Schedule(tl.compute((n,), lambda i: tl.sum(A[k], axis=k) + tl.cast(i, "float32"), name="Y"))
    s.specialize("n >= 8")
    s.peel("Y.i", first=1)
    s.specialize("n >= 9")
    found = list(statements(s.nest.body))
    assert len({id(part) for part in found}) == len(found)


def test_a_moved_stage_finds_the_storage_of_its_own_version() -> None:
    n = tl.dim("n")
    x = tl.placeholder((n, 6), name="X")
    h = tl.compute((n, 6), lambda i, j: x[i, j] + 1, name="H")
    s = tl.Schedule(tl.compute((n, 6), lambda i, j: h[i, j] * 2, name="Y"))
    s.specialize("n == 3")
    s.cache_read("H", at="Y.i_generic")
    s.split("Y.i_generic", 2)
    s.compute_at("H_cache", "Y.i_generic_o")
    assert str(s).count("H: float32") == 2
    check(s, dims={"n": 3})
    check(s, dims={"n": 4})
