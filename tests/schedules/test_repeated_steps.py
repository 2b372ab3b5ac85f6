"""What a scan asks for in every step is computed once before it, unless that is no more than to load what was computed."""

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.analysis.fusion import inline_pointwise
from tensorlang.schedules.strategies.analysis.stages import stages_of

N, STEPS = 50, 20


def relaxed(source: Any) -> tuple[Any, Any]:
    """Steps of Jacobi's on a plane with a source that is computed of velocities, as in a flow in a cavity."""
    u, p = tl.placeholder((N, N), name="u"), tl.placeholder((N, N), name="p")
    b = tl.compute((N, N), lambda i, j: source(u, i, j), name="b")

    def step(_: Any, p: Any) -> Any:
        def element(i: Any, j: Any) -> Any:
            inside = (i > 0) & (i < N - 1) & (j > 0) & (j < N - 1)
            mean = (p[i - 1, j] + p[i + 1, j] + p[i, j - 1] + p[i, j + 1]) / 4
            return tl.select(inside, mean - b[i, j], 0.0)

        return tl.compute((N, N), element, name="q")

    return tl.scan(step, p, STEPS, keep="last", name="pressure"), (u, p)


def dear(u: Any, i: Any, j: Any) -> Any:
    right, left = u[i, tl.minimum(j + 1, N - 1)], u[i, tl.maximum(j - 1, 0)]
    return (right - left) / (1.0 + u[i, j] * u[i, j])


def cheap(u: Any, i: Any, j: Any) -> Any:
    return 0.25 * u[i, j]


@pytest.mark.parametrize(("source", "stays"), [(dear, True), (cheap, False)])
def test_a_source_is_written_into_the_steps_only_where_it_is_as_cheap_as_its_load(source: Any, *, stays: bool) -> None:
    s = tl.Schedule(relaxed(source)[0])
    inline_pointwise(s)
    assert any(info.name == "b" for info in stages_of(s.nest)) == stays


@pytest.mark.parametrize("machine", ["x86-64-v4", "x86-64-v3"])
def test_the_default_computes_a_source_outside_the_steps(machine: str) -> None:
    strategy = choose(relaxed(dear)[0], target(machine), 1)
    nest = strategy.schedule(strategy.default).nest
    pieces = [info for info in stages_of(nest) if info.name == "b"]
    assert pieces and not any(info.around for info in pieces)


@pytest.mark.parametrize("source", [dear, cheap])
def test_steps_with_a_source_are_numpys(source: Any) -> None:
    outputs, _ = relaxed(source)
    u, p = np.random.default_rng(0).standard_normal((2, N, N)).astype(np.float32)
    right, left = np.roll(u, -1, 1), np.roll(u, 1, 1)
    right[:, -1], left[:, 0] = u[:, -1], u[:, 0]
    b = (right - left) / (1 + u * u) if source is dear else u / 4
    want = p
    for _ in range(STEPS):
        mean = (want[:-2, 1:-1] + want[2:, 1:-1] + want[1:-1, :-2] + want[1:-1, 2:]) / 4
        want = np.pad(mean - b[1:-1, 1:-1], 1)
    np.testing.assert_allclose(tl.build(outputs)(u, p), want, rtol=1e-4, atol=1e-5)
