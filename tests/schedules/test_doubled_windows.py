"""Windows that are put together of windows of powers of two combine what they did, and the default takes those of a disc so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.directives.separate import Separate
from tensorlang.schedules.strategies import choose
from tests.machines import MACHINES
from tests.schedules.programs import code_and_reason
from tests.thinned import crossed

RADIUS = 4
SHAPES: dict[str, Callable[[Any, Any], Any]] = {
    "disc": lambda a, b: a * a + b * b <= RADIUS * RADIUS,
    "diamond": lambda a, b: tl.abs(a) + tl.abs(b) <= RADIUS,
    "ring": lambda a, b: (a * a + b * b <= RADIUS * RADIUS) & (a * a + b * b >= 4),
    "cross": lambda a, b: (a == 0) | (b == 0),
    "none": lambda a, b: a * a + b * b < 0,
    "square": lambda a, b: a <= RADIUS,
}


def windows(shape: str, op: str, size: tuple[int, int] = (20, 31), dtype: str = "float32", step: int = 1) -> Tensor:
    """What lies within a shape around each pixel of an image with a border."""
    h, w = size
    most = 2 * RADIUS + 1
    x = tl.placeholder((h + step * (most - 1), w + step * (most - 1)), dtype, name="X")
    a, b = tl.reduce_axis(most, name="a"), tl.reduce_axis(most, name="b")
    reduce = {"max": tl.max, "min": tl.min, "sum": tl.sum}[op]
    where = SHAPES[shape](a - RADIUS, b - RADIUS)
    found: Tensor = tl.compute((h, w), lambda i, j: reduce(x[i + step * a, j + step * b], axis=(a, b), where=where), name="Y")
    return found


def footprint(shape: str) -> Any:
    a, b = np.mgrid[-RADIUS : RADIUS + 1, -RADIUS : RADIUS + 1]
    forms = {
        "disc": a * a + b * b <= RADIUS**2,
        "diamond": abs(a) + abs(b) <= RADIUS,
        "ring": (a * a + b * b <= RADIUS**2) & (a * a + b * b >= 4),
        "cross": (a == 0) | (b == 0),
        "none": a * a + b * b < 0,
        "square": a <= RADIUS,
    }
    return forms[shape]


def expected(x: Any, shape: str, op: str, size: tuple[int, int]) -> Any:
    """By SciPy, of what has the border that it wants."""
    near = footprint(shape)
    filters = {"max": ndimage.maximum_filter, "min": ndimage.minimum_filter}
    inside = slice(RADIUS, RADIUS + size[0]), slice(RADIUS, RADIUS + size[1])
    if op == "sum":
        return ndimage.correlate(x.astype(np.float64 if x.dtype.kind == "f" else np.int64), near.astype(np.int64), mode="constant")[inside]
    return filters[op](x, footprint=near, mode="nearest")[inside]


@crossed(
    {
        "shape": [name for name in SHAPES if name != "none"],
        "op": ["max", "min", "sum"],
        "dtype": ["float32", "uint8", "int32"],
        "along": ["a", "b"],
    },
    count=30,
)
def test_what_lies_within_a_shape_is_scipys(shape: str, op: str, dtype: str, along: str) -> None:
    size = 20, 31
    outputs = windows(shape, op, size, dtype)
    s = tl.Schedule(outputs)
    s.separate("Y", along, doubling=True)
    rng = np.random.default_rng(0)
    x = (rng.random((28, 39)) * 200 - (100 if dtype == "float32" else 0)).astype(dtype)
    want = expected(x, shape, op, size)
    for built in (tl.build(s), tl.build(outputs)):
        np.testing.assert_allclose(built(x), want, rtol=1e-4, atol=1e-3)


def test_windows_that_are_empty_give_the_identity() -> None:
    outputs = windows("none", "max")
    s = tl.Schedule(outputs)
    s.separate("Y", "b", doubling=True)
    assert (tl.build(s)(np.ones((28, 39), np.float32)) == -np.inf).all()


def test_no_number_stays_none() -> None:
    outputs = windows("disc", "max")
    s = tl.Schedule(outputs)
    s.separate("Y", "b", doubling=True)
    x = np.random.default_rng(0).random((28, 39), dtype=np.float32)
    x[14, 20] = np.nan
    np.testing.assert_array_equal(tl.build(s)(x), tl.build(tl.Schedule(outputs))(x))


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 13, 21])
@pytest.mark.parametrize("op", ["max", "sum"])
def test_a_window_of_any_length_is_made_of_powers_of_two(op: str, length: int) -> None:
    x, b = tl.placeholder((3, 60 + length), "int32", name="X"), tl.reduce_axis(length, name="b")
    reduce = {"max": tl.max, "sum": tl.sum}[op]
    outputs = tl.compute((3, 61), lambda i, j: reduce(x[i, j + b], axis=b), name="Y")
    s = tl.Schedule(outputs)
    s.separate("Y", "b", doubling=True)
    assert [stage for stage in s.stages() if stage != "Y"] == [f"Y_{1 << k}" for k in range(1, length.bit_length())]
    values = np.random.default_rng(length).integers(-50, 50, (3, 60 + length)).astype("int32")
    seen = np.lib.stride_tricks.sliding_window_view(values, length, axis=1)
    np.testing.assert_array_equal(tl.build(s)(values), seen.max(-1) if op == "max" else seen.sum(-1))


def test_windows_with_gaps_are_doubled_with_their_gaps() -> None:
    outputs = windows("disc", "max", step=2)
    s = tl.Schedule(outputs)
    s.separate("Y", "b", doubling=True)
    x = np.random.default_rng(0).random((36, 47), dtype=np.float32)
    np.testing.assert_array_equal(tl.build(s)(x), tl.build(tl.Schedule(outputs))(x))


def test_the_call_is_written_as_it_was_made_and_read_again() -> None:
    s = tl.Schedule(windows("disc", "max"))
    s.separate("Y", "b", doubling=True)
    assert s.directives == (Separate("Y", ("Y.b",), doubling=True),)
    assert "s.separate('Y', 'Y.b', doubling=True)" in repr(s)
    again = tl.Schedule.from_json(windows("disc", "max"), s.to_json())
    assert str(again) == str(s)


def test_refusals_say_what_is_missing() -> None:
    s = tl.Schedule(windows("disc", "max"))
    assert code_and_reason(s, "separate", "Y", "Y.a", "Y.b", doubling=True)[0] == "TL-S304"
    x, k, v = tl.placeholder((9, 12), name="X"), tl.reduce_axis(12, name="k"), tl.placeholder((12,), name="V")
    alone = tl.Schedule(tl.compute((9,), lambda i: tl.sum(x[i, k] * v[k], axis=k), name="Y"))
    code, reason = code_and_reason(alone, "separate", "Y", "Y.k", doubling=True)
    assert (code, reason) == ("TL-S301", "windows along 'k' share nothing, as what they read moves with it alone")
    causal = tl.Schedule(tl.compute((9,), lambda i: tl.sum(v[i % 3 + k % 3], axis=k, where=k <= i), name="Y"))
    assert code_and_reason(causal, "separate", "Y", "Y.k", doubling=True)[0] == "TL-S304"


@pytest.mark.parametrize("machine", MACHINES)
def test_the_default_doubles_the_windows_of_a_disc(machine: str) -> None:
    most = 21
    x, a, b = tl.placeholder((420, 660), "uint8", name="X"), tl.reduce_axis(most, name="a"), tl.reduce_axis(most, name="b")
    near = (a - 10) * (a - 10) + (b - 10) * (b - 10) <= 100
    outputs = tl.compute((400, 640), lambda i, j: tl.max(x[i + a, j + b], axis=(a, b), where=near), name="Y")
    strategy = choose(outputs, target(machine), 1)
    s = strategy.schedule(strategy.default)
    assert any(isinstance(step, Separate) and step.doubling for step in s.directives)
    assert not s.faults
