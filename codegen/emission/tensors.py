"""Tensor loops: one call of an intrinsic where the target has it, else the loops themselves.

The tiles start where all loops stand at their lower bounds. Each operand is a vector load, of a short tile repeated over the lanes;
the result is stored to the tile that the loops would have written. A tile at an edge, where loops are shorter than the instruction's,
is computed with zeros for what it lacks if the instruction allows that and the result lies in storage of our own, which holds whole
tiles: what lies beyond the edge is stored as it was. Other partial tiles, and those under conditions, run as loops. What a user defines
is compiled in a process of its own first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, TypeAlias

from llvmlite import ir as llvm

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.emission import loops
from tensorlang.codegen.emission.access import access_of
from tensorlang.codegen.emission.expression import value
from tensorlang.codegen.emission.frame import Frame, define
from tensorlang.codegen.emission.loops import Body
from tensorlang.codegen.emission.types import (
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    POINTER,
    VOID,
    Builder,
    Poison,
    Type,
    Value,
    external,
    literal,
)
from tensorlang.codegen.llvm.features import compiles_apart
from tensorlang.codegen.target import Target
from tensorlang.errors import BuildError
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of, loads_of
from tensorlang.schedules.directives.instructions import ELEMENTS, Instruction, Register, find, is_shipped
from tensorlang.schedules.directives.tensorize import definition_of, elements, perfect, tile_size, tiles
from tensorlang.schedules.rewriting.edit import literal_extent


class _BFloat(llvm.Type):  # type: ignore[misc] # llvmlite has no types
    """The bfloat16 of LLVM, which llvmlite does not know."""

    intrinsic_name = "bf16"

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


Present: TypeAlias = dict[str, tuple[bool, ...]]
"""The elements of each tile that are there."""

_TYPES: Final[dict[str, Type]] = {"i8": I8, "i16": I16, "i32": I32, "i64": I64, "bfloat": _BFloat(), "float": F32, "double": F64}


def tensor(frame: Frame, loop: ir.For, body: Body) -> None:
    """A tile computed at once, or by its loops."""
    chain, store = perfect(loop)
    if loop.instruction is None or store is None or frame.lanes:
        loops.serial(frame, loop, body)
        return
    instruction = find(loop.instruction)
    names = {part.loop for part in chain}
    here = [None if (axes_of(part.lo) | axes_of(part.hi)) & names else loops.constant_extent(frame, part) for part in chain]
    whole = _whole(instruction, chain)
    nest = ir.Nest("", (), (), (), loop)
    found = tiles(nest, instruction, [], whole, store) if instruction.requires <= frame.target.isa and whole else ""
    present = {} if isinstance(found, str) else _present(instruction, here)
    if isinstance(found, str) or present is None:
        loops.serial(frame, loop, body)
        return
    with frame.loop():
        for part in chain:
            frame.bind(part.loop, frame.space.polynomial(part.lo))
        if not present or _roomy(frame, instruction, *found[instruction.nest.outputs[0].name]):
            frame.fresh()
            places = {name: access_of(frame, buffer, index, value).base for name, (buffer, index) in found.items()}
            if not is_shipped(instruction):
                _require_compiled(instruction, frame.target, tuple(places))
            there = frozenset(name for name, tile in found.items() if present and _readable(frame, whole, present[name], *tile))
            _write(frame.builder, instruction, places, present, there)
            return
    loops.serial(frame, loop, body)


def _readable(frame: Frame, chain: Sequence[ir.For], present: tuple[bool, ...], buffer: ir.Buffer, index: tuple[ir.Expr, ...]) -> bool:
    """Does memory hold a whole tile where only a part of it is wanted: in the buffer, or in what is to spare beyond it?"""
    missing = len(present) - 1 - max(place for place, here in enumerate(present) if here)
    return missing * buffer.dtype.bytes <= frame.places[buffer.name].spare or _within(chain, buffer, index)


def _within(chain: Sequence[ir.For], buffer: ir.Buffer, index: tuple[ir.Expr, ...]) -> bool:
    """Do whole loops stay inside the dimensions that they walk, from a known place on?"""
    most = {ir.Axis(part.loop): literal_extent(part) for part in chain}
    for form, extent in zip(map(linear, index), buffer.shape, strict=True):
        if not form.terms.keys() & most.keys():
            continue
        ends = [factor * ((most.get(atom) or 0) - 1) for atom, factor in form.terms.items() if isinstance(atom, ir.Axis)]
        known = form.terms.keys() <= most.keys() and form.constant >= 0 and all(end >= 0 for end in ends)
        if not known or not isinstance(extent, ir.Const) or form.constant + sum(ends) >= extent.value:
            return False
    return True


def _whole(instruction: Instruction, chain: Sequence[ir.For]) -> list[ir.For]:
    """The loops with the extents of the instruction's; none where their number differs."""
    _, pattern = definition_of(instruction)
    if len(pattern) != len(chain):
        return []
    return [replace(part, hi=simplify(ir.Binary("add", part.lo, one.hi))) for part, one in zip(chain, pattern, strict=True)]


