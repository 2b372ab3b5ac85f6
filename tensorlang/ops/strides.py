"""Operands and results that lie in memory otherwise than in C order: transposed, sliced, repeated, a part of something larger.

Strides say how far apart neighbours along each axis are, in elements. A strided operand is the beginning of an array in C order with its
axes in another order, whose rows may go on beyond what is read:

    B[k, j] with strides (1, 512)       is  B'[j, k] of 512 columns           transposed
    X[i, c] with strides (1024, 1)      is  X'[i, c] of 1024 columns          a slice of columns, a part of a concatenation
    X[i] with strides (2,)              is  X'[i, 0] of rows of 2             every other one
    X[i, c] with strides (0, 1)         is  X'[c]                             repeated

So the program is rewritten to read X', and everything behind it sees loops over arrays in C order: which access is contiguous, what a
tile covers, what is packed. A result is written to such an array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Final, TypeAlias

from tensorlang import ir
from tensorlang.definition.tensor import Placeholder, Stage, Tensor, definitions, fresh_axis, operands, serial, with_steps
from tensorlang.errors import DefinitionError, did_you_mean
from tensorlang.ops.arguments import define, index_names
from tensorlang.ops.replacing import Index, Places, replaced

Strides: TypeAlias = tuple[int, ...]

MOST: Final = 1 << 48


@dataclass(frozen=True, slots=True)
class Placement:
    """How a tensor is found in an array in C order: its axes from the outermost on, and the extents of what it is a part of.

    `spread`: neighbours along the last axis are not neighbours in memory, and the array has an axis more.
    """

    axes: tuple[int, ...]
    shape: tuple[ir.Expr, ...]
    allocated: tuple[ir.Expr, ...]
    spread: bool

    def index(self, index: Index) -> Index:
        """Where an element is."""
        return (*(index[axis] for axis in self.axes), *((ir.const(0),) if self.spread else ()))


def placement(shape: tuple[ir.Expr, ...], strides: Strides, what: str, *, written: bool) -> Placement:
    """How elements with these strides are found. Raises `DefinitionError` for strides that no array in C order has."""
    sizes = [int(extent.value) if isinstance(extent, ir.Const) else None for extent in shape]
    single = [axis for axis, size in enumerate(sizes) if size == 1]
    moving = [axis for axis in range(len(shape)) if axis not in single and (written or strides[axis])]
    moving.sort(key=lambda axis: -strides[axis])
    lies = f"{what}: strides {strides} for shape ({', '.join(map(str, ('n' if size is None else size for size in sizes)))})"
    held: list[ir.Expr] = [shape[moving[0]]] if moving else []
    for outer, inner in pairwise(moving):
        size, step = sizes[inner], strides[inner]
        if size is None:
            raise DefinitionError(f"{lies}: an extent known only at run time has to be that of the longest stride")
        if not step or strides[outer] % step or strides[outer] // step < size:
            raise DefinitionError(
                f"{lies}: rows of an array follow each other at a multiple of their elements' distance, and do not overlap"
            )
        held.append(ir.const(strides[outer] // step))
    last = strides[moving[-1]] if moving else 1
    if not last:
        raise DefinitionError(f"{lies}: elements that are written have places of their own")
    axes, spread = (*single, *moving), last > 1
    extents = (*(shape[axis] for axis in axes), *((ir.const(1),) if spread else ()))
    allocated = (*(ir.const(1) for _ in single), *held, *((ir.const(last),) if spread else ()))
    return Placement(axes, extents, () if allocated == extents else allocated, spread)


def checked(strides: object, known: Mapping[str, Tensor]) -> dict[str, Strides]:
    """Strides by the names of operands and results. Raises `DefinitionError` for anything else."""
    if not isinstance(strides, Mapping):
        raise DefinitionError(f"strides= is a dict from names to strides in elements, as {{'B': (1, 512)}}, not {strides!r:.60}")
    found: dict[str, Strides] = {}
    for name, steps in strides.items():
        if name not in known:
            raise DefinitionError(f"strides=: there is no operand or result {name!r:.60}{did_you_mean(str(name), list(known))}")
        rank = known[name].ndim
        if not isinstance(steps, (tuple, list)) or len(steps) != rank or not all(type(step) is int and 0 <= step < MOST for step in steps):
            raise DefinitionError(f"strides= of {name!r} are {rank} numbers of elements from 0 on, one for each axis, not {steps!r:.60}")
        found[name] = tuple(steps)
    return found


def checked_over(
    over: object, results: Mapping[str, Tensor], operands: Mapping[str, Tensor], strides: Mapping[str, Strides]
) -> dict[str, str]:
    """Operands by the names of the results that may lie over them: of the same shape, size of element and strides.

    Raises `DefinitionError` for anything else.
    """
    if not isinstance(over, Mapping):
        raise DefinitionError(f"over= is a dict from results to operands, as {{'C': 'A'}}, not {over!r:.60}")
    for name, below in over.items():
        if name not in results:
            raise DefinitionError(f"over=: there is no result {name!r:.60}{did_you_mean(str(name), list(results))}")
        if not isinstance(below, str) or below not in operands:
            raise DefinitionError(f"over=: there is no operand {below!r:.60}{did_you_mean(str(below), list(operands))}")
        upper, lower = results[name], operands[below]
        same = upper.extents == lower.extents and upper.dtype.bytes == lower.dtype.bytes
        if not same or strides.get(name, in_order(upper)) != strides.get(below, in_order(lower)):
            raise DefinitionError(f"over=: {name!r} and {below!r} differ in shape, size of an element, or strides: {upper!r}, {lower!r}")
    if len(set(over.values())) < len(over):
        raise DefinitionError("over=: two results cannot lie over one operand")
    return dict(over)


def in_order(tensor: Tensor) -> Strides | None:
    """The strides of a tensor in C order; None where a call tells them."""
    inner = [extent for extent in tensor.shape[1:] if isinstance(extent, int)]
    return tuple(prod(inner[axis:]) for axis in range(tensor.ndim)) if len(inner) == len(tensor.shape[1:]) else None


def strided(
    outputs: tuple[Tensor, ...], operand: Mapping[Tensor, Strides], result: Mapping[int, Strides], over: Mapping[int, Tensor]
) -> tuple[Places, tuple[Tensor, ...]]:
    """The program whose operands, and whose results by their places, lie with these strides, some results over operands.

    Also what became of the operands. Raises `DefinitionError` for strides that no array has, and for an operand that a scan or a scatter
    starts from.
    """
    places: Places = {}
    moves: dict[int, Callable[[Index], Index]] = {}
    for tensor, steps in operand.items():
        definition = tensor.definition
        assert isinstance(definition, Placeholder)
        found = placement(definition.shape, steps, f"operand {definition.name!r}", written=False)
        lying = replace(definition, shape=found.shape, allocated=found.allocated)
        places[id(definition), 0] = Tensor(lying)
        moves[id(definition)] = found.index
    made = replaced(outputs, dict(places), moves) if places else outputs
    below = {at: places.get((id(tensor.definition), 0), tensor) for at, tensor in over.items()}
    written = {*result, *below}
    return places, tuple(
        _written(tensor, result.get(at), below.get(at), made) if at in written else tensor for at, tensor in enumerate(made)
    )


def _written(output: Tensor, steps: Strides | None, over: Tensor | None, outputs: tuple[Tensor, ...]) -> Tensor:
    """An output that lies with these strides: its own definition where nothing else reads it, else a copy."""
    definition = output.definition
    read = any(tensor.definition is definition for other in with_steps(definitions(outputs)) for tensor in operands(other))
    if not isinstance(definition, Stage) or len(definition.values) > 1 or definition.itself or definition.within or read:
        copy = define(output.shape, index_names(output.ndim), lambda at: output[at], output.name).definition
        assert isinstance(copy, Stage)
        definition = copy
    made = replace(definition, over=over, order=serial())
    if steps is None:
        return Tensor(made)
    found = placement(output.extents, steps, f"result {output.name!r}", written=True)
    axes = (*(definition.axes[axis] for axis in found.axes), *((fresh_axis(""),) if found.spread else ()))
    return Tensor(replace(made, axes=axes, shape=found.shape, allocated=found.allocated))
