"""From definitions to the obvious loop nest: names, arguments and storage; `lowering` makes the loops.

Names are given here: those of `definition.naming` to tensors, `r0, r1, ...` to unnamed reduction axes, `_1, _2, ...` to a second axis of
one name; nothing depends on a process-wide counter. Operands bound by `tl.buffer` are arguments of the nest like placeholders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy.typing as npt

from tensorlang import ir
from tensorlang.definition.extent import dims_in, limits, products
from tensorlang.definition.naming import tensor_names
from tensorlang.definition.tensor import (
    Definition,
    Placeholder,
    Scan,
    Stage,
    State,
    Tensor,
    as_inputs,
    as_outputs,
    components,
    definitions,
    operands,
    with_steps,
)
from tensorlang.errors import DefinitionError
from tensorlang.ir import Buffer, Expr, For, Nest, Stmt, allocate, block
from tensorlang.ir.mentions import DEEPEST
from tensorlang.ir.traverse import expressions, statements, substatements
from tensorlang.lowering.nests import ProgramLowering, TensorStorage

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class LoweredProgram:
    """A program and its unscheduled nest, made once for everything that is made of it: schedules, kernels, their keys and reports.

    `inputs` is the order of arguments that was asked for, if any; `storage` the intermediates of the nest; `bound` the arrays of operands
    that `tl.buffer` bound, by the names of their arguments; `pinned` are stages that
    stay where they are. A nest that no definition stands behind has no outputs.
    """

    nest: Nest
    outputs: tuple[Tensor, ...] = ()
    inputs: tuple[Tensor, ...] | None = None
    storage: tuple[Buffer, ...] = ()
    bound: Mapping[str, Array] = field(default_factory=dict)
    pinned: frozenset[str] = frozenset()

    def function(self, name: str | None = None, inputs: Sequence[Tensor] | None = None) -> Nest:
        """The nest under another name, or with its arguments in another order. Raises `DefinitionError` as `lower_program` does."""
        nest = self.nest if name is None else replace(self.nest, name=name)
        return nest if inputs is None else _function(nest.name, _Tensors.of(self.outputs, inputs), nest.body, self.storage)


def lower_program(outputs: object, name: str | None = None, inputs: Sequence[Tensor] | None = None) -> LoweredProgram:
    """A program with its unscheduled nest.

    `outputs` are tensors, `name` names the kernel (default: the first output), `inputs` overrides the order of arguments (default:
    the placeholders in the order in which they were created). Raises `DefinitionError` where an output is a placeholder or stands
    twice, `inputs` leaves out a placeholder that is read, or takes what is none, a dim has two pairs of bounds, or too many loops stand in
    one another.
    """
    if name is not None and not isinstance(name, str):
        raise DefinitionError(f"{name!r:.60} cannot name a kernel; use letters, digits and _")
    results = as_outputs(outputs)
    tensors = _Tensors.of(results, inputs)
    lowering = ProgramLowering(tensors.names, dict(tensors.places))
    body = block(*(part for definition in tensors.program for part in lowering.definition(definition)))
    if (deep := _depth(body)) > DEEPEST:
        raise DefinitionError(f"{deep} loops stand in one another (at most {DEEPEST}): compute sums within sums in stages of their own")
    storage = tuple(lowering.scratch)
    nest = _function(name or tensors.outputs[0].name, tensors, allocate(storage, body), storage)
    bound = {
        tensors.names[definition]: definition.array
        for definition in tensors.program
        if isinstance(definition, Placeholder) and definition.array is not None
    }
    return LoweredProgram(nest, results, as_inputs(inputs), storage, bound)


def _depth(body: Stmt) -> int:
    """How many loops stand in one another, found without standing in them, since there may be too many (else `Mentions.depth`)."""
    found, stack = 0, [(body, 0)]
    while stack:
        stmt, depth = stack.pop()
        depth += isinstance(stmt, For)
        found = max(found, depth)
        stack += [(part, depth) for part in substatements(stmt)]
    return found


@dataclass(frozen=True, slots=True)
class _Tensors:
    """The definitions of a program, their names, where their tensors are stored, and the arguments in order."""

    program: tuple[Definition, ...]
    names: dict[Definition, str]
    places: dict[tuple[int, int], TensorStorage]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]

    @classmethod
    def of(cls, results: tuple[Tensor, ...], inputs: Sequence[Tensor] | None) -> _Tensors:
        """Named and placed. Raises `DefinitionError`."""
        program = definitions(results)
        unread = _unread(program, inputs)
        names = tensor_names(program, unread)
        for position, tensor in enumerate(results):
            if isinstance(tensor.definition, Placeholder):
                raise DefinitionError(f"output {names[tensor.definition]!r} is a placeholder; define what to compute from it")
            if any((tensor.definition, tensor.component) == (other.definition, other.component) for other in results[:position]):
                raise DefinitionError(f"output {names[tensor.definition]!r} is given twice")
        arguments = _arguments(program, inputs, names)
        places = _places((*program, *unread), names, {(id(tensor.definition), tensor.component) for tensor in results})
        ins = tuple(places[id(definition), 0].buffer for definition in arguments)
        outs = tuple(places[id(tensor.definition), tensor.component].buffer for tensor in results)
        return cls(program, names, places, ins, outs)


def _function(name: str, tensors: _Tensors, body: Stmt, storage: tuple[Buffer, ...]) -> Nest:
    """The nest of a program's loops, with its arguments, its dims and what is known of them."""
    dims = _dims(tensors.inputs, tensors.outputs, body)
    sizes = [extent for buffer in (*tensors.inputs, *tensors.outputs, *storage) for extent in buffer.shape]
    sizes += [part.hi for part in statements(body) if isinstance(part, For)]
    return Nest(name, tensors.inputs, tensors.outputs, tuple(dims), body, limits=limits(dims.values()), products=products(sizes))