def _present(instruction: Instruction, here: Sequence[int | None]) -> dict[str, tuple[bool, ...]] | None:
    """Which elements of its tiles a short tile has, none named where it has all; None where the instruction cannot compute it."""
    store, pattern = definition_of(instruction)
    assert store is not None
    full = [literal_extent(part) or 0 for part in pattern]
    if list(here) == full:
        return {}
    if not instruction.padded or not instruction.arguments:
        return None
    extents = [extent for extent, most in zip(here, full, strict=True) if extent is not None and 0 < extent <= most]
    if len(extents) != len(full):
        return None
    uses = {store.buffers[0]: store.index} | {load.buffer: load.index for value in store.values for load in loads_of(value)}
    found = {}
    for buffer, index in uses.items():
        assert isinstance(buffer, ir.Buffer)
        inside = elements(instruction, buffer, index, extents)
        found[buffer.name] = tuple(element in inside for element in range(tile_size(buffer)))
    return found


def _roomy(frame: Frame, instruction: Instruction, buffer: ir.Buffer, index: tuple[ir.Expr, ...]) -> bool:
    """Does storage that nothing else sees hold the whole tile of the result, at a constant place?"""
    place = frame.places[buffer.name]
    start = frame.space.offset(index, place.shape).constant
    return start is not None and 0 <= start <= place.own - tile_size(instruction.nest.outputs[0])


@cache
def _require_compiled(instruction: Instruction, target: Target, names: tuple[str, ...]) -> None:
    """Raise `BuildError` where LLVM cannot compile an instruction of a user, which could end the process."""
    module = llvm.Module(name="instruction", context=llvm.Context())
    module.triple = target.triple
    function = define(module, target, "instruction", VOID, [POINTER] * len(names))
    builder = llvm.IRBuilder(function.append_basic_block("entry"))
    try:
        _write(builder, instruction, dict(zip(names, function.args, strict=True)), {}, frozenset())
    except Exception as error:
        raise BuildError(f"the code of the instruction {instruction.name!r} cannot be written: {error}") from error
    builder.ret_void()
    problem = compiles_apart(str(module), target.machine)
    if problem is not None:
        raise BuildError(f"the instruction {instruction.name!r} cannot be compiled for {target.cpu}; state what it requires: {problem}")


def _write(builder: Builder, instruction: Instruction, places: dict[str, Value], present: Present, there: frozenset[str]) -> None:
    """The instruction on tiles at some places, of which `present` says what is wanted and `there` which can be read whole."""
    if callable(instruction.intrinsic) and not instruction.arguments:
        instruction.intrinsic(builder, places)
        return
    goal = instruction.nest.outputs[0].name
    result = next(part for part in instruction.arguments if part.tensor == goal)
    operands = [
        _loaded(builder, part, places[part.tensor], () if part.tensor == goal else present.get(part.tensor, ()), part.tensor in there)
        for part in instruction.arguments
    ]
    if callable(instruction.intrinsic):
        made = instruction.intrinsic(builder, *operands)
    else:
        kind = llvm.VectorType(_TYPES[result.element], result.lanes)
        made = builder.call(external(builder.module, instruction.intrinsic, kind, [part.type for part in operands]), operands)
    there_are = present.get(goal, ())
    if not all(there_are) and not _adds_integers(instruction):
        lanes = llvm.Constant(llvm.VectorType(I1, result.lanes), list(map(int, there_are)))
        made = builder.select(lanes, made, operands[instruction.arguments.index(result)])
    builder.store(made, places[goal], align=ELEMENTS[result.element])


def _adds_integers(instruction: Instruction) -> bool:
    """Does an element stay what it is where zeros are combined into it? Of floating-point numbers 0 * inf is none."""
    store, _ = definition_of(instruction)
    return store is not None and store.reducer is not None and not store.buffers[0].dtype.is_floating


def _loaded(builder: Builder, register: Register, place: Value, present: tuple[bool, ...], there: bool) -> Any:
    """The vector of a tile, zero for elements that are not `present` (all are where nothing is said), though they may be `there`."""
    element, size = _TYPES[register.element], ELEMENTS[register.element]
    kind = llvm.VectorType(element, register.lanes)
    tile = register.lanes // register.repeat
    short = llvm.VectorType(element, tile)
    if not all(present) and there:
        wanted = llvm.Constant(llvm.VectorType(I1, tile), list(map(int, present)))
        one = builder.select(wanted, builder.load(place, align=size, typ=short), short(None))
    elif not all(present):
        one = _padded(builder, place, short, size, present)
    elif register.repeat == 1 or tile * size not in (1, 2, 4, 8):
        one = builder.load(place, align=size, typ=short)
    else:
        one = builder.load(place, align=size, typ=llvm.IntType(8 * tile * size))
    if register.repeat == 1:
        return one
    if tile * size not in (1, 2, 4, 8):
        lanes = llvm.Constant(llvm.VectorType(I32, register.lanes), [*range(tile)] * register.repeat)
        return builder.shuffle_vector(one, Poison(one.type), lanes)
    whole = llvm.IntType(8 * tile * size)
    wide = llvm.VectorType(whole, register.repeat)
    filled = builder.insert_element(Poison(wide), one if one.type == whole else builder.bitcast(one, whole), literal(I32, 0))
    lanes = llvm.Constant(llvm.VectorType(I32, register.repeat), [0] * register.repeat)
    return builder.bitcast(builder.shuffle_vector(filled, Poison(wide), lanes), kind)


def _padded(builder: Builder, place: Value, kind: Type, size: int, present: tuple[bool, ...]) -> Value:
    """A short tile, element by element: nothing beside it is read."""
    tile = kind(None)
    for number in (number for number, here in enumerate(present) if here):
        element = builder.load(builder.gep(place, [literal(I64, number)], source_etype=kind.element), align=size, typ=kind.element)
        tile = builder.insert_element(tile, element, literal(I32, number))
    return tile
