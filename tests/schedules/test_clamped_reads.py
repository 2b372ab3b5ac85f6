"""Reads that are clamped to a tensor: what they need of it inside a loop is a box, as of reads that are not."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import ScheduleError
from tensorlang.ir import Select
from tensorlang.ir.traverse import walk
from tensorlang.schedules.legality.accesses import accesses
from tensorlang.schedules.model.parts import statements
from tensorlang.schedules.model.program import program
from tensorlang.schedules.rewriting.region import trip_bound
from tensorlang.schedules.strategies import choose
from tests.draws import examples
from tests.schedules.programs import check
from tests.thinned import crossed

TAPS = (1.0, 4.0, 6.0, 4.0, 1.0)


def near(at: Any, extent: Any) -> Any:
    """An index that stays inside."""
    return tl.clamp(at, 0, extent - 1)


def sharpened(rows: Any, columns: Any) -> Tensor:
    """Gray values, blurred along rows and columns up to the edge, and a reader of all."""
    x = tl.placeholder((rows, columns, 3), "uint8", name="X")
    shape = (rows, columns)
    gray = tl.compute(shape, lambda i, j: sum(tl.cast(x[i, j, c], "float32") for c in range(3)), name="gray")
    across = tl.compute(shape, lambda i, j: sum(tap * gray[i, near(j + d - 2, columns)] for d, tap in enumerate(TAPS)), name="across")
    down = tl.compute(shape, lambda i, j: sum(tap * across[near(i + d - 2, rows), j] for d, tap in enumerate(TAPS)), name="down")
    out: Tensor = tl.compute(shape, lambda i, j: 2 * gray[i, j] - down[i, j] / 256, name="out")
    return out


def wanted(x: Any) -> Any:
    rows, columns = (np.arange(extent) for extent in x.shape[:2])
    gray = x.astype("f4").sum(-1)
    across = sum(tap * gray[:, np.clip(columns + d - 2, 0, len(columns) - 1)] for d, tap in enumerate(TAPS))
    down = sum(tap * across[np.clip(rows + d - 2, 0, len(rows) - 1)] for d, tap in enumerate(TAPS))
    return 2 * gray - down / 256


@pytest.mark.parametrize(
    ("extents", "text"),
    [
        ((20, 9), ["across: float32[8, 9]", "gray: float32[8, 9]", "for i in range(maximum(4 * i_o - 2, 0),"]),
        ((tl.dim("m"), tl.dim("n")), ["across: float32[8, n]", "gray: float32[8, n]", "for i in range(maximum(4 * i_o - 2, 0),"]),
    ],
)
def test_a_strip_computes_the_rows_that_it_reads_and_not_the_image(extents: tuple[Any, Any], text: list[str]) -> None:
    s = tl.Schedule(sharpened(*extents))
    s.compute_inline("down")
    strip, _ = s.split("out.i", 4)
    s.compute_at("across", strip)
    s.compute_at("gray", strip)
    for part in text:
        assert part in str(s)
    kernel = tl.build(s)
    for shape in [(20, 9)] if isinstance(extents[0], int) else [(20, 9), (1, 1), (3, 2), (5, 40)]:
        x = np.random.default_rng(0).integers(0, 256, (*shape, 3)).astype("u1")
        np.testing.assert_allclose(kernel(x), wanted(x), rtol=1e-4, atol=1e-2)


@given(st.data())
@examples(40)
def test_any_clamped_reads_in_any_strips(data: st.DataObject) -> None:
    rows, tile = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 5))
    reads = data.draw(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(["both", "low", "high", "none"])), min_size=1, max_size=4))
    step = data.draw(st.integers(1, 2))
    x = tl.placeholder((rows,), "int32", name="X")
    kept = {"both": near, "low": lambda at, _: tl.maximum(at, 0), "high": lambda at, extent: tl.minimum(at, extent - 1)}

    def read(p: Any, i: Any, by: int, how: str) -> Any:
        inside = (step * i + by >= 0) & (step * i + by < rows)
        value = p[kept[how](step * i + by, rows)] if how in kept else p[step * i + by]
        return value if how == "both" else tl.select(inside, value, 7)

    first = tl.compute((rows,), lambda i: x[i] * 3 + 1, name="first")
    second = tl.compute((rows,), lambda i: sum(read(first, i, by, how) for by, how in reads), name="second")
    out = tl.compute(
        (rows,), lambda i: sum((n + 1) * read(second, i, -by, how) for n, (by, how) in enumerate(reads)) + first[i], name="out"
    )
    s = tl.Schedule(out)
    strip, _ = s.split("out.i", tile)
    for name in ("second", "first"):
        try:
            s.compute_at(name, strip)
        except ScheduleError:
            assert name == "first"  # one that is computed in another place is none of this test's claims
    check(s)


def test_strips_of_clamped_reads_go_back_to_the_whole() -> None:
    x, k = tl.placeholder((8, 6), "int32", name="X"), tl.reduce_axis(6, name="k")
    h = tl.compute((8, 6), lambda i, j: tl.sum(x[i, k] * x[i, j], axis=k), name="H")
    for reads in (lambda i, j: h[tl.maximum(i - 1, 0), j], lambda i, j: tl.select(i > 0, h[i - 1, j], 0)):
        s = tl.Schedule(tl.compute((8, 6), lambda i, j, reads=reads: h[i, j] + reads(i, j), name="C"))
        s.compute_at("H", "C.i")
        assert "H: int32[2, 6]" in str(s)
        s.compute_root("H")
        assert "H: int32[8, 6]" in str(s)
        check(s)


def steps(loop: Any) -> int:
    """Iterations of a loop; of one that slides, where its window has been filled."""
    return 1 if any(isinstance(part, Select) for part in walk(loop.lo)) else trip_bound(loop) or 1


@crossed({"cpu": ["haswell", "cascadelake", "znver4", "znver5", "aarch64-neoverse-v1"], "threads": [1, 4]})
def test_by_default_no_strip_computes_more_than_it_reads(cpu: str, threads: int) -> None:
    """The model knows clamped neighbours from one another: written into one expression, each stage is computed anew 25 times."""
    machine = target("aarch64-linux-gnu:neoverse-v1") if cpu.startswith("aarch64") else target(cpu)
    strategy = choose(sharpened(1000, 1500), machine, threads)
    s = strategy.schedule(strategy.default)
    assert s.faults == ()
    (loops,) = (access.loops for access in accesses(s.nest.body) if access.writes and access.stage == "gray")
    assert prod(map(steps, loops)) < 2 * 1000 * 1500


@pytest.mark.parametrize("extent", [10, 11, 64, 999])
def test_the_model_counts_clamped_neighbours_as_those_that_are_not(extent: int) -> None:
    x = tl.placeholder((extent + 4,), name="X")
    (plain,), (clamped,), (other,) = (
        tuple(statements(program(tl.Schedule(tl.compute((extent,), body, name="Y")).nest)))
        for body in (
            lambda i: sum(x[i + d] for d in range(5)),
            lambda i: sum(x[tl.clamp(i + d - 2, 0, extent + 3)] for d in range(5)),
            lambda i: sum(x[tl.minimum(i ^ d, extent + 3)] for d in (0, 1, 2, 4, 8)),
        )
    )
    places = [sorted(place for access in found.accesses if not access.writes for (place,) in access.taps) for found in (plain, clamped)]
    assert [place - places[1][0] for place in places[1]] == [place - places[0][0] for place in places[0]]
    assert extent < 64 or sum(len(access.taps) for access in other.accesses if not access.writes) == 5
