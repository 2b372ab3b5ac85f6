"""A file of weights: a header, then arrays at multiples of 64 bytes, so that a program maps it and reads them where they lie.

    magic (8 bytes), version (u32), 0 (u32), bytes of the file (u64), layout (u64), CRC-32 of what follows the header (u32), zeros up to 64

Little-endian. `layout` is that of the program: weights of another graph do not fit. All of the header is looked at, and the length, before
anything is mapped.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang.errors import BuildError
from tensorlang.kernels.bundles.image import HEADER, Image, as_bytes
from tensorlang.system import files

MAGIC: Final = b"TLWEIGHT"
VERSION: Final = 1
_FORM: Final = struct.Struct("<8sIIQQI")


def write(image: Image, path: str | os.PathLike[str]) -> Path:
    """Write the weights of a program, whole or not at all. Raises `BuildError` where that fails."""
    try:
        with files.replacing(Path(path)) as file:
            write_to(image, file)
    except (OSError, TypeError, ValueError) as error:
        raise BuildError(f"the weights of {image.name} cannot be written to {str(path)!r:.200}: {error}") from None
    return Path(path)


def write_to(image: Image, file: IO[bytes]) -> None:
    """Write the file."""
    checksum, at = 0, HEADER
    for offset, array in image.weights:
        gap = bytes(offset - at)
        data = as_bytes(array)
        checksum = zlib.crc32(data.data, zlib.crc32(gap, checksum))
        at = offset + data.size
    checksum = zlib.crc32(bytes(image.weights_bytes - at), checksum)
    file.write(_FORM.pack(MAGIC, VERSION, 0, image.weights_bytes, image.layout, checksum).ljust(HEADER, b"\0"))
    at = HEADER
    for offset, array in image.weights:
        file.write(bytes(offset - at))
        data = as_bytes(array)
        file.write(data.data)
        at = offset + data.size
    file.write(bytes(image.weights_bytes - at))


def mapped(path: str | os.PathLike[str], size: int, layout: int) -> npt.NDArray[np.uint8]:
    """The bytes of a file of weights of this size and layout, mapped for reading. Raises `BuildError`."""
    where = f"the file of weights {str(path)!r:.200}"
    try:
        with files.opened(Path(path)) as file:
            head, length = file.read(HEADER), os.fstat(file.fileno()).st_size
            check(head, length, size, layout, where)
            held: npt.NDArray[Any] = np.memmap(file, np.uint8, "r", shape=(size,))
    except (OSError, TypeError, ValueError) as error:
        raise BuildError(f"{where} cannot be read: {error}") from None
    if zlib.crc32(held[HEADER:].data) != _FORM.unpack_from(head)[5]:
        raise BuildError(f"{where} is damaged: its checksum differs; export the weights again")
    return held


def check(head: bytes, length: int, size: int, layout: int, where: str) -> None:
    """Raise `BuildError` where a header is not that of whole weights for a program."""
    if len(head) < HEADER or head[:8] != MAGIC:
        raise BuildError(f"{where} is none: it does not begin with {MAGIC.decode()}")
    _, version, _, told, found, _ = _FORM.unpack_from(head)
    if version != VERSION:
        raise BuildError(f"{where} has version {version}, and this reads version {VERSION}; export the weights again")
    if told != size or found != layout:
        raise BuildError(f"{where} belongs to another program; export the weights of this one")
    if length != size:
        raise BuildError(f"{where} has {length} bytes of {size}: it was cut off, or written to; export the weights again")
