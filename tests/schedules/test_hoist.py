"""`hoist` changes no value: what a loop does not move is computed before it, once for each place that inner loops tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.directives.hoist import Hoist
from tensorlang.schedules.strategies import choose
from tests.schedules.programs import check, code_and_reason, refused

ROWS, COLUMNS = 40, 24


def normalised(rows: int = ROWS, columns: int = COLUMNS) -> Tensor:
    """Columns by the root of a variance."""
    x, v = tl.placeholder((rows, columns), name="X"), tl.placeholder((columns,), name="V")
    result: Tensor = tl.compute((rows, columns), lambda i, j: x[i, j] / tl.sqrt(v[j] * v[j] + 1e-3) + tl.sqrt(v[j] * v[j] + 1e-3), name="Y")
    return result


def swept(n: int = 20) -> Tensor:
    """The sweeps of Gauss and Jordan: each step divides a row, and subtracts it from all others."""

    def step(t: Any, a: Any) -> Any:
        def element(i: Any, j: Any) -> Any:
            row = tl.select(j == t, 1 / a[t, t], a[t, j] / a[t, t])
            return tl.select(i == t, row, tl.select(j == t, 0.0, a[i, j]) - a[i, t] * row)

        return tl.compute((n, n), element, name="next")

    result: Tensor = tl.scan(step, tl.placeholder((n, n), name="A"), n, keep="last", name="inverse")
    return result


def transformed(rows: int = 16, n: int = 32) -> Tensor:
    """The real part of a Fourier transform, as its sum."""
    x, k = tl.placeholder((rows, n), name="X"), tl.reduce_axis(n, name="k")
    wave = 2 * np.pi / n
    result: Tensor = tl.compute((rows, n), lambda b, j: tl.sum(x[b, k] * tl.cos(tl.cast(j * k % n, "float32") * wave), axis=k), name="F")
    return result


@pytest.mark.parametrize(("program", "stage", "loop"), [(normalised, "Y", "Y.i"), (swept, "next", "next.i"), (transformed, "F", "F.b")])
def test_what_a_loop_does_not_move_is_computed_before_it(program: Any, stage: str, loop: str) -> None:
    s = tl.Schedule(program())
    s.hoist(stage, loop)
    assert f"{stage}_hoisted" in s.stages()
    check(s)


def test_equal_expressions_are_kept_once() -> None:
    s = tl.Schedule(normalised())
    s.hoist("Y", "i")
    assert str(s).count("sqrt(") == 1 and str(s).count("Y_hoisted[j]") == 3


def test_each_of_several_expressions_is_kept() -> None:
    x, v = tl.placeholder((ROWS, COLUMNS), name="X"), tl.placeholder((COLUMNS,), name="V")
    s = tl.Schedule(tl.compute((ROWS, COLUMNS), lambda i, j: (x[i, j] - tl.exp(v[j])) / tl.sqrt(v[j] * v[j] + 1.0), name="Y"))
    s.hoist("Y", "i")
    assert {"Y_hoisted", "Y_hoisted_1"} <= set(s.stages())
    check(s)


def test_it_may_stand_beside_steps_that_came_before_and_follow() -> None:
    s = tl.Schedule(normalised(37, 29))
    s.split("j", 8, tail="peel")
    s.hoist("Y", "i")
    s.parallel("Y.i")
    s.vectorize("Y.j_i")
    check(s)


def test_what_is_read_under_a_condition_alone_stays() -> None:
    v, x = tl.placeholder((COLUMNS,), name="V"), tl.placeholder((ROWS, COLUMNS), name="X")
    out = tl.compute((ROWS, COLUMNS), lambda i, j: tl.select(i + j < COLUMNS - 1, x[i, j] / tl.sqrt(v[j + 1]), 0.0), name="Y")
    refused(tl.Schedule(out), "TL-S302", "what 'Y' reads of 'V' exists only under a condition", "hoist", "Y", "Y.i")


def test_what_the_loop_itself_changes_stays() -> None:
    def step(t: Any, y: Any) -> Any:
        return tl.compute((ROWS, COLUMNS), lambda i, j: y[i, j] - 0.1 * tl.tanh(y[0, j] + tl.cast(t, "float32")), name="next")

    s = tl.Schedule(tl.scan(step, tl.placeholder((ROWS, COLUMNS), name="X"), 5, keep="last", name="states"))
    refused(s, "TL-S301", "all that 'next' computes moves with 't'", "hoist", "next", "states.t")
    s.hoist("next", "next.i")
    check(s)


def test_what_is_written_inside_the_loop_is_not_read_before_it() -> None:
    out = tl.recurrence((ROWS, COLUMNS), lambda i, j, own: tl.tanh(own[0, j - 1]) + 0.5 * own[i - 1, j], name="R")
    refused(tl.Schedule(out), "TL-S103", "after 'R' has written it", "hoist", "R", "R.i")


@pytest.mark.parametrize(("stage", "loop", "code", "said"), [
    ("Y", "Y.j", "TL-S301", "all that 'Y' computes moves with 'j'"),
    ("Z", "Y.i", "TL-S003", "no stage 'Z'"),
    ("Y", "k", "TL-S001", "no loop"),
])  # fmt: skip
def test_a_refusal_says_what_is_missing(stage: str, loop: str, code: str, said: str) -> None:
    refused(tl.Schedule(normalised()), code, said, "hoist", stage, loop)


def test_a_refusal_inside_lanes_names_them() -> None:
    s = tl.Schedule(normalised())
    s.vectorize("j")
    refused(s, "TL-S107", "inside the vector loop 'j'", "hoist", "Y", "Y.i")


def cosines(n: int = 128) -> Tensor:
    """A cosine transform of blocks of 8 x 8, as its sum."""
    x, u, v = tl.placeholder((n, n), name="X"), tl.reduce_axis(8, name="u"), tl.reduce_axis(8, name="v")

    def wave(k: Any, place: Any) -> Any:
        return tl.cos(tl.cast((2 * k + 1) * (place % 8), "float32") * (np.pi / 16))

    result: Tensor = tl.compute(
        (n, n), lambda i, j: tl.sum(x[i // 8 * 8 + u, j // 8 * 8 + v] * wave(u, i) * wave(v, j), axis=(u, v)), name="D"
    )
    return result


@pytest.mark.parametrize(("program", "hoisted"), [
    (lambda: normalised(512, 512), ["Y.i"]),
    (lambda: swept(200), ["next.i"]),
    (lambda: transformed(64, 256), ["F.b"]),
    (cosines, ["D.i", "D.j"]),
])  # fmt: skip
def test_the_default_hoists_what_is_dear(program: Any, hoisted: list[str]) -> None:
    machine = target("znver3")
    strategy = choose(program(), machine, 1)
    s = strategy.schedule(strategy.default)
    assert [step.loop for step in s.directives if isinstance(step, Hoist)] == hoisted


def test_the_default_leaves_short_loops_and_what_costs_as_much_as_its_load() -> None:
    n, k = 500, tl.reduce_axis(500, name="k")
    p, m, x = tl.placeholder((n, 3), name="P"), tl.placeholder((n,), name="M"), tl.placeholder((n, n), name="X")

    def force(i: Any, a: Any) -> Any:
        squares = sum((p[k, b] - p[i, b]) * (p[k, b] - p[i, b]) for b in range(3)) + 0.01
        return tl.sum(m[k] * (p[k, a] - p[i, a]) / (squares * tl.sqrt(squares)), axis=k)

    plain = tl.compute((n, n), lambda i, j: x[i, j] * (m[j] * m[j] + 2.0 * m[j] + 1.0), name="Z")
    for outputs in (tl.compute((n, 3), force, name="F"), plain):
        strategy = choose(outputs, target("znver3"), 1)
        assert not any(isinstance(step, Hoist) for step in strategy.schedule(strategy.default).directives)


def test_what_the_same_iteration_makes_is_not_there_before_it() -> None:
    """A sum whose storage stands outside of all loops is still made in each iteration, if there is one only."""
    k = tl.reduce_axis(1, name="k")

    def value(i: Any, j: Any, u: Any, _w: Any) -> Any:
        return u[i, j - 1] + 1.0, tl.max(u[i - 2, k], axis=k) + 1.0

    s = tl.Schedule(tl.recurrence((1, 1), value, name="V"))
    s.store_root("V.1")
    assert code_and_reason(s, "hoist", "V", "V.j")[0] == "TL-S301"
