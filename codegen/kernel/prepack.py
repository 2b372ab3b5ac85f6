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

What becomes of the operands is found out once for a program, and once for all processes where kernels are kept in files (`packing`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from tensorlang.codegen.cache.program import Origin, Program
from tensorlang.codegen.cache.signature import Argument, Signature
from tensorlang.codegen.calling.arguments import Array, checked_constant, constant_operand
from tensorlang.codegen.calling.runnable import Runnable
from tensorlang.codegen.compilation import of_default, of_schedule
from tensorlang.codegen.kernel import weights
from tensorlang.codegen.kernel.packing import Packing, Step, packing_of
from tensorlang.codegen.llvm.binding import Library
from tensorlang.codegen.runtime import arrays
from tensorlang.errors import CallError, TensorlangError, did_you_mean
from tensorlang.schedules.schedule import Schedule
from tensorlang.system import mapped


@dataclass(frozen=True, slots=True)
class Fixed:
    """An input that is fixed: its place, what it was before, and how it is packed."""

    place: int
    argument: Argument
    steps: tuple[Step, ...]

    def packed(self, signature: Signature, value: object) -> Array:
        """An array for it as the code reads it, which all share that need the same. Raises `CallError` as a call would.

        One that is not packed, and that nobody can write to, is itself what the code reads. Of one that is mapped from a file no page is
        held after it was packed: the system reads it again for whoever looks.
        """
        operand = constant_operand(signature, self.argument, value)
        if not self.steps and operand.flags.c_contiguous and arrays.stays(operand):
            return operand
        last = self.steps[-1] if self.steps else None
        shape, dtype = (operand.shape, self.argument.dtype) if last is None else (last.shape, last.dtype)

        def make() -> Array:
            array = operand
            for step in self.steps:
                array = step(array)
            return array if self.steps or operand.flags.writeable else arrays.aligned_copy(operand)

        found = weights.shared(weights.digest(operand, [step.name for step in self.steps]), shape, dtype, make)
        mapped.give_back(operand)
        return found


K = TypeVar("K", bound=Runnable)


def prepack(program: Program, library: Library | None, constants: Mapping[str, object], make: Callable[[Program, Library | None], K]) -> K:
    """A kernel of a program with some inputs fixed to what these arrays hold now, packed in the layout that its schedule uses.

    `library` is the program's own code where it is linked; a program that was built in this process needs none (`Request.outline`). `make`
    is what makes a kernel of a program and its linked code. Where nobody gave a schedule, one is chosen for which the packing of these
    operands is free. Raises `CallError` for a name that is no input and for an array that a call would refuse.
    """
    signature = program.signature
    if not constants:
        raise CallError(f"{signature.name}: prepack() takes the constant operands by name, as prepack(B=b)")
    names = [argument.name for argument in signature.passed if argument.name not in program.bound]
    for name in constants:
        if name not in names:
            raise CallError(f"{signature.name}: prepack() got {name!r}, which is no input{did_you_mean(name, names)}; inputs are {names}")
    places = [place for place, argument in enumerate(signature.inputs) if argument.name in constants]
    for place in places:  # before anything is built
        _ = checked_constant(signature, signature.inputs[place], constants[signature.inputs[place].name])
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
        return make(packed, library)
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
