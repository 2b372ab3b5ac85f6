"""Small blocks stand side by side in lanes where the model says so, and every number of them gives the same."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.rows.side_by_side import SideBySide
from tests.machines import MACHINES


def inverses(count: int) -> Any:
    """Of matrices of 3 x 3, by minors."""
    A = tl.placeholder((count, 3, 3), name="A")

    def element(b: Any, i: Any, j: Any) -> Any:
        def part(p: Any, q: Any) -> Any:
            return A[b, p % 3, q % 3]

        whole = sum(A[b, 0, k] * (part(1, k + 1) * part(2, k + 2) - part(1, k + 2) * part(2, k + 1)) for k in range(3))
        return (part(j + 1, i + 1) * part(j + 2, i + 2) - part(j + 1, i + 2) * part(j + 2, i + 1)) / whole

    return tl.compute((count, 3, 3), element, name="I")


def permuted(count: int) -> Any:
    """The words of Keccak's state, 5 x 5, each turned and moved to another place."""
    A, by = tl.placeholder((count, 5, 5), "uint64", name="A"), tl.placeholder((5, 5), "uint64", name="by")

    def word(b: Any, x: Any, y: Any) -> Any:
        found, turn = A[b, (x + 3 * y) % 5, x], by[(x + 3 * y) % 5, x]
        return (found << turn) | (found >> (tl.cast(64, "uint64") - turn))

    return tl.compute((count, 5, 5), word, name="B")


@pytest.mark.parametrize("machine", MACHINES)
def test_blocks_of_which_lanes_hold_few_stand_side_by_side(machine: str) -> None:
    strategy = choose(inverses(20000), target(machine), 1)
    assert strategy.name == "side_by_side" and strategy.default["blocks"] > 1


@pytest.mark.parametrize("machine", ["znver3", "znver4"])
def test_so_do_those_of_five_by_five_that_are_gathered_otherwise(machine: str) -> None:
    strategy = choose(permuted(2000), target(machine), 1)
    assert strategy.name == "side_by_side" and strategy.default["blocks"] > 1


def bands() -> Any:
    """The four bands of Haar's wavelet."""
    X = tl.placeholder((64, 96), name="X")

    def element(b: Any, i: Any, j: Any) -> Any:
        across, down = tl.select(b % 2 == 0, 1.0, -1.0), tl.select(b < 2, 1.0, -1.0)
        corner = tl.select((b == 0) | (b == 3), 1.0, -1.0)
        upper, lower = (X[2 * i + row, 2 * j] for row in (0, 1))
        return 0.5 * (upper + across * X[2 * i, 2 * j + 1] + down * lower + corner * X[2 * i + 1, 2 * j + 1])

    return tl.compute((4, 32, 48), element, name="W")


def colours() -> Any:
    """Pixels of bytes in other colours: each channel is another sum of all three."""
    X = tl.placeholder((20, 64, 3), "uint8", name="X")
    weights = ((66, 129, 25), (-38, -74, 112), (112, -94, -18))

    def element(i: Any, j: Any, k: Any) -> Any:
        red, green, blue = (tl.cast(X[i, j, channel], "int32") for channel in range(3))
        first, second, third = ((a * red + b * green + c * blue + 128) >> 8 for a, b, c in weights)
        return tl.cast(tl.select(k == 0, first, tl.select(k == 1, second, third)) + 16, "uint8")

    return tl.compute((20, 64, 3), element, name="Y")


def in_bands(x: Any) -> Any:
    """The same by NumPy."""
    (a, b), (c, d) = ([x[row::2, column::2] for column in (0, 1)] for row in (0, 1))
    return np.stack([a + b + c + d, a - b + c - d, a + b - c - d, a - b - c + d]) / 2


def in_colours(x: Any) -> Any:
    """The same by NumPy."""
    weights = np.array([[66, 129, 25], [-38, -74, 112], [112, -94, -18]])
    return (((x.astype(np.int32) @ weights.T + 128) >> 8) + 16).astype(np.uint8)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("program", [bands, colours])
def test_results_that_share_what_they_read_are_written_out_beside_lanes(machine: str, program: Any) -> None:
    """On a Zen 4 the bands take 0.4 of the time of one after the other, and the colours 0.2 of that of a run of pixels and channels."""
    strategy = choose(program(), target(machine), 1)
    assert strategy.name == "side_by_side" and strategy.default["blocks"] > 1


