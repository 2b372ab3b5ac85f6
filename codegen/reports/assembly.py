"""The machine code of a kernel, read: its innermost loops, how much of them is vector arithmetic, what is spilled.

An innermost loop is the text between a label and a later jump back to it with no other such pair inside. The hot one is that with the
most arithmetic, which is right where inner loops run about equally often and a guess otherwise. Where no innermost loop computes
anything (all was unrolled), the text outside of loops is taken instead. A spill is a whole vector moved to or from the stack inside the
loop, alone or as an operand. What few lanes need (`rare_paths`) has a loop in a function of its own, which is left out. Only x86 is read;
for other machines there is nothing to say.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Final

from tensorlang.codegen.emission.math import rare_paths

_LABEL: Final = re.compile(r"^(\.\w+):")
_FUNCTION: Final = re.compile(r'^_?"?([A-Za-z_][\w.]*)"?:')
_JUMP: Final = re.compile(r"^\tj\w+\s+(\.\w+)")
_INSTRUCTION: Final = re.compile(r"^\t(v?[a-z]\w*)\s*(.*)")
_PACKED: Final = re.compile(
    r"^v?(fn?m(add|sub)|add|sub|mul|div|sqrt|min|max|rcp|rsqrt|dp)\w*p[sdh]$|^v?p(add|sub|mul|madd|min|max|dpb|dpw)"
)
_SCALAR: Final = re.compile(r"^v?(fn?m(add|sub)\d*|add|sub|mul|div|sqrt|min|max)s[sdh]$|^imul[lq]?$")
_OPERATIONS: Final = (
    (re.compile(r"^vpdpb"), 8),
    (re.compile(r"^vpdpw|^vdpbf16"), 4),
    (re.compile(r"^v?pmaddw"), 3),
    (re.compile(r"^vfn?m"), 2),
)
_IN_PLACE: Final = re.compile(r"^vfn?m|^vpdp|^vdpbf16|^vperm[it]2")
_ONE: Final = re.compile(r"^(?!v?p)v?(\w*[sd]?s[sdh]|movd|movq|cvtsi2s[sd]l?)$")
_STACK: Final = re.compile(r"(?<![\w)])-?\d*\(%rsp\)")
_REGISTER: Final = re.compile(r"%([xyz]mm\d+)")
_WIDTHS: Final = {"z": 512, "y": 256, "x": 128}


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """One innermost loop of the machine code.

    `vector` and `scalar` are arithmetic instructions on vectors and on single numbers, `fused` those of them that multiply and add,
    `operations` what all of them do in each 32 (or 64) bits of a register, `chains` the registers that one iteration hands to the
    next, `spills` the vectors moved to or from the stack, `width` the widest register in bits.
    """

    label: str
    instructions: int
    vector: int
    scalar: int
    fused: int
    operations: int
    chains: int
    spills: int
    width: int

    @property
    def share(self) -> float | None:
        """The share of arithmetic that is on vectors; None without arithmetic."""
        total = self.vector + self.scalar
        return self.vector / total if total else None


@dataclass(frozen=True, slots=True)
class Assembly:
    """The innermost loops of the code, the one with the most arithmetic first."""

    loops: tuple[InnerLoop, ...]

    @property
    def hot(self) -> InnerLoop | None:
        """The loop that most of the arithmetic is in, without arithmetic most of the vectors."""
        return self.loops[0] if self.loops else None

    def to_json(self) -> list[dict[str, Any]]:
        """Plain values, hot loop first."""
        return [asdict(loop) for loop in self.loops]


def read(text: str) -> Assembly:
    """The innermost loops in assembly text; of code without arithmetic in them, the text outside."""
    lines = _usual(text.splitlines())
    ranges = _loops(lines)
    inner = [one for one in ranges if not any(one[0] <= other[0] and other[1] <= one[1] for other in ranges if other != one)]
    loops = [_loop(lines[start : end + 1], lines[start].split(":")[0]) for start, end in inner]
    if not any(loop.vector + loop.scalar for loop in loops):
        inside = {place for start, end in inner for place in range(start, end + 1)}
        rest = _loop([line for place, line in enumerate(lines) if place not in inside], "")
        if rest.vector + rest.scalar or not loops:
            loops.append(rest)
    return Assembly(tuple(sorted((loop for loop in loops if loop.instructions), key=_weight, reverse=True)))


def lines_of(loop: InnerLoop, text: str) -> range:
    """Where a loop that was found in a text stands, as places of its lines; all lines for what is no loop."""
    lines = text.splitlines()
    found = (range(start, end + 1) for start, end in _loops(lines) if lines[start].split(":")[0] == loop.label)
    return next(found, range(len(lines)))


def _usual(lines: list[str]) -> list[str]:
    """The lines but for those of functions that few lanes need."""
    kept, rare = [], False
    for line in lines:
        if found := _FUNCTION.match(line):
            rare = found[1].startswith(rare_paths.PREFIX)
        if not rare:
            kept.append(line)
    return kept


def _loops(lines: list[str]) -> list[tuple[int, int]]:
    """The first and the last line of each loop, from its label to the last jump back; calls of what few lanes need stand behind it."""
    labels = {found[1]: place for place, line in enumerate(lines) if (found := _LABEL.match(line))}
    ends: dict[int, int] = {}
    rare = False
    for place, line in enumerate(lines):
        rare = (rare or rare_paths.PREFIX in line) and not _LABEL.match(line)
        jump = None if rare else _JUMP.match(line)
        if jump and labels.get(jump[1], place) < place:
            ends[labels[jump[1]]] = place
    return list(ends.items())


def _weight(loop: InnerLoop) -> tuple[int, int]:
    return loop.vector * loop.width + loop.scalar * 32, loop.width * loop.instructions


def _loop(lines: list[str], label: str) -> InnerLoop:
    vector = scalar = fused = operations = spills = count = width = 0
    carried: set[str] = set()
    written: set[str] = set()
    for line in lines:
        found = _INSTRUCTION.match(line)
        if not found:
            continue
        name, operands = found[1], found[2]
        count += 1
        registers = [one[1] for one in _REGISTER.finditer(operands)]
        packed = bool(registers) and _ONE.match(name) is None
        does = next((times for pattern, times in _OPERATIONS if pattern.match(name)), 1)
        if _SCALAR.match(name):
            scalar += 1
            operations += does
        elif packed and _PACKED.match(name):
            vector += 1
            operations += does
        else:
            does = 0
        fused += does > 1
        spills += packed and _STACK.search(operands) is not None
        if packed:
            width = max(width, *(_WIDTHS[register[0]] for register in registers))
        if registers:
            target = registers[-1][1:] if operands.rstrip().endswith(registers[-1]) else None
            sources = {register[1:] for register in (registers[:-1] if target and not _IN_PLACE.match(name) else registers)}
            if does and target and target in sources and target not in written:
                carried.add(target)
            written |= {target} if target else set()
    return InnerLoop(label, count, vector, scalar, fused, operations, len(carried), spills, width)