def _unread(program: tuple[Definition, ...], inputs: Sequence[Tensor] | None) -> tuple[Placeholder, ...]:
    """The arguments that the program does not read."""
    read = {id(definition) for definition in program}
    given = (tensor.definition for tensor in as_inputs(inputs) or ())
    return tuple(definition for definition in given if isinstance(definition, Placeholder) and id(definition) not in read)


def _arguments(program: tuple[Definition, ...], inputs: Sequence[Tensor] | None, names: dict[Definition, str]) -> list[Placeholder]:
    found = [definition for definition in program if isinstance(definition, Placeholder)]
    order = as_inputs(inputs)
    if order is None:
        return found
    given = [tensor.definition for tensor in order if isinstance(tensor.definition, Placeholder)]
    for definition in found:
        if definition.array is None and definition not in given:
            raise DefinitionError(f"inputs= leaves out {names[definition]!r}, which the outputs read")
    return [*given, *(definition for definition in found if definition.array is not None)]


def _places(
    program: tuple[Definition, ...], names: dict[Definition, str], results: set[tuple[int, int]]
) -> dict[tuple[int, int], TensorStorage]:
    """Where tensors are stored, but for what a scan keeps last and nothing reads."""
    found: dict[tuple[int, int], TensorStorage] = {}
    every = with_steps(program)
    read = results | _read(every)
    for definition in every:
        if isinstance(definition, State):
            continue
        name, count = names[definition], components(definition)
        for component in range(count):
            if isinstance(definition, Scan) and definition.keep[component] == "last" and (id(definition), component) not in read:
                continue
            tensor = Tensor(definition, component)
            label = name if count == 1 else f"{name}_{component}"
            argument = isinstance(definition, Placeholder) or (id(definition), component) in results
            allocated = definition.allocated if argument and isinstance(definition, (Placeholder, Stage)) else ()
            below = definition.over if argument and isinstance(definition, Stage) else None
            over = "" if below is None else names[below.definition]
            found[id(definition), component] = TensorStorage(
                Buffer(label, tensor.extents, tensor.dtype, "argument" if argument else "auto", allocated=allocated, over=over)
            )
    return found


def _read(every: tuple[Definition, ...]) -> set[tuple[int, int]]:
    """The tensors that definitions read, and the next states of scans."""
    found = [tensor for definition in every for tensor in operands(definition)]
    found += [tensor for definition in every if isinstance(definition, Scan) for tensor in definition.following]
    return {(id(tensor.definition), tensor.component) for tensor in found}


def _dims(inputs: tuple[Buffer, ...], outputs: tuple[Buffer, ...], body: Stmt) -> dict[str, ir.Dim]:
    roots: list[Expr] = [extent for buffer in (*inputs, *outputs) for extent in buffer.shape]
    roots += [expr for part in statements(body) for expr in expressions(part)]
    return dims_in(roots)
