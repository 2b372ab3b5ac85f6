"""What the kernel library costs: questions beside a default build, calls, strides, extents that a call tells, many callers.

`python -m bench.library` prints all of it, `--symbolic` the last part alone.

Processor time of this thread, over a convolution, a product and a softmax; a figure is the worst of them. A build is of a program that
was never built: every round asks for another extent. Calls from eight threads, and ten thousand kernels that are dropped, take
minutes: `--short` leaves them out.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench import callers, library_calls, library_estimates, library_memory
from bench.measure import Figure
from tensorlang import kernels
from tensorlang.definition.tensor import Tensor

ROUNDS: Final = 5
REPEATS: Final = 40

SPECS: Final[dict[str, Callable[[int], kernels.Spec]]] = {
    "conv2d": lambda n: kernels.Spec("conv2d", ((1, 64, 56, 56), (64 + n, 64, 3, 3)), attributes={"padding": 1}),
    "matmul": lambda n: kernels.Spec("matmul", ((512, 512), (512, 512 + n))),
    "softmax": lambda n: kernels.Spec("softmax", ((512, 1000 + n),)),
}
CONSTANT: Final = {"conv2d": "w", "matmul": "B"}

FIRST: Final = "supports, asked for the first time"
"""It defines the operator, which its kernel then uses: as much as a question by tensors."""

THREADS: Final = 8
CALLS: Final = 10_000
DISCARDED: Final = 10_000
FULL: Final = 1_500
"""Kernels after which all caches are full."""

BOUNDS: Final = {
    FIRST: 0.01,
    "supports, asked before": 0.0005,
    "compile by spec, built before": 0.0005,
    "compile by tensors, built before": 0.005,
    "key of tensors": 0.002,
    "prepack, packed before": 0.05,
    "O0": 0.3,
}


def spent(action: Callable[[], Any], times: int = 1) -> float:
    """Seconds of this thread's processor time for one of so many repetitions."""
    start = time.thread_time()
    for _ in range(times):
        action()
    return (time.thread_time() - start) / times


def renamed(spec: kernels.Spec) -> Tensor:
    """The same program, of operands by other names: made by hand for each question."""
    operands = [tl.placeholder(shape, name=f"operand{place}") for place, shape in enumerate(spec.shapes)]
    return spec.result(operands)


def asked(name: str, number: int) -> Iterator[tuple[str, float]]:
    """Questions about one program with their cost as a share of a default build."""
    spec, other = SPECS[name](number), SPECS[name](100 + number)
    first = spent(lambda: kernels.supports(spec))
    tensors = renamed(spec)
    soon = spent(lambda: kernels.compile(other, level="O0"))
    build = spent(lambda: kernels.compile(spec))
    yield FIRST, first / build
    yield "O0", soon / build
    yield "supports, asked before", spent(lambda: kernels.supports(spec), REPEATS) / build
    yield "compile by spec, built before", spent(lambda: kernels.compile(spec), REPEATS) / build
    yield "compile by tensors, built before", spent(lambda: kernels.compile(tensors), REPEATS) / build
    yield "key of tensors", spent(lambda: kernels.key(tensors), REPEATS) / build
    if name in CONSTANT and number == 1:
        kernel, shape = kernels.compile(spec), spec.shapes[1] or ()
        constant = {CONSTANT[name]: np.ones(tuple(int(extent) for extent in shape if isinstance(extent, int)), np.float32)}
        kernel.prepack(**constant)
        yield "prepack, packed before", spent(lambda: kernel.prepack(**constant), REPEATS) / build


def _attention(n: Any) -> Tensor:
    q, k, v = (tl.placeholder((n, 4, 64, 32)) for _ in range(3))
    return tl.ops.attention(q, k, v)


BATCHES: Final = (1, 8, 64)
SYMBOLIC: Final[dict[str, Callable[[Any], Tensor]]] = {
    "matmul": lambda n: tl.ops.matmul(tl.placeholder((n, 256)), tl.placeholder((256, 512))),
    "conv2d": lambda n: tl.ops.conv2d(tl.placeholder((n, 32, 28, 28)), tl.placeholder((32, 32, 3, 3)), padding=1),
    "attention": _attention,
}
LEAST_S: Final = 0.02
"""Seconds of calls in a sample of a kernel."""


def symbolic() -> list[Figure]:
    """What one kernel for all batches takes beside one for each: medians of samples in turns."""
    made = []
    for name, define in SYMBOLIC.items():
        one, shares = kernels.compile(define(tl.dim("n", 1, 64)), threads=1), {}
        for batch in BATCHES:
            own = kernels.compile(define(batch), threads=1)
            rng = np.random.default_rng(batch)
            shapes = [tuple(int(getattr(extent, "value", 0)) for extent in part.shape) for part in own.program.signature.passed]
            arrays = [rng.standard_normal(shape, np.float32) for shape in shapes]
            out = own(*arrays)
            calls = [kernel.bind(*arrays, out=out) for kernel in (one, own)]
            times = max(1, round(LEAST_S / max(spent(calls[1], 2), 1e-7)))
            pairs = [(spent(calls[0], times), spent(calls[1], times)) for _ in range(2 * ROUNDS + 1)]
            shares[str(batch)] = statistics.median(ours / theirs for ours, theirs in pairs)
        made.append(Figure(f"symbolic / static batch: {name}", max(shares.values()), 1.15, "at most", "", {"by_operator": shares}))
    return made


def figures() -> list[Figure]:
    """The questions of the contract, as shares of a default build."""
    kernels.compile(kernels.Spec("relu", ((8,),)))  # what is loaded on first use is no part of a question
    found: dict[str, dict[str, list[float]]] = {}
    for name in SPECS:
        for number in range(1, ROUNDS + 1):
            for question, share in asked(name, number):
                found.setdefault(question, {}).setdefault(name, []).append(share)
    made = []
    for question, shares in found.items():
        medians = {name: statistics.median(values) for name, values in shares.items()}
        facts = {"by_operator": medians}
        made.append(Figure(f"{question}: share of a default build", max(medians.values()), BOUNDS[question], "at most", "", facts))
    return made


def lives() -> list[Figure]:
    """Many callers, and many kernels."""
    wrong = callers.wrong_calls(THREADS, CALLS)
    grown = callers.growth(DISCARDED, FULL)
    return [
        Figure(f"wrong of {CALLS} calls from each of {THREADS} threads", wrong, 0, "at most", "", {}),
        Figure(f"growth for each of {DISCARDED} discarded kernels", grown, 3 << 10, "at most", "bytes", {}),
    ]


def main() -> int:
    """Measure and print; with `--symbolic` kernels of a batch that a call tells, alone."""
    alone = "--symbolic" in sys.argv[1:]
    asked = [] if alone else [figures, library_calls.figures, library_memory.figures, library_estimates.figures]
    found = [figure for part in (*asked, symbolic) for figure in part()]
    found += [] if alone or "--short" in sys.argv[1:] else lives()
    for figure in found:
        told = ", ".join(f"{name} {value:.2g}" for name, value in figure.facts.get("by_operator", {}).items())
        kept = "kept" if figure.kept else "NOT KEPT"
        print(f"{figure.name:<56} {figure.value:<10.3g} {figure.sense} {figure.bound:<8g} {kept}{f'  ({told})' if told else ''}")
    return 0 if all(figure.kept for figure in found) else 1


if __name__ == "__main__":
    sys.exit(main())