@pytest.mark.parametrize("program", [bands, colours])
def test_every_number_of_them_gives_the_same(program: Any) -> None:
    strategy = choose(program(), target(), 1)
    rng = np.random.default_rng(0)
    x = rng.random((64, 96), dtype=np.float32) if program is bands else rng.integers(0, 256, (20, 64, 3), dtype=np.uint8)
    wanted = in_bands(x) if program is bands else in_colours(x)
    (blocks,) = (knob for knob in strategy.space.knobs if knob.name == "blocks")
    for number in blocks.values:
        found = tl.build(strategy.schedule({**strategy.default, "blocks": number}))(x)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_what_others_are_computed_from_stays_a_run() -> None:
    """Only rows can be placed in the rows of their readers."""
    X = tl.placeholder((64, 96), name="X")
    twice = tl.compute((4, 64, 96), lambda b, i, j: X[i, j] * tl.select(b % 2 == 0, 1.0, 2.0), name="twice")
    strategy = choose(tl.compute((4, 64, 95), lambda b, i, j: twice[b, i, j] + twice[b, i, j + 1], name="sums"), target(), 1)
    assert "blocks" not in strategy.default


def test_rows_of_whole_vectors_do_not() -> None:
    A = tl.placeholder((5000, 4, 64), name="A")
    strategy = choose(tl.compute((5000, 4, 64), lambda b, i, j: A[b, i, j] * A[b, 3 - i, j], name="C"), target(), 1)
    assert "blocks" not in strategy.default


@pytest.mark.parametrize("count", [16, 37, 100])
def test_every_number_of_blocks_gives_the_same(count: int) -> None:
    outputs = inverses(count)
    x = np.random.default_rng(0).random((count, 3, 3), dtype=np.float32) + 3 * np.eye(3, dtype=np.float32)
    wanted = np.linalg.inv(x.astype(np.float64))
    strategy = choose(outputs, target(), 2)
    (blocks,) = (knob for knob in strategy.space.knobs if knob.name == "blocks")
    for number in blocks.values:
        for shared in ("none", "outer"):
            s = strategy.schedule({**strategy.default, "blocks": number, "parallel": shared})
            assert not s.faults
            np.testing.assert_allclose(tl.build(s)(x), wanted, rtol=1e-4, atol=1e-5)


def forces(n: int, extent: int) -> Any:
    """Forces between points, by a weight that their components share."""
    at, j = tl.placeholder((n, extent), name="P"), tl.reduce_axis(n, name="j")

    def force(i: Any, a: Any) -> Any:
        square = sum((at[j, b] - at[i, b]) ** 2 for b in range(extent)) + 0.5
        return tl.sum((at[j, a] - at[i, a]) / (square * tl.sqrt(square)), axis=j)

    return tl.compute((n, extent), force, name="F")


@pytest.mark.parametrize("cpu", ["znver4", "cascadelake", "haswell"])
def test_sums_that_share_what_they_add_are_computed_together(cpu: str) -> None:
    """Results have the lanes, and their components are copies of one loop over all points."""
    kinds = choose(forces(400, 3), target(cpu), 1)
    text = str(kinds.schedule(kinds.default))
    assert re.search(r"unroll a in range\(3\):\s+vector i_i in range\(\d+\):\s+F_acc\w*\[a, i_i\] \+=", text)
    rows = kinds.schedule({**kinds.default, "blocks": 0})
    assert "vector j_i" in str(rows)
    core = target(cpu).core
    assert estimate(kinds.schedule(kinds.default).nest, core).seconds < 0.7 * estimate(rows.nest, core).seconds


@pytest.mark.parametrize("shape", [(1, 3), (33, 2), (400, 3), (70, 16)])
def test_sums_side_by_side_are_those_of_numpy(shape: tuple[int, int]) -> None:
    p = np.random.default_rng(0).random(shape)
    apart = p[None] - p[:, None]
    square = (apart**2).sum(axis=2) + 0.5
    want = (apart / (square * np.sqrt(square))[:, :, None]).sum(axis=1)
    kinds = choose(forces(*shape), target(), 1)
    for blocks in {0, kinds.default.get("blocks", 0)}:
        config = {**kinds.default, "blocks": blocks} if "blocks" in kinds.default else kinds.default
        np.testing.assert_allclose(tl.build(kinds.schedule(config))(p.astype("float32")), want, rtol=1e-4, atol=1e-4)


