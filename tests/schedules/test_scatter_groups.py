"""`scatter` changes no value: data say which element an iteration adds to, whatever groups they name, and in whatever type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.directives.scatter import Scatter
from tensorlang.schedules.strategies import choose
from tests.schedules.programs import refused

DATA = 60


def grouped(groups: int = 9, dtype: str = "int64", form: str = "where", data: int = DATA) -> Tensor:
    """Sums, products or extrema of what belongs to each group."""
    x, p, k = tl.placeholder((data,), name="X"), tl.placeholder((data,), dtype, name="P"), tl.reduce_axis(data, name="k")

    def own(k: Any) -> Any:
        return tl.cast(p[k], "int64")

    forms = {
        "where": lambda q: tl.sum(x[k] + 1.0, axis=k, where=own(k) == q),
        "cast": lambda q: tl.sum(x[k], axis=k, where=(tl.cast(q, dtype) == p[k]) & (x[k] > 0.3)),
        "choice": lambda q: tl.sum(tl.select(own(k) == q, x[k] * tl.cast(q, "float32"), 0.0), axis=k),
        "greatest": lambda q: tl.max(tl.select((own(k) == q) & (k > 3), x[k], -np.inf), axis=k),
        "product": lambda q: tl.prod(tl.select(own(k) == q, x[k], 1.0), axis=k),
        "mean": lambda q: (
            tl.sum(tl.select(own(k) == q, x[k], 0.0), axis=k) / tl.maximum(tl.sum(tl.select(own(k) == q, 1.0, 0.0), axis=k), 1.0)
        ),
    }
    result: Tensor = tl.compute((groups,), forms[form], name="G")
    return result


def same(s: tl.Schedule, dtype: str, data: int = DATA) -> None:
    rng = np.random.default_rng(0)
    low, high = (0, 12) if dtype.startswith("u") else (-4, 12)
    given = rng.random(data, np.float32), rng.integers(low, high, data).astype(dtype)
    np.testing.assert_allclose(tl.build(s)(*given), tl.build(tl.Schedule(s.outputs))(*given), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int8", "uint64"])
@pytest.mark.parametrize("form", ["where", "cast", "choice", "greatest", "product"])
def test_each_group_takes_what_it_did(form: str, dtype: str) -> None:
    s = tl.Schedule(grouped(dtype=dtype, form=form))
    s.scatter("G", "q")
    assert s.loops("G") == ("G.k",)
    same(s, dtype)


def test_two_equations_make_a_table_of_two_dimensions() -> None:
    p, r, k = tl.placeholder((DATA,), "int64", name="P"), tl.placeholder((DATA,), "int64", name="R"), tl.reduce_axis(DATA, name="k")
    outputs = tl.compute((5, 7), lambda a, b: tl.sum(1.0, axis=k, where=(p[k] == a) & (r[k] == b)), name="G")
    s = tl.Schedule(outputs)
    s.scatter("G", "a")
    s.scatter("G", "b")
    rng = np.random.default_rng(1)
    given = rng.integers(-1, 6, DATA), rng.integers(-1, 8, DATA)
    wanted = np.histogram2d(*given, bins=(np.arange(6) - 0.5, np.arange(8) - 0.5))[0]
    np.testing.assert_array_equal(tl.build(s)(*given), wanted)


@pytest.mark.parametrize(("outputs", "stage", "loop", "code", "said"), [
    (grouped, "G", "G.k", "TL-S303", "is no plain index of 'G'"),
    (lambda: grouped(form="mean"), "G", "G.q", "TL-S301", "does not hold 'G' alone"),
    (lambda: tl.compute((4,), lambda q: tl.placeholder((4,), name="A")[q], name="B"), "B", "B.q", "TL-S304", "combines nothing"),
    (lambda: grouped(300, "uint8", "cast"), "G", "G.q", "TL-S303", "no condition of 'G' is an equation of 'q'"),
])  # fmt: skip
def test_a_refusal_says_what_is_missing(outputs: Any, stage: str, loop: str, code: str, said: str) -> None:
    refused(tl.Schedule(outputs()), code, said, "scatter", stage, loop)


def test_a_group_that_depends_on_what_is_made_stays() -> None:
    k = tl.reduce_axis(8, name="k")
    p = tl.placeholder((8,), "int64", name="P")
    outputs = tl.recurrence((8,), lambda q, own: 1.0 + tl.sum(own[k], axis=k, where=(p[k] == q) & (k < q)), name="R")
    s = tl.Schedule(outputs)
    assert not any(s.can("scatter", stage, loop) for stage in s.stages() for loop in s.loops(stage))


@pytest.mark.parametrize(("groups", "form", "scattered"), [(200, "where", 1), (200, "mean", 2), (3, "where", 0)])
def test_the_default_scatters_many_groups(groups: int, form: str, scattered: int) -> None:
    strategy = choose(grouped(groups, form=form, data=5000), target("znver3"), 1)
    s = strategy.schedule(strategy.default)
    assert sum(isinstance(step, Scatter) for step in s.directives) == scattered
    same(s, "int64", 5000)


@pytest.mark.parametrize(("groups", "data"), [(9, 0), (0, 9), (9, 1)])
@pytest.mark.parametrize("form", ["where", "mean"])
def test_the_default_of_no_data_or_no_groups_is_what_it_was(groups: int, data: int, form: str) -> None:
    strategy = choose(grouped(groups, form=form, data=data), target("znver3"), 1)
    same(strategy.schedule(strategy.default), "int64", data)
