"""Tables of bytes that registers hold, on processors that pick bytes out of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tensorlang.ir import Buffer, Const, Expr
from tensorlang.ir.traverse import reads_data

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


def small_table(buffer: Buffer, index: tuple[Expr, ...], isa: Collection[str]) -> int:
    """The bytes of a table that registers of a processor hold and that is read where data tell; 0 of another buffer."""
    told, of_bytes = any(map(reads_data, index)), buffer.dtype.is_integer and buffer.dtype.bytes == 1
    if SHUFFLES not in isa or not (told and of_bytes and len(buffer.shape) == len(buffer.in_memory) == 1):
        return 0
    extent = buffer.shape[0]
    return int(extent.value) if isinstance(extent, Const) and int(extent.value) in range(PART, MOST + 1, PART) else 0
