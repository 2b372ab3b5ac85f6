"""Small blocks stand side by side in lanes where the model says so, and every number of them gives the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
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


@pytest.mark.parametrize("machine", MACHINES)
def test_blocks_of_which_lanes_hold_few_stand_side_by_side(machine: str) -> None:
    strategy = choose(inverses(20000), target(machine), 1)
    assert strategy.name == "side_by_side" and strategy.default["blocks"] > 1


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
