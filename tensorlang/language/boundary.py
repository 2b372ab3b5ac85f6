"""`pad`: boundary conditions as a tensor, in five modes of `numpy.pad`."""

from __future__ import annotations

from typing import Any

from tensorlang.algebra.bounds import values
from tensorlang.definition.elementary import clamp, select
from tensorlang.definition.expr import Expr, ExprLike, as_expr
from tensorlang.definition.extent import Extent, choice
from tensorlang.definition.tensor import Tensor, as_tensor
from tensorlang.errors import DefinitionError
from tensorlang.language.definitions import compute

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def pad(tensor: Tensor, widths: object, mode: str = "constant", value: ExprLike = 0, name: str | None = None) -> Tensor:
    """`tensor` extended on both sides of each axis: `widths` is a pair (before, after) for each axis, one for all, or one int; all >= 0.

    The modes are those of `numpy.pad`: `constant` (with `value`; 0 is False among bools), `edge`, `reflect` (without the edge), `symmetric`
    (with it) and `wrap`; what is wider than the axis is mirrored again, as there, where its extent is a literal. Raises `DefinitionError`
    for another mode, or other widths.
    """
    choice(mode, "pad mode", MODES)
    as_tensor(tensor, "what pad extends")
    if tensor.dtype == "bool" and type(value) is int and value in (0, 1):
        value = bool(value)
    pairs = _pairs(widths, tensor)
    shape = tuple(before + extent + after for (before, after), extent in zip(pairs, tensor.shape, strict=True))
    if name is None and tensor.name is not None:
        name = f"{tensor.name}_pad"

    def body(*i: Expr) -> Expr:
        shifted = [axis - before if before else axis for axis, (before, _) in zip(i, pairs, strict=True)]
        if mode != "constant":
            return tensor[tuple(_inner(mode, at, extent, pair) for at, extent, pair in zip(shifted, tensor.shape, pairs, strict=True))]
        inside: Expr | None = None
        for at, extent, (before, after) in zip(shifted, tensor.shape, pairs, strict=True):
            for needed, test in ((before, at >= 0), (after, at < _expr(extent))):
                if needed:
                    inside = test if inside is None else inside & test
        element = tensor[tuple(shifted)] if inside is None else None
        return element if element is not None else select(inside, _read(tensor, shifted), value)

    return compute(shape, body, name=name)  # type: ignore[no-any-return]


def _read(tensor: Tensor, index: list[Expr]) -> Expr:
    return tensor[tuple(index)]


def _expr(extent: Extent) -> Expr:
    return as_expr(extent)


def _inner(mode: str, at: Expr, extent: Extent, pair: tuple[int, int]) -> Expr:
    """The index inside the tensor that a padded index stands for."""
    if pair == (0, 0):
        return at
    size = _expr(extent) if not isinstance(extent, int) else extent
    last = size - 1
    if mode == "edge":
        return clamp(at, 0, last)
    if mode == "wrap":
        least = extent if isinstance(extent, int) else values(extent.node)[0]
        if isinstance(extent, int) or least < max(pair):
            return at % size
        return select(at < 0, at + size, select(at >= size, at - size, at))
    twice = int(mode == "symmetric")  # the edge stands twice
    if isinstance(extent, int) and 0 < extent < max(pair) + 1 - twice:  # mirrored again and again
        period = max(2 * (last + twice), 1)
        within = at % period
        return select(within > last, period - twice - within, within)
    return select(at < 0, -at - twice, select(at > last, 2 * last + twice - at, at))


def _pairs(widths: object, tensor: Tensor) -> list[tuple[int, int]]:
    entries: list[Any] = list(widths) if isinstance(widths, (tuple, list)) else [widths, widths]
    if len(entries) == 2 and all(isinstance(width, int) for width in entries):  # as NumPy: the same for every axis
        entries = [entries] * tensor.ndim
    good = len(entries) == tensor.ndim and all(
        isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(width, int) and width >= 0 for width in pair)
        for pair in entries
    )
    if not good:
        raise DefinitionError(
            f"pad widths of {tensor!r} must be a pair (before, after) of ints >= 0 for each of its {tensor.ndim} axes, not {widths!r:.60}"
        )
    return [(int(before), int(after)) for before, after in entries]
