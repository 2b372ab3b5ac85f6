"""What few lanes need, out of line: one function of the module for each computation, whoever asks for it, vectors and scalars.

    define internal void @tensorlang.rare.quarter_turns.64(ptr mask, ptr operand, ptr result, ..., i32 lanes)

It computes the results of those lanes whose mask holds, one after the other, and leaves the others as they are. Everything goes by way of
memory of the caller's, so that the number of lanes does not matter, and little code stands where it is called. A loop that calls it is
not to pay for that where no lane needs it: it touches no other memory, so that loads may leave the loop, and on x86, where no vector
register survives an ordinary call, it saves what it uses, so that nothing is spilled around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from llvmlite import ir

from tensorlang.codegen.emission.types import I32, POINTER, VOID, Builder, Type, Value

PREFIX: Final = "tensorlang.rare."
"""What the names of these functions begin with."""
_ATTRIBUTES = ("noinline", "nounwind", "willreturn", "memory(argmem: readwrite)")
_SAVES = '"no_caller_saved_registers"'
_KEEPS_UPPER_HALVES = "-vzeroupper"
"""LLVM 22 clears the upper halves of registers before such a function returns, which it has just restored."""
_FEATURES = '"target-features"='
_POINTER_ATTRIBUTES = ("captures(none)", "noalias")
_BYTES = {"i32": 4, "float": 4, "i64": 8, "double": 8}


def called(builder: Builder, name: str, given: Sequence[Value], compute: Callable[[Builder, Value], Sequence[Value]]) -> list[Value]:
    """`given` is a mask, as integers, the operand, and the results where the mask does not hold; the results for all lanes.

    `compute` emits the results of one operand; what it emits depends on the name and the types of scalars alone.
    """
    slots = [_slot(builder, place, value.type) for place, value in enumerate(given)]
    for slot, value in zip(slots, given, strict=True):
        builder.store(value, slot, align=slot.align)
    lanes = given[0].type.count if isinstance(given[0].type, ir.VectorType) else 1
    builder.call(_function(builder, name, [_element(value.type) for value in given], compute), [*slots, I32(lanes)])
    return [builder.load(slot, align=slot.align, typ=value.type) for slot, value in zip(slots[2:], given[2:], strict=True)]


def _function(builder: Builder, name: str, kinds: Sequence[Type], compute: Callable[[Builder, Value], Sequence[Value]]) -> Value:
    """The function of that name, which is for the processor that its callers are for."""
    full = PREFIX + name
    known = builder.module.globals.get(full)
    if known is not None:
        return known
    function = ir.Function(builder.module, ir.FunctionType(VOID, [*[POINTER] * len(kinds), I32]), full)
    function.linkage = "internal"
    for attribute in (*_ATTRIBUTES, *_processor(builder)):
        set.add(function.attributes, attribute)  # llvmlite's own `add` knows neither key-value attributes nor those of memory
    for argument in function.args[:-1]:
        for attribute in _POINTER_ATTRIBUTES:
            argument.add_attribute(attribute)
    _fill(function, kinds, compute)
    return function


def _processor(builder: Builder) -> list[str]:
    """The attributes that tell for which processor a function is."""
    told = [attribute for attribute in builder.function.attributes if attribute.startswith('"')]
    if not builder.module.triple.startswith("x86_64") or not any(one.startswith(_FEATURES) for one in told):
        return told
    return [_SAVES, *(f'{one[:-1]},{_KEEPS_UPPER_HALVES}"' if one.startswith(_FEATURES) else one for one in told)]


def _fill(function: Value, kinds: Sequence[Type], compute: Callable[[Builder, Value], Sequence[Value]]) -> None:
    entry, loop, found, after, done = (function.append_basic_block(block) for block in ("entry", "lane", "found", "after", "done"))
    *pointers, lanes = function.args
    ir.IRBuilder(entry).branch(loop)
    builder = ir.IRBuilder(loop)
    lane = builder.phi(I32, "lane")
    places = [builder.gep(pointer, [lane], source_etype=kind) for pointer, kind in zip(pointers, kinds, strict=True)]
    mask = builder.load(places[0], typ=kinds[0])
    builder.cbranch(builder.icmp_signed("!=", mask, kinds[0](0)), found, after)
    builder.position_at_end(found)
    for place, value in zip(places[2:], compute(builder, builder.load(places[1], typ=kinds[1])), strict=True):
        builder.store(value, place)
    builder.branch(after)
    builder.position_at_end(after)
    following = builder.add(lane, I32(1))
    lane.add_incoming(I32(0), entry)
    lane.add_incoming(following, after)
    builder.cbranch(builder.icmp_signed("<", following, lanes), loop, done)
    builder.position_at_end(done)
    builder.ret_void()


def _slot(builder: Builder, place: int, kind: Type) -> Value:
    """Memory for a value that is handed over, declared where the function begins; the next call takes it again."""
    name = f"rare.{place}.{kind}".translate({ord(sign): None for sign in "< >"})
    block = builder.function.entry_basic_block
    known = next((one for one in block.instructions if isinstance(one, ir.AllocaInstr) and one.name == name), None)
    if known is not None:
        return known
    with builder.goto_entry_block():
        slot = builder.alloca(kind, name=name)
    slot.type = POINTER  # llvmlite still types it by what it points to
    slot.align = _BYTES[str(_element(kind))]  # no more, or the stack has to be aligned for what is rare
    return slot


def _element(kind: Type) -> Type:
    return kind.element if isinstance(kind, ir.VectorType) else kind
