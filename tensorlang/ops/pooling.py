"""Pooling: `max_pool2d` and `avg_pool2d`, as torch's, in the layouts NCHW and NHWC."""

from __future__ import annotations

from tensorlang.definition.elementary import maximum, minimum
from tensorlang.definition.expr import Expr, as_expr, cast
from tensorlang.definition.extent import Extent
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import DefinitionError
from tensorlang.language.definitions import reduce_axis
from tensorlang.language.reduction import max as max_over, sum as sum_over
from tensorlang.ops.arguments import define, flag, floating, need, one_of, pair, wide
from tensorlang.ops.convolution import at_window, padded, windows

_NAMES = {"NCHW": ("n", "c", "y", "x"), "NHWC": ("n", "y", "x", "c")}
Size = int | tuple[int, int]


def _placed(layout: str, batch: Extent, channel: Extent, down: Extent, across: Extent) -> tuple[Extent, ...]:
    return (batch, channel, down, across) if layout == "NCHW" else (batch, down, across, channel)


def _named(layout: str, at: tuple[Expr, ...]) -> tuple[Expr, Expr, Expr, Expr]:
    """An index of an image as (n, c, y, x)."""
    return (at[0], at[1], at[2], at[3]) if layout == "NCHW" else (at[0], at[3], at[1], at[2])


def _extents(layout: str, input: Tensor) -> tuple[Extent, Extent, Extent, Extent]:
    a, b, c, d = input.shape
    return (a, b, c, d) if layout == "NCHW" else (a, d, b, c)


def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    layout: str = "NCHW",
    name: str | None = "max_pool2d",
) -> Tensor:
    """`y[n, c, y, x] = max_{r, s} input[n, c, y stride + r dilation, x stride + s dilation]`: (N, C, H, W) -> (N, C, Y, X).

    `stride` defaults to `kernel_size`; padding never wins the maximum. Raises `DefinitionError` where the window does not fit.
    """
    op = "max_pool2d"
    input, layout = need(op, "input", input, 4), one_of(op, "layout", layout, "NCHW", "NHWC")
    (ky, kx), (py, px), (dy, dx) = (
        pair(op, "kernel_size", kernel_size, 1),
        pair(op, "padding", padding, 0),
        pair(op, "dilation", dilation, 1),
    )
    sy, sx = (ky, kx) if stride is None else pair(op, "stride", stride, 1)
    if 2 * py > ky or 2 * px > kx:
        raise DefinitionError(f"{op}: padding {padding!r} is more than half of kernel_size {kernel_size!r}")
    batch, channels, height, width = _extents(layout, input)
    down, across = windows(op, height, ky, sy, py, dy), windows(op, width, kx, sx, px, dx)
    source = padded(input, layout, (py, px), input.dtype.lowest, name)
    r, s = reduce_axis(ky, name="r"), reduce_axis(kx, name="s")

    def element(at: tuple[Expr, ...]) -> Expr:
        n, c, y, x = _named(layout, at)
        v, u = at_window(y, sy, r, dy), at_window(x, sx, s, dx)
        return max_over(source[n, c, v, u] if layout == "NCHW" else source[n, v, u, c], axis=(r, s))

    return define(_placed(layout, batch, channels, down, across), _NAMES[layout], element, name)


def avg_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    count_include_pad: bool = True,
    layout: str = "NCHW",
    name: str | None = "avg_pool2d",
) -> Tensor:
    """`y[n, c, y, x] = sum_{r, s} input[n, c, y stride + r, x stride + s] / count`: (N, C, H, W) -> (N, C, Y, X).

    `stride` defaults to `kernel_size`; `count` is the window's size, or with `count_include_pad=False` its part inside the input.
    Raises `DefinitionError` where the window does not fit, or for elements that are not floating point.
    """
    op = "avg_pool2d"
    input, layout = need(op, "input", input, 4), one_of(op, "layout", layout, "NCHW", "NHWC")
    floating(op, "input", input)
    counts_padding = flag(op, "count_include_pad", count_include_pad)
    (ky, kx), (py, px) = pair(op, "kernel_size", kernel_size, 1), pair(op, "padding", padding, 0)
    sy, sx = (ky, kx) if stride is None else pair(op, "stride", stride, 1)
    if 2 * py > ky or 2 * px > kx:
        raise DefinitionError(f"{op}: padding {padding!r} is more than half of kernel_size {kernel_size!r}")
    batch, channels, height, width = _extents(layout, input)
    down, across = windows(op, height, ky, sy, py, 1), windows(op, width, kx, sx, px, 1)
    source = padded(input, layout, (py, px), 0, name)
    r, s = reduce_axis(ky, name="r"), reduce_axis(kx, name="s")

    def element(at: tuple[Expr, ...]) -> Expr:
        n, c, y, x = _named(layout, at)
        v, u = at_window(y, sy, r, 1), at_window(x, sx, s, 1)
        total = sum_over(wide(source[n, c, v, u] if layout == "NCHW" else source[n, v, u, c]), axis=(r, s))
        count = as_expr(ky * kx)
        if not counts_padding and (py or px):
            count = _inside(y, sy, ky, py, height) * _inside(x, sx, kx, px, width)
        return cast(total / cast(count, total.dtype), input.dtype)

    return define(_placed(layout, batch, channels, down, across), _NAMES[layout], element, name)


def _inside(position: Expr, stride: int, size: int, padding: int, extent: Extent) -> Expr:
    """How many elements of a window lie inside the input."""
    start = position * stride - padding
    return minimum(start + size, as_expr(extent)) - maximum(start, 0)
