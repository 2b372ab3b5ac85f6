"""Convolutions: `conv1d`, `conv2d`, `depthwise_conv2d`, in torch's layout or with channels last.

    layout   input          weight              output
    NCHW     (N, C, H, W)   (O, C/g, R, S)      (N, O, Y, X)
    NHWC     (N, H, W, C)   (R, S, C/g, O)      (N, Y, X, O)

Zero padding is a stage of its own, made only where there is padding; a bias is added after the sum, which stays one reduction.
"""

from __future__ import annotations

from typing import Any

from tensorlang.definition.expr import Expr, as_expr
from tensorlang.definition.extent import Extent
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import DefinitionError
from tensorlang.language.boundary import pad
from tensorlang.language.definitions import reduce_axis
from tensorlang.language.reduction import sum as sum_over
from tensorlang.ops.arguments import agree, define, literal, need, one_of, pair

IMAGE = ("n", "o", "y", "x")


def windows(op: str, extent: Extent, size: int, stride: int, padding: int, dilation: int) -> Any:
    """How many windows fit: `(extent + 2 padding - dilation (size - 1) - 1) // stride + 1`."""
    span = extent + (2 * padding - dilation * (size - 1) - 1)
    if isinstance(span, int) and span < 0:
        raise DefinitionError(f"{op}: a window of {dilation * (size - 1) + 1} does not fit {extent} elements padded by {padding}")
    return span + 1 if stride == 1 else span // stride + 1


def at_window(position: Expr, stride: int, offset: Expr, dilation: int) -> Expr:
    """`position * stride + offset * dilation`."""
    start = position if stride == 1 else position * stride
    return start + (offset if dilation == 1 else offset * dilation)


def padded(input: Tensor, layout: str, amount: tuple[int, int], value: float, name: str | None) -> Tensor:
    """The input with `amount` (vertical, horizontal) of padding; itself where that is none."""
    down, across = amount
    if not down and not across:
        return input
    spatial = ((down, down), (across, across))
    widths = ((0, 0), (0, 0), *spatial) if layout == "NCHW" else ((0, 0), *spatial, (0, 0))
    return pad(input, widths, value=value, name=None if name is None else f"{name}_pad")


def grouped(op: str, channels: Extent, outputs: Extent, groups: Any) -> tuple[Extent, Extent]:
    """Input and output channels of one group."""
    if not isinstance(groups, int) or isinstance(groups, bool) or groups < 1:
        raise DefinitionError(f"{op}: groups must be an int of at least 1, not {groups!r:.60}")
    if groups == 1:
        return channels, outputs
    c, o = literal(op, "the input channels of groups", channels), literal(op, "the output channels of groups", outputs)
    if c % groups or o % groups:
        raise DefinitionError(f"{op}: {groups} groups do not divide {c} input and {o} output channels")
    return c // groups, o // groups


def with_bias(op: str, total: Tensor, bias: Tensor | None, channel: int, names: tuple[str, ...], name: str | None) -> Tensor:
    """The sum with a bias for each channel, if there is one."""
    if bias is None:
        return total
    addend = need(op, "bias", bias, 1)
    agree(op, "the output channels", total, channel, addend, 0)
    return define(total.shape, names, lambda at: total[at] + addend[at[channel]], name)


