"""From definitions to the obvious loop nest: names, arguments and storage; `lowering` makes the loops.

Names are given here: those of `definition.naming` to tensors, `r0, r1, ...` to unnamed reduction axes, `_1, _2, ...` to a second axis of
one name; nothing depends on a process-wide counter. Operands bound by `tl.buffer` are arguments of the nest like placeholders.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorlang import ir
from tensorlang.definition.extent import dims_in, limits, products
from tensorlang.definition.naming import tensor_names
from tensorlang.definition.tensor import Definition, Placeholder, State, Tensor, as_inputs, as_outputs, components, definitions, with_steps
from tensorlang.errors import DefinitionError
from tensorlang.ir import Buffer, Expr, For, Nest, Stmt, allocate, block
from tensorlang.ir.traverse import expressions, statements
from tensorlang.lowering.nests import Place, Program


def lower_definition(outputs: object, name: str | None = None, inputs: Sequence[Tensor] | None = None) -> Nest:
    """The unscheduled nest of a program.

    `outputs` are tensors, `name` names the kernel (default: the first output), `inputs` overrides the order of arguments (default:
    the placeholders in the order in which they were created). Raises `DefinitionError` where an output is a placeholder or stands
    twice, `inputs` leaves out a placeholder that is read, or takes what is none, or a dim has two pairs of bounds.
    """
    if name is not None and not isinstance(name, str):
        raise DefinitionError(f"{name!r:.60} cannot name a kernel; use letters, digits and _")
    results = as_outputs(outputs)
    program = definitions(results)
    given = _unread(program, inputs)
    names = tensor_names(program, given)
    for position, tensor in enumerate(results):
        if isinstance(tensor.definition, Placeholder):
            raise DefinitionError(f"output {names[tensor.definition]!r} is a placeholder; define what to compute from it")
        if any((tensor.definition, tensor.component) == (other.definition, other.component) for other in results[:position]):
            raise DefinitionError(f"output {names[tensor.definition]!r} is given twice")
    arguments = _arguments(program, inputs, names)
    places = _places((*program, *given), names, {(id(tensor.definition), tensor.component) for tensor in results})
    lowering = Program(names, places)
    body = block(*(part for definition in program for part in lowering.definition(definition)))
    body = allocate(lowering.scratch, body)
    ins = tuple(places[id(definition), 0].buffer for definition in arguments)
    outs = tuple(places[id(tensor.definition), tensor.component].buffer for tensor in results)
    dims = _dims(ins, outs, body)
    sizes = [extent for buffer in (*ins, *outs, *lowering.scratch) for extent in buffer.shape]
    sizes += [part.hi for part in statements(body) if isinstance(part, For)]
    return Nest(name or outs[0].name, ins, outs, tuple(dims), body, limits=limits(dims.values()), products=products(sizes))


def bound_arrays(outputs: object) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """The arrays of the operands that `tl.buffer` bound, by the names that `lower_definition` gives them."""
    program = definitions(as_outputs(outputs))
    names = tensor_names(program)
    return {
        names[definition]: definition.array
        for definition in program
        if isinstance(definition, Placeholder) and definition.array is not None
    }


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


def _places(program: tuple[Definition, ...], names: dict[Definition, str], results: set[tuple[int, int]]) -> dict[tuple[int, int], Place]:
    found: dict[tuple[int, int], Place] = {}
    for definition in with_steps(program):
        if isinstance(definition, State):
            continue
        name, count = names[definition], components(definition)
        for component in range(count):
            tensor = Tensor(definition, component)
            label = name if count == 1 else f"{name}_{component}"
            argument = isinstance(definition, Placeholder) or (id(definition), component) in results
            found[id(definition), component] = Place(Buffer(label, tensor.extents, tensor.dtype, "argument" if argument else "auto"))
    return found


def _dims(inputs: tuple[Buffer, ...], outputs: tuple[Buffer, ...], body: Stmt) -> dict[str, ir.Dim]:
    roots: list[Expr] = [extent for buffer in (*inputs, *outputs) for extent in buffer.shape]
    roots += [expr for part in statements(body) for expr in expressions(part)]
    return dims_in(roots)
