"""Bytecode: the program of a sequence as bytes, for machines that have its kernels and its weights.

    header    magic "TLBYTECD", version (u32), CRC-32 of what follows (u32),
              bytes of all, of the arena, of the weights, layout of the weights, bytes of the code (u64 each),
              functions, inputs, outputs, instructions (u32 each)
    ports     for each input and output: bytes (u64), where its type and its name stand among the strings (u32 each), rank (u32), 0 (u32),
              extents (u64 each, eight)
    functions for each: where its symbol stands (u32), words that it takes (u32)
    code      for each instruction: function (u32), words (u32), then for each word: base (u32), 0 (u32), offset (i64)
    strings   UTF-8, each with a zero at its end

Little-endian; every section begins at a multiple of eight bytes. A word is `bases[base] + offset`, base 0 being zero, 1 the arena, 2 the
weights, and from 3 on inputs and outputs. Whoever reads it looks at all of it first: lengths, checksum, and every number that is an index.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final, NoReturn

from tensorlang.errors import BuildError
from tensorlang.ir.dtype import DType
from tensorlang.kernels.bundles.image import COPY, PASSED, Image, Instruction
from tensorlang.kernels.steps import Port
from tensorlang.kernels.touched import nbytes
from tensorlang.serialization.spelling import read_dtype

MAGIC: Final = b"TLBYTECD"
VERSION: Final = 1
RANK: Final = 8
MOST_WORDS: Final = 1026
_HEAD: Final = struct.Struct("<8sIIQQQQQIIII")
_PORT: Final = struct.Struct(f"<QIIII{RANK}Q")
_FUNCTION: Final = struct.Struct("<II")
_INSTRUCTION: Final = struct.Struct("<II")
_WORD: Final = struct.Struct("<IIq")


@dataclass(frozen=True, slots=True)
class Bytecode:
    """A program that was read: `functions` are symbols, each with the number of its words."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arena: int
    weights_bytes: int
    layout: int
    functions: tuple[tuple[str, int], ...]
    code: tuple[Instruction, ...]

    def __str__(self) -> str:
        """The program as text, an instruction in a line."""
        names = ["", "arena", "weights", *(port.name for port in (*self.inputs, *self.outputs))]
        lines = [f"arena {self.arena}", f"weights {self.weights_bytes}"]
        for kind, ports in (("input", self.inputs), ("output", self.outputs)):
            lines += [f"{kind} {port.name}: {port.dtype}{list(port.shape)}" for port in ports]
        for instruction in self.code:
            words = [f"{names[base]}+{offset}" if base else str(offset) for base, offset in instruction.words]
            lines.append(f"{self.functions[instruction.function][0]} {' '.join(words)}")
        return "\n".join(lines)


def encode(image: Image) -> bytes:
    """A program as bytes. Raises `BuildError` for an array of more than eight axes."""
    strings = _Strings()
    ports = b""
    for port in (*image.inputs, *image.outputs):
        if len(port.shape) > RANK:
            raise BuildError(f"{image.name} cannot be bytecode: {port.name} has {len(port.shape)} axes, at most {RANK} are written down")
        sizes = (*port.shape, *[0] * (RANK - len(port.shape)))
        ports += _PORT.pack(nbytes(port), strings.at(str(port.dtype)), strings.at(port.name), len(port.shape), 0, *sizes)
    functions = b"".join(_FUNCTION.pack(strings.at(function.symbol), function.words) for function in image.functions)
    code = bytearray()
    for instruction in image.code:
        code += _INSTRUCTION.pack(instruction.function, len(instruction.words))
        for base, offset in instruction.words:
            code += _WORD.pack(base, 0, offset)
    body = ports + functions + bytes(code) + strings.data
    numbers = (image.arena, image.weights_bytes, image.layout, len(code))
    counts = (len(image.functions), len(image.inputs), len(image.outputs), len(image.code))
    rest = _HEAD.pack(MAGIC, VERSION, 0, _HEAD.size + len(body), *numbers, *counts)[16:] + body
    return struct.pack("<8sII", MAGIC, VERSION, zlib.crc32(rest)) + rest


class _Strings:
    def __init__(self) -> None:
        self.data = b""
        self.places: dict[str, int] = {}

    def at(self, text: str) -> int:
        if text not in self.places:
            self.places[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return self.places[text]


def decode(data: bytes) -> Bytecode:
    """The program in some bytes. Raises `BuildError` for what is no whole program of this version; nothing large is made before."""
    if len(data) < _HEAD.size or data[:8] != MAGIC:
        _refuse(f"it does not begin with {MAGIC.decode()} and a header")
    _, version, checksum, size, arena, weights, layout, code_bytes, functions, inputs, outputs, instructions = _HEAD.unpack_from(data)
    if version != VERSION:
        _refuse(f"it has version {version}, and this reads version {VERSION}")
    if size != len(data):
        _refuse(f"it has {len(data)} bytes of {size}: it was cut off, or written to")
    if zlib.crc32(data[16:]) != checksum:
        _refuse("its checksum differs: it is damaged")
    at_functions = _HEAD.size + (inputs + outputs) * _PORT.size
    at_code = at_functions + functions * _FUNCTION.size
    at_strings = at_code + code_bytes
    if at_strings > size:
        _refuse("its sections are longer than it is")
    try:
        ports = [_port(data, _HEAD.size + place * _PORT.size, at_strings) for place in range(inputs + outputs)]
        known = []
        for place in range(functions):
            start, words = _FUNCTION.unpack_from(data, at_functions + place * _FUNCTION.size)
            known.append((_string(data, at_strings + start), words))
        code = _code(data, at_code, at_strings, instructions, known, PASSED + len(ports))
    except (struct.error, ValueError, IndexError) as error:
        _refuse(str(error))
    return Bytecode(tuple(ports[:inputs]), tuple(ports[inputs:]), arena, weights, layout, tuple(known), code)


def _refuse(why: str) -> NoReturn:
    raise BuildError(f"this is no bytecode that can be run: {why}; make it again")


def _string(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


def _port(data: bytes, at: int, strings: int) -> Port:
    size, dtype, name, rank, _, *shape = _PORT.unpack_from(data, at)
    if rank > RANK:
        raise ValueError(f"an array of {rank} axes")
    kind: DType = read_dtype(_string(data, strings + dtype), "bytecode")
    port = Port(_string(data, strings + name), tuple(shape[:rank]), kind)
    if nbytes(port) != size:
        raise ValueError(f"{port.name} has {nbytes(port)} bytes, and not {size}")
    return port


def _code(data: bytes, at: int, end: int, count: int, known: list[tuple[str, int]], bases: int) -> tuple[Instruction, ...]:
    found = []
    if not known or known[0][0] != COPY:
        raise ValueError("function 0 is not that which copies")
    for _ in range(count):
        if at + _INSTRUCTION.size > end:
            raise ValueError("the code ends in an instruction")
        function, words = _INSTRUCTION.unpack_from(data, at)
        at += _INSTRUCTION.size
        if function >= len(known) or words != known[function][1] or words > MOST_WORDS or at + words * _WORD.size > end:
            raise ValueError(f"there is no function {function} of {words} words")
        parts = [_WORD.unpack_from(data, at + place * _WORD.size) for place in range(words)]
        at += words * _WORD.size
        if any(base >= bases for base, _, _ in parts):
            raise ValueError("there is no such base")
        found.append(Instruction(function, tuple((base, offset) for base, _, offset in parts)))
    if at != end:
        raise ValueError("the code is longer than its instructions")
    return tuple(found)
