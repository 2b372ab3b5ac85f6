"""Tune once, serve from the log: a definition is searched, written down, and found again by another program.

A search with few trials, so that this runs in seconds; a real one has more of them, and more time. The log is plain text that a later
process, or another machine of the same kind, reads: `tl.compile` looks the definition up and measures nothing.

    python examples/tune_and_serve.py
"""

import tempfile
from pathlib import Path

import numpy as np

import tensorlang as tl
from tensorlang.autotune import Log, tune


def definition(rows: int) -> tl.Tensor:
    """A layer of a network: a product, a bias, an activation."""
    X, W, b = tl.placeholder((rows, 64), name="X"), tl.placeholder((32, 64), name="W"), tl.placeholder((32,), name="b")
    return tl.ops.relu(tl.ops.dense(X, W, b))


x, w, bias = np.random.default_rng(0).standard_normal((48, 64), "float32"), np.full((32, 64), 0.1, "float32"), np.ones(32, "float32")
want = np.maximum(x @ w.T + bias, 0)

with tempfile.TemporaryDirectory() as folder:
    log = Path(folder) / "layer.jsonl"

    # The searcher: each candidate runs in a process of its own, and only right results are timed.
    result = tune(definition(48), trials=4, budget="30s", log=log, seed=0, threads=1)
    np.testing.assert_allclose(result.kernel(x, w, bias), want, rtol=1e-4, atol=1e-4)
    print(result)
    for trial in Log(log):
        print(f"  trial {trial.seq}: {trial.status}, {'' if trial.time is None else f'{1e6 * trial.time:.1f} us'}  {trial.config}")

    # The server: it writes the same definition, and gets the schedule that won.
    tl.set_threads(1)
    kernel = tl.compile(definition(48), database=log)
    np.testing.assert_allclose(kernel(x, w, bias), want, rtol=1e-4, atol=1e-4)
    assert kernel.provenance == "tuned"
    print(f"48 rows: {kernel.provenance}")

    # A size that nobody tuned takes the schedule of the nearest one; without a log there is always a default.
    nearest, default = tl.compile(definition(40), database=log), tl.compile(definition(40))
    for each in (nearest, default):
        np.testing.assert_allclose(each(x[:40], w, bias), want[:40], rtol=1e-4, atol=1e-4)
    print(f"40 rows: {nearest.provenance}; without a log: {default.provenance}")
