"""A schedule by hand with numbers left open, and the tuner to find them.

The template says what is done and in which order; the space says which numbers may be tried. Everything else is as with the tuner's own
spaces: each point is compiled in a process that may be killed, compared with the definition and timed, and the log has its directives,
from which the winner is replayed where the template is not known.

    python examples/own_template.py [TRIALS]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import tensorlang as tl
from tensorlang.autotune import Database, Log, tune

M, N, K = 128, 128, 64
tl.set_threads(1)


def product() -> tl.Tensor:
    """The definition."""
    A, B = tl.placeholder((M, K), name="A"), tl.placeholder((K, N), name="B")
    k = tl.reduce_axis(K, name="k")
    found: tl.Tensor = tl.compute((M, N), lambda i, j: tl.sum(A[i, k] * B[k, j], axis=k), name="C")
    return found


C = product()


def template(config: dict[str, int]) -> tl.Schedule:
    """A tile of rows by columns in registers, as in `matmul_by_hand.py`, with panels of B packed or not."""
    s = tl.Schedule(C)
    i_o, j_o, i_i, j_i = s.tile("C.i", "C.j", config["rows"], config["columns"])
    s.reorder(j_o, i_o, "C.k", i_i, j_i)
    if config["packed"]:
        s.pack("B", at=j_o)
    s.accumulate("C", at=i_o)
    s.vectorize("C.j_i")
    s.unroll("C.i_i")
    return s


def main(trials: int) -> float:
    """Search, replay the winner from the log alone, and return its speed-up over the default schedule."""
    space = tl.Space.of(rows=(1, 2, 4, 6), columns=(8, 16, 32), packed=(False, True))
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "by_hand.jsonl"
        result = tune(C, schedule=template, space=space, trials=trials, log=log, name="by_hand")
        print(f"{result}\n{sum(trial.status != 'ok' for trial in Log(log))} invalid points")
        multiply = tl.compile(product(), database=Database(log))  # no template here, only its directives
    a, b = np.random.default_rng(0).random((M, K), "float32"), np.random.default_rng(1).random((K, N), "float32")
    np.testing.assert_allclose(multiply(a, b), a @ b, rtol=1e-4)
    return result.speedup or 1.0


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 24)
