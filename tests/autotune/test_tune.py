"""With the real compiler: bound operands keep their values, run-time extents are measured at the given ones, and caches may be cold."""

from pathlib import Path

import numpy as np

import tensorlang as tl
from tensorlang.autotune import Log
from tensorlang.autotune.jobs.tune import session
from tensorlang.autotune.measurement.measure import Policy


def test_an_operand_bound_to_an_array_is_tuned_and_checked_with_its_values(tmp_path: Path, brief: Policy) -> None:
    places = np.array([3, 0, 2, 1], np.int64)
    table, X = tl.buffer(places, name="table"), tl.placeholder((4, 64), name="X")
    gathered = tl.compute((4, 64), lambda i, j: X[tl.clamp(table[i], 0, 3), j] + tl.cast(table[i], "float32"), name="Y")
    result = session(gathered, tmp_path / "a.jsonl", trials=3, threads=1, policy=brief).run()
    x = np.random.default_rng(0).random((4, 64), "float32")
    np.testing.assert_allclose(result.kernel(x), x[places] + places[:, None], rtol=1e-6)
    assert {trial.status for trial in result.records} == {"ok"}


def test_a_kernel_for_every_extent_is_tuned_at_one(tmp_path: Path, brief: Policy) -> None:
    n = tl.dim("n")
    A, B = tl.placeholder((n, 32), name="A"), tl.placeholder((32, 16), name="B")
    k = tl.reduce_axis(32, name="k")
    C = tl.compute((n, 16), lambda i, j: tl.sum(A[i, k] * B[k, j], axis=k), name="C")
    log = tmp_path / "a.jsonl"
    at = {extent: session(C, log, trials=1, threads=1, policy=brief, dims={"n": extent}).run() for extent in (8, 512)}
    assert [len(result.records) for result in at.values()] == [1, 1]
    a, b = np.ones((5, 32), np.float32), np.ones((32, 16), np.float32)
    np.testing.assert_array_equal(at[512].kernel(a, b), a @ b)
    flops = {trial.task["dims"]["n"]: trial.fields["flops"] for trial in Log(log)}
    assert flops.keys() == {8, 512} and flops[512] == 64 * flops[8]


def test_cold_and_warm_caches_are_studies_of_their_own(tmp_path: Path, brief: Policy) -> None:
    Y = tl.ops.relu(tl.placeholder((1 << 16,), name="X"))
    log = tmp_path / "a.jsonl"
    results = {cache: session(Y, log, trials=1, threads=1, policy=brief, cache=cache).run() for cache in ("warm", "cold")}
    assert all(result.best.time > 0 for result in results.values())
    trials = {trial.cache: trial for trial in Log(log)}
    assert set(trials) == {"warm", "cold"} and trials["cold"].fields["number"] == 1
