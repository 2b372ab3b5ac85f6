"""Constant operands, packed once: a scheduled nest split into one that packs and one that computes.

    for j_o in range(16):                           for j_o in range(16):               for j_o in range(16):
        B_pack: float32[512, 32]                        for k in range(512):                for i_o in range(43):
        for k in range(512):                ->              for j_i in range(32):   +           ... B_packed[j_o, k, j_i] ...
            for j_i in range(32):                               B_packed[j_o, k, j_i] =
                B_pack[k, j_i] = B[k, j]                            B[k, j]
        for i_o in range(43): ...

What a stage computes from such an operand alone (its padding, another type) is computed once as well, and packed after that.

The panels become one tensor, with a dimension for each loop around them on which they depend. An operand that the schedule does not copy,
or also reads otherwise, stays as it is and is only bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from tensorlang.codegen.cache.program import Origin, Program, Scheduled
from tensorlang.codegen.cache.signature import Argument, Signature
from tensorlang.codegen.calling.arguments import Array, constant_operand
from tensorlang.codegen.calling.runnable import Runnable
from tensorlang.codegen.compilation import default_schedule, of_default, of_nest, of_schedule, scheduled
from tensorlang.codegen.kernel import weights
from tensorlang.codegen.kernel.packer import split
from tensorlang.codegen.llvm.binding import Library
from tensorlang.codegen.runtime import arrays
from tensorlang.codegen.runtime.threads import get_threads
from tensorlang.errors import CallError, TensorlangError, did_you_mean
from tensorlang.ir import Const
from tensorlang.ir.dtype import DType
from tensorlang.schedules.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Step:
    """One way that an operand goes: what packs it, the name of that code, and what that is written into."""

    packer: Runnable
    name: str
    shape: tuple[int, ...]
    dtype: DType

    def __call__(self, array: Array) -> Array:
        """The packed operand."""
        return packed_by(self.packer, array)


def packed_by(packer: Runnable, array: Array) -> Array:
    """What a packer makes of an operand. Raises `CallError` as a call does."""
    (result,) = packer.program.signature.outputs
    shape = tuple(int(extent.value) for extent in result.shape if isinstance(extent, Const))
    packed = arrays.empty_aligned(shape, result.dtype.numpy)
    packed[...] = np.zeros((), packed.dtype)  # the last panels may have room that nothing is packed into
    packer(array, out=packed)
    return packed


@dataclass(frozen=True, slots=True)
class Packing:
    """How operands are packed, each in some steps, and the code that reads the last of these; found once for a program."""

    steps: Mapping[str, tuple[Step, ...]]
    code: Runnable

    def operand(self, place: int) -> str:
        """What the code calls the input in a place."""
        return self.code.program.signature.inputs[place].name


@dataclass(frozen=True, slots=True)
class Fixed:
    """An input that is fixed: its place, what it was before, and how it is packed."""

    place: int
    argument: Argument
    steps: tuple[Step, ...]

    def packed(self, signature: Signature, value: object) -> Array:
        """An array for it as the code reads it, which all share that need the same. Raises `CallError` as a call would."""
        operand = constant_operand(signature, self.argument, value)
        last = self.steps[-1] if self.steps else None
        shape, dtype = (operand.shape, self.argument.dtype) if last is None else (last.shape, last.dtype)

        def make() -> Array:
            array = operand
            for step in self.steps:
                array = step(array)
            return array

        return weights.shared(weights.digest(operand, [step.name for step in self.steps]), shape, dtype, make)


K = TypeVar("K", bound=Runnable)


def prepack(kernel: Runnable, constants: Mapping[str, object], make: Callable[[Program, Library | None], K]) -> K:
    """A kernel with some inputs fixed to what these arrays hold now, packed in the layout that its schedule uses.

    `make` is what makes a kernel of a program and its linked code. Where nobody gave a schedule, one is chosen for which the packing of
    these operands is free. Raises `CallError` for a name that is no input and for an array that a call would refuse.
    """
    program, signature = kernel.program, kernel.program.signature
    if not constants:
        raise CallError(f"{signature.name}: prepack() takes the constant operands by name, as prepack(B=b)")
    names = [argument.name for argument in signature.passed if argument.name not in program.bound]
    for name in constants:
        if name not in names:
            raise CallError(f"{signature.name}: prepack() got {name!r}, which is no input{did_you_mean(name, names)}; inputs are {names}")
    places = [place for place, argument in enumerate(signature.inputs) if argument.name in constants]
    for place in places:  # before anything is built
        _ = constant_operand(signature, signature.inputs[place], constants[signature.inputs[place].name])
    origin = program.origin or _origin(program)
    packing = None if origin is None else packing_of(program, origin, tuple(places), make)
    own = [argument.name for argument in program.compiled_as.inputs]
    fixed = {
        signature.inputs[place].name: Fixed(place, signature.inputs[place], () if packing is None else packing.steps[own[place]])
        for place in places
    }
    values = {part.place: part.packed(signature, constants[name]) for name, part in fixed.items()}
    kept = {place: program.bound[part.name] for place, part in enumerate(signature.inputs) if part.name in program.bound}
    code = program if packing is None else packing.code.program
    bound = {code.signature.inputs[place].name: array for place, array in (kept | values).items()}
    packed = replace(code, bound=bound, weights={**program.weights, **fixed})
    if packing is None:
        return make(packed, kernel.library)
    return make(packed if program.code is None else packed.under(_named(packing, program)), packing.code.library)


def repack(kernel: Runnable, constants: Mapping[str, object], make: Callable[[Program, Library | None], K]) -> K:
    """The same code on other fixed inputs, packed as those are that it has. Raises `CallError`, as `prepack` does."""
    program = kernel.program
    names = list(program.weights)
    if not constants or not names:
        raise CallError(f"{kernel.name}: repack() takes operands that prepack() fixed in this process, by name; they are {names}")
    bound = dict(program.bound)
    for name, value in constants.items():
        if name not in names:
            raise CallError(f"{kernel.name}: repack() got {name!r}, which is not fixed{did_you_mean(name, names)}; fixed are {names}")
        part = program.weights[name]
        bound[program.signature.inputs[part.place].name] = part.packed(program.signature, value)
    return make(replace(program, bound=bound), kernel.library)


def _origin(program: Program) -> Origin | None:
    """What a kernel that was read from a file was built from, by the recipe in it; None where that does not tell."""
    if program.stored is None or program.bound:
        return None
    code = program.compiled_as
    try:
        found, inputs = program.stored.program([argument.name for argument in code.inputs], {})
        if isinstance(found, Schedule):
            return of_schedule(found, program.target, name=code.name, inputs=inputs, threads=program.threads).origin
        return of_default(found, program.target, name=code.name, inputs=inputs, threads=program.threads).origin
    except TensorlangError:  # of a file: it is then only bound
        return None


def _named(packing: Packing, program: Program) -> Signature:
    """The signature of packed code under the caller's names: an operand that is packed is called after the one that it was."""
    code, signature = packing.code.program.signature, program.signature
    taken = {argument.name for argument in (*signature.inputs, *signature.outputs)}
    labels = []
    for ours, before, theirs in zip(code.inputs, program.compiled_as.inputs, signature.inputs, strict=True):
        label = theirs.name + ours.name.removeprefix(before.name)
        while label in taken and label != theirs.name:
            label += "_"
        labels.append(label)
    return code.under(signature.name, labels, [argument.name for argument in signature.outputs], signature.order).seen_as(signature)


