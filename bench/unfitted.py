"""Tasks that no constant was fitted on: shapes drawn by a rule, so nobody chose one that suits.

Each kind has ranges for its extents; a generator seeded by the name of a task draws each extent uniformly in its logarithm. Two of three
extents are rounded up to a multiple of 4, 8 or 16 that is no power of two, as layers have them, the third stays as odd as it was drawn. So
shapes of tests, of recorded logs and of the comparison with peers, which people wrote down, come up by accident only; a test checks
the latter two.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

import tensorlang as tl
from tensorlang import ops

Extents: TypeAlias = tuple[int, ...]
Range: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Kind:
    """A family of tasks: how many there are, the ranges of the extents, and the definition of a shape."""

    name: str
    count: int
    ranges: tuple[Range, ...]
    define: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class UnfittedTask:
    """One shape of a kind."""

    kind: Kind
    number: int
    extents: Extents

    @property
    def name(self) -> str:
        """The kind and the extents: `matmul_300x77x1016`."""
        return f"{self.kind.name}_{'x'.join(map(str, self.extents))}"

    def outputs(self) -> Any:
        """Its definition."""
        return self.kind.define(*self.extents)


def _p(*shape: int) -> Any:
    return tl.placeholder(shape)


def _convolution(size: int, stride: int, channels: int, filters: int, image: int) -> Any:
    return ops.conv2d(_p(1, channels, image, image), _p(filters, channels, size, size), stride=stride, padding=size // 2)


def _depthwise(stride: int, channels: int, image: int) -> Any:
    return ops.depthwise_conv2d(_p(1, channels, image, image), _p(channels, 1, 3, 3), stride=stride, padding=1)


def _gelu_chain(rows: int, columns: int) -> Any:
    bias, scale = _p(columns), _p(columns)
    return ops.gelu(tl.compute((rows, columns), _biased(_p(rows, columns), bias, scale), name="biased"))


def _biased(x: Any, bias: Any, scale: Any) -> Callable[..., Any]:
    return lambda i, j: (x[i, j] + bias[j]) * scale[j]


def _transposed(rows: int, columns: int) -> Any:
    x = _p(rows, columns)
    return tl.compute((columns, rows), lambda i, j: x[j, i], name="transposed")


def _column_sums(rows: int, columns: int) -> Any:
    x, i = _p(rows, columns), tl.reduce_axis(rows, name="r")
    return tl.compute((columns,), lambda j: tl.sum(x[i, j], axis=i), name="column_sums")


def _row_sums(rows: int, columns: int) -> Any:
    x, j = _p(rows, columns), tl.reduce_axis(columns, name="r")
    return tl.compute((rows,), lambda i: tl.sum(x[i, j], axis=j), name="row_sums")


KINDS: Final = (
    Kind("matmul", 7, ((48, 1400),) * 3, lambda m, n, k: ops.matmul(_p(m, k), _p(k, n))),
    Kind("matmul_skinny", 4, ((5, 48), (600, 4800), (600, 4800)), lambda m, n, k: ops.matmul(_p(m, k), _p(k, n))),
    Kind("batch_matmul", 4, ((3, 24), (40, 320), (40, 320), (40, 320)), lambda b, m, n, k: ops.batch_matmul(_p(b, m, k), _p(b, k, n))),
    Kind("conv1x1", 4, ((24, 640), (24, 640), (6, 60)), lambda c, f, image: _convolution(1, 1, c, f, image)),
    Kind("conv3x3", 4, ((12, 320), (12, 320), (6, 60)), lambda c, f, image: _convolution(3, 1, c, f, image)),
    Kind("conv_strided", 3, ((12, 320), (24, 320), (12, 100)), lambda c, f, image: _convolution(3, 2, c, f, image)),
    Kind("depthwise", 2, ((24, 960), (6, 100)), lambda c, image: _depthwise(1, c, image)),
    Kind("depthwise_strided", 1, ((24, 960), (12, 100)), lambda c, image: _depthwise(2, c, image)),
    Kind("max_pool", 2, ((24, 480), (12, 120)), lambda c, image: ops.max_pool2d(_p(1, c, image, image), 3, stride=2, padding=1)),
    Kind("softmax", 2, ((60, 3000), (60, 3000)), lambda rows, columns: ops.softmax(_p(rows, columns))),
    Kind("layer_norm", 2, ((60, 3000), (60, 3000)), lambda rows, n: ops.layer_norm(_p(rows, n), (n,), _p(n), _p(n))),
    Kind("gelu_chain", 2, ((60, 3000), (200, 3000)), _gelu_chain),
    Kind("transpose", 1, ((200, 3000), (200, 3000)), _transposed),
    Kind("column_sums", 1, ((200, 3000), (200, 3000)), _column_sums),
    Kind("row_sums", 1, ((200, 3000), (200, 3000)), _row_sums),
)


def tasks() -> list[UnfittedTask]:
    """All forty, first one of each kind, so that the first few are of many kinds."""
    found = [UnfittedTask(kind, number, _drawn(kind, number)) for kind in KINDS for number in range(kind.count)]
    return sorted(found, key=lambda task: task.number)


def _drawn(kind: Kind, number: int) -> Extents:
    rng = np.random.default_rng([zlib.crc32(kind.name.encode()), number])
    return tuple(_extents(rng, kind.ranges))


def _extents(rng: np.random.Generator, ranges: tuple[Range, ...]) -> Iterator[int]:
    odd = int(rng.integers(len(ranges)))
    for place, (least, most) in enumerate(ranges):
        extent = round(math.exp(rng.uniform(math.log(least), math.log(most))))
        unit = int(rng.choice([4, 8, 16]))
        if place % 3 == odd % 3 or extent < 2 * unit:
            yield extent | 1
        else:
            rounded = -(-extent // unit) * unit
            yield rounded if rounded & (rounded - 1) else rounded + unit
