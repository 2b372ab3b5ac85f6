"""Layers of images whose channels are last: what `passes.channels_last` makes of `conv2d` and its like where that is faster.

Front doors do not translate into these: a model is written with channels first, so that one pattern finds its convolutions.
"""

from __future__ import annotations

from typing import Final

import tensorlang as tl
from tensorlang import ops
from tensorlang.graph.operator import Function, Operator, Pair


def conv2d_channels_last(
    input: tl.Tensor,
    weight: tl.Tensor,
    bias: tl.Tensor | None = None,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> tl.Tensor:
    """`conv2d` of (N, H, W, C) and (R, S, C/groups, O) -> (N, Y, X, O)."""
    if 1 < groups == input.shape[3]:
        return ops.depthwise_conv2d(input, weight, bias, stride, padding, dilation, layout="NHWC")
    return ops.conv2d(input, weight, bias, stride, padding, dilation, groups, layout="NHWC")


def max_pool2d_channels_last(
    input: tl.Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = (0, 0), dilation: Pair = (1, 1)
) -> tl.Tensor:
    """`max_pool2d` of (N, H, W, C)."""
    return ops.max_pool2d(input, kernel_size, stride, padding, dilation, layout="NHWC")


def avg_pool2d_channels_last(
    input: tl.Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = (0, 0), count_include_pad: bool = True
) -> tl.Tensor:
    """`avg_pool2d` of (N, H, W, C)."""
    return ops.avg_pool2d(input, kernel_size, stride, padding, count_include_pad, layout="NHWC")


_FUNCTIONS: Final[tuple[Function, ...]] = (conv2d_channels_last, max_pool2d_channels_last, avg_pool2d_channels_last)
OPERATORS: Final[tuple[Operator, ...]] = tuple(Operator.of(function) for function in _FUNCTIONS)
