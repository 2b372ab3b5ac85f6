"""Libraries whose tensors machine code can take apart: types that offer DLPack's table of C functions.

Since DLPack 1.2 a type may have `__dlpack_c_exchange_api__`, a capsule with functions that do in C what `__dlpack__` does in Python.
`meet` writes such a type down in a table that the entry of kernels searches. It takes the type alone that has the attribute itself: a
class derived from it may be a tensor without memory (torch's fake ones), which the function does not tell apart.

What `__dlpack__` checks beyond the function stands in the table as well: an attribute and a method that have to say False. torch exports
neither a tensor that needs gradients, nor rightly one whose values are to be negated when they are read.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Final

from tensorlang.ir.dtype import DType

MAJOR: Final = 1
"""The version of DLPack whose structures are read."""
CPU: Final = 1
PINNED: Final = 3
"""Devices whose memory the CPU reads: kDLCPU, and kDLCUDAHost."""
READ_ONLY: Final = 1
COPIED: Final = 2

ROW: Final = ("type", "function", "attribute", "method")
MOST: Final = 8
"""Types that the table holds; any further one goes the careful path."""

ATTRIBUTE: Final = "requires_grad"
METHOD: Final = "is_neg"

_FROM_OBJECT: Final = 24
"""Where the table of functions has `managed_tensor_from_py_object_no_sync`, in bytes; versions and an older table come first."""

_KINDS: Final = {"signed": 0, "unsigned": 1, "floating": 2, "bool": 6}
_BFLOAT: Final = 4

_table: Final = (ctypes.c_void_p * (len(ROW) * (MOST + 1)))()
_met: Final[dict[type, object]] = {}
_NAMES: Final = tuple(sys.intern(name) for name in (ATTRIBUTE, METHOD))


def address() -> int:
    """Where the table is: rows of `ROW`, the last of them zero."""
    return ctypes.addressof(_table)


def type_word(dtype: DType) -> int:
    """`DLDataType` of one element, as the number that its four bytes are."""
    kind = _BFLOAT if dtype == "bfloat16" else _KINDS[dtype.kind]
    return kind | 8 * dtype.bytes << 8 | 1 << 16


def meet(kind: type) -> None:
    """Have the entry of kernels take tensors of this type from now on, if it offers how; whatever is odd about it is left alone."""
    if kind in _met or len(_met) == MOST:
        return
    capsule = vars(kind).get("__dlpack_c_exchange_api__")
    if capsule is None or (function := _function(capsule)) is None:
        return
    guards = [id(name) if hasattr(kind, name) else 0 for name in _NAMES]
    first = len(ROW) * len(_met)
    _met[kind] = capsule  # both stay for good
    _table[first + 1 : first + len(ROW)] = [function, *guards]
    _table[first] = id(kind)  # last: a row is complete when it is found


def _function(capsule: Any) -> int | None:
    """The address of the function that exports a tensor; None where the capsule holds something else."""
    valid = ctypes.pythonapi.PyCapsule_IsValid
    valid.restype, valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = b"dlpack_exchange_api"
    if not valid(capsule, name):
        return None
    start = pointer(capsule, name)
    if ctypes.c_uint32.from_address(start).value != MAJOR:
        return None
    return ctypes.c_void_p.from_address(start + _FROM_OBJECT).value