def packing_of(program: Program, origin: Origin, places: tuple[int, ...], make: Callable[[Program, Library | None], Runnable]) -> Packing:
    """How the operands in these places are packed, found out once for a program."""
    names = tuple(program.compiled_as.inputs[place].name for place in places)
    key = repr((names, origin.threads or get_threads()))
    found: Packing = origin.packings.get(key, lambda: _packing(program, origin, names, make))
    return found


def _packing(program: Program, origin: Origin, names: tuple[str, ...], make: Callable[[Program, Library | None], Runnable]) -> Packing:
    chosen = default_schedule(origin.program, program.target, frozenset(names), origin.threads) if origin.chosen else None
    nest, faults = origin.scheduled if chosen is None else scheduled(origin.plain, chosen)
    steps: dict[str, tuple[Step, ...]] = {}
    for name in names:
        found: list[Step] = []
        operand = next(buffer for buffer in nest.inputs if buffer.name == name)
        while (parts := split(nest, operand)) is not None:  # what a stage makes of an operand alone may be packed in its turn
            shape = tuple(int(extent.value) for extent in parts.packed.shape if isinstance(extent, Const))
            request = of_nest(replace(Origin.of(parts.packer), threads=origin.threads), program.target, {})
            found.append(Step(make(request.program(), None), request.name, shape, parts.packed.dtype))
            operand, nest = parts.packed, parts.rest
        steps[name] = tuple(found)
    rest = of_nest(origin.under(Scheduled(nest, faults)), program.target, {}, program.provenance, program.provenance_reason)
    return Packing(steps, make(rest.program(), None))
