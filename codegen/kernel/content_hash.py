"""A digest of large arrays as fast as memory is read: what weights are named by, and what tells that a file of them is whole.

SHA-256 reads 1 to 2 GB a second; the weights of a model are half a gigabyte, and a start that packs nothing did little else. Here eight
lanes, each of every eighth word, take one multiplication a word (the folded one of wyhash):

    h = low(p) xor high(p),    p = (h xor word) * k,    p of 128 bits

and SHA-256 takes what the lanes of each block come to. Where each lane starts and its multiplier `k` are the key, random numbers that
nobody else knows, so that nobody can make weights that are taken for other ones. By chance two arrays have one digest with a probability
below 2**-49: that of two states of a lane that meet again in the 2**14 steps of a block.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable
from typing import Final

import numpy as np

from tensorlang.codegen.calling.entry_table import word
from tensorlang.codegen.calling.handwritten import linked
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.llvm.linked_once import LinkedOnce

KEY_BYTES: Final = 128
"""A start and a multiplier of 64 bits for each lane."""
SMALL: Final = 1 << 20
"""Bytes up to which SHA-256 alone is done as soon as code is linked."""

_LANES: Final = 8
_ROW_BYTES: Final = 8 * _LANES
_BLOCK_BYTES: Final = 1 << 20
_ENTRY: Final = "digest"


def new_key() -> bytes:
    """A key at random."""
    return os.urandom(KEY_BYTES)


def content_digest(data: memoryview, key: bytes) -> bytes:
    """The 32 bytes of a digest of bytes, under a key of `KEY_BYTES`."""
    found = hashlib.sha256(key + len(data).to_bytes(8, "little"))
    whole = len(data) - len(data) % _ROW_BYTES if len(data) > SMALL else 0
    if whole:
        found.update(_states(data[:whole], key))
    found.update(data[whole:])
    return found.digest()


def _states(rows: memoryview, key: bytes) -> bytes:
    """What the lanes of each block come to."""
    call, _ = _native()
    start = np.frombuffer(rows, np.uint8).ctypes.data
    numbers = np.frombuffer(key, "<u8") | np.repeat(np.array([0, 1], "<u8"), _LANES)  # multipliers are odd
    states = np.empty((-(-len(rows) // _BLOCK_BYTES), _LANES), "<u8")
    for block, state in enumerate(states):
        at = block * _BLOCK_BYTES
        call(start + at, min(_BLOCK_BYTES, len(rows) - at) // _ROW_BYTES, numbers.ctypes.data, state.ctypes.data)
    return states.tobytes()


@LinkedOnce
def _native() -> tuple[Callable[[int, int, int, int], None], binding.Library]:
    library = linked(module(), (_ENTRY,))
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    return signature(library.address(_ENTRY)), library


def module() -> str:
    """LLVM IR of a function of rows of words, how many there are, the key, and where the states go."""
    lanes = range(_LANES)
    begin = "\n".join(
        f"{word(f's{lane}', 'i64', '%key', lane)}\n{word(f'n{lane}', 'i64', '%key', _LANES + lane)}\n  %k{lane} = zext i64 %n{lane} to i128"
        for lane in lanes
    )
    states = "\n".join(f"  %h{lane} = phi i64 [ %s{lane}, %start ], [ %h{lane}.next, %row ]" for lane in lanes)
    steps = "\n".join(
        f"""  %w{lane}.at = getelementptr i64, ptr %at, i64 {lane}
  %w{lane} = load i64, ptr %w{lane}.at, align 1
  %x{lane} = xor i64 %h{lane}, %w{lane}
  %wide{lane} = zext i64 %x{lane} to i128
  %p{lane} = mul i128 %wide{lane}, %k{lane}
  %low{lane} = trunc i128 %p{lane} to i64
  %shifted{lane} = lshr i128 %p{lane}, 64
  %high{lane} = trunc i128 %shifted{lane} to i64
  %h{lane}.next = xor i64 %low{lane}, %high{lane}"""
        for lane in lanes
    )
    stores = "\n".join(
        f"  %to{lane} = getelementptr i64, ptr %states, i64 {lane}\n  store i64 %h{lane}.next, ptr %to{lane}, align 8" for lane in lanes
    )
    return f"""
define void @{_ENTRY}(ptr %data, i64 %rows, ptr %key, ptr %states) {{
start:
{begin}
  br label %row
row:
  %n = phi i64 [ 0, %start ], [ %n.next, %row ]
{states}
  %first = mul i64 %n, {_LANES}
  %at = getelementptr i64, ptr %data, i64 %first
{steps}
  %n.next = add i64 %n, 1
  %more = icmp slt i64 %n.next, %rows
  br i1 %more, label %row, label %done
done:
{stores}
  ret void
}}"""
