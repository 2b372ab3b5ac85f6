"""`trim` changes no value: iterations of which nobody reads anything do not run, and tiles of the rest are computed as a whole."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.ir.printer import print_nest
from tensorlang.schedules.strategies import choose
from tests.schedules.programs import check, code_and_reason

N, DEPTH, WIDE = 40, 8, 6
ORDERS = {
    "below": lambda i, j: j <= i,
    "above": lambda i, j: j > i,
    "band": lambda i, j: (j <= i) & (j > i - WIDE),
    "around": lambda i, j: (i - j < WIDE) & (j - i < WIDE),
    "steep": lambda i, j: 2 * j < i + 3,
    "corner": lambda i, j: i + j < 25,
    "diagonal": lambda i, j: i == j,
    "columns": lambda i, j: (j < 17) & (j >= 3),
}


def attention(order: str, said: str = "where") -> Tensor:
    """Attention over the places that an order of indices leaves, said as `where=`, by a choice, or by scores that count for nothing."""
    q, k, v = (tl.placeholder((N, DEPTH), name=name) for name in "QKV")
    d, r, near = tl.reduce_axis(DEPTH, name="d"), tl.reduce_axis(N, name="r"), ORDERS[order]
    scores = tl.compute((N, N), lambda i, j: tl.sum(q[i, d] * k[j, d], axis=d) / 3, name="S")
    if said == "masked":
        scores = tl.compute((N, N), lambda i, j: tl.select(near(i, j), tl.sum(q[i, d] * k[j, d], axis=d) / 3, -1e30), name="S")

    def over(kind: Any, i: Any, value: Any, other: float) -> Any:
        if said == "where":
            return kind(value, axis=r, where=near(i, r))
        return kind(tl.select(near(i, r), value, other) if said == "choice" else value, axis=r)

    top = tl.compute((N,), lambda i: over(tl.max, i, scores[i, r], -math.inf), name="m")
    e = tl.compute((N, N), lambda i, j: tl.exp(scores[i, j] - top[i]), name="E")
    total = tl.compute((N,), lambda i: over(tl.sum, i, e[i, r], 0.0), name="l")
    result: Tensor = tl.compute((N, DEPTH), lambda i, c: over(tl.sum, i, e[i, r] * v[r, c], 0.0) / total[i], name="O")
    return result


def attended(order: str, q: Any, k: Any, v: Any) -> Any:
    """The same in NumPy."""
    near = np.array([[bool(tl.evaluate(_truth(order), {})[i, j]) for j in range(N)] for i in range(N)])
    scores = np.where(near, q.astype(float) @ k.T.astype(float) / 3, -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.where(near, np.exp(scores - scores.max(1, keepdims=True)), 0)
        return (e @ v) / e.sum(1, keepdims=True)


def _truth(order: str) -> Tensor:
    result: Tensor = tl.compute((N, N), ORDERS[order], name="near")
    return result


def data() -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((N, DEPTH)).astype(np.float32) for _ in range(3)]


def scheduled(outputs: Tensor) -> tl.Schedule:
    strategy = choose(outputs, target("native"), threads=1)
    return strategy.schedule(strategy.default)


@pytest.mark.parametrize("said", ["where", "choice", "masked"])
@pytest.mark.parametrize("order", list(ORDERS))
def test_attention_over_a_part_is_what_numpy_says(order: str, said: str) -> None:
    if said == "masked" and order in ("above", "corner", "steep"):
        pytest.skip("where nothing is left of a row all scores are the same, and count")
    given = data()
    found, want = tl.build(scheduled(attention(order, said)))(*given), attended(order, *given)
    np.testing.assert_allclose(found, want, rtol=2e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("order", list(ORDERS))
def test_elements_that_nobody_reads_are_left_out(order: str) -> None:
    s = tl.Schedule(attention(order))
    s.trim("E.j")
    s.trim("S.j")
    assert code_and_reason(s, "trim", "E.j")[0] == "TL-S005"
    check(s, rtol=2e-4)


TILES = [(4, 8, "guard"), (6, 16, "peel"), (7, 9, "guard"), (1, 8, "mask"), (5, 2, "shift")]


@pytest.mark.parametrize(("rows", "columns", "tail"), TILES)
@pytest.mark.parametrize("order", ["below", "band", "steep", "corner", "columns"])
def test_tiles_are_computed_as_a_whole_or_not_at_all(order: str, rows: int, columns: int, tail: str) -> None:
    s = tl.Schedule(attention(order))
    s.trim("E.j")
    _, tile, _, inner = s.tile("S.i", "S.j", rows, columns, tail=tail)
    s.vectorize(inner)
    s.trim(tile)
    check(s, rtol=2e-4)


def test_the_condition_of_a_tile_is_that_of_its_nearest_element() -> None:
    s = tl.Schedule(attention("band"))
    s.trim("E.j")
    _, tile, _, _ = s.tile("S.i", "S.j", 4, 8)
    s.trim(tile)
    assert "if (8 * j_o <= 4 * i_o + 3) & (4 * i_o <= 8 * j_o + 12):" in str(s)


def test_of_two_readers_the_one_that_reads_more_counts() -> None:
    x, k = tl.placeholder((N, N), name="X"), tl.reduce_axis(N, name="k")
    t = tl.compute((N, N), lambda i, j: x[i, j] * 2, name="T")
    near = tl.compute((N,), lambda i: tl.sum(t[i, k], axis=k, where=k < i), name="near")
    more = tl.compute((N,), lambda i: tl.sum(t[i, k], axis=k, where=(k < i + 3) & (k > 4)), name="more")
    s = tl.Schedule(near, more)
    s.trim("T.j")
    assert "if j <= i + 2:" in str(s)
    check(s, rtol=2e-4)


def test_a_mask_inside_a_tile_becomes_one_condition() -> None:
    s = tl.Schedule(attention("band", "masked"))
    s.compute_root("S.1")
    s.tile("S.1.i", "S.1.j", 4, 8)
    s.reorder("S.1.d", "S.1.i_i", "S.1.j_i")
    s.accumulate("S.1", at="S.1.j_o")
    s.reverse_compute_inline("S")
    s.trim("S.1.d")
    assert "if (8 * j_o <= 4 * i_o + 3) & (4 * i_o <= 8 * j_o + 12):" in str(s)
    assert "if (j <= i)" not in str(s)
    check(s, rtol=2e-4)


def test_what_is_read_under_a_condition_alone_keeps_it() -> None:
    x, k = tl.placeholder((N,), name="X"), tl.reduce_axis(N, name="k")
    t = tl.compute((N, N), lambda i, j: tl.select(j <= i, x[i - j], 0.0), name="T")
    u = tl.compute((N,), lambda i: tl.sum(t[i, k], axis=k, where=k <= i), name="U")
    s = tl.Schedule(u)
    s.trim("T.j")
    check(s, rtol=2e-4)


def test_refusals_say_why() -> None:
    x, k = tl.placeholder((N, N), name="X"), tl.reduce_axis(N, name="k")
    t = tl.compute((N, N), lambda i, j: x[i, j] * 2, name="T")
    s = tl.Schedule(tl.compute((N,), lambda i: tl.sum(t[i, k], axis=k), name="U"))
    nothing = "all that an iteration of 'j' computes may be read, as far as conditions on indices tell"
    assert code_and_reason(s, "trim", "T.j") == ("TL-S005", nothing)
    assert code_and_reason(s, "trim", "U.i") == ("TL-S301", "'i' writes 'U', which the caller reads")
    z = tl.recurrence((N, N), lambda i, j, z: z[i, j - 1] + x[i, j], name="Z")
    s = tl.Schedule(tl.compute((N,), lambda i: tl.sum(z[i, k], axis=k, where=k < i), name="U"))
    assert code_and_reason(s, "trim", "Z.j") == ("TL-S005", nothing)


STEPS, PLACES = 9, 12
SHRINKING = {
    "by one": lambda t, j: j <= STEPS - 1 - t,
    "by two": lambda t, j: j < 2 * (STEPS - t),
    "from below": lambda t, j: j >= t,
    "at both ends": lambda t, j: (j >= t) & (j <= PLACES - 1 - t),
    "to a place": lambda t, j: j <= 3,
}


def shrinking(left: str, ahead: int, keep: str, last: int, other: str = "nothing") -> Tensor:
    """A state of which each step computes what `left` leaves, from two places of the one before; and some places of what comes out.

    What is not left is 0, or what it was before, which the choice may name first.
    """
    x = tl.placeholder((3, PLACES), name="X")

    def step(t: Any, z: Any) -> Any:
        def element(i: Any, j: Any) -> Any:
            made = z[i, j] / 2 + z[i, tl.clamp(j + ahead, 0, PLACES - 1)] * x[i, j]
            if other == "before, first":
                return tl.select(~SHRINKING[left](t, j), z[i, j], made)
            return tl.select(SHRINKING[left](t, j), made, 0.0 if other == "nothing" else z[i, j])

        return tl.compute((3, PLACES), element, name="next")

    z = tl.scan(step, tl.compute((3, PLACES), lambda i, j: x[i, j] * 2, name="X2"), STEPS, keep=keep, name="Z")
    if keep == "last":
        result: Tensor = tl.compute((3, last), lambda i, j: z[i, j] * 3, name="Y")
    else:
        result = tl.compute((STEPS, 3, last), lambda t, i, j: tl.select(j <= STEPS - 1 - t, z[t, i, j], 0.0) * 3, name="Y")
    return result


@pytest.mark.parametrize("keep", ["last", "all"])
@pytest.mark.parametrize("last", [1, 4, PLACES])
@pytest.mark.parametrize("ahead", [-2, -1, 1, 3])
@pytest.mark.parametrize("left", list(SHRINKING))
def test_steps_of_a_scan_compute_what_is_read_of_them(left: str, ahead: int, last: int, keep: str) -> None:
    s = tl.Schedule(shrinking(left, ahead, keep, last))
    check(s)
    if s.can("compute_inline", "Z"):
        s.compute_inline("Z")
    for loop in ("next.j", "next.i", "X2.j"):
        if s.can("trim", loop):
            s.trim(loop)
            check(s)


@pytest.mark.parametrize("other", ["before", "before, first"])
@pytest.mark.parametrize("last", [1, PLACES])
@pytest.mark.parametrize("ahead", [-1, 1, 3])
@pytest.mark.parametrize("left", list(SHRINKING))
def test_a_state_that_stays_where_it_is_not_computed_may_be_left_out(left: str, ahead: int, last: int, other: str) -> None:
    s = tl.Schedule(shrinking(left, ahead, "last", last, other))
    s.compute_inline("Z")
    for loop in ("next.j", "next.i"):
        if s.can("trim", loop):
            s.trim(loop)
            check(s)


@pytest.mark.parametrize("other", ["before", "before, first"])
def test_what_is_read_for_what_nobody_reads_does_not_count(other: str) -> None:
    s = tl.Schedule(shrinking("by one", 1, "last", 1, other))
    s.compute_inline("Z")
    s.trim("next.j")
    assert f"if t + j <= {STEPS - 1}:" in str(s)
    assert "select" not in str(s)


@pytest.mark.parametrize(("ahead", "last"), [(3, 1), (1, PLACES)])
def test_a_state_that_is_read_where_it_stays_is_kept(ahead: int, last: int) -> None:
    """Three places ahead of those that are left, or behind the steps."""
    s = tl.Schedule(shrinking("by one", ahead, "last", last, "before"))
    s.compute_inline("Z")
    assert code_and_reason(s, "trim", "next.j")[0] == "TL-S005"


def test_a_state_that_another_stage_of_the_step_reads_is_kept() -> None:
    x, r = tl.placeholder((PLACES,), name="X"), tl.reduce_axis(PLACES, name="r")

    def step(t: Any, z: Any) -> Any:
        total = tl.compute((1,), lambda o: tl.sum(z[r], axis=r), name="total")
        return tl.compute((PLACES,), lambda j: tl.select(j < STEPS - t, z[j] / 2 + total[0], z[j]), name="next")

    z = tl.scan(step, x, STEPS, keep="last", name="Z")
    s = tl.Schedule(tl.compute((1,), lambda o: z[o] * 3, name="Y"))
    s.compute_inline("Z")
    assert code_and_reason(s, "trim", "next.j")[0] == "TL-S005"
    check(s)


def test_a_step_is_asked_for_what_the_next_one_reads() -> None:
    s = tl.Schedule(shrinking("by one", 1, "last", 1))
    s.compute_inline("Z")
    s.trim("next.j")
    assert f"if t + j <= {STEPS - 1}:" in str(s)


def test_what_comes_behind_the_steps_reads_the_last_one() -> None:
    s = tl.Schedule(shrinking("by one", 1, "last", PLACES))
    s.compute_inline("Z")
    assert code_and_reason(s, "trim", "next.j")[0] == "TL-S005"


def test_defaults_shrink_with_the_steps() -> None:
    x = tl.placeholder((64, 201), name="X")

    def step(t: Any, z: Any) -> Any:
        return tl.compute((64, 201), lambda i, j: tl.select(j < 200 - t, tl.exp(-z[i, j + 1] - z[i, j]) + x[i, j], 0.0), name="D")

    z = tl.scan(step, x, 200, keep="last", name="Z")
    s = scheduled(tl.compute((64,), lambda i: z[i, 0], name="Y"))
    assert "s.trim('D.j" in repr(s)
    check(s, rtol=2e-4)


def test_defaults_shrink_though_what_is_left_stays() -> None:
    """A tree of options: each step has one place less, and the rest of the state is what it was."""
    places, steps = 129, 127
    p = tl.placeholder((8, 2 * places), name="P")

    def step(t: Any, z: Any) -> Any:
        def element(i: Any, j: Any) -> Any:
            held = (z[i, j] + z[i, tl.minimum(j + 1, places - 1)]) / 2
            return tl.select(j < steps - t, tl.maximum(held, p[i, tl.minimum(2 * j + t, 2 * places - 1)]), z[i, j])

        return tl.compute((8, places), element, name="D")

    start = tl.compute((8, places), lambda i, j: p[i, 2 * j], name="S")
    z = tl.scan(step, start, steps, keep="last", name="Z")
    s = scheduled(tl.compute((8,), lambda i: z[i, 0], name="Y"))
    assert "s.trim('D.j" in repr(s)
    check(s, rtol=2e-4)


def test_data_that_decide_what_is_read_say_nothing() -> None:
    x, far, k = tl.placeholder((N, N), name="X"), tl.placeholder((N,), "int64", name="far"), tl.reduce_axis(N, name="k")
    t = tl.compute((N, N), lambda i, j: x[i, j] * 2, name="T")
    s = tl.Schedule(tl.compute((N,), lambda i: tl.sum(t[i, k], axis=k, where=k < far[i]), name="U"))
    assert code_and_reason(s, "trim", "T.j")[0] == "TL-S005"


def test_defaults_leave_out_what_a_band_does_not_reach() -> None:
    n = 512
    q, k = tl.placeholder((n, 64), name="Q"), tl.placeholder((n, 64), name="K")
    d, r = tl.reduce_axis(64, name="d"), tl.reduce_axis(n, name="r")
    scores = tl.compute((n, n), lambda i, j: tl.sum(q[i, d] * k[j, d], axis=d) / 8, name="S")
    top = tl.compute((n,), lambda i: tl.max(scores[i, r], axis=r, where=(r <= i) & (r > i - 32)), name="m")
    assert "s.trim('S.1." in repr(scheduled(top))


@pytest.mark.parametrize("said", ["where", "choice"])
def test_sums_of_a_triangle_run_along_it(said: str) -> None:
    """Lanes at the end of a row are off; loops around them stop where no lane is on."""
    x, k = tl.placeholder((N, 64), name="X"), tl.reduce_axis(64, name="k")
    if said == "where":
        s = tl.Schedule(tl.compute((N,), lambda i: tl.sum(x[i, k], axis=k, where=(k <= i) & (k > i - 20)), name="Y"))
    else:
        s = tl.Schedule(tl.compute((N,), lambda i: tl.sum(tl.select((k <= i) & (k > i - 20), x[i, k], 0.0), axis=k), name="Y"))
    s.vectorize(s.split("k", 8)[1])
    assert "for k_o in range(maximum(0, (i + 5) // 8 - 3), minimum(8, i // 8 + 1)):" in print_nest(lower(s.nest, target("x86-64-v3")))
    check(s, rtol=2e-4)


def test_the_nest_is_the_same_in_every_process() -> None:
    code = """
