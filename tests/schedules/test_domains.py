"""Loops that conditions cut run as often in the model as they do on the average, in tiles too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.model.parts import Loop, Part
from tensorlang.schedules.model.program import program
from tensorlang.schedules.model.sketch import Sketch
from tensorlang.schedules.strategies import choose

N = 96


def cut(where: Any, count: int = N) -> Any:
    """Sums over two axes where a condition on all three holds."""
    X, j, k = tl.placeholder((count, count), name="X"), tl.reduce_axis(count, name="j"), tl.reduce_axis(count, name="k")
    return tl.compute((count,), lambda i: tl.sum(X[j, k], axis=(j, k), where=where(i, j, k)), name="S")


def loops(parts: tuple[Part, ...]) -> dict[str, Loop]:
    """The loops of a program, by the ends of their names."""
    found: dict[str, Loop] = {}
    for part in parts:
        if isinstance(part, Loop):
            found |= {part.name.split(".")[-1]: part, **loops(part.body)}
    return found


FORM = st.tuples(*[st.integers(-1, 1)] * 3, st.integers(-N // 2, N // 2)).filter(lambda form: any(form[:3]))
FORMS = st.lists(FORM, min_size=1, max_size=2)


@given(FORMS)
def test_every_loop_runs_as_often_as_on_the_average(forms: list[tuple[int, int, int, int]]) -> None:
    def where(i: Any, j: Any, k: Any) -> Any:
        held = [a * i + b * j + c * k + d < 0 for a, b, c, d in forms]
        return held[0] if len(held) == 1 else held[0] & held[1]

    found = loops(program(tl.Schedule(cut(where)).nest))
    i, j, k = np.ogrid[:N, :N, :N]
    holds = np.broadcast_to(where(i, j, k), (N, N, N))
    runs = holds.sum()
    if "k" in found:
        assert np.prod([found[name].trips for name in "ijk"]) == pytest.approx(runs, rel=0.1, abs=0.01 * N**3)
    else:
        assert runs < 0.01 * N**3


def test_of_an_extremum_both_sides_cut() -> None:
    """The sums of a factorisation: a third of the box."""
    k = loops(program(tl.Schedule(cut(lambda i, j, k: k < tl.minimum(i, j))).nest))["k"]
    assert k.ragged and k.trips == pytest.approx(N / 3, rel=0.05)


@pytest.mark.parametrize("factor", [4, 16, 64])
def test_a_tile_is_begun_where_a_part_of_it_is_wanted(factor: int) -> None:
    """On the average one more than a half of the whole ones, and a sketch of the split says about the same."""
    s = tl.Schedule(cut(lambda i, j, k: k < j))
    plain = program(s.nest)
    s.vectorize(s.split("k", factor)[1])
    found = loops(program(s.nest))
    begun = np.ceil(np.arange(N) / factor).mean()
    whole = np.floor(np.arange(N) / factor).mean()
    assert found["k_o"].trips == pytest.approx(begun, rel=0.1)
    assert found["k_i"].tiles == pytest.approx(whole / begun, abs=0.1)
    sketch = Sketch.of(plain, "S")
    outer, inner = sketch.split("S.k", factor, factor)
    sketched = {loop.name: loop for loop in sketch.loops}
    assert sketched[outer].trips == pytest.approx(begun, rel=0.15)
    assert sketched[inner].tiles == pytest.approx(whole / begun, abs=0.15)


@pytest.mark.parametrize("apart", [N - 1, N, N + 5])
def test_what_runs_at_a_corner_or_nowhere_is_a_part_of_the_program(apart: int) -> None:
    """No place at which the model looks lets it through; it has a strategy all the same."""
    outputs = cut(lambda i, j, k: k - i >= apart)
    assert "k" in loops(program(tl.Schedule(outputs).nest))
    x = np.random.default_rng(0).random((N, N), dtype=np.float32)
    wanted = np.array([x[:, i + apart :].sum() for i in range(N)])
    np.testing.assert_allclose(tl.build(outputs)(x), wanted, rtol=1e-5)


def test_conditions_that_data_decide_cut_nothing() -> None:
    X, n, k = tl.placeholder((N,), name="X"), tl.placeholder((N,), name="n", dtype="int64"), tl.reduce_axis(N, name="k")
    nest = tl.Schedule(tl.compute((N,), lambda i: tl.sum(X[k], axis=k, where=k < n[i]), name="S")).nest
    assert loops(program(nest))["k"].trips == N


def factors(count: int) -> Any:
    """Both triangular factors in one matrix (Crout)."""
    a, k = tl.placeholder((count, count), name="A"), tl.reduce_axis(count)

    def element(i: Any, j: Any, m: Any) -> Any:
        rest = a[i, j] - tl.sum(m[i, k] * m[k, j], axis=k, where=k < tl.minimum(i, j))
        return tl.select(j < i, rest / m[j, j], rest)

    return tl.recurrence((count, count), element, name="M")


@pytest.mark.parametrize("cpu", ["znver4", "x86-64-v3", "cascadelake", "neoverse-v1"])
def test_the_default_of_a_sum_that_is_cut_is_about_the_cheapest(cpu: str) -> None:
    """Lanes that are picked out of memory one by one under a mask: few of them, or none."""
    strategy = choose(factors(150), target(cpu), 1)
    (name,) = (knob.name for knob in strategy.space.knobs if knob.name.endswith("1.vectors"))
    (knob,) = (knob for knob in strategy.space.knobs if knob.name == name)
    costs = {count: estimate(strategy.schedule({**strategy.default, name: count}).nest, target(cpu).core).seconds for count in knob.values}
    default = estimate(strategy.schedule(strategy.default).nest, target(cpu).core).seconds
    assert default <= 1.15 * min(costs.values())


def test_every_number_of_lanes_gives_the_same() -> None:
    strategy = choose(factors(23), target(), 1)
    x = np.random.default_rng(0).random((23, 23), dtype=np.float32) + 23 * np.eye(23, dtype=np.float32)
    wanted = x.astype(np.float64)
    for at in range(23):
        wanted[at + 1 :, at] /= wanted[at, at]
        wanted[at + 1 :, at + 1 :] -= np.outer(wanted[at + 1 :, at], wanted[at, at + 1 :])
    for point in strategy.space.sample(np.random.default_rng(0), 8):
        np.testing.assert_allclose(tl.build(strategy.schedule(point))(x), wanted, rtol=1e-4, atol=1e-4)
