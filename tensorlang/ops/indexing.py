"""Reading at computed places: `embedding` (rows of a table) and `resize2d` (an image at another size)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

from tensorlang.definition.elementary import clamp, maximum, minimum, select
from tensorlang.definition.expr import Expr, as_expr, cast
from tensorlang.definition.extent import Dim, Extent
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import DefinitionError
from tensorlang.language.reduction import accumulator
from tensorlang.ops.arguments import define, flag, floating, index_names, need, one_of, pair, wide


def embedding(input: Tensor, weight: Tensor, name: str | None = "embedding") -> Tensor:
    """`y[..., d] = weight[clamp(input[...], 0, V - 1), d]`: indices (...), table (V, D) -> (..., D).

    An index outside the table reads its first or last row; a table that turns out to have none is read as zeros.
    Raises `DefinitionError` where the indices are no integers.
    """
    input, weight = need("embedding", "input", input, least=0), need("embedding", "weight", weight, 2)
    if not input.dtype.is_integer:
        raise DefinitionError(f"embedding: input must be integers, but is {input!r}")
    rows = weight.shape[0]

    def element(at: tuple[Expr, ...]) -> Expr:
        return _where_any(weight[clamp(cast(input[at[:-1]], "int64"), 0, rows - 1), at[-1]], rows)

    return define((*input.shape, weight.shape[1]), (*index_names(input.ndim), "d"), element, name)


def _where_any(value: Expr, *extents: Extent) -> Expr:
    """`value`, or 0 where one of the extents turns out to be 0 when the kernel is called."""
    tests = [extent.as_expr() > 0 for extent in extents if isinstance(extent, Dim)]
    return select(functools.reduce(operator.and_, tests), value, 0) if tests else value


def _kept(index: Expr, extent: Extent, size: Extent) -> Expr:
    """A position of `size` ones among `extent`, which it never leaves; with dims no proof says so."""
    return index if isinstance(extent, int) and isinstance(size, int) else clamp(index, 0, extent - 1)


def _size(size: object) -> tuple[Extent, Extent]:
    """The extents of a result: ints of at least 1, or dims."""
    entries = size if isinstance(size, (tuple, list)) else (size, size)
    if len(entries) == 2 and any(isinstance(entry, Dim) for entry in entries):
        down, across = (entry if isinstance(entry, Dim) else pair("resize2d", "size", entry, 1)[0] for entry in entries)
        return down, across
    return pair("resize2d", "size", size, 1)


def resize2d(
    input: Tensor,
    size: Extent | tuple[Extent, Extent],
    mode: str = "nearest",
    align_corners: bool = False,
    layout: str = "NCHW",
    name: str | None = "resize2d",
) -> Tensor:
    """The image at another `size` (height, width): (N, C, H, W) -> (N, C, Y, X), as `torch.nn.functional.interpolate`.

    `nearest` reads `y * H // Y`. `bilinear` weighs the four neighbours of `(y + 1/2) H / Y - 1/2`, or of `y (H - 1) / (Y - 1)` with
    `align_corners`. Positions are computed in integers, so they are exact at every size. Extents may be dims, old and new ones; an image
    that turns out to be empty is read as zeros.
    Raises `DefinitionError` for a size that is none, an empty image, and for bilinear elements that are not floating point.
    """
    op = "resize2d"
    input, layout = need(op, "input", input, 4), one_of(op, "layout", layout, "NCHW", "NHWC")
    first = layout == "NCHW"
    mode = one_of(op, "mode", mode, "nearest", "bilinear")
    corners = flag(op, "align_corners", align_corners)
    down, across = _size(size)
    height, width = input.shape[2:] if first else input.shape[1:3]
    if 0 in (height, width):
        raise DefinitionError(f"{op}: there is nothing to read in {input!r}")

    def read(at: tuple[Expr, ...], v: Expr, u: Expr) -> Expr:
        return _where_any(input[at[0], at[1], v, u] if first else input[at[0], v, u, at[3]], height, width)

    def place(at: tuple[Expr, ...]) -> tuple[Expr, Expr]:
        return (at[2], at[3]) if first else (at[1], at[2])

    element: Callable[[tuple[Expr, ...]], Expr]
    if mode == "nearest":

        def element(at: tuple[Expr, ...]) -> Expr:
            y, x = place(at)
            return read(at, _kept(y * height // as_expr(down), height, down), _kept(x * width // as_expr(across), width, across))

    else:
        floating(op, "input", input)
        precise = accumulator(input.dtype)

        def element(at: tuple[Expr, ...]) -> Expr:
            y, x = place(at)
            top, bottom, v = _between(y, height, down, corners)
            left, right, u = _between(x, width, across, corners)
            v, u = cast(v, precise), cast(u, precise)
            above = wide(read(at, top, left)) * (1.0 - u) + wide(read(at, top, right)) * u
            below = wide(read(at, bottom, left)) * (1.0 - u) + wide(read(at, bottom, right)) * u
            return cast(above * (1.0 - v) + below * v, input.dtype)

    shape = (*input.shape[:2], down, across) if first else (input.shape[0], down, across, input.shape[3])
    return define(shape, ("n", "c", "y", "x") if first else ("n", "y", "x", "c"), element, name)


def _between(position: Expr, extent: Extent, size: Extent, align_corners: bool) -> tuple[Expr, Expr, Expr]:
    """The two neighbours of a position, and the weight of the second (float64, to be rounded)."""
    denominator: Extent | Expr
    if align_corners:
        numerator = position * (extent - 1)
        denominator = max(1, size - 1) if isinstance(size, int) else maximum((size - 1).as_expr(), 1)
    else:
        numerator, denominator = maximum((position * 2 + 1) * extent - size, 0), 2 * size
    place = numerator // denominator
    lower, upper = _kept(place, extent, size), minimum(_kept(place + 1, extent, size), extent - 1)
    part = float(denominator) if isinstance(denominator, int) else cast(as_expr(denominator), "float64")
    return lower, upper, cast(numerator % denominator, "float64") / part
