"""The kernels of a graph are tuned once each, the dearest first, into a log that `compile` then reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import graph
from tensorlang.graph import Builder, Graph

pytestmark = pytest.mark.usefixtures("brief_jobs", "node_by_node")


def layers(rows: Any, *widths: int) -> Graph:
    """Linear layers, of which those of one width are equal but for their weights."""
    b, rng = Builder(), np.random.default_rng(0)
    x = b.input((rows, 96))
    for width in widths:
        x = b("linear", x, b.constant(rng.standard_normal((width, x.shape[-1])).astype("f4")))
    return b.finish(x)


def test_what_differs_is_tuned_once_the_greatest_share_first_and_then_runs(tmp_path: Path) -> None:
    g, log, told = layers(48, 96, 96, 400), tmp_path / "log.jsonl", list[graph.TunedKernel]()
    found = g.tune(log, 1, threads=1, progress=told.append)
    assert list(found) == told and [one.calls for one in found] == [1, 2] and found[0].share > found[1].share
    assert sum(one.share for one in found) == pytest.approx(1) and all(not one.error and one.result.records for one in found)
    assert "linear: 2 calls, " in str(found[1]) and "times as fast as by default" in str(found[1])
    compiled, x = g.compile(threads=1, database=log), np.random.default_rng(1).standard_normal((48, 96)).astype("f4")
    assert [kernel.provenance for kernel in compiled.kernels] == ["tuned"] * 3
    np.testing.assert_allclose(compiled(x)[0], g.run(x)[0], rtol=1e-3, atol=1e-2)
    size = log.stat().st_size
    assert g.tune(log, 1, threads=1, minutes=1e-9) == () and log.stat().st_size == size


def test_a_graph_with_dims_is_tuned_at_a_size(tmp_path: Path) -> None:
    (one,) = layers(tl.dim("n", 1, 64), 40).tune(tmp_path / "log.jsonl", 1, threads=1, dims={"n": 32})
    assert {record.task["dims"]["n"] for record in one.result.records} == {32}


def test_what_cannot_be_tuned_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    (one,) = layers(tl.dim("n", 1, 64), 40).tune(tmp_path / "log.jsonl", 1, threads=1)
    assert one.result is None and "n" in one.error and one.error in str(one)


@pytest.mark.parametrize("minutes", [0, -1.0, float("nan"), "3"])
def test_a_time_that_is_none_is_refused(minutes: Any, tmp_path: Path) -> None:
    with pytest.raises(tl.TuningError, match="minutes= is a positive number"):
        layers(8, 8).tune(tmp_path / "log.jsonl", 1, minutes=minutes)
