"""Lanes number the elements that data name in 32 bits where a buffer has so few, and read the same ones."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensorlang as tl

POINTS, LISTED = 50, 37


def distances(points: Any = POINTS, dtype: str = "int32") -> tl.Schedule:
    """Of each point to one that data name, its three coordinates apart: each of three results reads all of them."""
    X, near = tl.placeholder((points, 3), name="X"), tl.placeholder((LISTED,), dtype, name="near")

    def at(i: Any, axis: int) -> Any:
        return X[tl.clamp(tl.cast(near[i], "int64"), 0, points - 1), axis]

    def element(i: Any, c: Any) -> Any:
        whole = at(i, 0) * at(i, 0) + at(i, 1) * at(i, 1) + at(i, 2) * at(i, 2)
        return whole * tl.select(c == 0, at(i, 0), tl.select(c == 1, at(i, 1), at(i, 2)))

    s = tl.Schedule(tl.compute((LISTED, 3), element, name="Y"))
    blocks, lanes = s.split("i", 16)
    s.reorder(blocks, "c", lanes)
    s.vectorize(lanes)
    s.unroll("c")
    return s


@pytest.mark.parametrize("cpu", ["znver4", "skylake-avx512"])
def test_sixteen_lanes_are_one_gather_and_copies_share_it(cpu: str) -> None:
    code = tl.build(distances(), target=cpu).inspect("asm")
    inside = [line for line in code.splitlines() if "vgather" in line]
    assert inside and all("vgatherdps" in line and "zmm" in line for line in inside)
    assert len(inside) <= 2 * 3  # whole vectors, and what is left


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint32"])
@pytest.mark.parametrize("cpu", ["native", "x86-64-v3", "x86-64-v2"])
def test_any_index_reads_what_numpy_does(cpu: str, dtype: str) -> None:
    rng, kind = np.random.default_rng(0), np.iinfo(dtype)
    near = rng.integers(-5, 60, LISTED)
    near[:3] = kind.min, kind.max, POINTS - 1
    near = np.clip(near, kind.min, kind.max).astype(dtype)
    x = rng.random((POINTS, 3), dtype=np.float32)
    found = tl.build(distances(dtype=dtype), target=cpu)(x, near)
    there = x[np.clip(near.astype(object), 0, POINTS - 1).astype(int)].astype(float)
    np.testing.assert_allclose(found, (there**2).sum(1, keepdims=True) * there, rtol=1e-5)


def test_lanes_that_are_off_may_hold_any_number() -> None:
    """What a condition turns off is no element: its number wraps in 32 bits, and nothing is read there."""
    X, near = tl.placeholder((9, 7), name="X"), tl.placeholder((LISTED,), "int64", name="near")
    inside = lambda i: (near[i] >= 0) & (near[i] < 9)  # noqa: E731
    s = tl.Schedule(tl.compute((LISTED, 7), lambda i, j: tl.select(inside(i), X[tl.clamp(near[i], 0, 8), 6 - j], -1.0), name="Y"))
    s.reorder("j", "i")
    s.vectorize(s.split("i", 16)[1])
    rng = np.random.default_rng(1)
    at = rng.choice([-(1 << 62), -1, 0, 3, 8, 9, 1 << 31, (1 << 32) + 4, 1 << 62], LISTED)
    x = rng.random((9, 7), dtype=np.float32)
    want = np.where(((at >= 0) & (at < 9))[:, None], x[np.clip(at, 0, 8), ::-1], -1.0)
    np.testing.assert_array_equal(tl.build(s)(x, at), want)


def test_a_dim_keeps_64_bits() -> None:
    n = tl.dim("n", least=1)
    code = tl.build(distances(n), target="znver4").inspect("llvm")
    gathers = re.findall(r"masked\.gather[^\n]*", str(code))
    assert gathers
    x, near = np.random.default_rng(2).random((POINTS, 3), dtype=np.float32), np.arange(LISTED, dtype=np.int32)
    there = x[:LISTED].astype(float)
    np.testing.assert_allclose(tl.build(distances(n))(x, near), (there**2).sum(1, keepdims=True) * there, rtol=1e-5)
