"""Tables of integers through which indices go are scheduled for what they hold, and may hold something else at a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.lowering.program import lower_program
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.rewriting.edit import loops
from tensorlang.schedules.strategies import choose, expectations

DOWN, RIGHT = [0, 1, -1, 0, 0, 1, 1, -1, -1], [0, 0, 0, 1, -1, 1, -1, 1, -1]
MACHINE = tl.target("skylake-avx512")
N = 40


def taps(dy: Any, dx: Any, kind: str) -> Any:
    """Neighbours of an image whose rows and columns are read round or held at its ends, stacked or summed with weights."""
    image, k = tl.placeholder((N, N), name="X"), tl.reduce_axis(9, name="k")
    w = tl.buffer(np.linspace(0.1, 0.9, 9, dtype="f4"), name="w")

    def inside(place: Any) -> Any:
        return tl.clamp(place, 0, N - 1) if "clamped" in kind else place % N

    def value(d: Any, y: Any, x: Any) -> Any:
        return w[d] * image[inside(y + dy[d]), inside(x + dx[d])]

    if "sum" in kind:
        return tl.compute((N, N), lambda y, x: tl.sum(value(k, y, x), axis=k), name="Y")
    if "last" in kind:
        return tl.compute((N, N, 9), lambda y, x, d: value(d, y, x), name="Y")
    return tl.compute((9, N, N), value, name="Y")


def wanted(dy: list[int], dx: list[int], kind: str, image: Any) -> Any:
    w, at = np.linspace(0.1, 0.9, 9, dtype="f4"), np.arange(N)
    inside: Callable[[Any], Any] = (lambda place: np.clip(place, 0, N - 1)) if "clamped" in kind else (lambda place: place % N)
    every = np.stack([w[d] * image[np.ix_(inside(at + dy[d]), inside(at + dx[d]))] for d in range(9)])
    return every.sum(0) if "sum" in kind else np.moveaxis(every, 0, -1) if "last" in kind else every


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8"])
@pytest.mark.parametrize("kind", ["sum", "sum, clamped", "first", "last"])
def test_a_kernel_reads_what_the_tables_hold_when_it_is_called(kind: str, dtype: str) -> None:
    dy, dx = np.array(DOWN, dtype), np.array(RIGHT, dtype)
    kernel = tl.build(taps(tl.buffer(dy, name="dy"), tl.buffer(dx, name="dx"), kind))
    image = np.random.default_rng(0).random((N, N), "f4")
    for place, value in ((0, 0), (8, 3), (8, -1), (4, -2)):
        dy[place] = value
        np.testing.assert_allclose(kernel(image), wanted(list(dy), list(dx), kind, image), rtol=1e-5)


@pytest.mark.parametrize("kind", ["sum", "sum, clamped", "first", "last"])
def test_the_default_expects_what_the_tables_hold_and_is_predicted_to_gain(kind: str) -> None:
    outputs = taps(tl.buffer(np.array(DOWN), name="dy"), tl.buffer(np.array(RIGHT), name="dx"), kind)
    strategy = choose(outputs, MACHINE, 1)
    assert strategy.default["tables"] == "expected"
    chosen = strategy.schedule(strategy.default)
    usual = strategy.schedule({name: value for name, value in strategy.default.items() if name != "tables"} | {"tables": "read"})
    assert chosen.nest.body.cond is not None  # type: ignore[union-attr]
    assert estimate(chosen.nest, MACHINE.core).seconds < 0.5 * estimate(usual.nest, MACHINE.core).seconds
    image = np.random.default_rng(0).random((N, N), "f4")
    np.testing.assert_allclose(tl.build(chosen)(image), wanted(DOWN, RIGHT, kind, image), rtol=1e-5)


@pytest.mark.parametrize("kind", ["sum", "sum, clamped", "first"])
def test_elsewhere_the_steps_are_those_of_the_usual_schedule(kind: str) -> None:
    strategy = choose(taps(tl.buffer(np.array(DOWN), name="dy"), tl.buffer(np.array(RIGHT), name="dx"), kind), MACHINE, 1)
    usual = strategy.schedule({**strategy.default, "tables": "read"})
    chosen = strategy.schedule(strategy.default)
    elsewhere = chosen.nest.body.orelse  # type: ignore[union-attr]
    kinds = [[loop.kind for loop in loops(body)] for body in (elsewhere, usual.nest.body)]
    assert kinds[0] == kinds[1]


def test_offsets_in_one_table_of_pairs_are_expected() -> None:
    offsets = np.array([DOWN, RIGHT]).T.copy()
    at = tl.buffer(offsets, name="at")
    x, k = tl.placeholder((N, N), name="X"), tl.reduce_axis(9, name="k")
    total = tl.compute((N, N), lambda i, j: tl.sum(x[(i + at[k, 0]) % N, (j + at[k, 1]) % N], axis=k), name="Y")
    assert choose(total, MACHINE, 1).default["tables"] == "expected"
    kernel, image = tl.build(total), np.random.default_rng(0).random((N, N), "f4")
    for _ in range(2):
        want = sum(np.roll(image, (-dy, -dx), (0, 1)) for dy, dx in offsets)
        np.testing.assert_allclose(kernel(image), want, rtol=1e-5)
        offsets[3] = 5, -7


def test_steps_of_a_scan_expect_their_directions_on_any_number_of_threads() -> None:
    cy, cx = np.array([0, 1, -1, 0, 0]), np.array([0, 0, 0, 1, -1])
    y_of, x_of = tl.buffer(cy, name="cy"), tl.buffer(cx, name="cx")
    f0, k = tl.placeholder((5, 14, 14), name="f0"), tl.reduce_axis(5, name="k")

    def step(_: Any, f: Any) -> Any:
        m = tl.compute((5, 14, 14), lambda d, y, x: f[d, (y - y_of[d]) % 14, (x - x_of[d]) % 14], name="m")
        t = tl.compute((14, 14), lambda y, x: tl.sum(m[k, y, x], axis=k), name="t")
        return tl.compute((5, 14, 14), lambda d, y, x: 0.5 * m[d, y, x] + 0.1 * t[y, x] * tl.cast(1 + y_of[d], "float32"), name="f")

    lattice = tl.scan(step, f0, 4, keep="last", name="lattice")
    given = np.random.default_rng(0).random((5, 14, 14), "f4")
    for threads in (1, 2):
        cy[1] = 1
        strategy = choose(lattice, MACHINE, threads)
        kernel = tl.build(strategy.schedule(strategy.default))
        for value in (1, 3):
            cy[1] = value
            f = given
            for _ in range(4):
                m = np.stack([np.roll(f[d], (cy[d], cx[d]), (0, 1)) for d in range(5)])
                f = 0.5 * m + 0.1 * m.sum(0) * (1 + cy)[:, None, None]
            np.testing.assert_allclose(kernel(given), f, rtol=1e-4)


def test_what_tables_hold_is_part_of_the_name_of_the_code_only_where_indices_go_through_them() -> None:
    tables = [tl.buffer(np.array(values), name="dx") for values in (DOWN, RIGHT)]
    found = [expectations(lower_program(taps(tl.buffer(np.array(DOWN), name="dy"), table, "sum"))) for table in tables]
    assert found[0] != found[1]
    x = tl.placeholder((9,), name="x")
    values = tl.compute((9,), lambda i: x[i] * tl.cast(tables[0][i], "float32"), name="v")
    data = tl.compute((9,), lambda i: x[tl.clamp(tables[0][tl.clamp(tl.cast(x[i], "int32"), 0, 8)], 0, 8)], name="g")
    assert not expectations(lower_program(values)) and not expectations(lower_program(data))


def test_large_tables_and_floats_are_read() -> None:
    x = tl.placeholder((500,), name="x")
    long = tl.buffer(np.arange(300) % 7, name="long")
    assert not expectations(lower_program(tl.compute((300,), lambda i: x[(i + long[i]) % 500], name="y")))
    floats = tl.buffer(np.arange(9, dtype="f4"), name="floats")
    rounded = tl.compute((9,), lambda i: x[tl.clamp(tl.cast(floats[i], "int32"), 0, 499)], name="z")
    assert not expectations(lower_program(rounded))
