"""Short last axes run as one with the axes outside of them: results stay, lanes are filled, gathers from afar are not made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.analysis.short_axes import Run, run_of
from tensorlang.schedules.strategies.analysis.stages import stages_of
from tensorlang.schedules.strategies.program import ProgramStrategy
from tensorlang.schedules.strategies.rows.rows import MAX_LANES, RowVectors
from tests.schedules.programs import check
from tests.thinned import crossed


def gain(rows: Any, columns: Any, channels: int, dtype: str = "float32") -> tl.Tensor:
    """Every kind of read: of the element, of a neighbour, of its channel, of its pixel."""
    image = tl.placeholder((rows, columns + 1, channels), dtype, name="A")
    each, mask = tl.placeholder((channels,), dtype, name="g"), tl.placeholder((rows, columns), dtype, name="m")
    result: tl.Tensor = tl.compute(
        (rows, columns, channels), lambda i, j, c: image[i, j, c] * each[c] + image[i, j + 1, c] * mask[i, j], name="D"
    )
    return result


def mixed(rows: Any, columns: Any, channels: int, dtype: str = "float32") -> tl.Tensor:
    """A matrix for each pixel."""
    image, matrix = tl.placeholder((rows, columns, channels), dtype, name="A"), tl.placeholder((channels, channels), dtype, name="M")
    r = tl.reduce_axis(channels, name="r")
    result: tl.Tensor = tl.compute((rows, columns, channels), lambda i, j, c: tl.sum(image[i, j, r] * matrix[c, r], axis=r), name="D")
    return result


def planes(rows: Any, columns: Any, channels: int, dtype: str = "float32") -> tl.Tensor:
    """Channels that lie far apart."""
    image = tl.placeholder((channels, rows, columns), dtype, name="A")
    result: tl.Tensor = tl.compute((rows, columns, channels), lambda i, j, c: image[c, i, j] + 1, name="D")
    return result


def run(result: tl.Tensor, cpu: str = "znver3") -> Run | None:
    (info,) = stages_of(tl.Schedule(result).nest)
    return run_of(info, target(cpu).lanes(info.widest), MAX_LANES)


@crossed({"program": [gain, mixed], "channels": [2, 3, 4, 5, 6, 7], "shape": [(3, 11), (1, 1), (4, 64), (0, 5), (5, 17)]})
def test_the_default_computes_what_the_definition_means(program: Callable[..., tl.Tensor], channels: int, shape: tuple[int, int]) -> None:
    strategy = choose(program(*shape, channels), target("native"), 1)
    check(strategy.schedule(strategy.default), interpret=False)


@crossed({"dtype": ["uint8", "int16", "float64"], "channels": [2, 3, 4]})
def test_elements_of_any_width_are_joined(dtype: str, channels: int) -> None:
    strategy = choose(gain(3, 70, channels, dtype), target("native"), 1)
    check(strategy.schedule(strategy.default), interpret=False)


@pytest.mark.parametrize("columns", [0, 1, 7, 8, 9, 100])
def test_rows_of_any_length_are_joined(columns: int) -> None:
    n = tl.dim("n")
    pixels, each = tl.placeholder((n, 3), name="A"), tl.placeholder((3,), name="g")
    kernel = tl.build(tl.compute((n, 3), lambda i, c: pixels[i, c] * each[c], name="D"))
    rng = np.random.default_rng(0)
    a, g = rng.random((columns, 3), dtype=np.float32), rng.random(3, dtype=np.float32)
    np.testing.assert_array_equal(kernel(a, g), a * g)


@crossed({"program": [gain, mixed], "channels": [2, 3, 4, 5, 6, 7]})
def test_vectors_find_every_channel_at_the_same_lanes(program: Callable[..., tl.Tensor], channels: int) -> None:
    found = run(program(32, 64, channels))
    assert found is not None
    assert found.period % channels == 0
    assert found.period % 8 == 0


def test_what_every_access_walks_as_one_needs_no_whole_groups() -> None:
    image = tl.placeholder((32, 64, 3), name="A")
    found = run(tl.compute((32, 64, 3), lambda i, j, c: image[i, j, c] * 2, name="D"))
    assert found is not None
    assert found.period == 1


def test_channels_that_lie_far_apart_and_last_axes_that_fill_a_vector_stay_as_they_are() -> None:
    assert run(planes(32, 64, 3)) is None
    assert run(gain(32, 64, 8)) is None


def test_the_space_holds_whole_groups_alone() -> None:
    strategy = choose(gain(32, 64, 3), target("znver3"), 1)
    assert isinstance(strategy, ProgramStrategy)
    rows = strategy._rows["D"]
    assert isinstance(rows, RowVectors)
    counts = rows.knobs()[0].values  # type: ignore[union-attr]
    assert counts == (3, 6, 12)
    assert strategy.default["vectors"] in counts
    for config in strategy.space:
        check(strategy.schedule(config), interpret=False)


@crossed({"order": [2, 3, 4, 5], "depth": [2, 3, 20]})
def test_products_of_small_matrices_are_right(order: int, depth: int) -> None:
    a, b = tl.placeholder((9, order, depth), name="A"), tl.placeholder((9, depth, order), name="B")
    r = tl.reduce_axis(depth, name="r")
    product = tl.compute((9, order, order), lambda z, i, j: tl.sum(a[z, i, r] * b[z, r, j], axis=r), name="D")
    strategy = choose(product, target("native"), 1)
    check(strategy.schedule(strategy.default), interpret=False)


@pytest.mark.parametrize("dtype", ["uint8", "bool"])
@pytest.mark.parametrize("shape", [(40, 24), (37, 6), (tl.dim("n"), 3)], ids=["24", "6", "3"])
def test_rows_of_bytes_turned_around_are_a_run_whatever_the_vectors(shape: tuple[Any, int], dtype: str) -> None:
    """Of vectors of 64 bytes, three are more than lanes may be: then halves of them."""
    image = tl.placeholder(shape, dtype, name="A")
    flipped = tl.compute(shape, lambda i, j: image[shape[0] - 1 - i, j], name="flip")
    for cpu in ("znver3", "sapphirerapids", "znver5"):
        strategy = choose(flipped, target(cpu), 1)
        check(strategy.schedule(strategy.default), dims={"n": 50}, interpret=False)
    wide = choose(flipped, target("sapphirerapids"), 1)
    assert isinstance(wide, ProgramStrategy) and "vector" in str(wide.schedule(wide.default))


BORDERS: dict[str, tuple[Callable[..., Any], str]] = {
    "edge": (lambda x, i, j, c, n: x[i, tl.clamp(j, 0, n - 1), c], "edge"),
    "wrap": (lambda x, i, j, c, n: x[i, j % n, c], "wrap"),
    "constant": (lambda x, i, j, c, n: tl.select((j >= 0) & (j < n), x[i, tl.clamp(j, 0, n - 1), c], 0), "constant"),
}


def beside(border: str, columns: int, channels: int, offsets: tuple[int, ...], dtype: str = "float32") -> tl.Tensor:
    """Pixels around each, beyond the ends of rows too."""
    image, read = tl.placeholder((5, columns, channels), dtype, name="A"), BORDERS[border][0]
    result: tl.Tensor = tl.compute(
        (5, columns, channels), lambda i, j, c: sum(read(image, i, j + by, c, columns) for by in offsets) + image[i, j, c], name="D"
    )
    return result


@crossed({"border": [*BORDERS], "columns": [1, 2, 5, 9, 40], "channels": [2, 3, 4], "dtype": ["float32", "uint8"], "cpu": ["native"]})
def test_pixels_beyond_the_ends_of_rows_are_those_of_numpy(border: str, columns: int, channels: int, dtype: str, cpu: str) -> None:
    values = np.random.default_rng(columns).integers(0, 50, (5, columns, channels)).astype(dtype)
    around = np.pad(values, ((0, 0), (2, 2), (0, 0)), mode=BORDERS[border][1])  # type: ignore[call-overload]
    want = around[:, :columns] + around[:, 3 : 3 + columns] + values
    strategy = choose(beside(border, columns, channels, (-2, 1), dtype), target(cpu), 1)
    np.testing.assert_array_equal(tl.build(strategy.schedule(strategy.default))(values), want)


@pytest.mark.parametrize("border", BORDERS)
def test_ends_that_ask_are_no_part_of_a_run(border: str) -> None:
    strategy = choose(beside(border, 100, 3, (-2, 1)), target("znver4"), 1)
    text = str(strategy.schedule(strategy.default))
    assert "vector j_c_i" in text and "for j_first in range(2)" in text and "for j_last in range(99, 100)" in text


def test_a_state_of_two_slots_is_a_run() -> None:
    """What is written at `t % 2` has, in one step, a place of its own for each element."""
    at, speed = tl.placeholder((6, 20, 3), name="at"), tl.placeholder((6, 20, 3), name="speed")

    def step(_: Any, state: Any) -> Any:
        places, speeds = state
        pulled = tl.compute(
            (6, 20, 3), lambda i, j, c: speeds[i, j, c] + 0.1 * (places[i, tl.minimum(j + 1, 19), c] - places[i, j, c]), name="pulled"
        )
        moved = tl.compute((6, 20, 3), lambda i, j, c: 0.5 * places[tl.minimum(i + 1, 5), j, c] + pulled[i, j, c], name="moved")
        return moved, pulled

    strategy = choose(tl.scan(step, (at, speed), 4, keep="last", name="cloth")[0], target("znver4"), 1)
    assert sum("vector j_c_i" in line for line in str(strategy.schedule(strategy.default)).splitlines()) >= 2
    native = choose(tl.scan(step, (at, speed), 4, keep="last", name="cloth")[0], target("native"), 1)
    x, v = (np.random.default_rng(seed).random((6, 20, 3), dtype=np.float32) for seed in (0, 1))
    have, down, right = tl.build(native.schedule(native.default))(x, v), [1, 2, 3, 4, 5, 5], [*range(1, 20), 19]
    for _ in range(4):
        v = v + np.float32(0.1) * (x[:, right] - x)
        x = np.float32(0.5) * x[down] + v
    np.testing.assert_allclose(have, x, rtol=1e-5)


@crossed({"channels": [2, 3, 4, 5, 6, 7], "dtype": ["uint8", "int16", "float32"], "columns": [1, 7, 64, 130], "cpu": ["native"]})
def test_planes_become_pixels(channels: int, dtype: str, columns: int, cpu: str) -> None:
    strategy = choose(planes(3, columns, channels, dtype), target(cpu), 1)
    for config in strategy.space:
        check(strategy.schedule(config), interpret=False)


def test_planes_are_woven_by_all_of_their_channels_and_pass_the_caches() -> None:
    strategy = choose(planes(1536, 2560, 3, "uint8"), target("znver4"), 1)
    assert strategy.default["tile"] == 3 and strategy.default["stream"] is True


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_channel_of_pixels_is_read_in_lanes(dtype: str) -> None:
    image = tl.placeholder((1536, 2560, 3), dtype, name="A")
    gray = tl.compute((1536, 2560), lambda i, j: image[i, j, 0] + image[i, j, 1] + image[i, j, 2], name="D")
    strategy = choose(gray, target("znver4"), 1)
    assert strategy.default["lanes"] is True


def columns_of_air(columns: int, layers: int, bands: int) -> Any:
    """What leaves each layer of a column of air downwards, in a few bands."""
    trans = tl.placeholder((columns, layers, bands), name="trans")
    return tl.recurrence((columns, layers, bands), lambda c, l, k, own: own[c, l - 1, k] * trans[c, l, k] + 1.0, name="down")


@pytest.mark.parametrize("bands", [2, 3, 7, 16])
def test_a_loop_along_which_rows_wait_is_no_part_of_a_run(bands: int) -> None:
    """In one run with its layers the bands have no lanes: they would race."""
    strategy = choose(columns_of_air(40, 9, bands), target("x86-64-v4"), 1)
    s = strategy.schedule(strategy.default)
    assert "vector" in str(s) and not any("l_k" in loop for loop in s.loops("down"))
    trans = np.random.default_rng(bands).random((40, 9, bands), "float32")
    expected = np.empty_like(trans)
    for layer in range(9):
        expected[:, layer] = (expected[:, layer - 1] if layer else 0) * trans[:, layer] + 1
    np.testing.assert_allclose(tl.build(columns_of_air(40, 9, bands))(trans), expected, rtol=1e-5)
