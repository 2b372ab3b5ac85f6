"""Reading at computed places: `embedding` (rows of a table) and `resize2d` (an image at another size)."""

from __future__ import annotations

from collections.abc import Callable

from tensorlang.elementary import clamp, maximum, minimum
from tensorlang.errors import DefinitionError
from tensorlang.expr import Expr, cast
from tensorlang.ops.arguments import define, floating, index_names, literal, need, one_of, pair, wide
from tensorlang.reduction import accumulator
from tensorlang.tensor import Tensor


def embedding(input: Tensor, weight: Tensor, name: str | None = "embedding") -> Tensor:
    """`y[..., d] = weight[clamp(input[...], 0, V - 1), d]`: indices (...), table (V, D) -> (..., D).

    An index outside the table reads its first or last row. Raises `DefinitionError` where the indices are no integers.
    """
    input, weight = need("embedding", "input", input, least=0), need("embedding", "weight", weight, 2)
    if not input.dtype.is_integer:
        raise DefinitionError(f"embedding: input must be integers, but is {input!r}")
    last = literal("embedding", "the number of rows of weight", weight.shape[0]) - 1

    def element(at: tuple[Expr, ...]) -> Expr:
        return weight[clamp(cast(input[at[:-1]], "int64"), 0, last), at[-1]]

    return define((*input.shape, weight.shape[1]), (*index_names(input.ndim), "d"), element, name)


def resize2d(
    input: Tensor,
    size: int | tuple[int, int],
    mode: str = "nearest",
    align_corners: bool = False,
    layout: str = "NCHW",
    name: str | None = "resize2d",
) -> Tensor:
    """The image at another `size` (height, width): (N, C, H, W) -> (N, C, Y, X), as `torch.nn.functional.interpolate`.

    `nearest` reads `y * H // Y`. `bilinear` weighs the four neighbours of `(y + 1/2) H / Y - 1/2`, or of `y (H - 1) / (Y - 1)` with
    `align_corners`. Positions are computed in integers, so they are exact at every size.
    Raises `DefinitionError` for extents that are no ints, and for bilinear elements that are not floating point.
    """
    op = "resize2d"
    input, layout = need(op, "input", input, 4), one_of(op, "layout", layout, "NCHW", "NHWC")
    first = layout == "NCHW"
    mode = one_of(op, "mode", mode, "nearest", "bilinear")
    down, across = pair(op, "size", size, 1)
    height = literal(op, "the height", input.shape[2 if first else 1])
    width = literal(op, "the width", input.shape[3 if first else 2])
    if height < 1 or width < 1:
        raise DefinitionError(f"{op}: there is nothing to read in {input!r}")

    def read(at: tuple[Expr, ...], v: Expr, u: Expr) -> Expr:
        return input[at[0], at[1], v, u] if first else input[at[0], v, u, at[3]]

    def place(at: tuple[Expr, ...]) -> tuple[Expr, Expr]:
        return (at[2], at[3]) if first else (at[1], at[2])

    element: Callable[[tuple[Expr, ...]], Expr]
    if mode == "nearest":

        def element(at: tuple[Expr, ...]) -> Expr:
            y, x = place(at)
            return read(at, y * height // down, x * width // across)

    else:
        floating(op, "input", input)
        precise = accumulator(input.dtype)

        def element(at: tuple[Expr, ...]) -> Expr:
            y, x = place(at)
            top, bottom, v = _between(y, height, down, align_corners)
            left, right, u = _between(x, width, across, align_corners)
            v, u = cast(v, precise), cast(u, precise)
            above = wide(read(at, top, left)) * (1.0 - u) + wide(read(at, top, right)) * u
            below = wide(read(at, bottom, left)) * (1.0 - u) + wide(read(at, bottom, right)) * u
            return cast(above * (1.0 - v) + below * v, input.dtype)

    shape = (*input.shape[:2], down, across) if first else (input.shape[0], down, across, input.shape[3])
    return define(shape, ("n", "c", "y", "x") if first else ("n", "y", "x", "c"), element, name)


def _between(position: Expr, extent: int, size: int, align_corners: bool) -> tuple[Expr, Expr, Expr]:
    """The two neighbours of a position, and the weight of the second (float64, to be rounded)."""
    if align_corners:
        numerator, denominator = position * (extent - 1), max(1, size - 1)
    else:
        numerator, denominator = maximum((position * 2 + 1) * extent - size, 0), 2 * size
    lower = numerator // denominator
    return lower, minimum(lower + 1, extent - 1), cast(numerator % denominator, "float64") / float(denominator)
