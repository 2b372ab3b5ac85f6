"""Windows along any number of axes: pooling and convolutions of one, two and three axes, with padding that may differ between sides.

`tl.ops` has the forms along two axes for which kernels are tuned; these are the general ones, in which a place outside is left out of the
window by a condition. Extents follow from `padding`, a pair (before, after) for each axis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

import tensorlang as tl
from tensorlang.graph.ir import Extent
from tensorlang.graph.operator import Operator

Sides = tuple[tuple[int, int], ...]


def _counted(value: int | tuple[int, ...], axes: int, what: str) -> tuple[int, ...]:
    found = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(found) != axes or any(number < 1 for number in found):
        raise tl.DefinitionError(f"{what} is a number of at least 1 for each of {axes} axes, not {value}")
    return found


def _sided(padding: int | tuple[Any, ...], axes: int) -> Sides:
    entries = (padding,) * axes if isinstance(padding, int) else tuple(padding)
    sides = tuple((entry, entry) if isinstance(entry, int) else tuple(entry) for entry in entries)
    if len(sides) != axes or any(len(side) != 2 or min(side) < 0 for side in sides):
        raise tl.DefinitionError(f"padding is a number, or a pair (before, after), of at least 0 for each of {axes} axes, not {padding}")
    return sides


def _extents(shape: Sequence[Extent], kernel: Sequence[Any], stride: Sequence[int], dilation: Sequence[int], sides: Sides) -> list[Any]:
    made = []
    for extent, size, step, gap, (before, after) in zip(shape, kernel, stride, dilation, sides, strict=True):
        room = extent + before + after - gap * (size - 1) - 1
        if isinstance(room, int) and room < 0:
            raise tl.DefinitionError(
                f"a window of {size} elements, {gap} apart, is longer than the {extent} + {before} + {after} it lies in"
            )
        made.append(room // step + 1)
    return made


class _Windows:
    """Windows over the last axes of a tensor: where their elements lie, and which of these are there."""

    def __init__(self, input: tl.Tensor, kernel: tuple[int, ...], stride: Any, padding: Any, dilation: Any) -> None:
        self.input, self.count = input, len(kernel)
        if len(input.shape) != self.count + 2:
            raise tl.DefinitionError(f"windows along {self.count} axes lie in a tensor of {self.count + 2}, not in {input!r}")
        self.kernel = _counted(kernel, self.count, "kernel_size")
        self.stride = _counted(self.kernel if stride is None else stride, self.count, "stride")
        self.dilation = _counted(dilation, self.count, "dilation")
        self.sides = _sided(padding, self.count)
        self.spatial = input.shape[2:]
        self.shape = (*input.shape[:2], *_extents(self.spatial, self.kernel, self.stride, self.dilation, self.sides))
        self.taps = tuple(tl.reduce_axis(size, name=f"w{axis}") for axis, size in enumerate(self.kernel))

    def at(self, places: Sequence[Any]) -> tuple[list[Any], Any]:
        """Where a tap of the window of a result lies in the input, and whether there is an element."""
        found, inside = [], None
        for axis, place in enumerate(places):
            spot = place * self.stride[axis] + self.taps[axis] * self.dilation[axis] - self.sides[axis][0]
            found.append(spot)
            if self.sides[axis] != (0, 0):
                here = (spot >= 0) & (spot < self.spatial[axis])
                inside = here if inside is None else inside & here
        return found, inside


def max_pool(
    input: tl.Tensor, kernel_size: tuple[int, ...], stride: tuple[int, ...] | None = None, padding: tuple[Any, ...] | int = 0,
    dilation: tuple[int, ...] | int = 1,
) -> tl.Tensor:  # fmt: skip
    """The largest element of each window along the axes after (N, C)."""
    windows = _Windows(input, kernel_size, stride, padding, dilation)

    def body(*at: Any) -> Any:
        places, inside = windows.at(at[2:])
        return tl.max(input[(*at[:2], *places)], axis=windows.taps, where=inside)

    made: tl.Tensor = tl.compute(windows.shape, body, name="max_pool")
    return made


def max_pool_indices(
    input: tl.Tensor, kernel_size: tuple[int, ...], stride: tuple[int, ...] | None = None, padding: tuple[Any, ...] | int = 0,
    dilation: tuple[int, ...] | int = 1, by_column: bool = False,
) -> tl.Tensor:  # fmt: skip
    """Where the largest element of each window, the first of equals, the last of NaN, lies in the whole input, as one number: int64.

    The last axis varies fastest, or, `by_column`, the first of those that windows lie along.
    """
    windows = _Windows(input, kernel_size, stride, padding, dilation)
    largest = max_pool(input, kernel_size, stride, padding, dilation)

    def body(*at: Any) -> Any:
        places, inside = windows.at(at[2:])
        value = input[(*at[:2], *places)]
        line: Any = at[0] * input.shape[1] + at[1]
        order = list(zip(places, windows.spatial, strict=True))
        inner: Any = 0
        for place, extent in reversed(order) if by_column else order:
            inner = inner * extent + place
        for extent in windows.spatial:
            line = line * extent
        where, same = tl.cast(line + inner, "int64"), value == largest[at]
        if value.dtype.is_floating:
            same, where = same | tl.isnan(value), tl.select(tl.isnan(value), -1 - where, where)
        first = tl.min(where, axis=windows.taps, where=same if inside is None else tl.select(inside, same, False))
        return tl.select(first < 0, -1 - first, first) if value.dtype.is_floating else first

    made: tl.Tensor = tl.compute(windows.shape, body, name="max_pool_indices")
    return made


def avg_pool(
    input: tl.Tensor, kernel_size: tuple[int, ...], stride: tuple[int, ...] | None = None, padding: tuple[Any, ...] | int = 0,
    dilation: tuple[int, ...] | int = 1, count_include_pad: bool = True, excess: tuple[int, ...] | int = 0,
) -> tl.Tensor:  # fmt: skip
    """The mean of each window along the axes after (N, C), of what is there, or, `count_include_pad`, of the padding too.

    `excess` of the padding after each axis never counts: windows that start inside but end behind all padding.
    """
    windows = _Windows(input, kernel_size, stride, padding, dilation)
    over = (excess,) * windows.count if isinstance(excess, int) else excess

    def body(*at: Any) -> Any:
        places, inside = windows.at(at[2:])
        value = input[(*at[:2], *places)]
        if not count_include_pad or inside is None:
            return tl.mean(value, axis=windows.taps, where=inside)
        count: Any = 1
        for axis, place in enumerate(at[2:]):
            gap, size, (before, after) = windows.dilation[axis], windows.kernel[axis], windows.sides[axis]
            room = windows.spatial[axis] + before + after - over[axis] - place * windows.stride[axis]
            count = count * tl.minimum((room + gap - 1) // gap, size)
        return tl.sum(value / tl.cast(count, input.dtype), axis=windows.taps, where=inside)

    made: tl.Tensor = tl.compute(windows.shape, body, name="avg_pool")
    return made


def lp_pool(
    input: tl.Tensor, norm_type: float, kernel_size: tuple[int, ...], stride: tuple[int, ...] | None = None,
    padding: tuple[Any, ...] | int = 0, dilation: tuple[int, ...] | int = 1,
) -> tl.Tensor:  # fmt: skip
    """`sum(|x| ** p) ** (1 / p)` of each window along the axes after (N, C)."""
    windows = _Windows(input, kernel_size, stride, padding, dilation)

    def powers(*at: Any) -> Any:
        places, inside = windows.at(at[2:])
        value = tl.abs(input[(*at[:2], *places)])
        whole = norm_type in (1, 2, 3)
        return tl.sum(math.prod([value] * int(norm_type)) if whole else tl.pow(value, float(norm_type)), axis=windows.taps, where=inside)

    def root(total: Any) -> Any:
        return total if norm_type == 1 else tl.sqrt(total) if norm_type == 2 else tl.pow(total, 1.0 / norm_type)

    sums: tl.Tensor = tl.compute(windows.shape, powers, name="lp_pool_sums")
    made: tl.Tensor = tl.compute(windows.shape, lambda *at: root(sums[at]), name="lp_pool")
    return made


def convolution(
    input: tl.Tensor, weight: tl.Tensor, bias: tl.Tensor | None = None, stride: tuple[int, ...] | int = 1,
    padding: tuple[Any, ...] | int = 0, dilation: tuple[int, ...] | int = 1, groups: int = 1,
) -> tl.Tensor:  # fmt: skip
    """Convolution along any number of axes, and of integers: (N, C, ...), (O, C/groups, ...) -> (N, O, ...)."""
    kernel = tuple(extent for extent in weight.shape[2:] if isinstance(extent, int))
    windows = _Windows(input, kernel, stride, padding, dilation)
    share = weight.shape[1]
    if groups < 1 or input.shape[1] != share * groups or weight.shape[0] % groups:
        raise tl.DefinitionError(f"convolution: {input!r} and {weight!r} do not fit {groups} groups")
    c, own = tl.reduce_axis(share, name="c"), weight.shape[0] // groups

    def body(*at: Any) -> Any:
        places, inside = windows.at(at[2:])
        channel = c if groups == 1 else (at[1] // own) * share + c
        product = input[(at[0], channel, *places)] * weight[(at[1], c, *windows.taps)]
        return tl.sum(product, axis=(c, *windows.taps), where=inside)

    shape = (input.shape[0], weight.shape[0], *windows.shape[2:])
    return _biased(tl.compute(shape, body, name="convolution"), bias)


def conv_transpose(
    input: tl.Tensor, weight: tl.Tensor, bias: tl.Tensor | None = None, stride: tuple[int, ...] | int = 1,
    dilation: tuple[int, ...] | int = 1, groups: int = 1,
) -> tl.Tensor:  # fmt: skip
    """The gradient of `convolution` without padding as an operator: (N, C, ...), (C, O/groups, ...) -> (N, O, ...)."""
    axes = len(weight.shape) - 2
    step, gap = _counted(stride, axes, "stride"), _counted(dilation, axes, "dilation")
    if len(input.shape) != axes + 2 or groups < 1 or input.shape[1] != weight.shape[0] or input.shape[1] % groups:
        raise tl.DefinitionError(f"conv_transpose: {input!r} and {weight!r} do not fit {groups} groups")
    share, own = input.shape[1] // groups, weight.shape[1]
    c = tl.reduce_axis(share, name="c")
    taps = tuple(tl.reduce_axis(extent, name=f"w{axis}") for axis, extent in enumerate(weight.shape[2:]))
    spatial = [
        (extent - 1) * by + apart * (size - 1) + 1
        for extent, size, by, apart in zip(input.shape[2:], weight.shape[2:], step, gap, strict=True)
    ]

    def body(*at: Any) -> Any:
        places, inside = [], None
        for axis, place in enumerate(at[2:]):
            spot = place - taps[axis] * gap[axis]
            here = (spot >= 0) & (spot // step[axis] < input.shape[2 + axis])
            here = here if step[axis] == 1 else here & (spot % step[axis] == 0)
            inside = here if inside is None else inside & here
            places.append(spot if step[axis] == 1 else spot // step[axis])
        channel = c if groups == 1 else (at[1] // own) * share + c
        product = input[(at[0], channel, *places)] * weight[(channel, at[1] if groups == 1 else at[1] % own, *taps)]
        return tl.sum(product, axis=(c, *taps), where=inside)

    return _biased(tl.compute((input.shape[0], own * groups, *spatial), body, name="conv_transpose"), bias)


def _biased(value: tl.Tensor, bias: tl.Tensor | None) -> tl.Tensor:
    if bias is None:
        return value
    made: tl.Tensor = tl.compute(value.shape, lambda *at: value[at] + bias[at[1]], name=f"{value.name}_biased")
    return made


def fold(
    input: tl.Tensor, output_size: tuple[int, ...], kernel_size: tuple[int, ...], dilation: tuple[int, ...] | int = 1,
    padding: tuple[Any, ...] | int = 0, stride: tuple[int, ...] | int = 1,
) -> tl.Tensor:  # fmt: skip
    """Columns of windows added up to images: (N, C * product of kernel_size, number of windows) -> (N, C, *output_size)."""
    axes = len(kernel_size)
    kernel, step, gap = (
        _counted(one, axes, name) for one, name in ((kernel_size, "kernel_size"), (stride, "stride"), (dilation, "dilation"))
    )
    sides = _sided(padding, axes)
    blocks = _extents(output_size, kernel, step, gap, sides)
    size = 1
    for extent in kernel:
        size *= extent
    if len(input.shape) != 3 or input.shape[1] % size or _product(blocks) != input.shape[2]:
        raise tl.DefinitionError(f"fold: {input!r} does not hold {blocks} windows of {kernel}")
    taps = tuple(tl.reduce_axis(extent, name=f"w{axis}") for axis, extent in enumerate(kernel))

    def body(*at: Any) -> Any:
        row, column, inside = at[1], 0, None
        for axis, place in enumerate(at[2:]):
            spot = place + sides[axis][0] - taps[axis] * gap[axis]
            here = (spot >= 0) & (spot // step[axis] < blocks[axis]) & (spot % step[axis] == 0)
            inside = here if inside is None else inside & here
            row = row * kernel[axis] + taps[axis]
            column = column * blocks[axis] + tl.clamp(spot // step[axis], 0, blocks[axis] - 1)
        return tl.sum(input[at[0], row, column], axis=taps, where=inside)

    made: tl.Tensor = tl.compute((input.shape[0], input.shape[1] // size, *output_size), body, name="fold")
    return made


def _product(extents: Sequence[Any]) -> Any:
    return list(itertools.accumulate(extents, lambda left, right: left * right))[-1]


_FUNCTIONS: Final = (max_pool, max_pool_indices, avg_pool, lp_pool, convolution, conv_transpose, fold)
OPERATORS: Final[tuple[Operator, ...]] = tuple(Operator.of(function) for function in _FUNCTIONS)
