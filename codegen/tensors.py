"""Tensor loops: one call of an intrinsic where the target has it, else the loops themselves.

The tiles start where all loops stand at their lower bounds. Each operand is a vector load, of a short tile repeated over the lanes;
the result is stored to the tile that the loops would have written. Partial tiles hold conditions, so they never match. What a user
defines is compiled in a process of its own first.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from llvmlite import ir as llvm

from tensorlang import ir
from tensorlang.codegen import loops
from tensorlang.codegen.access import access_of
from tensorlang.codegen.expression import value
from tensorlang.codegen.features import compiles_apart
from tensorlang.codegen.frame import Frame, define
from tensorlang.codegen.loops import Body
from tensorlang.codegen.target import Target
from tensorlang.codegen.types import F32, F64, I8, I16, I32, I64, POINTER, VOID, Builder, Poison, Type, Value, external, literal
from tensorlang.errors import BuildError
from tensorlang.schedules.instructions import ELEMENTS, Instruction, Register, find, is_shipped
from tensorlang.schedules.tensorize import perfect, tiles


class _BFloat(llvm.Type):  # type: ignore[misc] # llvmlite has no types
    """The bfloat16 of LLVM, which llvmlite does not know."""

    intrinsic_name = "bf16"

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


_TYPES: Final[dict[str, Type]] = {"i8": I8, "i16": I16, "i32": I32, "i64": I64, "bfloat": _BFloat(), "float": F32, "double": F64}


def tensor(frame: Frame, loop: ir.For, body: Body) -> None:
    """A tile computed at once, or by its loops."""
    chain, store = perfect(loop)
    if loop.instruction is None or store is None or frame.lanes:
        loops.serial(frame, loop, body)
        return
    instruction = find(loop.instruction)
    nest = ir.Nest("", (), (), (), loop)
    found = tiles(nest, instruction, [], chain, store) if instruction.requires <= frame.target.isa else ""
    if isinstance(found, str):
        loops.serial(frame, loop, body)
        return
    for part in chain:
        frame.bind(part.loop, frame.space.polynomial(part.lo))
    frame.fresh()
    places = {name: access_of(frame, buffer, index, value).base for name, (buffer, index) in found.items()}
    if not is_shipped(instruction):
        _require_compiled(instruction, frame.target, tuple(places))
    _write(frame.builder, instruction, places)


@cache
def _require_compiled(instruction: Instruction, target: Target, names: tuple[str, ...]) -> None:
    """Raise `BuildError` where LLVM cannot compile an instruction of a user, which could end the process."""
    module = llvm.Module(name="instruction", context=llvm.Context())
    module.triple = target.triple
    function = define(module, target, "instruction", VOID, [POINTER] * len(names))
    builder = llvm.IRBuilder(function.append_basic_block("entry"))
    try:
        _write(builder, instruction, dict(zip(names, function.args, strict=True)))
    except Exception as error:
        raise BuildError(f"the code of the instruction {instruction.name!r} cannot be written: {error}") from error
    builder.ret_void()
    problem = compiles_apart(str(module), target.machine)
    if problem is not None:
        raise BuildError(f"the instruction {instruction.name!r} cannot be compiled for {target.cpu}; state what it requires: {problem}")


def _write(builder: Builder, instruction: Instruction, places: dict[str, Value]) -> None:
    if callable(instruction.intrinsic):
        instruction.intrinsic(builder, places)
    else:
        _call(builder, instruction, places)


def _call(builder: Builder, instruction: Instruction, places: dict[str, Value]) -> None:
    goal = instruction.nest.outputs[0].name
    result = next(part for part in instruction.arguments if part.tensor == goal)
    operands = [_loaded(builder, part, places[part.tensor]) for part in instruction.arguments]
    kind = llvm.VectorType(_TYPES[result.element], result.lanes)
    made = builder.call(external(builder.module, str(instruction.intrinsic), kind, [part.type for part in operands]), operands)
    builder.store(made, places[goal], align=ELEMENTS[result.element])


def _loaded(builder: Builder, register: Register, place: Value) -> Any:
    """The vector of a tile."""
    element, size = _TYPES[register.element], ELEMENTS[register.element]
    kind = llvm.VectorType(element, register.lanes)
    tile = register.lanes // register.repeat
    if register.repeat == 1:
        return builder.load(place, align=size, typ=kind)
    if tile * size in (1, 2, 4, 8):
        whole = llvm.IntType(8 * tile * size)
        wide = llvm.VectorType(whole, register.repeat)
        one = builder.insert_element(Poison(wide), builder.load(place, align=size, typ=whole), literal(I32, 0))
        lanes = llvm.Constant(llvm.VectorType(I32, register.repeat), [0] * register.repeat)
        return builder.bitcast(builder.shuffle_vector(one, Poison(wide), lanes), kind)
    one = builder.load(place, align=size, typ=llvm.VectorType(element, tile))
    lanes = llvm.Constant(llvm.VectorType(I32, register.lanes), [*range(tile)] * register.repeat)
    return builder.shuffle_vector(one, Poison(one.type), lanes)
