"""`python -m bench.extents`: what a kernel for extents that a call tells takes beside one for literal extents, at the same sizes.

Each definition is built twice, once with dims in place of its extents, or of some of them. Both kernels are called in turn, on one thread
and the same arrays; what is counted is the time of the process, the median of the turns. Where the ratio is 1, dims cost nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

import tensorlang as tl
from bench.programs.timing import TURNS, turns
from bench.run import machine
from bench.sections import PAGE, name_of, written
from tensorlang import ops
from tensorlang.ir.integers import value_of

Extent: TypeAlias = Any


def _of(*shape: Extent) -> tl.Tensor:
    return tl.placeholder(shape)


def _transposed_product(m: Extent, n: Extent, k: Extent) -> Any:
    a, b, r = _of(m, k), _of(n, k), tl.reduce_axis(k, name="r")
    return tl.compute((m, n), lambda i, j: tl.sum(a[i, r] * b[j, r], axis=r), name="product")


def _distances(m: Extent, n: Extent, k: Extent) -> Any:
    a, b, r = _of(m, k), _of(n, k), tl.reduce_axis(k, name="r")
    return tl.compute((m, n), lambda i, j: tl.sum((a[i, r] - b[j, r]) * (a[i, r] - b[j, r]), axis=r), name="distances")


def _two_layers(batch: Extent, inputs: Extent, hidden: Extent, results: Extent) -> Any:
    return ops.matmul(ops.relu(ops.matmul(_of(batch, inputs), _of(inputs, hidden))), _of(hidden, results))


def _attention(batch: Extent, heads: Extent, length: Extent, width: Extent) -> Any:
    q, k, v = (_of(batch, heads, length, width) for _ in range(3))
    return ops.attention(q, k, v)


def _planes(count: Extent, height: Extent, width: Extent) -> Any:
    x, i, j = _of(count, height, width), tl.reduce_axis(height, name="i"), tl.reduce_axis(width, name="j")
    return tl.compute((count,), lambda c: tl.sum(x[c, i, j], axis=(i, j)) / (height * width), name="means")


def _blur(height: Extent, width: Extent) -> Any:
    x = _of(height, width)
    across = tl.compute((height, width - 2), lambda y, i: (x[y, i] + x[y, i + 1] + x[y, i + 2]) / 3, name="across")
    return tl.compute((height - 2, width - 2), lambda y, i: (across[y, i] + across[y + 1, i] + across[y + 2, i]) / 3, name="blur")


def _doubled(height: Extent, width: Extent) -> Any:
    x = _of(height, width)
    return tl.compute((2 * height, 2 * width), lambda y, i: x[y // 2, i // 2], name="doubled")


def _transposition(rows: Extent, columns: Extent) -> Any:
    x = _of(rows, columns)
    return tl.compute((columns, rows), lambda i, j: x[j, i], name="transposition")


def _channels_last(count: Extent, channels: Extent, height: Extent, width: Extent) -> Any:
    x = _of(count, channels, height, width)
    return tl.compute((count, height, width, channels), lambda n, y, i, c: x[n, c, y, i], name="last")


def _running_sums(rows: Extent, columns: Extent) -> Any:
    x = _of(rows, columns)
    return tl.recurrence((rows, columns), lambda i, j, y: y[i, j - 1] + x[i, j], dtype="float32", name="sums")


@dataclass(frozen=True, slots=True)
class Case:
    """A definition at `sizes`; `known` are the places of those that stay literals."""

    name: str
    define: Callable[..., Any]
    sizes: tuple[int, ...]
    known: tuple[int, ...] = ()


CASES: Final = (
    Case("product", lambda m, n, k: ops.matmul(_of(m, k), _of(k, n)), (256, 256, 256)),
    Case("product of transposed", _transposed_product, (256, 256, 256)),
    Case("product of transposed", _transposed_product, (64, 512, 512), (1, 2)),
    Case("one row of it", _transposed_product, (1, 512, 512), (1, 2)),
    Case("two layers", _two_layers, (32, 784, 256, 10)),
    Case("distances", _distances, (200, 300, 64)),
    Case("attention", _attention, (1, 12, 128, 64), (3,)),
    Case("attention", _attention, (1, 12, 128, 64), (1, 3)),
    Case("softmax", lambda n, m: ops.softmax(_of(n, m)), (256, 1000)),
    Case("layer norm", lambda n, m: ops.layer_norm(_of(n, m), (m,), _of(m), _of(m)), (128, 768)),
    Case("means of planes", _planes, (256, 14, 14)),
    Case("convolution 3x3", lambda n, c, k, h, w: ops.conv2d(_of(n, c, h, w), _of(k, c, 3, 3)), (1, 64, 64, 58, 58), (1, 2)),
    Case("convolution 3x3", lambda n, c, k, h, w: ops.conv2d(_of(n, c, h, w), _of(k, c, 3, 3)), (1, 64, 64, 16, 16), (1, 2)),
    Case("depthwise 3x3", lambda n, c, h, w: ops.depthwise_conv2d(_of(n, c, h, w), _of(c, 1, 3, 3)), (1, 64, 58, 58), (1,)),
    Case("pooling", lambda n, c, h, w: ops.max_pool2d(_of(n, c, h, w), 2), (1, 64, 56, 56)),
    Case("blur", _blur, (500, 700)),
    Case("enlarged image", _doubled, (200, 300)),
    Case("transposition", _transposition, (500, 400)),
    Case("channels last", _channels_last, (2, 64, 28, 28), (1,)),
    Case("running sums of rows", _running_sums, (100, 1000)),
)


def _built(outputs: Any) -> tuple[Any, float]:
    begin = time.process_time()
    kernel = tl.build(outputs)
    return kernel, time.process_time() - begin


def row(case: Case) -> str:
    """The two kernels beside each other."""
    extents = [size if place in case.known else tl.dim(f"d{place}", least=min(size, 3)) for place, size in enumerate(case.sizes)]
    (told, slow), (fixed, quick) = _built(case.define(*extents)), _built(case.define(*case.sizes))
    rng = np.random.default_rng(0)
    given = [rng.random([value_of(extent, {}) for extent in part.shape], "float32") for part in fixed.program.signature.inputs]
    out = fixed(*given)
    np.testing.assert_allclose(told(*given), out, rtol=1e-3, atol=1e-4)
    taken = turns({"dims": lambda: told(*given, out=out), "literals": lambda: fixed(*given, out=out)}, time.process_time)
    any_size, one_size = (statistics.median(taken[side]) * 1e6 for side in ("dims", "literals"))
    sizes = ", ".join(str(size) if place in case.known else f"*{size}*" for place, size in enumerate(case.sizes))
    return f"| {case.name} | {sizes} | {any_size:.4g} | {one_size:.4g} | {one_size / any_size:.2f} | {slow:.2f} | {quick:.2f} |"


def rows(cases: tuple[Case, ...]) -> Iterator[str]:
    """The table."""
    yield "| definition | sizes, *those of dims* | dims, us | literals, us | ratio | dims, s to build | literals, s to build |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for case in cases:
        yield row(case)


def main() -> int:
    """Print the table, or write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="definitions to compare; all without any")
    parser.add_argument("--page", action="store_true", help="write the table into docs/performance.md")
    options = parser.parse_args()
    tl.set_threads(1)
    chosen = tuple(case for case in CASES if not options.names or case.name in options.names)
    name = name_of(machine())
    load = f"{os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    how = f"Microseconds of the process's time on one thread by `python -m bench.extents --page`, medians of {TURNS} turns; load {load}."
    text = [f"### Extents that a call tells, on {name}", "", how, ""]
    text += rows(chosen)
    print("\n".join(text))
    if options.page:
        written(PAGE, {("figures", f"of extents that a call tells on {name}"): "\n".join(text)})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
