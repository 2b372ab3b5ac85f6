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

import itertools
import re
from typing import Final

KIND: Final = "<64 x i8>"
_SHUFFLE: Final = re.compile(
    rf"^( *)(%\S+) = shufflevector {KIND} (%[^ ,]+), ({KIND} poison, <64 x i32> <i32 .*)$",
    re.MULTILINE,
)


def apart(module: object, emitted: str, features: str) -> str | None:
    """A module in which no arithmetic is beside such a shuffle, as text; None where it has none, or is for another processor.

    `module` is what became of the text `emitted`, and printed only where that has such vectors; features stand in it, or in `features`.
    """
    if KIND not in emitted or not any("+avx512bw" in told for told in (emitted, features)):
        return None
    numbers = itertools.count()

    def kept(match: re.Match[str]) -> str:
        blanks, name, of, order = match.groups()
        place = next(numbers)
        before, after = f"%before.{place}", f"%after.{place}"
        lines = (
            f'{before} = call {KIND} asm "", "=v,0"({KIND} {of})',
            f"{after} = shufflevector {KIND} {before}, {order}",
            f'{name} = call {KIND} asm "", "=v,0"({KIND} {after})',
        )
        return "\n".join(blanks + line for line in lines)

    text, found = _SHUFFLE.subn(kept, str(module))
    return text if found else None
