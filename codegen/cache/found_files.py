"""What was found out at some length, in files beside the kernels, so that no other process has to look for it again.

How a program's operands are packed takes a schedule to say, and so does what a kernel would cost; the answer is a few numbers. An entry
is a line with the digest of the rest, which holds for its own name alone, and the answer as JSON. It is named by what was asked, and by
the compiler that would be asked again (`program_key.generator`), so it is never out of date; it is read, written and trimmed as kernels
are (see `object_files`). One that is damaged is found out again and replaced, with a line in the log.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from tensorlang.codegen.cache import object_files

T = TypeVar("T")

SCHEMA: Final = 1
"""Grows when an entry of the same question means something else."""

_log: Final = logging.getLogger("tensorlang")


def found(question: str, read: Callable[[Any], T], make: Callable[[], T], written: Callable[[T], object]) -> T:
    """The answer to a question: `read` from what stands in its file, else made now, and `written` as JSON.

    Of several processes that ask at once, one finds it out. Raises what `make` raises.
    """

    def known(path: Path) -> T | None:
        return _known(path, read)

    def keep(path: Path, answer: T) -> None:
        if object_files.contents(path) is not None:
            _log.warning("%s was damaged; what it said was found out again", path)
        body = json.dumps(written(answer), separators=(",", ":"))
        object_files.keep(path, f"{_seal(path, body)}\n{body}".encode())

    return object_files.read_or_made(object_files.path_of(f"{SCHEMA} {question}", object_files.FOUND), known, make, keep)


def _known(path: Path, read: Callable[[Any], T]) -> T | None:
    data = object_files.contents(path)
    if data is None:
        return None
    try:
        seal, _, body = data.decode().partition("\n")
        if seal == _seal(path, body):
            return read(json.loads(body))
    except (ValueError, TypeError, LookupError, RecursionError):
        pass
    return None


def _seal(path: Path, body: str) -> str:
    return hashlib.sha256(f"{path.stem}\n{body}".encode()).hexdigest()
