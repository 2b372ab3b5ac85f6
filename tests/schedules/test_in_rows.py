"""Stages that follow the rows of the last one are computed row by row, as deep as the model says, or for several rows side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose

ZNVER4 = target("znver4")


def layer_norm(*shape: int) -> tl.Tensor:
    width = shape[-1:]
    x, weight, bias = (tl.placeholder(extents, name=name) for name, extents in (("x", shape), ("weight", width), ("bias", width)))
    return tl.ops.layer_norm(x, width, weight, bias, name="norm")


def _expected(x: Any, weight: Any, bias: Any) -> Any:
    mean, spread = x.mean(-1, dtype="float64", keepdims=True), x.var(-1, dtype="float64", keepdims=True)
    return (x - mean) / np.sqrt(spread + 1e-5) * weight + bias


def _operands(*shape: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.random(extents, dtype="float32") for extents in (shape, shape[-1:], shape[-1:])]


@pytest.mark.parametrize("shape", [(8, 512, 768), (1, 1024, 768)])
def test_long_rows_of_a_batch_are_one_by_one(shape: tuple[int, ...]) -> None:
    s = choose(layer_norm(*shape), ZNVER4, 1)
    text = str(s.schedule(s.default))
    assert text.index("norm.i1 in") < text.index("norm_mean: float32[1, 1]"), "a mean has no row of its own"


def test_short_rows_of_a_batch_have_lanes_together() -> None:
    found = choose(tl.ops.softmax(tl.placeholder((4, 1000, 32), name="x")), ZNVER4, 1)
    assert found.default["row"] == "softmax.i0"


def test_rows_that_read_the_same_weights_are_side_by_side() -> None:
    found = choose(layer_norm(128, 768), ZNVER4, 1)
    assert found.default["rows"] > 1
    s = found.schedule(found.default)
    assert f"norm_mean: float32[{found.default['rows']}]" in str(s)
    one = found.schedule({**found.default, "rows": 1})
    assert s.estimate(ZNVER4).seconds < 0.95 * one.estimate(ZNVER4).seconds


def test_results_that_leave_the_second_level_are_written_row_by_row() -> None:
    """Four rows of a result from the third level at once took twice the time of one on a Zen 4."""
    assert "rows" not in choose(layer_norm(4096, 768), ZNVER4, 1).default


@pytest.mark.parametrize("shape", [(128, 96), (7, 33), (3, 5, 40), (2, 3, 4, 50)])
def test_every_choice_gives_the_same(shape: tuple[int, ...]) -> None:
    found, operands = choose(layer_norm(*shape), target(), 1), _operands(*shape)
    choices = [knob for knob in found.space.knobs if knob.name in ("in_rows", "row", "rows")]
    assert choices
    for knob in choices:
        for value in knob.values:
            s = found.schedule({**found.default, knob.name: value})
            assert not s.faults
            np.testing.assert_allclose(tl.build(s)(*operands), _expected(*operands), rtol=1e-4, atol=1e-4)


def test_of_hundreds_of_stages_the_last_ones_stand_in_a_row() -> None:
    """The storage of each stands in that of the next: where all of 340 did, walks of the nest ran out of frames, and loops were plain."""
    a, k = tl.placeholder((4, 8), name="a"), tl.reduce_axis(8, name="k")
    x: Any = a
    for step in range(340):
        total = tl.compute((4,), lambda i, x=x: tl.sum(x[i, k], axis=k), name=f"t{step}") if step % 4 == 3 else None
        x = tl.compute((4, 8), lambda i, j, x=x, t=total: x[i, j] * 0.5 + (1 if t is None else t[i] * 0.01), name=f"x{step}")
    strategy = choose(x, ZNVER4, 1)
    s = strategy.schedule({**strategy.default, "in_rows": True})
    assert not s.faults
    assert 0 < str(s).count("[1, 8]\n") + str(s).count("[1]\n") <= 64
