"""`conv2d_transpose`: the gradient of `conv2d` as an operator.

An element takes every `stride`-th tap, and which these are repeats every `stride` elements. So where the dilation is 1 the sum runs over
those taps alone, and the remainder of the element's position says where they begin: with a loop for each remainder, what is left are
`stride` * `stride` convolutions of small windows. Where the stride does not divide the window's size, some elements have a tap less.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorlang.definition.expr import Expr, as_expr
from tensorlang.definition.extent import Extent
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import DefinitionError
from tensorlang.language.boundary import pad
from tensorlang.language.definitions import reduce_axis
from tensorlang.language.reduction import sum as sum_over
from tensorlang.ops.arguments import agree, define, literal, need, pair
from tensorlang.ops.convolution import IMAGE, grouped, sum_name, with_bias


@dataclass(frozen=True, slots=True)
class _Reach:
    """One spatial axis: which taps reach an element of the result, and from where."""

    size: int
    stride: int
    padding: int
    dilation: int
    extra: int

    @property
    def regular(self) -> bool:
        """Do the taps that reach an element lie `stride` apart?"""
        return self.stride == 1 or self.dilation == 1

    @property
    def taps(self) -> int:
        """How many taps the sum runs over."""
        return -(-self.size // self.stride) if self.regular else self.size

    @property
    def missing(self) -> int:
        """Taps beyond the window."""
        return self.taps * self.stride - self.size if self.regular else 0

    @property
    def reach(self) -> tuple[int, int]:
        """How far taps reach beyond the input, before it and after it."""
        far = self.dilation * (self.size - 1)
        first = self.padding // self.stride - self.dilation * (self.taps - 1) if self.regular else (self.padding - far) // self.stride
        return max(0, -first), max(0, (far + self.extra - self.padding) // self.stride)

    def extent(self, given: Extent) -> Extent:
        """Of the result."""
        return (given - 1) * self.stride + (self.dilation * (self.size - 1) + 1 + self.extra - 2 * self.padding)

    def tap(self, at: Expr, number: Expr) -> tuple[Expr, Expr, Expr | None]:
        """Where in the padded input a tap of the sum reads, which one of the weight it is, and under what condition."""
        before, position = self.reach[0], at + self.padding
        if self.stride == 1:
            return position - number * self.dilation + before, number, None
        if self.regular:
            tap = position % self.stride + number * self.stride
            return position // self.stride - number + before, tap, tap < self.size if self.missing else None
        left = position - number * self.dilation
        return left // self.stride + before, number, left % self.stride == 0


def conv2d_transpose(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    output_padding: int | tuple[int, int] = 0,
    groups: int = 1,
    dilation: int | tuple[int, int] = 1,
    name: str | None = "conv2d_transpose",
) -> Tensor:
    """The gradient of `conv2d` as an operator, as `torch.nn.functional.conv_transpose2d`: (N, C, H, W), (C, O/g, R, S) -> (N, O, Y, X).

    `y[n, o, y, x] = sum_{c, r, s} input[n, c, v, u] weight[c, o, r, s] + bias[o]` over those taps for which
    `v stride = y + padding - r dilation` and `u stride = x + padding - s dilation` have a solution; the input is 0 outside.
    Raises `DefinitionError` where the shapes do not fit.
    """
    op = "conv2d_transpose"
    input, weight = need(op, "input", input, 4), need(op, "weight", weight, 4)
    (sy, sx), (py, px), (dy, dx) = pair(op, "stride", stride, 1), pair(op, "padding", padding, 0), pair(op, "dilation", dilation, 1)
    extra_y, extra_x = pair(op, "output_padding", output_padding, 0)
    agree(op, "the input channels", input, 1, weight, 0)
    batch, channels, height, width = input.shape
    share, rows, columns = (
        weight.shape[1],
        literal(op, "the height of weight", weight.shape[2]),
        literal(op, "the width of weight", weight.shape[3]),
    )
    own, _ = grouped(op, channels, 0, groups)
    vertical, horizontal = _Reach(rows, sy, py, dy, extra_y), _Reach(columns, sx, px, dx, extra_x)
    down, across = vertical.extent(height), horizontal.extent(width)
    for extent, axis in ((down, "height"), (across, "width")):
        if isinstance(extent, int) and extent < 0:
            raise DefinitionError(f"{op}: the {axis} of the result would be {extent}; the padding takes more than there is")
    source = _padded(input, vertical.reach, horizontal.reach, name, "pad")
    window = weight
    c, r, s = reduce_axis(own, name="c"), reduce_axis(vertical.taps, name="r"), reduce_axis(horizontal.taps, name="s")

    def element(at: tuple[Expr, ...]) -> Expr:
        n, o, y, x = at
        (v, row, hit_y), (u, column, hit_x) = vertical.tap(y, r), horizontal.tap(x, s)
        hit = hit_y & hit_x if hit_y is not None and hit_x is not None else hit_y if hit_x is None else hit_x
        channel = c if groups == 1 else (o // as_expr(share)) * as_expr(own) + c
        inner = o if groups == 1 else o % as_expr(share)
        return sum_over(source[n, channel, v, u] * window[channel, inner, row, column], axis=(c, r, s), where=hit)

    total = define((batch, share * groups, down, across), IMAGE, element, sum_name(name, bias))
    return with_bias(op, total, bias, 1, IMAGE, name)


def _padded(tensor: Tensor, rows: tuple[int, int], columns: tuple[int, int], name: str | None, label: str) -> Tensor:
    """The tensor with zeros around its last two axes; itself where there are none."""
    if not any((*rows, *columns)):
        return tensor
    return pad(tensor, ((0, 0), (0, 0), rows, columns), name=None if name is None else f"{name}_{label}")
