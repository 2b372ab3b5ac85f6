"""Views: other ways to look at elements that stay where they are. `reshape`, `permute`, `expand` and `slice` are all of them.

`flatten`, `view`, `squeeze`, `unsqueeze` are reshapes, `transpose` and `t` permutations, `select` a slice of one element that is reshaped:
one pattern matches them all. As definitions they say what is where; as rules on strides they say that nothing has to be moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import tensorlang as tl
from tensorlang.graph.ir import Extent
from tensorlang.graph.operator import Axes, Axis, Operator, Sizes
from tensorlang.graph.strided import Strided


def reshape(input: tl.Tensor, shape: Sizes) -> tl.Tensor:
    """The same elements in the same order under other extents, one of which may be -1."""
    if math.prod(input.shape) != math.prod(shape):
        raise tl.DefinitionError(f"{input!r} has another number of elements than the shape {shape}")
    runs = list(_runs([extent for extent in input.shape if extent != 1], [extent for extent in shape if extent != 1]))

    def body(*at: Any) -> tl.Expr:
        axes = iter([axis for axis, extent in zip(at, shape, strict=True) if extent != 1])
        index = [place for old, new in runs for place in _place([next(axes) for _ in new], new, old)]
        places = iter(index)
        found: tl.Expr = input[tuple(0 if extent == 1 else next(places) for extent in input.shape)]
        return found

    made: tl.Tensor = tl.compute(shape, body, name="reshape")
    return made


def _runs(old: list[Extent], new: list[Extent]) -> Iterator[tuple[list[Extent], list[Extent]]]:
    """Neighbouring axes of two shapes that hold the same elements, in pairs as short as can be told."""
    while old or new:
        for length in range(1, len(old) + 1):
            total = math.prod(old[:length])
            found = next((count for count in range(1, len(new) + 1) if math.prod(new[:count]) == total), None)
            if found is not None:
                yield old[:length], new[:found]
                old, new = old[length:], new[found:]
                break
        else:
            yield old, new
            return


def _place(axes: list[Any], new: list[Extent], old: list[Extent]) -> list[Any]:
    """Where in axes `old` the element lies that has the indices `axes` among extents `new`."""
    if len(new) == len(old) == 1:
        return axes
    line: Any = axes[0] if axes else 0
    for axis, extent in zip(axes[1:], new[1:], strict=True):
        line = line * _number(extent) + axis
    places = []
    for position in range(len(old)):
        after = math.prod(old[position + 1 :])
        place = line if position == len(old) - 1 else line // _number(after)
        if position:
            place = place % _number(old[position])
        elif isinstance(old[0], int) and isinstance(after, tl.Dim):
            place = tl.minimum(place, old[0] - 1)  # it is less: of a number of rows that is no dim this cannot be proved
        places.append(place)
    return places


def _number(extent: Extent) -> Any:
    return extent if isinstance(extent, int) else extent.as_expr()


def permute(input: tl.Tensor, dims: Axes) -> tl.Tensor:
    """`result[i, j] = input[j, i]`: axis n of the result is axis `dims[n]` of the input."""
    if sorted(dims) != list(range(len(input.shape))):
        raise tl.DefinitionError(f"{dims} are not the axes of {input!r}, each once")

    def body(*at: Any) -> tl.Expr:
        found: tl.Expr = input[tuple(at[dims.index(axis)] for axis in range(len(dims)))]
        return found

    made: tl.Tensor = tl.compute([input.shape[dim] for dim in dims], body, name="permute")
    return made


def expand(input: tl.Tensor, shape: tuple[Extent, ...]) -> tl.Tensor:
    """Axes of extent 1, and new ones in front, repeated to a shape; -1 keeps an extent."""
    new = len(shape) - len(input.shape)
    wanted = tuple(input.shape[axis - new] if axis >= new and extent == -1 else extent for axis, extent in enumerate(shape))
    if new < 0 or any(own not in (1, extent) for own, extent in zip(input.shape, wanted[new:], strict=True)):
        raise tl.DefinitionError(f"{input!r} cannot be repeated to {wanted}: only axes of extent 1, and new ones in front")

    def body(*at: Any) -> tl.Expr:
        own = at[new:]
        found: tl.Expr = input[tuple(0 if extent == 1 else axis for extent, axis in zip(input.shape, own, strict=True))]
        return found

    made: tl.Tensor = tl.compute(wanted, body, name="expand")
    return made


def slice(input: tl.Tensor, dim: Axis, start: Extent, end: Extent, step: int = 1) -> tl.Tensor:
    """Of an axis the elements `start`, `start + step`, ... before `end`; `0 <= start <= end <=` its extent, `step` is at least 1."""
    numbers = [extent for extent in (0, start, end, input.shape[dim]) if isinstance(extent, int)]
    if numbers != sorted(numbers) or not isinstance(step, int) or step < 1:
        raise tl.DefinitionError(f"elements {start} to {end} by {step} are none of axis {dim} of {input!r}")
    length: Any = (end - start + step - 1) // step

    def body(*at: Any) -> tl.Expr:
        place = at[dim] if step == 1 else at[dim] * step
        found: tl.Expr = input[(*at[:dim], place if isinstance(start, int) and start == 0 else place + _number(start), *at[dim + 1 :])]
        return found

    made: tl.Tensor = tl.compute((*input.shape[:dim], length, *input.shape[dim + 1 :]), body, name="slice")
    return made


def _reshaped(lying: Strided, shape: tuple[int, ...]) -> Strided | None:
    return lying.reshape(shape)


def _expanded(lying: Strided, shape: tuple[int, ...]) -> Strided:
    new = len(shape) - len(lying.shape)
    return lying.expand(tuple(lying.shape[axis - new] if extent == -1 else extent for axis, extent in enumerate(shape)))


def _sliced(lying: Strided, dim: int, start: int, end: int, step: int) -> Strided:
    return lying.slice(dim, start, -(-(end - start) // step), step)


OPERATORS: Final[tuple[Operator, ...]] = (
    Operator.of(reshape, view=_reshaped),
    Operator.of(permute, view=Strided.permute),
    Operator.of(expand, view=_expanded),
    Operator.of(slice, view=_sliced),
)
