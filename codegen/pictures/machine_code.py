"""The innermost loops' machine code, and which line of the nest each instruction comes from.

The program is compiled once more with debug information, which says so. That is only believed where it is the same code, instruction by
instruction, as that of the kernel; else the code stands there without its lines.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
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
"""Lines of a loop that are shown."""
LOOPS: Final = 6
"""Loops that are shown."""
_LOCATION: Final = re.compile(r"\t\.loc\t\d+ (\d+)")
_CODE: Final = re.compile(r"\t[a-z]|\.LBB\w+:")


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """An innermost loop: its instructions, each with its line of the nest, counted from 1 (None: of no line).

    `left_out` more are not shown; `counts` says what is in it, `stages` whose code it is, `seconds` what these are predicted to take.
    """

    code: tuple[tuple[str, int | None], ...]
    counts: assembly.InnerLoop
    left_out: int
    stages: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class MachineCode:
    """The innermost loops, hottest first. `traced`: instructions have lines; `instead` says why there are no loops."""

    loops: tuple[InnerLoop, ...] = ()
    traced: bool = False
    instead: str = ""


def machine_code(kernel: Runnable, nest: Nest, stages: Mapping[str, float]) -> MachineCode:
    """That of a kernel whose scheduled nest this is, where the stages are predicted to take so many seconds.

    The hottest loop is the one whose stages take most time; of several with the same stages, that with the most arithmetic.
    """
    if not kernel.target.is_x86:
        return MachineCode(instead=f"Loops are found in code for x86-64; this is for {kernel.target.arch}.")
    plain = kernel.inspect("asm")
    rows = plain.splitlines()
    code = [line for line in rows if _CODE.match(line)]
    traced = _with_lines(kernel, nest)
    same = [line for line, _ in traced] == code
    located = traced if same else [(line, None) for line in code]
    before = list(itertools.accumulate((_CODE.match(line) is not None for line in rows), initial=0))
    names = {line: stage for stage, line in nest_lines(nest).stages.items()}
    found = []
    for loop in assembly.read(plain).loops:
        place = assembly.lines_of(loop, plain)
        own = located[before[place.start] : before[place.stop]]
        whose = Counter(names[line] for _, line in own if line in names)
        time = max((stages.get(stage, 0.0) for stage in whose), default=0.0)
        found.append(
            InnerLoop(tuple(own[:MOST]), loop, max(0, len(own) - MOST), tuple(dict.fromkeys(s for s, _ in whose.most_common())), time)
        )
    found.sort(key=lambda loop: -loop.seconds)
    return MachineCode(tuple(found[:LOOPS]), same)


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
    """Labels and instructions, each with the line that holds since the last location that was told."""
    line: int | None = None
    for row in text.splitlines():
        location = _LOCATION.match(row)
        if location:
            line = int(location[1]) or None
        elif _CODE.match(row):
            yield row, None if row.startswith(".") else line
