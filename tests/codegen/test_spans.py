"""Vectors of every other element: the loads are those of all that lies between them where that may be read."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.ir import Axis, Binary, Load, Nest
from tensorlang.schedules.model.estimate import estimate
from tests.codegen.nests import Guarded, Run, arg, index, loop, store


def summed(step: int, residues: list[int], extent: int = 96) -> tl.Schedule:
    """Sums of every `step`-th element and its neighbours."""
    X = tl.placeholder((step * extent,), name="X")
    s = tl.Schedule(tl.compute((extent,), lambda i: sum((X[step * i + at] for at in residues[1:]), X[step * i + residues[0]]), name="Y"))
    s.vectorize(s.split("i", 16)[1])
    return s


def vectors_loaded(s: tl.Schedule, cpu: str) -> int:
    """Loads of the loop over vectors."""
    return len(re.findall(r"load <16 x float>", str(tl.build(s, target=cpu).inspect("llvm"))))


@pytest.mark.parametrize("cpu", ["znver4", "skylake-avx512"])
@pytest.mark.parametrize("step", [2, 3, 4])
def test_what_is_read_as_a_whole_is_loaded_once(cpu: str, step: int) -> None:
    assert vectors_loaded(summed(step, list(range(step)), 1 << 14), cpu) == step
    assert vectors_loaded(summed(step, list(range(step - 1)), 1 << 14), cpu) == (step - 1) * step


@given(st.integers(2, 4), st.data())
def test_any_neighbours_are_what_numpy_says(step: int, data: st.DataObject) -> None:
    residues = data.draw(st.lists(st.integers(0, step - 1), min_size=1, max_size=step, unique=True))
    x = np.arange(step * 96, dtype=np.float32)
    found = tl.build(summed(step, residues))(x)
    assert np.array_equal(found, sum(x[at::step] for at in residues))


@pytest.mark.parametrize("residues", [(0, 1), (0,), (1,)])
@pytest.mark.parametrize("on", ["native", "x86-64-v3"])
def test_nothing_beyond_what_is_read_is_touched(run: Run, guarded: Guarded, residues: tuple[int, ...], on: str) -> None:
    """The first and the last element that is read stand beside pages that may not be touched."""
    lanes, base = 16, min(residues)
    length = 2 * (lanes - 1) + max(residues) - base + 1
    x, y = arg("X", length), arg("Y", lanes)
    read = [Load(x, (index((2, "l"), at - base),)) for at in residues]
    value = read[0] if len(read) == 1 else Binary("add", *read)
    nest = Nest("f", (x,), (y,), (), loop("l", lanes, store(y, (Axis("l"),), value), "vector"))
    data = np.arange(length, dtype=np.float32)
    for before in (False, True):
        found = np.zeros(lanes, np.float32)
        run(nest, guarded(data, before=before), found, on=on)
        assert np.array_equal(found, sum(data[at - base :: 2][:lanes] for at in residues))


@pytest.mark.parametrize("chosen", [True, False])
def test_what_is_chosen_is_not_read_for_others(chosen: bool) -> None:
    """The element beside the last one does not exist: it is asked for where a condition holds."""
    n = tl.dim("n")
    X = tl.placeholder((31,), name="X")
    s = tl.Schedule(tl.compute((16,), lambda i: X[2 * i] + tl.select(n > 0, X[2 * tl.minimum(i, 14) + 1], 0.0), name="Y"))
    s.vectorize("Y.i")
    data = np.arange(31, dtype=np.float32)
    want = data[::2] + (np.append(data[1::2], data[29]) if chosen else 0)
    assert np.array_equal(tl.build(s)(data, n=int(chosen)), want)


def test_storage_of_ours_is_read_to_the_end_of_a_block() -> None:
    """The taps of a window at stride 2 are three blocks of five."""
    x, w = tl.placeholder((4, 56), name="X"), tl.placeholder((5,), name="W")
    k = tl.reduce_axis(5, name="k")
    padded = tl.compute((4, 60), lambda i, j: tl.exp(x[i, tl.clamp(j - 2, 0, 55)]), name="P")
    s = tl.Schedule(tl.compute((4, 28), lambda i, j: tl.sum(padded[i, 2 * j + k] * w[k], axis=k), name="Y"))
    j_o, j_i = s.split("Y.j", 16, "peel")
    s.reorder(j_o, "k", j_i)
    s.accumulate("Y", at=j_o)
    s.vectorize(j_i)
    s.unroll("k")
    a, b = np.random.default_rng(0).standard_normal((4, 56)).astype(np.float32), np.arange(5, dtype=np.float32)
    ends = np.exp(np.pad(a, ((0, 0), (2, 2)), mode="edge"))
    want = sum(ends[:, at : at + 56 : 2] * b[at] for at in range(5))
    np.testing.assert_allclose(tl.build(s)(a, b), want, rtol=1e-5)


def test_the_model_counts_what_is_loaded_once() -> None:
    core: Any = target("znver4").core
    whole, parts = (estimate(summed(2, residues, 1 << 12).nest, core).shares["L1"] for residues in ([0, 1], [0]))
    assert whole < 1.2 * parts


@pytest.mark.parametrize("cpu", ["znver4", "skylake-avx512"])
def test_copies_that_choose_one_after_the_other_load_a_block_once(cpu: str) -> None:
    """Pairs that are turned: the copy for even elements and the one for odd ones read the same two vectors."""
    X, c = tl.placeholder((64, 1 << 8), name="X"), tl.placeholder((64, 1 << 7), name="C")
    even = lambda t, i: X[t, i] * c[t, i // 2] - X[t, i + 1]  # noqa: E731
    odd = lambda t, i: X[t, i - 1] + X[t, i] * c[t, i // 2]  # noqa: E731
    s = tl.Schedule(tl.compute((64, 1 << 8), lambda t, i: tl.select(i % 2 == 0, even(t, i), odd(t, i)), name="Y"))
    block, _ = s.split("i", 32)
    pair, side = s.split("i_i", 2)
    s.reorder(block, side, pair)
    s.vectorize(pair)
    s.unroll(side)
    assert vectors_loaded(s, cpu) == 3
    x, angles = np.random.default_rng(0).random((64, 256), dtype=np.float32), np.random.default_rng(1).random((64, 128), dtype=np.float32)
    want = np.empty_like(x)
    want[:, ::2], want[:, 1::2] = x[:, ::2] * angles - x[:, 1::2], x[:, ::2] + x[:, 1::2] * angles
    np.testing.assert_allclose(tl.build(s)(x, angles), want, rtol=1e-6)
