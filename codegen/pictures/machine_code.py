"""The hot loop's machine code, and which line of the nest each instruction comes from.

The program is compiled once more with debug information, which says so. That is only believed where it is the same code, instruction by
instruction, as that of the kernel; else the code stands there without its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tensorlang.codegen.calling.runnable import Runnable
from tensorlang.codegen.emission.debug_lines import NestLines
from tensorlang.codegen.emission.emit import emit
from tensorlang.codegen.llvm import safe_compilation
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.reports import assembly
from tensorlang.ir import For, Nest, Store
from tensorlang.ir.printer import printed_lines

MOST: Final = 400
"""Lines of code that are shown."""
_LOCATION: Final = re.compile(r"\t\.loc\t\d+ (\d+)")
_CODE: Final = re.compile(r"\t[a-z]|\.LBB\w+:")
_LABEL: Final = re.compile(r"\.\w+:")


@dataclass(frozen=True, slots=True)
class HotLoop:
    """The instructions of the hot loop, each with its line of the nest, counted from 1 (None: unknown); `left_out` are not shown.

    `instead` says why there is none, `loop` counts what is in it.
    """

    code: tuple[tuple[str, int | None], ...] = ()
    loop: assembly.InnerLoop | None = None
    left_out: int = 0
    traced: bool = False
    instead: str = ""


def hot_loop(kernel: Runnable, nest: Nest) -> HotLoop:
    """That of a kernel whose scheduled nest this is."""
    if not kernel.target.is_x86:
        return HotLoop(instead=f"The hot loop is found in code for x86-64; this is for {kernel.target.arch}.")
    plain = kernel.inspect("asm")
    found = assembly.read(plain).hot
    if found is None:
        return HotLoop(instead="The machine code has no instruction.")
    traced = _with_lines(kernel, nest)
    same = [line for line, _ in traced] == [line for line in plain.splitlines() if _CODE.match(line)]
    own = [plain.splitlines()[place] for place in assembly.lines_of(found, plain)]
    wanted = [line for line in own if _CODE.match(line)]
    lines = traced if same else [(line, None) for line in wanted]
    begin = next(place for place, (line, _) in enumerate(lines) if line == wanted[0])
    code = lines[begin : begin + len(wanted)]
    return HotLoop(tuple(code[:MOST]), found, max(0, len(code) - MOST), same)


def nest_lines(nest: Nest) -> NestLines:
    """The first line of each stage and of each loop, as the nest prints."""
    stages: dict[str, int] = {}
    loops: dict[str, int] = {}
    for number, (_, stmt) in enumerate(printed_lines(nest), 1):
        match stmt:
            case Store(stage=stage):
                stages.setdefault(stage, number)
            case For(loop=loop):
                loops.setdefault(loop, number)
            case _:
                pass
    return NestLines(stages, loops)


def _with_lines(kernel: Runnable, nest: Nest) -> list[tuple[str, int | None]]:
    """All code of the kernel, each instruction with its line."""
    origin = kernel.program.origin
    if origin is None:
        return []
    text = emit(lower(origin.nest, kernel.target), kernel.target, name=origin.nest.name, lines=nest_lines(nest))
    compiled = kernel.program.compiled
    return list(_located(safe_compilation.rendered(text, compiled.machine, "asm", compiled.passes)))


def _located(text: str) -> Iterator[tuple[str, int | None]]:
    """Labels and instructions. What stands between a label and the first location (spills, moves of a loop's values) has none."""
    line: int | None = None
    for row in text.splitlines():
        location = _LOCATION.match(row)
        if location:
            line = int(location[1]) or None
        elif _CODE.match(row):
            line = None if _LABEL.match(row) else line
            yield row, line
