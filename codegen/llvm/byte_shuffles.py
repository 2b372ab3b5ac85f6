"""Shuffles of 64 bytes on AVX-512, kept apart from the arithmetic around them.

    %s = shufflevector <64 x i8> %x, ...        ->      %before.0 = asm "" (%x)
    %y = add <64 x i8> %s, %s                           %after.0 = shufflevector <64 x i8> %before.0, ...
                                                        %s = asm "" (%after.0)
                                                        %y = add <64 x i8> %s, %s

LLVM 22 does not come back from selecting instructions for the sum of two equal shuffles that take half of a register, nor for such a
shuffle of a sum: one rule makes them one of 32 bytes, another one makes that whole again. So does doubling, since that is such a sum. Empty
pieces of assembly end the search.
"""

from __future__ import annotations

import re
from typing import Final

KIND: Final = "<64 x i8>"
_SHUFFLE: Final = re.compile(
    rf"^( *)(%\S+) = shufflevector {KIND} (%[^ ,]+), ({KIND} poison, <64 x i32> <i32 .*)$",
    re.MULTILINE,
)


def apart(module: str, *features: str) -> str | None:
    """A module, as text, in which no arithmetic is beside such a shuffle; None for one that has none, or is for another processor.

    `features` are texts in which those of the functions stand.
    """
    if KIND not in module or not any("+avx512bw" in told for told in features):
        return None
    found = 0

    def kept(match: re.Match[str]) -> str:
        nonlocal found
        blanks, name, of, order = match.groups()
        before, after, found = f"%before.{found}", f"%after.{found}", found + 1
        lines = (
            f'{before} = call {KIND} asm "", "=v,0"({KIND} {of})',
            f"{after} = shufflevector {KIND} {before}, {order}",
            f'{name} = call {KIND} asm "", "=v,0"({KIND} {after})',
        )
        return "\n".join(blanks + line for line in lines)

    text = _SHUFFLE.sub(kept, module)
    return text if found else None
