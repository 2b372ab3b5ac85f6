"""`einsum`: definitions in Einstein's notation, as `numpy.einsum` writes it.

Each letter is an axis; one that the output does not name is summed over. The result is an ordinary `compute`, whose axes carry the
letters as names.
"""

from __future__ import annotations

import inspect
import re

from tensorlang.definition.expr import Expr, binary
from tensorlang.definition.extent import Extent
from tensorlang.definition.tensor import ReduceAxis, Tensor
from tensorlang.errors import DefinitionError
from tensorlang.language.definitions import compute, reduce_axis
from tensorlang.language.reduction import sum as sum_over

_SPEC = re.compile(r"[A-Za-z]*(,[A-Za-z]*)*(->[A-Za-z]*)?\Z")


def einsum(spec: str, *tensors: Tensor, name: str | None = None) -> Tensor:
    """The sum of products that `spec` spells: `einsum("bik,bkj->bij", A, B)` is a batch of matrix products.

    A letter twice in one operand reads its diagonal. Without `->` the output has the letters that stand once, in alphabetical order.
    Types follow `tl.sum` where a letter is summed over, else the product.
    Raises `DefinitionError` for a notation that is not of this form, or tensors that do not fit it.
    """
    inputs, output = _letters(spec, len(tensors))
    extents: dict[str, tuple[Extent, Tensor]] = {}
    for letters, tensor in zip(inputs, tensors, strict=True):
        if not isinstance(tensor, Tensor):
            raise DefinitionError(f"einsum {spec!r}: an operand must be a tensor, not {tensor!r:.60}")
        if tensor.ndim != len(letters):
            raise DefinitionError(f"einsum {spec!r}: {letters!r} names {len(letters)} axes, but {tensor!r} has {tensor.ndim}")
        for letter, extent in zip(letters, tensor.shape, strict=True):
            known, other = extents.setdefault(letter, (extent, tensor))
            if known != extent:
                raise DefinitionError(f"einsum {spec!r}: {letter} is {known} in {other!r} but {extent} in {tensor!r}")
    for letter in output:
        if letter not in extents:
            raise DefinitionError(f"einsum {spec!r}: the output axis {letter} is in no operand")
    reduced = {letter: reduce_axis(extent, name=letter) for letter, (extent, _) in extents.items() if letter not in output}

    def body(*axes: Expr) -> Expr:
        at: dict[str, Expr] = {**reduced, **dict(zip(output, axes, strict=True))}
        product: Expr | None = None
        for letters, tensor in zip(inputs, tensors, strict=True):
            element = tensor[tuple(at[letter] for letter in letters)]
            product = element if product is None else binary("mul", product, element)
        assert product is not None
        return sum_over(product, axis=_axes(reduced)) if reduced else product

    body.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # the parameters name the axes
        [inspect.Parameter(letter, inspect.Parameter.POSITIONAL_ONLY) for letter in output]
    )
    result: Tensor = compute(tuple(extents[letter][0] for letter in output), body, name=name)
    return result


def _axes(reduced: dict[str, ReduceAxis]) -> tuple[ReduceAxis, ...]:
    return tuple(reduced.values())


def _letters(spec: object, operands: int) -> tuple[list[str], str]:
    """The letters of each operand and of the output."""
    plain = spec.replace(" ", "") if isinstance(spec, str) else ""
    if not isinstance(spec, str) or not _SPEC.match(plain):
        hint = "; write a letter for each axis that ... stands for" if "..." in plain else ""
        raise DefinitionError(f"einsum takes letters, commas and one ->, as in 'ik,kj->ij', not {spec!r:.60}{hint}")
    left, arrow, output = plain.partition("->")
    inputs = left.split(",")
    if len(inputs) != operands or not operands:
        raise DefinitionError(f"einsum {spec!r} names {len(inputs)} operands and is given {operands}")
    if not arrow:
        output = "".join(sorted(letter for letter in set(left) - {","} if left.count(letter) == 1))
    if len(set(output)) != len(output):
        raise DefinitionError(f"einsum {spec!r}: an output axis is named twice")
    return inputs, output
