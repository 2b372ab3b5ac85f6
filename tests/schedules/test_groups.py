"""Quotients and remainders of a loop: what a split decides of them, and products and windows that are read by them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.ir.traverse import walk
from tensorlang.ir.verify import verify
from tensorlang.schedules.rewriting.edit import stores
from tensorlang.schedules.rewriting.quotients import is_quotient
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies import choose
from tests.thinned import crossed

rng = np.random.default_rng(5)


def array(*shape: int) -> Any:
    return rng.standard_normal(shape).astype("float32")


def strategy(output: Tensor) -> Any:
    return choose(output, target("znver4"), 1)


def read_by(index: Any, extent: int = 24) -> tuple[Schedule, Any]:
    """The schedule of `y[i] = x[index(i)]`, and a test that it still computes this."""
    x = tl.placeholder((64,), name="X")
    s = Schedule(tl.compute((extent,), lambda i: x[index(i)], name="Y"))
    data = array(64)

    def holds() -> bool:
        return np.array_equal(tl.build(s)(data), data[[index(i) for i in range(extent)]])

    return s, holds


@pytest.mark.parametrize("tail", ["guard", "mask", "peel", "shift"])
@pytest.mark.parametrize("extent", [24, 23])
def test_a_split_decides_its_own_quotient_and_remainder(tail: Any, extent: int) -> None:
    s, holds = read_by(lambda i: i // 4 + i % 4 * 6, extent)
    s.split("Y.i", 4, tail)
    assert ("//" in str(s)) == (tail == "shift")
    assert holds()


def test_digits_are_decided_one_after_another() -> None:
    s, holds = read_by(lambda i: i // 6 * 6 + i // 2 % 3 * 2 + i % 2)
    _, inner = s.split("Y.i", 6, "peel")
    s.split(inner, 2, "peel")
    assert "//" not in str(s) and "%" not in str(s)
    assert holds()


def test_a_shifted_quotient_keeps_what_the_inner_loop_moves() -> None:
    s, holds = read_by(lambda i: (i + 1) // 4 * 4 + (i + 1) % 4)
    s.split("Y.i", 4, "peel")
    assert "(i_i + 1) // 4" in str(s)
    assert holds()


def test_a_quotient_that_no_loop_decides_stays() -> None:
    s, holds = read_by(lambda i: i // 5)
    s.split("Y.i", 4, "peel")
    assert "// 5" in str(s)
    assert holds()


def grouped(layout: str, groups: int, own: int, share: int, **options: Any) -> tuple[Tensor, tuple[Any, ...], Any]:
    """A convolution of groups, its operands, and what SciPy makes of them."""
    x, w = array(2, groups * own, 9, 22), array(groups * share, own, 3, 3)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    stride = options.get("stride", 1)
    want = np.zeros((2, groups * share, 9, 22))
    for n, o, c in np.ndindex(2, groups * share, own):
        want[n, o] += scipy.signal.correlate2d(padded[n, o // share * own + c], w[o, c], "valid")
    want = want[:, :, ::stride, ::stride]
    if layout == "NHWC":
        x, w, want = x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy(), want.transpose(0, 2, 3, 1)
    image, window = tl.placeholder(x.shape, name="X"), tl.placeholder(w.shape, name="W")
    return tl.ops.conv2d(image, window, groups=groups, layout=layout, padding=1, name="Y", **options), (x, w), want


@crossed(
    {
        "layout": ["NCHW", "NHWC"],
        "stride": [1, 2],
        "groups, own, share": [(8, 4, 4), (3, 5, 7), (4, 1, 8), (2, 16, 32), (4, 8, 2), (6, 1, 1)],
    },
    count=3,
)
def test_grouped_convolutions_by_their_default_schedule(layout: str, groups: int, own: int, share: int, stride: int) -> None:
    defined, operands, want = grouped(layout, groups, own, share, stride=stride)
    np.testing.assert_allclose(tl.compile(defined, database=None)(*operands), want, rtol=1e-4, atol=1e-4)


def test_a_group_is_a_loop_around_a_product_and_its_padding() -> None:
    defined, _, _ = grouped("NCHW", 8, 4, 4)
    chosen = strategy(defined)
    text = str(chosen.schedule(chosen.default))
    assert chosen.name == "contraction"
    assert "//" not in text and "%" not in text
    assert text.index("for o_q in range(8)") < text.index("Y_pad: float32[1, 4, 11, 24]")


def test_lanes_of_small_groups_are_channels_of_several_of_them() -> None:
    defined, _, _ = grouped("NHWC", 8, 4, 4)
    chosen = strategy(defined)
    assert chosen.name == "windows"
    assert "vector o_i" in str(chosen.schedule(chosen.default))
    wide, _, _ = grouped("NHWC", 2, 16, 32)
    assert strategy(wide).name == "contraction"


@pytest.mark.parametrize("cpu", ["znver4", "haswell"])
def test_few_registers_hold_what_the_taps_of_a_row_of_groups_share(cpu: str) -> None:
    """An element is shuffled for the lanes of its groups and masked at the edges: a sum whose register it takes goes to memory and back."""
    x, w = tl.placeholder((1, 56, 56, 128), name="X"), tl.placeholder((3, 3, 4, 128), name="W")
    kinds = choose(tl.ops.conv2d(x, w, padding=1, groups=32, layout="NHWC"), target(cpu), 1)
    text = str(tl.build(kinds.schedule(kinds.default), target=cpu).inspect("asm"))
    loops = [loop for part in text.split("\n.L") if (loop := part.split("\tj")[0]).count("vfmadd") >= 8]
    back = [len(re.findall(r"vmov[au]p[sd]\t%[yz]mm\d+, [-\d]*\(%rsp\)", loop)) / loop.count("vfmadd") for loop in loops]
    assert loops and max(back) < 0.4


def transposed(channels: int, outputs: int, size: int, extent: int) -> tuple[Tensor, tuple[Any, ...], Any]:
    """A transposed convolution of stride 2, its operands, and what SciPy makes of them."""
    x, w = array(1, channels, extent, extent), array(channels, outputs, size, size)
    spread = np.zeros((channels, 2 * extent - 1, 2 * extent - 1))
    spread[:, ::2, ::2] = x[0]
    want = np.array([sum(scipy.signal.convolve2d(spread[c], w[c, o]) for c in range(channels)) for o in range(outputs)])[None]
    image, window = tl.placeholder(x.shape, name="X"), tl.placeholder(w.shape, name="W")
    return tl.ops.conv2d_transpose(image, window, stride=2, padding=0, name="Y"), (x, w), want


@crossed({"channels, outputs, size, extent": [(5, 19, 2, 9), (16, 3, 4, 20), (4, 32, 3, 6), (7, 1, 2, 40)]}, count=3)
def test_transposed_convolutions_by_their_default_schedule(channels: int, outputs: int, size: int, extent: int) -> None:
    defined, operands, want = transposed(channels, outputs, size, extent)
    np.testing.assert_allclose(tl.compile(defined, database=None)(*operands), want, rtol=1e-4, atol=1e-4)


def test_a_constant_window_is_packed_beforehand_without_the_taps_that_phases_lack() -> None:
    defined, (x, w), want = transposed(4, 32, 3, 6)
    kernel = tl.compile(defined, database=None).prepack(W=w)
    np.testing.assert_allclose(kernel(x), want, rtol=1e-4, atol=1e-4)


def test_what_is_computed_from_a_constant_alone_is_packed_with_it() -> None:
    a, b = tl.placeholder((40, 16), name="A"), tl.placeholder((16, 48), "bfloat16", name="B")
    wide = tl.compute((16, 48), lambda k, j: tl.cast(b[k, j], "float32") + 1, name="wide")
    x, y = array(40, 16), array(16, 48).astype(b.dtype.numpy)
    kernel = tl.compile(tl.ops.matmul(a, wide), database=None)
    want = x @ (y.astype("float32") + 1)
    np.testing.assert_allclose(kernel(x, y), want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(kernel.prepack(B=y)(x), want, rtol=1e-4, atol=1e-4)


def test_the_phases_of_a_row_are_one_tile() -> None:
    defined, _, _ = transposed(16, 32, 2, 14)
    chosen = strategy(defined)
    text = str(chosen.schedule(chosen.default))
    assert re.search(r"_acc: float32\[\d+, 2, ", text)
    assert "unroll x_r in range(2)" in text


@pytest.mark.parametrize(("size", "inside"), [(2, True), (4, True), (3, False)])
def test_an_element_of_the_rows_meets_the_vectors_of_all_phases_at_once(size: int, inside: bool) -> None:
    """It is in a register for that long. Phases with taps of their own ask for these, once for all rows."""
    output, _, _ = transposed(32, 32, size, 14)
    kinds = strategy(output)
    lines = str(kinds.schedule({**kinds.default, "rows": 7})).splitlines()
    (phases,) = {at for at, line in enumerate(lines) if "unroll x_r" in line and "+=" in "".join(lines[at : at + 5])}
    assert ("vector" in lines[phases + 1]) is inside


@pytest.mark.parametrize("cpu", ["znver4", "haswell"])
def test_no_sum_of_a_tile_of_phases_is_spilled(cpu: str) -> None:
    output, _, _ = transposed(128, 64, 2, 56)
    kinds = choose(output, target(cpu), 1)
    text = str(tl.build(kinds.schedule(kinds.default), target=cpu).inspect("asm"))
    loops = [part for part in text.split("\n.L") if part.count("vfmadd") >= 8]  # those that add, and what comes after their jumps
    assert loops and not any("(%rsp)" in loop.split("\tj")[0] for loop in loops)


def test_points_of_the_space_compute_the_same() -> None:
    for defined, operands, want in (grouped("NCHW", 4, 4, 4), grouped("NHWC", 4, 4, 4), transposed(8, 20, 4, 9)):
        chosen = strategy(defined)
        for config in chosen.space.sample(np.random.default_rng(0), 1):
            found = tl.build(chosen.schedule(config), "native")(*operands)
            np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4, err_msg=str(config))


@pytest.mark.parametrize("kind", ["uint64", "int64", "uint8"])
def test_remainders_of_data_keep_their_type(kind: str) -> None:
    data = np.arange(12, dtype=kind)
    x = tl.placeholder((12,), kind, name="x")
    s = tl.Schedule(tl.compute((12,), lambda i: tl.select(i >= 1, x[i], 0) % 4 + x[i // 4] // 2, name="y"))
    s.split("i", 4)
    verify(s.nest)
    found = [node for store in stores(s.nest.body) for value in store.values for node in walk(value) if is_quotient(node)]
    assert kind == "int64" or not found, "quotients of data are none of the loops'"
    np.testing.assert_array_equal(tl.build(s)(data), np.where(np.arange(12) >= 1, data, 0) % 4 + data[np.arange(12) // 4] // 2)
