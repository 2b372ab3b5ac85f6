"""Instructions that compute a whole tile: what each computes, as a definition, and how LLVM is asked for it.

An instruction is a definition over placeholders whose shapes are its tiles, and an intrinsic with the vectors that it takes and gives:

    dpbusd    c[i] += sum over k of int32(a[k]) * int32(b[i, k])          16 lanes of 4 products, u8 by s8      AVX-512 VNNI
    dpbsud    the same, s8 by u8
    dpbssd    the same, s8 by s8: a + 128 is unsigned, and 128 b is taken away again
    maddusd   as dpbusd, by products of words, two of which are added     8 lanes of 4 products                 AVX2
    maddsud   as dpbsud
    maddssd   as dpbssd
    dpbf16ps  c[i] += sum over k of float32(a[k]) * float32(b[i, k])      16 lanes of 2 products, bfloat16      AVX-512 BF16

`dpbf16ps` adds its products in another order than the loops and takes subnormal numbers for zero; the others are exact: AVX2's own products
of bytes are not used, whose sums of two end at 32767. Where a target lacks what an instruction requires, the loops of the definition run
instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, Final, TypeAlias

from tensorlang.definition.expr import cast
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import did_you_mean
from tensorlang.ir import Nest
from tensorlang.ir.machine import MAX_LANES
from tensorlang.language.definitions import compute, placeholder, reduce_axis
from tensorlang.language.reduction import sum as total
from tensorlang.lowering.program import lower_program
from tensorlang.schedules.directive import Refusal
from tensorlang.serialization.canonical import fingerprint

ELEMENTS: Final = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "bfloat": 2, "float": 4, "double": 8}
"""The elements of registers, by the bytes that each has."""


Inline: TypeAlias = Callable[[Any, dict[str, Any]], None]
Combine: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Register:
    """A vector operand: `lanes` elements of an LLVM type, which are `repeat` copies of the tile of `tensor`."""

    tensor: str
    element: str
    lanes: int
    repeat: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """A tile computation that a processor does at once.

    `definition` says what: its placeholders, and itself where it is a reduction, are tiles, named by their tensors. `intrinsic` is the
    name of an LLVM intrinsic with its operands in `arguments` (the result goes to the tile of the definition), or a function of an
    llvmlite builder and the vectors of `arguments`, which gives the result; without arguments it is given the addresses of the tiles by
    name and writes the code itself. `requires` are CPU features as LLVM spells them. `padded`: zeros for elements that a tile at an edge
    lacks add nothing, so that the instruction computes such tiles too.
    """

    name: str
    definition: Tensor
    intrinsic: str | Inline | Combine
    arguments: tuple[Register, ...] = ()
    requires: frozenset[str] = frozenset()
    padded: bool = False

    @property
    def nest(self) -> Nest:
        """The loops of the definition."""
        return _lowered(self)

    def same(self, other: Instruction) -> bool:
        """Do both compute the same thing in the same way?"""
        mine, theirs = ((fingerprint(one.definition), one.intrinsic, one.arguments, one.requires, one.padded) for one in (self, other))
        return mine == theirs


@cache
def _lowered(instruction: Instruction) -> Nest:
    return lower_program(instruction.definition).nest


def _dot(lanes: int, products: int, types: tuple[str, str, str]) -> Tensor:
    a = placeholder((products,), types[0], name="a")
    b = placeholder((lanes, products), types[1], name="b")
    k = reduce_axis(products, name="k")
    result: Tensor = compute((lanes,), lambda i: total(cast(a[k], types[2]) * cast(b[i, k], types[2]), axis=k), name="c")
    return result


_REQUIRED: Final = frozenset({"avx512vnni", "avx512f"})
_VNNI: Final = "llvm.x86.avx512.vpdpbusd.512"
_BYTES: Final = (Register("c", "i32", 16), Register("a", "i8", 64, repeat=16), Register("b", "i8", 64))


@cache
def dpbusd() -> Instruction:
    """AVX-512 VNNI: four products of unsigned and signed bytes added to each of 16 int32."""
    return Instruction("dpbusd", _dot(16, 4, ("uint8", "int8", "int32")), _VNNI, _BYTES, _REQUIRED, padded=True)


@cache
def dpbsud() -> Instruction:
    """AVX-512 VNNI with its operands exchanged: signed bytes by unsigned ones."""
    c, a, b = _BYTES
    return Instruction("dpbsud", _dot(16, 4, ("int8", "uint8", "int32")), _VNNI, (c, b, a), _REQUIRED, padded=True)


@cache
def dpbssd() -> Instruction:
    """AVX-512 VNNI on signed bytes: (a + 128) b - 128 b; the second sum is the same for all rows of a tile."""
    return Instruction("dpbssd", _dot(16, 4, ("int8", "int8", "int32")), _both_signed, _BYTES, _REQUIRED, padded=True)


def _both_signed(builder: Any, c: Any, a: Any, b: Any) -> Any:
    from llvmlite import ir as llvm  # noqa: PLC0415 - schedules are written without a compiler at hand

    sign, one = (a.type([value] * a.type.count) for value in (-128, 1))
    dot = builder.module.globals.get(_VNNI) or llvm.Function(builder.module, llvm.FunctionType(c.type, [c.type, a.type, b.type]), _VNNI)
    more = builder.shl(builder.call(dot, [c.type(None), one, b]), c.type([7] * c.type.count))
    # LLVM 22 does not come to an end where it sees that four bytes are turned and repeated: the piece of assembly hides them
    turned = builder.xor(builder.asm(llvm.FunctionType(a.type, [a.type]), "", "=v,0", [a], side_effect=False), sign)
    return builder.sub(builder.call(dot, [c, turned, b]), more)


_WORDS: Final = "llvm.x86.avx2.pmadd.wd"


@cache
def maddusd() -> Instruction:
    """AVX2: four products of unsigned and signed bytes added to each of 8 int32."""
    return _dot_of_words("maddusd", "uint8", "int8")


@cache
def maddsud() -> Instruction:
    """AVX2: the same of signed and unsigned bytes."""
    return _dot_of_words("maddsud", "int8", "uint8")


@cache
def maddssd() -> Instruction:
    """AVX2: the same of signed bytes."""
    return _dot_of_words("maddssd", "int8", "int8")


def _dot_of_words(name: str, rows: str, lanes: str) -> Instruction:
    def combine(builder: Any, c: Any, a: Any, b: Any) -> Any:
        from llvmlite import ir as llvm  # noqa: PLC0415 - schedules are written without a compiler at hand

        words = llvm.VectorType(llvm.IntType(16), 2 * c.type.count)
        dot = builder.module.globals.get(_WORDS) or llvm.Function(builder.module, llvm.FunctionType(c.type, [words, words]), _WORDS)
        for pair in zip(_bytes_as_words(builder, a, words, rows), _bytes_as_words(builder, b, words, lanes), strict=True):
            c = builder.add(c, builder.call(dot, pair))
        return c

    arguments = (Register("c", "i32", 8), Register("a", "i8", 32, repeat=8), Register("b", "i8", 32))
    return Instruction(name, _dot(8, 4, (rows, lanes, "int32")), combine, arguments, frozenset({"avx2"}), padded=True)


def _bytes_as_words(builder: Any, vector: Any, words: Any, dtype: str) -> tuple[Any, Any]:
    """Every other byte of a vector, and those between them."""
    pairs, eight = builder.bitcast(vector, words), words([8] * words.count)
    if dtype == "uint8":
        return builder.and_(pairs, words([255] * words.count)), builder.lshr(pairs, eight)
    return builder.ashr(builder.shl(pairs, eight), eight), builder.ashr(pairs, eight)


@cache
def dpbf16ps() -> Instruction:
    """AVX-512 BF16: two products of bfloat16 added to each of 16 float32."""
    arguments = (Register("c", "float", 16), Register("a", "bfloat", 32, repeat=16), Register("b", "bfloat", 32))
    definition = _dot(16, 2, ("bfloat16", "bfloat16", "float32"))
    required = frozenset({"avx512bf16", "avx512f"})
    return Instruction("dpbf16ps", definition, "llvm.x86.avx512bf16.dpbf16ps.512", arguments, required, padded=True)


_SHIPPED: Final[dict[str, Callable[[], Instruction]]] = {
    "dpbusd": dpbusd,
    "dpbsud": dpbsud,
    "dpbssd": dpbssd,
    "maddusd": maddusd,
    "maddsud": maddsud,
    "maddssd": maddssd,
    "dpbf16ps": dpbf16ps,
}
_DEFINED: Final[dict[str, Instruction]] = {}


def define(instruction: Instruction) -> Instruction:
    """Make an instruction known by its name, so that schedules that use it can be replayed.

    Raises `Refusal` for a name that is taken and for registers that do not hold the tiles of the definition.
    """
    if not isinstance(instruction.name, str) or not instruction.name:
        raise Refusal("TL-S005", f"an instruction is named by a string, not {instruction.name!r:.40}")
    if isinstance(instruction.intrinsic, str) or instruction.arguments:
        _require_registers(instruction)
    known = _SHIPPED[instruction.name]() if instruction.name in _SHIPPED else _DEFINED.get(instruction.name)
    if known is not None and not known.same(instruction):
        raise Refusal("TL-S006", f"another instruction is named {instruction.name!r}")
    if known is None:
        _DEFINED[instruction.name] = instruction
    return known or instruction


def _require_registers(instruction: Instruction) -> None:
    """Raise `Refusal` unless each register holds the whole tile of a tensor, and one takes the result."""
    nest = instruction.nest
    tiles = {buffer.name: buffer for buffer in (*nest.inputs, *nest.outputs)}
    if isinstance(instruction.intrinsic, str) and not instruction.intrinsic.startswith("llvm."):
        raise Refusal("TL-S005", f"an intrinsic is named llvm..., not {instruction.intrinsic!r:.60}")
    for register in instruction.arguments:
        if register.tensor not in tiles:
            raise Refusal("TL-S005", f"{instruction.name!r} has no tile {register.tensor!r}{did_you_mean(register.tensor, tiles)}")
        if register.element not in ELEMENTS:
            raise Refusal("TL-S005", f"{register.element!r} is no element of a register{did_you_mean(register.element, ELEMENTS)}")
        buffer = tiles[register.tensor]
        held = register.lanes * ELEMENTS[register.element]
        wanted = buffer.dtype.bytes * register.repeat * prod(int(getattr(extent, "value", 0)) for extent in buffer.shape)
        if held != wanted or not 1 <= register.lanes <= MAX_LANES or register.lanes % register.repeat:
            raise Refusal(
                "TL-S005", f"{register.repeat} copies of the tile {register.tensor!r} have {wanted} bytes, and its register has {held}"
            )
    result = nest.outputs[0].name
    if all(register.tensor != result for register in instruction.arguments):
        raise Refusal("TL-S005", f"{instruction.name!r} has no register for its result {result!r}")


def find(name: str) -> Instruction:
    """An instruction by name. Raises `Refusal`."""
    if name in _SHIPPED:
        return _SHIPPED[name]()
    if name not in _DEFINED:
        raise Refusal("TL-S003", f"there is no instruction {name!r}{did_you_mean(name, [*_SHIPPED, *_DEFINED])}; define it first")
    return _DEFINED[name]


def named(instruction: object) -> str:
    """The name of an instruction, given by name, or as a value that is then known by its name. Raises `Refusal`."""
    if isinstance(instruction, Instruction):
        return define(instruction).name
    if not isinstance(instruction, str):
        raise Refusal("TL-S005", f"an instruction is given by name, not {instruction!r:.40}")
    return instruction


def shipped() -> tuple[Instruction, ...]:
    """This module's own instructions: of those that compute the same, the fastest first."""
    return tuple(make() for make in _SHIPPED.values())


def is_shipped(instruction: Instruction) -> bool:
    """Is it one of this module's own?"""
    return instruction.name in _SHIPPED
