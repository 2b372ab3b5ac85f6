"""Attention without the matrix of scores.

As a formula attention is a chain: scores, a softmax over them, a weighted mean of the values. Computed stage by stage, the scores of all
queries with all keys are written to memory and read three times. Placed at a block of queries, they never leave the cache, and the same
definition needs a fraction of the memory.

    python examples/fused_attention.py
"""

import numpy as np
from scipy import special

import tensorlang as tl

L, S, E = 256, 256, 32
tl.set_threads(1)

Q, K, V = (tl.placeholder((length, E), name=name) for length, name in ((L, "Q"), (S, "K"), (S, "V")))
e, s1, s2, s3 = (tl.reduce_axis(extent, name=name) for extent, name in ((E, "e"), (S, "s1"), (S, "s2"), (S, "s3")))
score = tl.compute((L, S), lambda i, s: tl.sum(Q[i, e] * K[s, e], axis=e), name="score")
top = tl.compute((L,), lambda i: tl.max(score[i, s1], axis=s1), name="top")
weight = tl.compute((L, S), lambda i, s: tl.exp((score[i, s] - top[i]) * E**-0.5), name="weight")
total = tl.compute((L,), lambda i: tl.sum(weight[i, s2], axis=s2), name="total")
mixed = tl.compute((L, E), lambda i, v: tl.sum(weight[i, s3] * V[s3, v], axis=s3), name="mixed")
out = tl.compute((L, E), lambda i, v: mixed[i, v] / total[i], name="out")

q, k, v = np.random.default_rng(0).standard_normal((3, L, E), "float32")
want = special.softmax(q @ k.T * E**-0.5, axis=1) @ v


def show(title: str, kernel: tl.Kernel) -> None:
    """Compare with SciPy; print what a call allocates and how long it takes."""
    np.testing.assert_allclose(kernel(q, k, v), want, rtol=1e-3, atol=1e-5)
    print(f"{title:24}{kernel.workspace_bytes / 1024:8.0f} KiB on the heap{1e3 * kernel.time(q, k, v, repeats=3).min:9.3f} ms")


def use_vectors(schedule: tl.Schedule) -> None:
    """Products in lanes along their rows; what runs over the keys in lanes of keys, with a partial result in each of a reduction."""
    for stage, axis in (("score", "s"), ("mixed", "v")):
        outer, inner = schedule.split(f"{stage}.{axis}", 16)
        schedule.reorder(outer, schedule.loops(stage)[-1], inner)
        schedule.vectorize(inner)
    for loop in ("top.s1", "weight.s", "total.s2"):
        schedule.vectorize(schedule.split(loop, 16)[1])


s = tl.Schedule(out)
use_vectors(s)
show("stage by stage", tl.build(s))

# Every stage at a block of 16 queries, the last consumer first: each placement finds out by itself which part is needed.
s = tl.Schedule(out)
block, row = s.split("out.i", 16)
for stage in ("mixed", "total", "weight", "top", "score"):
    s.compute_at(stage, block)
use_vectors(s)
show("at a block of queries", tl.build(s))

# The storage of a block belongs to it, so blocks may run in parallel.
s.parallel(block)
show("... and in parallel", tl.build(s))

# The library's operator, under the schedule that a definition gets by default.
show("tl.ops.attention", tl.build(tl.ops.attention(Q, K, V)))
print(f"\n{s}")
