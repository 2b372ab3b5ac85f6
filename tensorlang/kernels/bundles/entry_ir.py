"""LLVM IR of an exported sequence: its entry, the test of weights, and a way to call each function by number.

    int32_t name(const void *weights, void *arena, inputs..., outputs...)       the calls, one after the other
    int32_t name_weights(const void *weights, int64_t bytes)                    is this the whole of this sequence's file?
    int32_t name_dispatch(int32_t function, const int64_t *words)               what the virtual machines ask for

No function allocates: intermediates of kernels lie in the arena, where `tensorlang_take_within` finds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorlang.codegen.calling import sequence_ir
from tensorlang.codegen.calling.entry_table import word
from tensorlang.codegen.export.interface import BAD_POINTER
from tensorlang.codegen.runtime import workspaces
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.kernels.bundles.image import COPY, NUMBER, PASSED, Image, Instruction
from tensorlang.kernels.bundles.weights_file import MAGIC, VERSION
from tensorlang.kernels.touched import nbytes

BAD_WEIGHTS: Final = 7

_HOOKS: Final = f"""
define weak ptr @{workspaces.TAKE_WITHIN}(ptr %memory, i64 %offset, i64 %bytes, i64 %alignment) {{
  %none = icmp eq ptr %memory, null
  br i1 %none, label %nothing, label %place
place:
  %start = getelementptr i8, ptr %memory, i64 %offset
  %address = ptrtoint ptr %start to i64
  %mask = sub i64 %alignment, 1
  %before = sub i64 0, %address
  %short = and i64 %before, %mask
  %aligned = getelementptr i8, ptr %start, i64 %short
  ret ptr %aligned
nothing:
  ret ptr null
}}
define weak void @{workspaces.GIVE_WITHIN}(ptr %memory, ptr %block) {{
  ret void
}}
declare void @llvm.memcpy(ptr, ptr, i64, i1)"""

HOOKS: Final = (workspaces.TAKE_WITHIN, workspaces.GIVE_WITHIN)


def module(image: Image, symbols: Sequence[str]) -> str:
    """The module of the entries; `symbols` are what the functions are called in the objects."""
    declared = [
        f'declare i32 @"{symbol}"({_types(function.words)})'
        for symbol, function in zip(symbols, image.functions, strict=True)
        if symbol != COPY
    ]
    copy = sequence_ir.copying().replace("define i32 @copy", "define internal i32 @copy")
    return "\n".join([_HOOKS, copy, *declared, _weights(image), _entry(image, symbols), _dispatch(image, symbols)])


def _types(count: int) -> str:
    return ", ".join(["i64"] * count)


def _weights(image: Image) -> str:
    magic = int.from_bytes(MAGIC, "little")
    return f"""
define internal i1 @theirs(ptr %weights) {{
{word("magic", "i64", "%weights", 0)}
{word("version", "i64", "%weights", 1)}
{word("bytes", "i64", "%weights", 2)}
{word("layout", "i64", "%weights", 3)}
  %right.magic = icmp eq i64 %magic, {magic}
  %right.version = icmp eq i64 %version, {VERSION}
  %right.bytes = icmp eq i64 %bytes, {image.weights_bytes}
  %right.layout = icmp eq i64 %layout, {image.layout}
  %first = and i1 %right.magic, %right.version
  %second = and i1 %right.bytes, %right.layout
  %right = and i1 %first, %second
  ret i1 %right
}}
define i32 @"{image.name}_weights"(ptr %weights, i64 %bytes) {{
  %whole = icmp eq i64 %bytes, {image.weights_bytes}
  %there = icmp ne ptr %weights, null
  %ready = and i1 %whole, %there
  br i1 %ready, label %look, label %wrong
look:
  %right = call i1 @theirs(ptr %weights)
  br i1 %right, label %good, label %wrong
good:
  ret i32 0
wrong:
  ret i32 {BAD_WEIGHTS}
}}"""


def _entry(image: Image, symbols: Sequence[str]) -> str:
    ports = (*image.inputs, *image.outputs)
    names = ["zero", "arena", "weights", *(f"p{place}" for place in range(len(ports)))]
    lines = [f'define i32 @"{image.name}"({", ".join(f"ptr %{name}" for name in names[1:3][::-1] + names[PASSED:])}) {{']
    tests = [("weights", LINE_BYTES, True), ("arena", LINE_BYTES, image.arena > 0)]
    tests += [(f"p{place}", port.dtype.bytes, nbytes(port) > 0) for place, port in enumerate(ports)]
    lines += [f"  %{name}.i = ptrtoint ptr %{name} to i64" for name in names[1:]]
    for name, alignment, needed in tests:
        lines += [
            f"  %{name}.low = and i64 %{name}.i, {alignment - 1}",
            f"  %{name}.odd = icmp ne i64 %{name}.low, 0",
            f"  %{name}.null = icmp eq i64 %{name}.i, {0 if needed else -1}",
            f"  %{name}.bad = or i1 %{name}.odd, %{name}.null",
            f"  br i1 %{name}.bad, label %bad.pointer, label %{name}.good",
            f"{name}.good:",
        ]
    lines += ["  %right = call i1 @theirs(ptr %weights)", "  br i1 %right, label %step0, label %bad.weights"]
    for place, instruction in enumerate(image.code):
        lines += [f"step{place}:", *_call(place, instruction, symbols[instruction.function], names)]
    lines += [
        f"step{len(image.code)}:", "  ret i32 0",
        "bad.pointer:", f"  ret i32 {BAD_POINTER}",
        "bad.weights:", f"  ret i32 {BAD_WEIGHTS}", "}",
    ]  # fmt: skip
    return "\n".join(lines)


def _call(place: int, instruction: Instruction, symbol: str, names: list[str]) -> list[str]:
    lines, values = [], []
    for number, (base, offset) in enumerate(instruction.words):
        if base == NUMBER:
            values.append(f"i64 {offset}")
            continue
        lines.append(f"  %w{place}.{number} = add i64 %{names[base]}.i, {offset}")
        values.append(f"i64 %w{place}.{number}")
    if symbol == COPY:
        lines += [f"  %w{place}.{number}.at = inttoptr i64 %w{place}.{number} to ptr" for number in range(3)]
        values = [f"ptr %w{place}.{number}.at" for number in range(3)]
    lines += [
        f'  %s{place} = call i32 @"{symbol}"({", ".join(values)})',
        f"  %ok{place} = icmp eq i32 %s{place}, 0",
        f"  br i1 %ok{place}, label %step{place + 1}, label %failed{place}",
        f"failed{place}:",
        f"  ret i32 %s{place}",
    ]
    return lines


def _dispatch(image: Image, symbols: Sequence[str]) -> str:
    cases, blocks = [], []
    for number, (symbol, function) in enumerate(zip(symbols, image.functions, strict=True)):
        kind = "ptr" if symbol == COPY else "i64"
        cases.append(f"    i32 {number}, label %f{number}")
        loads = "\n".join(word(f"v{number}.{at}", kind, "%words", at) for at in range(function.words))
        values = ", ".join(f"{kind} %v{number}.{at}" for at in range(function.words))
        blocks.append(f'f{number}:\n{loads}\n  %r{number} = call i32 @"{symbol}"({values})\n  ret i32 %r{number}')
    return f"""
define i32 @"{image.name}_dispatch"(i32 %function, ptr %words) {{
  switch i32 %function, label %none [
{chr(10).join(cases)}
  ]
{chr(10).join(blocks)}
none:
  ret i32 -1
}}"""