import tensorlang as tl
from tests.schedules.test_trim import attention

s = tl.Schedule(attention("corner"))
s.trim("E.j")
s.tile("S.i", "S.j", 4, 8)
s.trim("S.j_o")
print(s)
"""
    found = {
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in "1234"
    }
    assert len(found) == 1


def test_equal_conditions_of_two_statements_are_spared_one_by_one() -> None:
    """A sum in a register is read under the condition alone; what it is stored to is read everywhere (fuzz case 601000637)."""
    a, p, q = tl.placeholder((2,), "int8", name="A"), tl.reduce_axis(1, name="p"), tl.reduce_axis(2, name="q")
    two = tl.compute((3,), lambda _: 2.0, name="two")

    def place(_: Any, k: Any) -> Any:
        return tl.clamp(tl.cast(a[k], "int64"), 0, 2)

    least = tl.scatter(two, (p, q), place, lambda *_: tl.cast(0, "float32"), reduce="min", where=lambda i, k: k < i + 1, name="S")
    s = tl.Schedule(least)
    s.split("S.q", 16, tail="peel")
    s.rfactor("S.p")
    s.accumulate("S_rf", at="S_rf.q_i")
    s.trim("S_rf.q_o")
    np.testing.assert_array_equal(tl.build(s)(np.array([0, 2], np.int8)), [0, 2, 2])
