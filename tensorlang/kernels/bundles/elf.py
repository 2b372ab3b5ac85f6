"""Is a shared library all there? The dynamic linker maps what a header tells; a page behind the end of the file would end the process."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

from tensorlang.errors import BuildError
from tensorlang.system import files

_MAGIC: Final = b"\x7fELF\x02\x01"
"""Of files of 64 bits, little-endian."""
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")


def require_whole(path: Path) -> None:
    """Raise `BuildError` for an ELF file whose tables or segments lie beyond its end, `OSError` for one that cannot be read.

    Any other file is for the linker to refuse.
    """
    with files.opened(path) as file:
        head, size = file.read(_HEADER.size), os.fstat(file.fileno()).st_size
        if not head.startswith(_MAGIC):
            return
        end = _HEADER.size
        if len(head) == end:
            _, _, _, _, _, segments, sections, _, _, segment_bytes, segment_count, section_bytes, section_count, _ = _HEADER.unpack(head)
            end = max(end, segments + segment_bytes * segment_count, sections + section_bytes * section_count)
            if end <= size and segment_bytes == _SEGMENT.size:
                file.seek(segments)
                for _, _, offset, _, _, held, _, _ in _SEGMENT.iter_unpack(file.read(segment_bytes * segment_count)):
                    end = max(end, offset + held)
        if end > size:
            raise BuildError(f"the library {str(path)!r:.200} has {size} bytes of {end}: it was cut off; export the sequence again")
