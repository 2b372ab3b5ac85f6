"""The one DLPack tensor that NumPy cannot import: bfloat16, which has neither a buffer format nor a NumPy type of its own.

The exchange structure is that of DLPack 0.x, the form that every exporter gives when it is asked without a version.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang.ir.dtype import DType

_BFLOAT: Final = 4
_CAPSULE: Final = b"dltensor"


class _Tensor(ctypes.Structure):
    """`DLTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _View:
    """What NumPy makes an array from: the memory of a capsule, which is released when the last array over it goes."""

    def __init__(self, tensor: _Tensor, capsule: object) -> None:
        shape = tuple(tensor.shape[: tensor.ndim])
        self.capsule = capsule
        self.__array_interface__ = {
            "version": 3,
            "typestr": np.dtype(np.uint16).str,
            "data": ((tensor.data or 0) + tensor.byte_offset, False),
            "shape": shape,
            "strides": tuple(2 * step for step in tensor.strides[: tensor.ndim]) if tensor.strides else None,
        }


def bfloat16_view(value: Any) -> npt.NDArray[Any] | None:
    """An array over the memory of a bfloat16 tensor; None for any other type."""
    capsule = value.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(pointer(capsule, _CAPSULE))
    if (tensor.code, tensor.bits, tensor.lanes) != (_BFLOAT, 16, 1):
        return None
    return np.asarray(_View(tensor, capsule)).view(DType("bfloat16").numpy)