def test_sums_that_share_nothing_stay_in_rows() -> None:
    x, k = tl.placeholder((500, 400, 3), name="X"), tl.reduce_axis(400, name="k")
    colours = tl.compute((500, 3), lambda i, c: tl.sum(x[i, k, c], axis=k), name="S")
    assert "blocks" not in choose(colours, target("znver4"), 1).default


def stiffness(elements: int, nodes: int) -> Any:
    """What triangles of a mesh add to their corners: a product of 3 x 3 each with what data name, and a scatter of it."""
    u, corners = tl.placeholder((nodes,), name="u"), tl.placeholder((elements, 3), "int32", name="corners")
    K, k = tl.placeholder((elements, 3, 3), name="K"), tl.reduce_axis(3, name="k")

    def corner(e: Any, a: Any) -> Any:
        return tl.clamp(corners[e, a], 0, nodes - 1)

    own = tl.compute((elements, 3), lambda e, a: tl.sum(K[e, a, k] * u[corner(e, k)], axis=k), name="own")
    axes = tl.reduce_axis(elements, name="r"), tl.reduce_axis(3, name="s")
    nothing = tl.compute((nodes,), lambda i: 0.0 * u[i], name="nothing")
    return tl.scatter(nothing, axes, lambda e, a: (corner(e, a),), lambda e, a: own[e, a], reduce="add", name="F")


def test_small_products_beside_other_stages_have_an_element_in_each_lane() -> None:
    """Where an instruction gathers what they look up; else lanes of rows take as long (1.03 to 1.07 of it on a Zen 4)."""
    strategy = choose(stiffness(4000, 900), target("x86-64-v4"), 1)
    assert strategy.default["blocks"] == 16
    rng = np.random.default_rng(0)
    u, corners = rng.standard_normal(60).astype(np.float32), rng.integers(-3, 65, (301, 3)).astype(np.int32)
    K = rng.standard_normal((301, 3, 3)).astype(np.float32)
    found, clamped, want = tl.build(stiffness(301, 60))(u, corners, K), np.clip(corners, 0, 59), np.zeros(60)
    np.add.at(want, clamped, np.einsum("eak,ek->ea", K.astype(float), u[clamped]))
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("place", ["strip", "whole", "inlined"])
@pytest.mark.parametrize("strip", [1, 4, 16])
def test_pairs_beside_one_another_are_computed_where_they_are_read(place: str, strip: int) -> None:
    """Two sums of looked up neighbours and their quotient: pairs in lanes, in a strip of rows of what reads them."""
    h, w = 37, 130
    x, table = tl.placeholder((h + 1, w), name="x"), tl.placeholder((40, 2), name="t")
    root = tl.compute((h + 1, w), lambda i, j: tl.sqrt(x[i, j]), name="root")

    def pair(i: Any, j: Any, c: Any) -> Any:
        v = (root[i, j] + root[i + 1, j]) / 2
        k = tl.cast(tl.clamp(v * 38, 0, 38), "int32")
        return table[k, c] + v * table[k + 1, c]

    pairs = tl.compute((h, w, 2), pair, name="pairs")
    strategy: Any = choose(tl.compute((h, w), lambda i, j: pairs[i, j, 0] / pairs[i, j, 1], name="y"), target("x86-64-v4"), 1)
    assert isinstance(strategy._rows["pairs"], SideBySide)
    own = {"strip": strip, "pairs.blocks": strategy._rows["pairs"].lanes} if place == "strip" else {}
    point = strategy.space.complete({**strategy.default, "pairs.at": place, **own})
    s = strategy.schedule(point)
    assert not s.faults
    if place == "strip":
        assert ("unroll c in range(2)" in str(s)) and f"pairs: float32[{strip}, 130, 2]" in str(s)
    rng = np.random.default_rng(0)
    a, t = rng.random((h + 1, w), "float32"), rng.random((40, 2), "float32") + 1
    v = (np.sqrt(a[:-1]) + np.sqrt(a[1:])) / 2
    k = np.clip(v * 38, 0, 38).astype("int32")
    wanted = (t[k, 0] + v * t[k + 1, 0]) / (t[k, 1] + v * t[k + 1, 1])
    np.testing.assert_allclose(tl.build(s)(a, t), wanted, rtol=1e-5)
