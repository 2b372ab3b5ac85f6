"""Index expressions before and after an operator: one definition of all, for which there is one kernel.

`epilogued(C, lambda c, i, j: tl.maximum(c + bias[j], 0.0))` computes from every element of a result, at its place; `prologued` the same
from every element that is read of an operand. Neither changes a shape; what they read besides are further operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from tensorlang.definition.tensor import (
    Placeholder,
    Stage,
    Tensor,
    as_outputs,
    definitions,
)
from tensorlang.errors import DefinitionError, did_you_mean
from tensorlang.ir.printer import short
from tensorlang.language.definitions import require_takes
from tensorlang.ops.arguments import define, index_names
from tensorlang.ops.replacing import Places, replaced
from tensorlang.ops.spec import Spec

Element: TypeAlias = Callable[..., Any]
"""From an element and the axes of its place to an expression, or a tuple of several."""

_OUT: Final = "out"


class Fused(NamedTuple):
    """A program with what is computed before and after; `own` are the operands that it has without that."""

    outputs: tuple[Tensor, ...]
    own: tuple[Tensor, ...]


def fused(asked: object, epilogue: object = None, prologue: object = None) -> Fused:
    """The program of a spec or of tensors with an epilogue and prologues. Raises `DefinitionError`."""
    if isinstance(asked, Spec):
        operands = asked.operands()
        own = {tensor.name or "": tensor for tensor in operands if tensor is not None}
        given = {} if prologue is None else {name: before(own[name], fn) for name, fn in _by_operand(prologue, list(own)).items()}
        outputs: tuple[Tensor, ...] = (asked.result([None if one is None else given.get(one.name or "", one) for one in operands]),)
        found = tuple(own.values())
    else:
        outputs = as_outputs(asked)
        found = placeholders(outputs)
        outputs = outputs if prologue is None else prologued(outputs, prologue)
    return Fused(outputs if epilogue is None else epilogued(outputs, epilogue), found)


def elementwise(tensor: Tensor, fn: object, what: str, name: str | None) -> tuple[Tensor, ...]:
    """`fn(element, *axes)` of each element of a tensor. Raises `DefinitionError` for what is no function, and what `compute` raises."""
    if not callable(fn):
        raise DefinitionError(f"{what} is a function of an element and its axes, as lambda value, i, j: value + bias[j], not {fn!r:.60}")
    axes = _axes(tensor)
    require_takes(fn, (tensor, *axes), f"{what} must be a function of an element and its {len(axes)} axes")
    function: Element = fn
    try:
        made: Any = define(tensor.shape, axes, lambda at: function(tensor[at], *at), name)
    except DefinitionError as error:
        raise DefinitionError(f"{what}: {error}") from None
    return made if isinstance(made, tuple) else (made,)


def _axes(tensor: Tensor) -> tuple[str, ...]:
    """The names of a tensor's axes, where its definition says them."""
    definition = tensor.definition
    names = tuple(map(short, definition.axes)) if isinstance(definition, Stage) else ()
    return names if len(names) == tensor.ndim == len(set(names)) and all(names) else index_names(tensor.ndim)


def epilogued(outputs: tuple[Tensor, ...], fn: object) -> tuple[Tensor, ...]:
    """The program with an epilogue: the results of `fn` for the elements of the only output. Raises `DefinitionError`."""
    if len(outputs) != 1:
        raise DefinitionError(f"epilogue= is a function of the elements of one result, and there are {len(outputs)}")
    (output,) = outputs
    return elementwise(output, fn, "epilogue=", f"{output.name}_{_OUT}" if output.name else None)


def prologued(outputs: tuple[Tensor, ...], prologue: object) -> tuple[Tensor, ...]:
    """The program with prologues by the names of operands: where it reads one, it reads what `fn` makes of it.

    Raises `DefinitionError` for a name that no operand has, and where the type changes: the definition was written for the other one.
    """
    operands_of = {tensor.name: tensor for tensor in placeholders(outputs)}
    places: Places = {}
    for name, fn in _by_operand(prologue, [name for name in operands_of if name]).items():
        operand = operands_of[name]
        made = before(operand, fn)
        if made.dtype != operand.dtype:
            raise DefinitionError(f"the prologue of {operand!r} gives {made.dtype}; convert it with tl.cast to {operand.dtype}")
        places[id(operand.definition), 0] = made
    return replaced(outputs, places)


def before(operand: Tensor, fn: object) -> Tensor:
    """What a prologue makes of an operand. Raises `DefinitionError`, also for several results."""
    made = elementwise(operand, fn, f"the prologue of {operand.name!r}", f"{operand.name}_in" if operand.name else None)
    if len(made) != 1:
        raise DefinitionError(f"the prologue of {operand!r} gives one expression, not {len(made)}")
    return made[0]


def _by_operand(prologue: object, known: list[str]) -> Mapping[str, object]:
    """A mapping from names of operands. Raises `DefinitionError` for anything else."""
    if not isinstance(prologue, Mapping):
        raise DefinitionError(f"prologue= is a dict from names of operands to functions, not {prologue!r:.60}")
    for name in prologue:
        if name not in known:
            raise DefinitionError(f"prologue=: there is no operand {name!r:.60}{did_you_mean(str(name), known)}; there are {known}")
    return prologue


def placeholders(outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The operands of a program in the order in which they were created."""
    return tuple(Tensor(definition) for definition in definitions(outputs) if isinstance(definition, Placeholder))