def sum_name(name: str | None, bias: Tensor | None) -> str | None:
    """What the sum is called that a bias is added to."""
    return name if name is None or bias is None else f"{name}_sum"


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    name: str | None = "conv1d",
) -> Tensor:
    """`y[n, o, x] = sum_{c, s} input[n, c, x stride + s dilation] weight[o, c, s] + bias[o]`: (N, C, W), (O, C/g, S) -> (N, O, X).

    Raises `DefinitionError` where the shapes do not fit.
    """
    input, weight = need("conv1d", "input", input, 3), need("conv1d", "weight", weight, 3)
    (stride, _), (padding, _) = pair("conv1d", "stride", stride, 1), pair("conv1d", "padding", padding, 0)
    dilation, _ = pair("conv1d", "dilation", dilation, 1)
    outputs, size = weight.shape[0], literal("conv1d", "the width of weight", weight.shape[2])
    own, share = grouped("conv1d", input.shape[1], outputs, groups)
    if weight.shape[1] != own:
        raise DefinitionError(f"conv1d: weight takes {own} channels in each of {groups} groups of {input!r}, but is {weight!r}")
    width = windows("conv1d", input.shape[2], size, stride, padding, dilation)
    source = pad(input, ((0, 0), (0, 0), (padding, padding)), name=None if name is None else f"{name}_pad") if padding else input
    c, s = reduce_axis(own, name="c"), reduce_axis(size, name="s")

    def element(at: tuple[Expr, ...]) -> Expr:
        n, o, x = at
        channel = c if groups == 1 else (o // as_expr(share)) * as_expr(own) + c
        return sum_over(source[n, channel, at_window(x, stride, s, dilation)] * weight[o, c, s], axis=(c, s))

    names = ("n", "o", "x")
    total = define((input.shape[0], outputs, width), names, element, sum_name(name, bias))
    return with_bias("conv1d", total, bias, 1, names, name)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    layout: str = "NCHW",
    name: str | None = "conv2d",
) -> Tensor:
    """`y[n, o, y, x] = sum_{c, r, s} input[n, c, y stride + r dilation, x stride + s dilation] weight[o, c, r, s] + bias[o]`.

    Shapes are in the module's docstring. With groups, output channel `o` reads the input channels of its own group.
    Raises `DefinitionError` where the shapes do not fit.
    """
    return _conv2d("conv2d", input, weight, bias, stride, padding, dilation, groups, layout, name)


def depthwise_conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    layout: str = "NCHW",
    name: str | None = "depthwise_conv2d",
) -> Tensor:
    """`y[n, o, y, x] = sum_{r, s} input[n, o // m, y stride + r dilation, x stride + s dilation] weight[o, 0, r, s] + bias[o]`.

    `conv2d` with as many groups as input channels: weight (C m, 1, R, S), or (R, S, 1, C m) with `layout="NHWC"`.
    Raises `DefinitionError` where the shapes do not fit.
    """
    need("depthwise_conv2d", "input", input, 4)
    channels = input.shape[1 if layout == "NCHW" else 3]
    groups = literal("depthwise_conv2d", "the channels", channels)
    return _conv2d("depthwise_conv2d", input, weight, bias, stride, padding, dilation, groups, layout, name, depthwise=True)


def _conv2d(
    op: str,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: object,
    padding: object,
    dilation: object,
    groups: int,
    layout: str,
    name: str | None,
    *,
    depthwise: bool = False,
) -> Tensor:
    input, weight = need(op, "input", input, 4), need(op, "weight", weight, 4)
    first = one_of(op, "layout", layout, "NCHW", "NHWC") == "NCHW"
    (sy, sx), (py, px), (dy, dx) = pair(op, "stride", stride, 1), pair(op, "padding", padding, 0), pair(op, "dilation", dilation, 1)
    if first:
        (batch, channels, height, width), (outputs, taken, rows, columns) = input.shape, weight.shape
    else:
        (batch, height, width, channels), (rows, columns, taken, outputs) = input.shape, weight.shape
    rows, columns = literal(op, "the height of weight", rows), literal(op, "the width of weight", columns)
    own, share = grouped(op, channels, outputs, groups)
    if taken != own:
        per = "" if groups == 1 else f" in each of {groups} groups"
        raise DefinitionError(f"{op}: weight takes {own} channels{per} of {input!r}, but is {weight!r}")
    down, across = windows(op, height, rows, sy, py, dy), windows(op, width, columns, sx, px, dx)
    source = padded(input, layout, (py, px), 0, name)
    c, r, s = reduce_axis(own, name="c"), reduce_axis(rows, name="r"), reduce_axis(columns, name="s")

    def element(at: tuple[Expr, ...]) -> Expr:
        n, o, y, x = at if first else (at[0], at[3], at[1], at[2])
        group = o if share == 1 else o // as_expr(share)
        channel = group if depthwise else c if groups == 1 else group * as_expr(own) + c
        across_channels: Expr | int = 0 if depthwise else c
        v, u = at_window(y, sy, r, dy), at_window(x, sx, s, dx)
        product = (
            source[n, channel, v, u] * weight[o, across_channels, r, s]
            if first
            else source[n, v, u, channel] * weight[r, s, across_channels, o]
        )
        return sum_over(product, axis=(r, s) if depthwise else (c, r, s) if first else (r, s, c))

    shape, names = ((batch, outputs, down, across), IMAGE) if first else ((batch, down, across, outputs), ("n", "y", "x", "o"))
    total = define(shape, names, element, sum_name(name, bias))
    return with_bias(op, total, bias, names.index("o"), names, name)
