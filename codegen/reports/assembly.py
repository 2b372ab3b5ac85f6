"""The machine code of a kernel, read: its innermost loops, how much of them is vector arithmetic, what is spilled.

An innermost loop is the text between a label and a later jump back to it with no other such pair inside. The hot one is that with the
most arithmetic, which is right where inner loops run about equally often and is said to be a guess otherwise. A spill is a whole vector
moved to or from the stack inside such a loop. Only x86 is read; for other machines there is nothing to say.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Final

_LABEL: Final = re.compile(r"^(\.\w+):")
_JUMP: Final = re.compile(r"^\tj\w+\s+(\.\w+)")
_INSTRUCTION: Final = re.compile(r"^\t(v?[a-z]\w*)\s*(.*)")
_PACKED: Final = re.compile(
    r"^v?(f(n?m)(add|sub)|add|sub|mul|div|sqrt|min|max|rcp|rsqrt|pmadd|pdp|dp).*(p[sdh]|ph)$|^vp(add|sub|mul|madd|dpb|dpw|min|max)"
)
_SCALAR: Final = re.compile(r"^v?(f(n?m)(add|sub)|add|sub|mul|div|sqrt|min|max).*s[sdh]$")
_FUSED: Final = re.compile(r"^vf(n?m)(add|sub)\d*p[sdh]|^vpdp|^vdpbf16")
_MOVES: Final = re.compile(r"^v?mov[ua]p[sd]|^vmovdq[ua]\d*")
_STACK: Final = re.compile(r"\(%r[sb]p[,)]|\(%rsp\)")
_WIDTHS: Final = (("%zmm", 512), ("%ymm", 256), ("%xmm", 128))


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """One innermost loop: its label, instructions, arithmetic on vectors and on scalars, multiply-adds, spills, widest register in bits."""

    label: str
    instructions: int
    vector: int
    scalar: int
    fused: int
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
        """The loop that most of the arithmetic is in."""
        return self.loops[0] if self.loops else None

    def to_json(self) -> list[dict[str, Any]]:
        """Plain values, hot loop first."""
        return [asdict(loop) for loop in self.loops]


def read(text: str) -> Assembly:
    """The innermost loops in assembly text."""
    lines = text.splitlines()
    labels = {found[1]: place for place, line in enumerate(lines) if (found := _LABEL.match(line))}
    ranges = []
    for place, line in enumerate(lines):
        jump = _JUMP.match(line)
        if jump and labels.get(jump[1], place) < place:
            ranges.append((labels[jump[1]], place, jump[1]))
    inner = [found for found in ranges if not any(_within(other, found) for other in ranges if other is not found)]
    loops = [_loop(lines[start : end + 1], label) for start, end, label in inner]
    return Assembly(tuple(sorted(loops, key=lambda loop: loop.vector * max(loop.width, 1) + loop.scalar * 32, reverse=True)))


def _within(inner: tuple[int, int, str], outer: tuple[int, int, str]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _loop(lines: list[str], label: str) -> InnerLoop:
    vector = scalar = fused = spills = count = width = 0
    for line in lines:
        found = _INSTRUCTION.match(line)
        if not found:
            continue
        name, operands = found[1], found[2]
        count += 1
        wide = next((bits for register, bits in _WIDTHS if register in operands), 0)
        if _SCALAR.match(name):
            scalar += 1
        elif _PACKED.match(name):
            vector += 1
            width = max(width, wide)
        fused += bool(_FUSED.match(name))
        spills += bool(_MOVES.match(name) and wide >= 128 and _STACK.search(operands))
    return InnerLoop(label, count, vector, scalar, fused, spills, width)
