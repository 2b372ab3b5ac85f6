"""What is asked for, as a program of its own: a spec or tensors, with what is computed before and after.

Two who ask for the same program may call its operands differently and make them in another order. So each program has two orders: that
of a call, which is its caller's, and that of first use, which is the code's. Between them stands a permutation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tensorlang.codegen.cache.signature import Argument, Signature
from tensorlang.codegen.calling.arguments import Array
from tensorlang.definition.first_use import by_first_use
from tensorlang.definition.naming import of_component, tensor_names
from tensorlang.definition.tensor import Placeholder, Tensor, as_inputs, as_outputs
from tensorlang.errors import BuildError, DefinitionError
from tensorlang.ops import fusion, strides
from tensorlang.ops.replacing import Places
from tensorlang.ops.spec import Spec
from tensorlang.serialization import canonical
from tensorlang.system.object_cache import ObjectCache

SPECS: Final = 1024
"""Specs of one process whose definitions, or why there is none, are kept: a large model has two hundred."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A program under its caller's names.

    `arguments` are the operands in the order in which the code takes them: those that a call passes by first use, those that nothing reads,
    then those that are bound to an array. `order` are their places in the order of a call.
    """

    name: str
    outputs: tuple[Tensor, ...]
    fingerprint: str
    arguments: tuple[Tensor, ...]
    order: tuple[int, ...]
    names: tuple[str, ...]
    results: tuple[str, ...]
    dims: tuple[str, ...]
    form: str
    """What decides how the code is called beside the program: operands that nothing reads, bound ones, and the names of dims."""
    seen: tuple[Argument, ...] = ()
    """Operands and results that lie in memory otherwise than in C order, as a call passes them."""

    @property
    def passed(self) -> tuple[Tensor, ...]:
        """The operands that a call passes, in the order in which the code takes them."""
        return tuple(tensor for tensor in self.arguments if _array(tensor) is None)

    def places(self, constants: object) -> tuple[int, ...]:
        """The places of operands by their names. Raises `BuildError` for anything but names of operands that a call passes."""
        names = [name for name, tensor in zip(self.names, self.arguments, strict=True) if _array(tensor) is None]
        if isinstance(constants, str) or not isinstance(constants, (tuple, list, set, frozenset)):
            raise BuildError(f"{self.name}: constants= takes names of operands, as constants=('B',), not {constants!r:.60}")
        for name in constants:
            if name not in names:
                raise BuildError(f"{self.name}: constants= names {name!r:.60}, which is no operand; there are {names}")
        return tuple(sorted({names.index(name) for name in constants}))

    def signature(self, code: Signature) -> Signature:
        """What the code takes, as this caller knows it."""
        found = code.under(self.name, self.names, self.results, self.order)
        seen = {argument.name: argument for argument in self.seen}
        inputs, outputs = (
            tuple(replace(part, shape=own.shape, strides=own.strides) if (own := seen.get(part.name)) else part for part in side)
            for side in (found.inputs, found.outputs)
        )
        return replace(found, inputs=inputs, outputs=outputs)


def wanted(
    asked: object, epilogue: object = None, prologue: object = None, inputs: object = None, layouts: object = None, over: object = None
) -> Wanted:
    """The program of a spec or of tensors; `layouts` are strides by the names of operands and results, `over` operands by results' names.

    Raises `BuildError` for a spec that means nothing, `DefinitionError` for tensors that do not.
    """
    program = _wanted(asked, epilogue, prologue, inputs)
    return (
        program if layouts is None and over is None else _lying(program, {} if layouts is None else layouts, {} if over is None else over)
    )


def _lying(program: Wanted, layouts: object, over: object) -> Wanted:
    """The program with operands and results in another order in memory, or results over operands; a call passes the same.

    Raises `DefinitionError`.
    """
    operands = {name: tensor for name, tensor in zip(program.names, program.arguments, strict=True) if _array(tensor) is None}
    results = dict(zip(program.results, program.outputs, strict=True))
    found = strides.checked(layouts, {**results, **operands})
    ours = {operands[name]: steps for name, steps in found.items() if name in operands}
    theirs = {at: found[name] for at, name in enumerate(program.results) if name in found}
    lying = strides.checked_over(over, results, operands, found)
    read = {id(tensor.definition) for tensor in fusion.placeholders(program.outputs)}
    for name, own in lying.items():
        if id(operands[own].definition) not in read:
            raise DefinitionError(f"over=: nothing reads {own!r}, so that {name!r} may lie there without: leave it out and pass out=")
    below = {program.results.index(name): operands[own] for name, own in lying.items()}
    places, outputs = strides.strided(program.outputs, ours, theirs, below)
    call = [program.arguments[place] for place in program.order if _array(program.arguments[place]) is None]
    made = _of(outputs, (), tuple(places.get((id(tensor.definition), 0), tensor) for tensor in call), program.name)
    everything = {**results, **operands}
    seen = tuple(Argument(name, everything[name].extents, everything[name].dtype, steps) for name, steps in found.items())
    return replace(made, results=program.results, names=_as_before(made, program, places), seen=seen)


def _as_before(made: Wanted, program: Wanted, places: Places) -> tuple[str, ...]:
    """The names that the operands had, in their new order."""
    before = {
        id(places.get((id(tensor.definition), 0), tensor).definition): name
        for name, tensor in zip(program.names, program.arguments, strict=True)
    }
    return tuple(before[id(tensor.definition)] for tensor in made.arguments)


def _wanted(asked: object, epilogue: object, prologue: object, inputs: object) -> Wanted:
    name = asked.operator if isinstance(asked, Spec) else None
    if isinstance(asked, Spec) and prologue is None:
        known = defined(asked)
        if isinstance(known, str):
            raise BuildError(known)
        if epilogue is None and inputs is None:
            return known
        asked = known.outputs
    if epilogue is None and prologue is None:
        return _of(as_outputs(asked), (), inputs, name)
    try:
        outputs, own = fusion.fused(asked, epilogue, prologue)
    except DefinitionError as error:
        if isinstance(asked, Spec):
            raise BuildError(str(error)) from None
        raise
    return _of(outputs, own, inputs, name)


_defined: Final[ObjectCache[Wanted | str]] = ObjectCache(SPECS)


def defined(spec: Spec) -> Wanted | str:
    """The program of a spec, defined once in a process; else why there is none."""
    return _defined.get(spec.text, lambda: _defined_now(spec))


def _defined_now(spec: Spec) -> Wanted | str:
    try:
        result = spec.define()
        return _of((result,), fusion.placeholders((result,)), None, spec.operator)
    except (DefinitionError, OverflowError, MemoryError) as error:
        reason = str(error) or "its extents are too large"
        given = ", ".join(f"{name}={value!r:.40}" for name, value in spec.attributes.items())
        return reason if str(spec.operator) in reason else f"{spec.operator}{f' with {given}' if given else ''}: {reason}"


def _of(outputs: tuple[Tensor, ...], own: tuple[Tensor, ...], inputs: object, name: str | None = None) -> Wanted:
    """The program of outputs, `own` being the operator's operands: a call passes these first."""
    used = by_first_use(outputs)
    program = tuple(sorted(used, key=lambda definition: definition.order))
    operands = [Tensor(part) for part in used if isinstance(part, Placeholder)]
    firsts = {id(tensor.definition) for tensor in own}
    read = [tensor for tensor in operands if _array(tensor) is None]
    order = as_inputs(_named(inputs, operands))
    call = sorted(read, key=lambda tensor: (id(tensor.definition) not in firsts, tensor.definition.order)) if order is None else list(order)
    reached = {id(tensor.definition) for tensor in read}
    given = {id(tensor.definition) for tensor in call}
    unread = [tensor for tensor in call if id(tensor.definition) not in reached]
    names = tensor_names(program, tuple(part for tensor in unread if isinstance(part := tensor.definition, Placeholder)))
    for tensor in read:
        if id(tensor.definition) not in given:
            raise DefinitionError(f"inputs= leaves out {names[tensor.definition]!r}, which the outputs read")
    bound = sorted((tensor for tensor in operands if _array(tensor) is not None), key=lambda tensor: tensor.definition.order)
    arguments = (*read, *unread, *bound)
    places = {id(tensor.definition): place for place, tensor in enumerate(arguments)}
    results = tuple(of_component(names[tensor.definition], tensor.definition, tensor.component) for tensor in outputs)
    fingerprint, dims = canonical.fingerprint_and_dims(outputs, used)
    form = (
        [repr((tensor.shape, str(tensor.dtype))) for tensor in unread],
        [position for tensor in bound for position, other in enumerate(operands) if other.definition is tensor.definition],
        dims,
    )
    return Wanted(
        name or results[0],
        outputs,
        fingerprint,
        arguments,
        tuple(places[id(tensor.definition)] for tensor in (*call, *bound)),
        tuple(names[tensor.definition] for tensor in arguments),
        results,
        dims,
        repr(form),
    )


def _named(inputs: object, operands: list[Tensor]) -> object:
    """The order of a call, with operands for their names: who asks by a spec has no placeholders."""
    if not isinstance(inputs, (tuple, list)):
        return inputs
    by_name = {tensor.name: tensor for tensor in operands if tensor.name}
    return tuple(by_name.get(entry, entry) if isinstance(entry, str) else entry for entry in inputs)


def bound_arrays(program: Wanted) -> dict[str, Array]:
    """The arrays that operands of a program are bound to, by their names."""
    found = ((name, _array(tensor)) for name, tensor in zip(program.names, program.arguments, strict=True))
    return {name: array for name, array in found if array is not None}


def _array(tensor: Tensor) -> Array | None:
    definition = tensor.definition
    return definition.array if isinstance(definition, Placeholder) else None
