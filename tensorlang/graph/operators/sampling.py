"""Sampling at places that data tells: `grid_sample` of images with any number of axes, `deform_conv2d`, `bucketize`."""

from __future__ import annotations

import itertools
from typing import Any, Final

import tensorlang as tl
from tensorlang.graph.ir import Extent
from tensorlang.graph.operator import Operator, Pair

_CUBIC: Final = -0.75
"""The coefficient of torch's cubic kernel."""


def grid_sample(
    input: tl.Tensor, grid: tl.Tensor, mode: str = "linear", padding_mode: str = "zeros", align_corners: bool = False
) -> tl.Tensor:
    """Elements at the places in the last axis of `grid`, from -1 to 1, the last axis of the image first: (N, C, ...) -> (N, C, ...).

    `mode` is "linear", "nearest" or "cubic"; what is outside is "zeros", the "border" or a "reflection" at the edges of the pixels, or,
    with `align_corners`, at their centres.
    """
    axes = len(input.shape) - 2
    spatial = input.shape[2:]
    if len(grid.shape) != axes + 2 or grid.shape[-1] != axes or grid.shape[0] != input.shape[0]:
        raise tl.DefinitionError(f"grid_sample: {grid!r} does not name places of {axes} numbers for each image of {input!r}")
    if mode not in ("linear", "nearest", "cubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise tl.DefinitionError(f"grid_sample: the mode {mode!r:.40} with padding {padding_mode!r:.40} is not known")

    def length(extent: Extent) -> Any:
        return float(extent) if isinstance(extent, int) else tl.cast(extent.as_expr(), grid.dtype)

    def spot(axis: int, at: tuple[Any, ...]) -> Any:
        number = grid[(at[0], *at[2:], axes - 1 - axis)]
        extent = length(spatial[axis])
        found = (number + 1.0) / 2.0 * (extent - 1.0) if align_corners else ((number + 1.0) * extent - 1.0) / 2.0
        return tl.round(found) if mode == "nearest" else found

    def folded(place: Any, extent: Any) -> Any:
        low = 0.0 if align_corners else -0.5
        span = (extent - 1.0) if align_corners else extent * 1.0
        off = tl.abs(place - low)
        turns = tl.floor(off / span)
        rest = off - turns * span
        even = turns - 2.0 * tl.floor(turns / 2.0) < 0.5
        return tl.select(even, rest + low, span - rest + low)

    def read(at: tuple[Any, ...], places: tuple[Any, ...]) -> Any:
        index, inside = [], None
        for place, extent in zip(places, spatial, strict=True):
            size = length(extent)
            found = folded(place, size) if padding_mode == "reflection" and (extent != 1 or not align_corners) else place
            here = (found >= 0.0) & (found <= size - 1.0)
            inside = here if inside is None else inside & here
            index.append(tl.clamp(tl.cast(tl.round(found), "int64"), 0, extent - 1))
        value = input[(*at[:2], *index)]
        return tl.select(inside, value, tl.cast(0, input.dtype)) if padding_mode == "zeros" else value

    def body(*at: Any) -> Any:
        spots = [spot(axis, at) for axis in range(axes)]
        if mode == "nearest":
            return read(at, tuple(spots))
        if mode == "linear" and padding_mode == "reflection":
            spots = [place if extent == 1 else folded(place, length(extent)) for place, extent in zip(spots, spatial, strict=True)]
        low = [tl.floor(place) for place in spots]
        taps = range(2) if mode == "linear" else range(-1, 3)
        total: Any = None
        for offsets in itertools.product(taps, repeat=axes):
            weight: Any = None
            for place, floor, offset in zip(spots, low, offsets, strict=True):
                own = _weight(tl.abs(place - floor - float(offset)), mode)
                weight = own if weight is None else weight * own
            term = read(at, tuple(floor + float(offset) for floor, offset in zip(low, offsets, strict=True))) * tl.cast(weight, input.dtype)
            total = term if total is None else total + term
        return total

    made: tl.Tensor = tl.compute((*input.shape[:2], *grid.shape[1:-1]), body, name="grid_sample")
    return made


def _weight(x: Any, mode: str) -> Any:
    """The weight of a pixel at a distance."""
    if mode == "linear":
        return 1.0 - x
    near = ((_CUBIC + 2.0) * x - (_CUBIC + 3.0)) * x * x + 1.0
    far = ((_CUBIC * x - 5.0 * _CUBIC) * x + 8.0 * _CUBIC) * x - 4.0 * _CUBIC
    return tl.select(x <= 1.0, near, far)


def deform_conv2d(
    input: tl.Tensor, weight: tl.Tensor, offset: tl.Tensor, bias: tl.Tensor | None = None, mask: tl.Tensor | None = None,
    stride: Pair = (1, 1), padding: Pair = (0, 0), dilation: Pair = (1, 1), groups: int = 1,
) -> tl.Tensor:  # fmt: skip
    """A convolution whose taps are moved, as torchvision's: (N, C, H, W), (O, C/groups, R, S) -> (N, O, Y, X).

    `offset` is (N, G * R * S * 2, Y, X), vertical and horizontal for each tap, `mask` a factor for each, (N, G * R * S, Y, X), for G groups
    of channels. Between pixels it is bilinear, outside 0.
    """
    (n, channels, *extents), (o, share, rows, columns) = input.shape, weight.shape
    taps: Any = rows * columns
    if channels != share * groups or o % groups or offset.shape[1] % (2 * taps) or channels % (offset.shape[1] // (2 * taps)):
        raise tl.DefinitionError(f"deform_conv2d: {input!r}, {weight!r} and {offset!r} do not fit {groups} groups")
    each, shape = channels // (offset.shape[1] // (2 * taps)), offset.shape[2:]

    def pixel(b: Any, c: Any, y: Any, x: Any) -> Any:
        inside = (y >= 0.0) & (y <= tl.cast(extents[0] - 1, "float32")) & (x >= 0.0) & (x <= tl.cast(extents[1] - 1, "float32"))
        places = [tl.clamp(tl.cast(one, "int64"), 0, extent - 1) for one, extent in zip((y, x), extents, strict=True)]
        return tl.select(inside, input[b, c, places[0], places[1]], tl.cast(0, input.dtype))

    def sampled(b: Any, c: Any, r: Any, s: Any, i: Any, j: Any) -> Any:
        tap = (c // each) * taps + r * columns + s
        spots = [
            tl.cast(at * step + tapped * gap - pad, offset.dtype) + offset[b, 2 * tap + axis, i, j]
            for axis, (at, tapped, step, gap, pad) in enumerate(zip((i, j), (r, s), stride, dilation, padding, strict=True))
        ]
        low = [tl.floor(spot) for spot in spots]
        value: Any = 0.0
        for up, right in itertools.product((0.0, 1.0), repeat=2):
            near = (1.0 - tl.abs(spots[0] - low[0] - up)) * (1.0 - tl.abs(spots[1] - low[1] - right))
            value = value + near * pixel(b, c, low[0] + up, low[1] + right)
        return value if mask is None else value * mask[b, tap, i, j]

    taken: tl.Tensor = tl.compute((n, channels, rows, columns, *shape), sampled, name="deform_taken")
    over = tuple(tl.reduce_axis(extent, name=name) for extent, name in zip((share, rows, columns), "crs", strict=True))

    def body(b: Any, f: Any, i: Any, j: Any) -> Any:
        c, r, s = over
        first = 0 if groups == 1 else (f // (o // groups)) * share
        return tl.sum(taken[b, first + c, r, s, i, j] * weight[f, c, r, s], axis=over)

    made: tl.Tensor = tl.compute((n, o, *shape), body, name="deform_conv2d")
    if bias is None:
        return made
    whole: tl.Tensor = tl.compute(made.shape, lambda b, f, i, j: made[b, f, i, j] + bias[f], name="deform_conv2d_biased")
    return whole


def bucketize(input: tl.Tensor, boundaries: tl.Tensor) -> tl.Tensor:
    """How many boundaries are less than each element: int64, where it belongs among boundaries that are sorted."""
    if len(boundaries.shape) != 1:
        raise tl.DefinitionError(f"bucketize: boundaries have 1 axis, and not those of {boundaries!r}")
    b = tl.reduce_axis(boundaries.shape[0], name="b")

    def body(*at: Any) -> Any:
        return tl.sum(tl.select(boundaries[b] < input[at], tl.cast(1, "int64"), tl.cast(0, "int64")), axis=b)

    made: tl.Tensor = tl.compute(input.shape, body, name="bucketize")
    return made


OPERATORS: Final[tuple[Operator, ...]] = tuple(Operator.of(function) for function in (grid_sample, deform_conv2d, bucketize))
