"""Tables that registers hold, on processors that pick bytes, or numbers of 32 bits, out of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tensorlang.ir import Buffer, Const, Expr
from tensorlang.ir.dtype import INT64
from tensorlang.ir.traverse import axes_of, reads_data

PICKS: Final = "avx512vbmi"
"""What a processor is told to have whose one instruction picks 64 bytes out of 128."""
SHUFFLES: Final = "avx2"
"""The same of one that shuffles the bytes of 16 in each part of a register, so that there are several to choose from."""
REGISTER: Final = 64
"""Bytes of a register, and numbers that an instruction takes, at most."""
PART: Final = 16
"""Bytes out of which one shuffle takes each."""
MOST: Final = 256
"""Bytes of a table that a number of eight bits reaches."""
WORDS: Final = 16
"""Numbers of 32 bits that one register of 512 bits holds, or two of 256 bits."""
WORD: Final = 4
"""Bytes of such a number."""


def small_table(buffer: Buffer, index: tuple[Expr, ...], isa: Collection[str]) -> int:
    """The elements of a table that registers of a processor hold and that is read where data tell; 0 of another buffer.

    So is a row of an array that other axes tell than what stands along it.
    """
    *row, last = index or (Const(0, INT64),)
    if SHUFFLES not in isa or not reads_data(last) or any(map(reads_data, row)) or len(buffer.shape) != len(buffer.in_memory):
        return 0
    if not axes_of(last).isdisjoint(axis for part in row for axis in axes_of(part)):
        return 0
    extent = int(buffer.shape[-1].value) if isinstance(buffer.shape[-1], Const) else 0
    of_bytes = buffer.dtype.is_integer and buffer.dtype.bytes == 1
    lengths = range(PART, MOST + 1, PART) if of_bytes else range(1, WORDS + 1) if buffer.dtype.bytes == WORD else ()
    return extent if extent in lengths else 0
