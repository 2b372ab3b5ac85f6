"""A library of tensors that offers DLPack's table of functions, as torch does: made by hand, so that any tensor can be had.

Every export is counted, and so is every deletion.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from tests.codegen.handmade import Exporter

_KINDS: Final = {"i": 0, "u": 1, "f": 2, "b": 6}
_Deleter: Final = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_Export: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))


class _Managed(ctypes.Structure):
    """`DLManagedTensorVersioned`."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


_alive: Final[dict[int, tuple[object, ...]]] = {}
made: Final = [0]
"""How many tensors were exported."""


def alive() -> int:
    """How many exported tensors were not deleted."""
    return len(_alive)


def _deleted(place: int) -> None:
    del _alive[place]


def _exported(pointer: int, out: Any) -> int:
    tensor = ctypes.cast(pointer, ctypes.py_object).value
    if tensor.fails:
        return -1
    array = tensor.array
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)
    strides = (ctypes.c_int64 * array.ndim)(*(step // array.itemsize for step in array.strides))
    managed = _Managed(
        tensor.major, 3, None, ctypes.cast(_delete, ctypes.c_void_p), 0 if array.flags.writeable else 1,
        array.ctypes.data - tensor.offset, tensor.device[0], 0, array.ndim, _KINDS[array.dtype.kind], 8 * array.itemsize, 1,
        ctypes.addressof(shape), None if tensor.implied else ctypes.addressof(strides), tensor.offset,
    )  # fmt: skip
    place = ctypes.addressof(managed)
    _alive[place] = (managed, shape, strides, array)
    made[0] += 1
    out[0] = place
    return 0


_delete: Final = _Deleter(_deleted)
_export: Final = _Export(_exported)
_TABLE: Final = (ctypes.c_uint64 * 7)(1 | 3 << 32, 0, 0, ctypes.cast(_export, ctypes.c_void_p).value or 0, 0, 0, 0)
_NAME: Final = b"dlpack_exchange_api"


def capsule(name: bytes = _NAME, table: Any = _TABLE) -> object:
    """A capsule of a table of functions."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    kept.append((name, table))
    return new(ctypes.addressof(table), kept[-1][0], None)


kept: Final[list[tuple[bytes, Any]]] = []
"""Names and tables that capsules refer to."""


class Tensor(Exporter):
    """A tensor over an array; an `offset` in bytes into its memory, no strides at all, an error, or an unknown version on demand."""

    __dlpack_c_exchange_api__ = capsule()
    requires_grad = False

    def __init__(self, array: Any, device: Any = (1, 0), **odd: Any) -> None:
        super().__init__(np.asarray(array), device)
        self.offset, self.implied = odd.get("offset", 0), odd.get("implied", False)
        self.fails, self.major = odd.get("fails", False), odd.get("major", 1)
        self.requires_grad, self.negative = odd.get("requires_grad", False), odd.get("negative", False)

    def __dlpack__(self, **keywords: Any) -> Any:
        if self.fails or self.requires_grad:
            raise BufferError("no export")
        return super().__dlpack__(**keywords)

    def is_neg(self) -> bool:
        """Whether its values are to be negated when they are read."""
        return bool(self.negative)
