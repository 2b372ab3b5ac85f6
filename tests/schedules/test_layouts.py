"""Intermediates of a few numbers at each point are stored number by number where the model says so; results stay what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.directives.transform_layout import TransformLayout
from tensorlang.schedules.strategies import choose
from tests.machines import MACHINES


def strain(planes: Any, rows: int, columns: int) -> Any:
    """Squares of the symmetric part of a gradient, which is a matrix of 3 x 3 at each point."""
    u = tl.placeholder((planes, rows, columns, 3), name="u")
    a, b = tl.reduce_axis(3, name="a"), tl.reduce_axis(3, name="b")

    def gradient(z: Any, y: Any, x: Any, c: Any, d: Any) -> Any:
        along = u[z, y, (x + 1) % columns, c] - u[z, y, (x + columns - 1) % columns, c]
        down = u[z, (y + 1) % rows, x, c] - u[z, (y + rows - 1) % rows, x, c]
        through = u[(z + 1) % planes, y, x, c] - u[(z + planes - 1) % planes, y, x, c]
        return 0.5 * tl.select(d == 0, along, tl.select(d == 1, down, through))

    g = tl.compute((planes, rows, columns, 3, 3), gradient, name="g")
    return tl.compute((planes, rows, columns), lambda z, y, x: tl.sum((g[z, y, x, a, b] + g[z, y, x, b, a]) ** 2, axis=(a, b)), name="s")


def strained(u: Any) -> Any:
    """The same by NumPy."""
    g = np.stack([(np.roll(u, -1, axis) - np.roll(u, 1, axis)) / 2 for axis in (2, 1, 0)], axis=-1)
    return ((g + g.swapaxes(-1, -2)) ** 2).sum((-1, -2))


def turned(count: int, steps: int = 3) -> Any:
    """Matrices of 3 x 3, turned by angles of their own in each step."""
    angles, m = tl.placeholder((steps, count), name="angles"), tl.reduce_axis(3, name="m")

    def step(t: Any, state: Any) -> Any:
        def turn(b: Any, i: Any, j: Any) -> Any:
            c, s = tl.cos(angles[t, b]), tl.sin(angles[t, b])
            first, second = (tl.select(j == 0, x, tl.select(j == 1, y, 0.0)) for x, y in ((c, -s), (s, c)))
            return tl.select(i == 0, first, tl.select(i == 1, second, tl.select(j == 2, 1.0, 0.0)))

        turns = tl.compute((count, 3, 3), turn, name="turns")
        return tl.compute((count, 3, 3), lambda b, i, j: tl.sum(state[b, i, m] * turns[b, m, j], axis=m), name="next")

    start = tl.compute((count, 3, 3), lambda b, i, j: tl.select(i == j, 1.0, 0.0), name="start")
    return tl.scan(step, start, steps, keep="last", name="turned")


def distances(words: int, letters: int = 9, query: int = 6) -> Any:
    """How many letters tell each word from a query, of tables that nobody else reads."""
    word, asked = tl.placeholder((words, letters), "uint8", name="word"), tl.placeholder((query,), "uint8", name="asked")

    def cell(w: Any, i: Any, j: Any, d: Any) -> Any:
        other = tl.select(word[w, tl.maximum(i - 1, 0)] == asked[tl.maximum(j - 1, 0)], 0, 1)
        best = tl.minimum(tl.minimum(d[w, i - 1, j], d[w, i, j - 1]) + 1, d[w, i - 1, j - 1] + other)
        return tl.select(i == 0, tl.cast(j, "int32"), tl.select(j == 0, tl.cast(i, "int32"), best))

    d = tl.recurrence((words, letters + 1, query + 1), cell, dtype="int32", name="d")
    return tl.compute((words,), lambda w: d[w, letters, query], name="apart")


def compared(word: Any, asked: Any) -> list[int]:
    """The same in Python, a row of the table after the other."""
    found = []
    for letters in word:
        row = list(range(len(asked) + 1))
        for i, letter in enumerate(letters, 1):
            above, row = row, [i]
            for j, other in enumerate(asked, 1):
                row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != other)))
        found.append(row[-1])
    return found


def blurred(rows: int, columns: int) -> Any:
    """Pixels whose rows and channels are one run."""
    X = tl.placeholder((rows + 2, columns, 3), name="X")
    h = tl.compute((rows + 2, columns, 3), lambda y, x, c: tl.sqrt(X[y, x, c] + 1.0), name="h")
    return tl.compute((rows, columns, 3), lambda y, x, c: h[y, x, c] + h[y + 1, x, c] + h[y + 2, x, c], name="b")


@pytest.mark.parametrize("machine", [machine for machine in MACHINES if target(machine).vector_bits > 128])
def test_gradients_are_stored_rearranged(machine: str) -> None:
    strategy = choose(strain(20, 24, 96), target(machine), 1)
    assert strategy.default["layouts"] == "rearranged"
    assert "'lambda i0, i1, i2, i3, i4: (i0, i1, i3, i4, i2)'" in repr(strategy.schedule(strategy.default))


@pytest.mark.parametrize("machine", MACHINES)
def test_a_recurrence_has_lanes_along_what_does_not_wait(machine: str) -> None:
    strategy = choose(distances(300), target(machine), 1)
    assert strategy.default["layouts"] == "rearranged"
    assert "s.reorder('d.i', 'd.j', 'd.w')" in repr(strategy.schedule(strategy.default))


@pytest.mark.parametrize("words", [1, 15, 16, 70])
def test_distances_are_those_of_python(words: int) -> None:
    rng = np.random.default_rng(words)
    word, asked = rng.integers(0, 3, (words, 9), "uint8"), rng.integers(0, 3, 6, "uint8")
    np.testing.assert_array_equal(tl.build(distances(words))(word, asked), compared(word, asked))


@pytest.mark.parametrize("machine", MACHINES)
def test_pixels_of_which_a_row_is_one_run_stay(machine: str) -> None:
    strategy = choose(blurred(60, 96), target(machine), 1)
    assert strategy.default.get("layouts", "as_written") == "as_written"


@pytest.mark.parametrize("columns", [1, 2, 15, 16, 41])
def test_gradients_are_those_of_numpy_whatever_is_stored_where(columns: int) -> None:
    strategy = choose(strain(3, 5, columns), target(), 1)
    u = np.random.default_rng(columns).random((3, 5, columns, 3), "float32")
    for config in (strategy.default, *strategy.space.sample(np.random.default_rng(0), 4)):
        np.testing.assert_allclose(tl.build(strategy.schedule(config))(u), strained(u), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [1, 16, 37])
def test_turned_matrices_are_those_of_numpy(count: int) -> None:
    angles = np.random.default_rng(count).random((3, count), "float32")
    c, s, o, one = np.cos(angles), np.sin(angles), np.zeros_like(angles), np.ones_like(angles)
    turns = np.stack([c, -s, o, s, c, o, o, o, one], axis=-1).reshape(3, count, 3, 3)
    np.testing.assert_allclose(tl.build(turned(count))(angles), turns[0] @ turns[1] @ turns[2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("machine", MACHINES)
def test_lanes_are_matrices_where_functions_are_of_each(machine: str) -> None:
    """Alone in its row an angle would have its sine a value at a time."""
    strategy = choose(turned(3000), target(machine), 1)
    nest = str(strategy.schedule(strategy.default))
    assert "turns[b, i, j]" not in nest or "vector b_i" in nest


def test_extents_that_a_call_tells_are_no_hindrance() -> None:
    u = np.random.default_rng(0).random((3, 5, 40, 3), "float32")
    np.testing.assert_allclose(tl.build(strain(tl.dim("planes"), 5, 40))(u), strained(u), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("planes", [0, 1])
def test_where_nothing_runs_nothing_is_laid_out(planes: int) -> None:
    u = np.zeros((planes, 5, 40, 3), "float32")
    assert not tl.build(strain(planes, 5, 40))(u).any()


def outer_products(rows: int, columns: int, channels: int = 4) -> Any:
    """Of each pixel of a filtered row, summed up along one of the axes."""
    x, z = tl.placeholder((rows, columns, channels), name="x"), tl.reduce_axis(channels, name="z")
    filtered = tl.recurrence(x.shape, lambda i, j, k, own: 0.5 * own[i, j - 1, k] + x[i, j, k], name="r")
    products = tl.compute((*x.shape, channels), lambda i, j, k, l: filtered[i, j, k] * filtered[i, j, l], name="J")
    return tl.compute(x.shape, lambda i, j, k: tl.sum(products[i, j, k, z], axis=z) + products[i, j, k, k], name="y")


@pytest.mark.parametrize("threads", [1, 2])
def test_strips_may_be_cut_from_the_blocks_themselves(threads: int) -> None:
    strategy = choose(outer_products(100, 100), target(), threads)
    for config in (strategy.default, *strategy.space.sample(np.random.default_rng(threads), 6)):
        strategy.schedule(config)
    x = np.random.default_rng(0).random((7, 20, 4), "float32")
    filtered = np.zeros_like(x)
    for j in range(20):
        filtered[:, j] = (filtered[:, j - 1] / 2 if j else 0) + x[:, j]
    expected = filtered * filtered.sum(-1, keepdims=True) + filtered**2
    np.testing.assert_allclose(tl.build(outer_products(7, 20))(x), expected, rtol=1e-4)


def extremes(rows: int, columns: int) -> Any:
    """What is least and greatest in a row so far, of which the last ones are read."""
    x = tl.placeholder((rows, columns), name="x")

    def step(i: Any, j: Any, low: Any, high: Any) -> Any:
        least, greatest = (tl.select(j > 0, own[i, j - 1], x[i, 0]) for own in (low, high))
        return tl.minimum(least, x[i, j]), tl.maximum(greatest, x[i, j])

    low, high = tl.recurrence((rows, columns), step, dtype=("float32", "float32"), name="e")
    return tl.compute((rows,), lambda i: high[i, columns - 1] - low[i, columns - 1], name="range"), low


@pytest.mark.parametrize("rows", [1, 16, 37])
def test_what_is_stored_together_has_one_layout(rows: int) -> None:
    s, x = tl.Schedule(extremes(rows, 9)[0]), np.random.default_rng(rows).random((rows, 9), "float32")
    s.transform_layout("e_1", lambda i, j: (j, i))
    assert f"e_0: float32[9, {rows}]" in str(s) and f"e_1: float32[9, {rows}]" in str(s)
    np.testing.assert_array_equal(tl.build(s)(x), np.ptp(x, axis=1))
    np.testing.assert_array_equal(tl.build(extremes(rows, 9)[0])(x), np.ptp(x, axis=1))


def test_what_is_stored_together_with_a_result_stays() -> None:
    with pytest.raises(tl.ScheduleError, match="'e_1' is stored together with 'e_0', whose storage belongs to the caller"):
        tl.Schedule(*extremes(5, 9)).transform_layout("e_1", lambda i, j: (j, i))


def pooled(points: int, height: int, width: int, channels: int, kind: str = "max") -> Any:
    """The greatest features, or their sums, of the points in each cell of a grid, channels first, and what lies above one half."""
    y, x = (tl.placeholder((points,), "int32", name=name) for name in "yx")
    features = tl.placeholder((points, channels), name="features")
    n, c = tl.reduce_axis(points, name="n"), tl.reduce_axis(channels, name="c")
    zero = tl.compute((channels, height, width), lambda c, i, j: tl.cast(0, "float32"), name="zero")
    cells = tl.scatter(
        zero,
        axes=(n, c),
        index=lambda n, c: (c, tl.clamp(y[n], 0, height - 1), tl.clamp(x[n], 0, width - 1)),
        value=lambda n, c: features[n, c],
        reduce=kind,
        name="cells",
    )
    return tl.compute((channels, height, width), lambda c, i, j: tl.maximum(cells[c, i, j] - 0.5, 0.0), name="pooled")


@pytest.mark.parametrize("cpu", MACHINES)
def test_what_is_written_where_data_tell_has_the_axis_that_is_its_own_last(cpu: str) -> None:
    strategy = choose(pooled(4000, 48, 64, 32), target(cpu), threads=1)
    layouts = [step for step in strategy.schedule(strategy.default).directives if isinstance(step, TransformLayout)]
    assert [(step.tensor, step.fn) for step in layouts] == [("cells", "lambda i0, i1, i2: (i1, i2, i0)")]


@pytest.mark.parametrize("kind", ["max", "add"])
@pytest.mark.parametrize(("points", "height", "width", "channels"), [(300, 5, 7, 32), (50, 1, 3, 17), (1, 2, 2, 64), (0, 3, 4, 32)])
def test_features_of_cells(points: int, height: int, width: int, channels: int, kind: str) -> None:
    rng = np.random.default_rng(points)
    y, x = (rng.integers(0, extent, points).astype("int32") for extent in (height, width))
    features = rng.standard_normal((points, channels)).astype("float32")
    cells = np.zeros((channels, height, width), "float32")
    (np.maximum if kind == "max" else np.add).at(cells, (slice(None), y, x), features.T)
    found = tl.build(pooled(points, height, width, channels, kind))(y=y, x=x, features=features)
    np.testing.assert_allclose(found, np.maximum(cells - 0.5, 0), rtol=1e-4, atol=1e-5)
