"""Exported kernels, compiled by the C compiler of this machine and called by ctypes, for the tests of `codegen/export`."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.export.interface import Interface
from tensorlang.ir.integers import value_of

Array = np.ndarray[Any, Any]
STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-ffp-contract=off")

needs_cc = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
needs_cxx = pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")


def run(*words: str | Path, folder: Path) -> str:
    """What a command prints; its errors where it fails."""
    found = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True, timeout=250, check=False)
    assert found.returncode == 0, found.stderr or f"{words[0]}: {found.returncode}"
    return found.stdout


def compiled(folder: Path, names: Sequence[str], *flags: str) -> ctypes.CDLL:
    """The C sources of kernels, compiled into one library."""
    library = folder / "all.so"
    run("cc", *STRICT, *flags, "-fPIC", "-shared", "-o", library, *(f"{name}.c" for name in names), "-lm", folder=folder)
    return ctypes.CDLL(str(library))


def called(library: ctypes.CDLL, kernel: tl.Kernel, inputs: Mapping[str, Array], dims: Mapping[str, int]) -> list[Array]:
    """The results of the plain entry, which were full of 0xA5 bytes before."""
    interface = Interface.of(kernel.program)
    results = []
    for argument in interface.outputs:
        shape = tuple(value_of(extent, dims) for extent in argument.shape)
        results.append(np.frombuffer(b"\xa5" * (int(np.prod(shape)) * argument.dtype.bytes), argument.dtype.numpy).reshape(shape).copy())
    arrays = [*(np.ascontiguousarray(inputs[argument.name]) for argument in interface.inputs), *results]
    status = library[interface.name](
        *(ctypes.c_void_p(array.ctypes.data) for array in arrays), *(ctypes.c_int64(dims[dim]) for dim in interface.dims)
    )
    assert status == 0, status
    return results


class DLTensor(ctypes.Structure):
    """As the header declares it."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


def tensor(array: Any, **changed: Any) -> DLTensor:
    """A row-major float32 array as DLPack has it."""
    made = DLTensor(array.ctypes.data, 1, 0, array.ndim, 2, 32, 1, longs(*array.shape), None, 0)
    for name, value in changed.items():
        setattr(made, name, value)
    return made


def longs(*values: int) -> Any:
    """An array of int64_t."""
    return (ctypes.c_int64 * len(values))(*values)
