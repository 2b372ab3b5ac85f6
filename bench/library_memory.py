"""What it costs where operands and results lie: in another order than C order, or one over the other.

Processor time of this thread; the two kernels alternate, and the median of the ratios counts. Both have the default schedule for what they
were asked for, and operands as they should lie.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import tensorlang as tl
from bench.measure import Figure
from tensorlang import kernels
from tensorlang.ir import Const

PAIRS: Final = 15
LEAST: Final = 0.02

Strides = Mapping[str, tuple[int, ...]]

_PRODUCT: Final = kernels.Spec("matmul", ((512, 512), (512, 512)))
_CONV: Final = kernels.Spec("conv2d", ((1, 64, 56, 56), (64, 64, 3, 3)), attributes={"padding": 1})
_ROWS: Final = kernels.Spec("softmax", ((500, 1000),))
_POINTWISE: Final = kernels.Spec("relu", ((500, 1000),))

STRIDED: Final[dict[str, tuple[kernels.Spec, Strides]]] = {
    "product, second factor transposed": (_PRODUCT, {"B": (1, 512)}),
    "product, first factor transposed": (_PRODUCT, {"A": (1, 512)}),
    "product, into half of a concatenation": (_PRODUCT, {"matmul": (1024, 1)}),
    "convolution, image in NHWC": (_CONV, {"x": (64 * 56 * 56, 1, 56 * 64, 64)}),
    "softmax of a slice of columns": (_ROWS, {"x": (1700, 1)}),
    "relu of a slice of columns": (_POINTWISE, {"x": (1700, 1)}),
    "relu of a transposed view": (_POINTWISE, {"x": (1, 500)}),
}
"""Most of them take as long as in C order; a pointwise one has to transpose what it reads."""


def placed(shape: tuple[int, ...], strides: tuple[int, ...]) -> npt.NDArray[Any]:
    """Numbers in an array that lies with these strides, in elements; in C order without any."""
    rng = np.random.default_rng(0)
    if not strides:
        return rng.standard_normal(shape).astype("float32")
    size = 1 + sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True))
    base = rng.standard_normal(size).astype("float32")
    return np.lib.stride_tricks.as_strided(base, shape, tuple(4 * step for step in strides))


def bound(kernel: kernels.ServedKernel, over: str = "") -> Callable[[], Any]:
    """A call on operands as the kernel takes them, with the result over one of them if that is named."""
    signature = kernel.program.signature
    (output,) = signature.outputs
    made = {
        part.name: placed(tuple(int(extent.value) for extent in part.shape if isinstance(extent, Const)), part.strides)
        for part in (*signature.inputs, output)
    }
    result = made.pop(output.name)
    return kernel.bind(**made, out=made[over] if over else result)


def spent(call: Callable[[], Any], times: int) -> float:
    """Seconds of this thread's processor time for so many calls."""
    start = time.thread_time()
    for _ in range(times):
        call()
    return time.thread_time() - start


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any]) -> float:
    """How many times longer ours takes."""
    spent(ours, 1)
    times = max(1, int(LEAST / max(spent(theirs, 1), 1e-6)))
    return statistics.median(spent(ours, times) / spent(theirs, times) for _ in range(PAIRS))


def figures() -> list[Figure]:
    """Strided against contiguous, and in place against apart."""
    threads = tl.get_threads()
    tl.set_threads(1)
    try:
        made = [
            Figure(f"strided / contiguous: {what}", value, 1.2, "at most", "x", {"pairs": PAIRS})
            for what, (spec, strides) in STRIDED.items()
            for value in [ratio(bound(kernels.compile(spec, strides=strides)), bound(kernels.compile(spec)))]
        ]
        large = kernels.Spec("relu", ((2000, 1000),))
        inside = bound(kernels.compile(large, over={"relu": "x"}), "x")
        return [
            *made,
            Figure("in place / apart: relu of 8 MB", ratio(inside, bound(kernels.compile(large))), 1.0, "at most", "x", {"pairs": PAIRS}),
        ]
    finally:
        tl.set_threads(threads)
