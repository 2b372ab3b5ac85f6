"""Fixed operands as kernels hold them, by content: what is the same is there once, for all kernels, and in a file for all processes.

A name says what was packed and how: the digest of the operand, and of the code of each step. So kernels for other batch sizes, whose
schedules pack alike, share one array. Where files are kept (`TENSORLANG_CACHE`), a large one is mapped from `weights/NAME.tlw`: processes
share its pages, and one that starts packs nothing.

A file is read like an entry of the object cache: only one that its owner alone can change, and only if its contents match their digest.
Whatever is wrong with it, the operand is packed again and the file replaced, with one line in the log.

Digests are made with a key (`content_hash`), which a folder keeps in a file of its own: a name means nothing where that is another one.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import mmap
import os
import stat
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang.codegen.cache import object_files
from tensorlang.codegen.kernel.content_hash import KEY_BYTES, content_digest, new_key
from tensorlang.codegen.runtime import arrays
from tensorlang.ir.dtype import DType
from tensorlang.system import files, forks

Array = npt.NDArray[Any]

LEAST: Final = 64 << 10
"""Bytes from which an operand is kept in a file: what is smaller is packed as fast as it is found."""
LIMIT: Final = 8 << 30
"""Bytes of all files; the ones that were not used for longest go when there are more."""

_SUFFIX: Final = ".tlw"
_MAGIC: Final = b"tensorlang weight 3\n".ljust(32, b"\0")
_START: Final = 4096
"""Where the elements begin: at a page, and so at a cache line, wherever the file is mapped."""
_KEY: Final = "weights.key"

_log: Final = logging.getLogger("tensorlang")
_lock: Final = forks.short_lock()
_shared: Final[weakref.WeakValueDictionary[str, Array]] = weakref.WeakValueDictionary()
_own_key: Final = new_key()
"""The key where no file keeps one."""


def digest(operand: Array, steps: Sequence[str]) -> str:
    """The name of what steps of these names make of an operand, which has no gaps."""
    axes = arrays.axes_in_memory(operand)
    assert axes is not None, "a constant operand has no gaps"
    elements = content_digest(operand.transpose(axes).reshape(-1).view(np.uint8).data, _key()) if operand.size else b""
    return hashlib.sha256(elements + repr((operand.shape, axes, str(operand.dtype), tuple(steps))).encode()).hexdigest()


def shared(name: str, shape: tuple[int, ...], dtype: DType, make: Callable[[], Array]) -> Array:
    """The operand of a name, which nobody writes to: the one that is there, from its file, or made now. Raises what `make` raises."""
    with _lock:
        known = _shared.get(name)
    if known is not None:
        return known
    path = _path_of(name, math.prod(shape) * dtype.bytes)
    array = None if path is None else _mapped(path, name, shape, dtype)
    if array is None:
        array = make()
        if path is not None and _written(path, name, array):
            del array  # before its file is there too
            array = _mapped(path, name, shape, dtype)
            array = make() if array is None else array
    array.flags.writeable = False
    with _lock:
        return _shared.setdefault(name, array)


def _key() -> bytes:
    """The key of the folder of the moment."""
    home = object_files.folder()
    kept = None if home is None else _kept_key(home)
    return _own_key if kept is None else kept


@cache
def _kept_key(home: Path) -> bytes | None:
    """The key in a folder, made if there is none; None where none can be kept, or others may have changed it.

    Of two processes that make one at once, the names of the first mean nothing to the second: each packs for itself, once.
    """
    path = home / _KEY
    for _ in range(2):
        try:
            with files.opened(path) as file:
                if not _is_own(file.fileno()):
                    _log.warning("%s is not read: others may change it", path)
                    return None
                key = file.read(KEY_BYTES + 1)
            if len(key) == KEY_BYTES:
                return key
        except FileNotFoundError:
            pass
        except OSError as error:
            _log.warning("%s is not read: %s", path, error)
            return None
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            with files.replacing(path, durable=False, private=True) as new:
                new.write(new_key())
        except OSError as error:
            _log.warning("%s is not kept: %s", path, error)
            return None
    return None


def _is_own(descriptor: int) -> bool:
    """Is this a file that its owner, who runs this process, alone can change?"""
    status = os.fstat(descriptor)
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & stat.S_IWOTH


def _path_of(name: str, size: int) -> Path | None:
    home = object_files.folder()
    return None if home is None or size < LEAST or _kept_key(home) is None else home / "weights" / f"{name}{_SUFFIX}"


def _mapped(path: Path, name: str, shape: tuple[int, ...], dtype: DType) -> Array | None:
    """The elements in a file, mapped; None where there is none, and, with a line in the log, where it is not to be trusted."""
    try:
        with files.opened(path) as file:
            if not _is_own(file.fileno()):
                _log.warning("%s is not read: others may change it", path)
                return None
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.fstat(file.fileno()).st_size else b""
    except (OSError, ValueError):
        return None
    size = math.prod(shape) * dtype.bytes
    if len(data) != _START + size or data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : 64] != _seal(name, memoryview(data)[_START:]):
        _log.warning("%s is damaged; the operand is packed again", path)
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return np.frombuffer(data, np.uint8, size, _START).view(dtype.numpy).reshape(shape)


def _written(path: Path, name: str, array: Array) -> bool:
    """Keep an operand, if that is possible; is it there?"""
    elements = array.reshape(-1).view(np.uint8).data
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.parent.stat().st_mode & stat.S_IWOTH:
            return False
        with files.replacing(path, durable=False, private=True) as file:
            file.write((_MAGIC + _seal(name, elements)).ljust(_START, b"\0"))
            file.write(elements)
        object_files.trim(path.parent, len(elements), (_SUFFIX,), LIMIT)
    except (OSError, ValueError) as error:
        _log.warning("%s is not kept: %s", path, error)
        return False
    return True


def _seal(name: str, elements: memoryview) -> bytes:
    """What tells that a file is whole, and that it is the file of this name."""
    return hashlib.sha256(bytes.fromhex(name) + content_digest(elements, _key())).digest()
