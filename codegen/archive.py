"""Kernels as files.

    magic (8 bytes), SHA-256 of all that follows (32 bytes), length of the header (8 bytes), header (JSON), object code, bound arrays

Nothing is executed or linked before the digest of every byte agrees, and the header says that this machine and this version of
LLVM can use the code. The digest finds damage, not malice: a file holds machine code and deserves the same trust as a program.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np

from tensorlang.codegen import arrays, binding, extents
from tensorlang.codegen.binding import Compiled, Passes
from tensorlang.codegen.caches import host_caches
from tensorlang.codegen.processors import caches_of
from tensorlang.codegen.program import Program
from tensorlang.codegen.signature import Signature
from tensorlang.codegen.target import Target, why_foreign
from tensorlang.dtype import dtype
from tensorlang.errors import BuildError, TensorlangError

MAGIC: Final = b"TLKERNEL"
SCHEMA: Final = 1
"""Version of the format and of the calling convention of the code in it."""

_DIGEST: Final = len(MAGIC)
_BODY: Final = _DIGEST + hashlib.sha256().digest_size
_LENGTH: Final = 8


def write(program: Program, path: str | PathLike[str]) -> None:
    """Write a program to a file, whole or not at all. Raises `BuildError` where that fails."""
    data = encode(program)
    try:
        put(data, Path(path))
    except (OSError, TypeError, ValueError) as error:
        raise BuildError(f"the kernel {program.signature.name!r} cannot be saved to {str(path)!r}: {error}") from None


def put(data: bytes, goal: Path, *, durable: bool = True) -> None:
    """Write a file, whole or not at all; `durable`: it outlives a crash of the system. Raises `OSError` and `ValueError`."""
    handle, temporary = tempfile.mkstemp(dir=goal.parent, prefix=f".{goal.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        Path(temporary).replace(goal)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: str | PathLike[str]) -> Program:
    """The program in a file. Raises `BuildError` where it is missing, damaged, or not for this machine and version."""
    try:
        data = Path(path).read_bytes()
    except (OSError, TypeError, ValueError) as error:
        raise BuildError(f"no kernel can be loaded from {str(path)!r}: {error}") from None
    try:
        return decode(data)
    except BuildError as error:
        raise BuildError(f"no kernel can be loaded from {str(path)!r}: {error}") from None


def encode(program: Program, key: str = "") -> bytes:
    """The bytes of a file; the same program gives the same bytes. `key` is for who looks it up by one."""
    bound = [(name, np.ascontiguousarray(array)) for name, array in sorted(program.bound.items())]
    header = {
        "schema": SCHEMA,
        **binding.versions(),
        "key": key,
        "target": [program.target.triple, program.target.cpu, program.target.features, program.target.name],
        "passes": [program.compiled.passes.level, program.compiled.passes.vectorize, program.compiled.passes.unroll],
        "signature": program.signature.to_json(),
        "source": program.compiled.source,
        "nest": program.nest,
        "flops": extents.to_json(program.flops),
        "bytes": extents.to_json(program.bytes),
        "workspace_bytes": program.workspace_bytes,
        "provenance": program.provenance,
        "object": len(program.compiled.object),
        "bound": [[name, str(dtype(array.dtype)), array.shape] for name, array in bound],
    }
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    blobs = b"".join(array.view(np.uint8).tobytes() if array.size else b"" for _, array in bound)
    body = len(text).to_bytes(_LENGTH, "little") + text + program.compiled.object + blobs
    return MAGIC + hashlib.sha256(body).digest() + body


def decode(data: bytes, key: str | None = None) -> Program:
    """The program in the bytes of a file. Raises `BuildError`, see `read`, and where it was written under another key."""
    if data[:_DIGEST] != MAGIC:
        raise BuildError("it is not a saved kernel")
    body = data[_BODY:]
    if hashlib.sha256(body).digest() != data[_DIGEST:_BODY]:
        raise BuildError("it is damaged: its contents do not match its digest")
    size = int.from_bytes(body[:_LENGTH], "little")
    try:
        header = json.loads(body[_LENGTH : _LENGTH + size])
        _check_origin(header, key)
        return _program(header, body[_LENGTH + size :])
    except BuildError:
        raise
    except (ValueError, KeyError, TypeError, TensorlangError) as error:
        raise BuildError(f"its header makes no sense: {error}") from None


def _check_origin(header: dict[str, Any], key: str | None) -> None:
    for what, wanted in {"schema": SCHEMA, **binding.versions()}.items():
        if header.get(what) != wanted:
            raise BuildError(f"it was saved with {what} {header.get(what)}, this is {what} {wanted}; build the kernel again")
    if key is not None and header.get("key") != key:
        raise BuildError("it was written under another key")


def _program(header: dict[str, Any], blobs: bytes) -> Program:
    triple, cpu, features, name = map(str, header["target"])
    arch, _ = binding.triple_parts(triple)
    target = Target(triple, cpu, features, name, host_caches() if name.startswith("native") else caches_of(arch, cpu))
    reason = why_foreign(target)
    if reason is not None:
        raise BuildError(f"it was built for {target}: {reason}")
    level, vectorize, unroll = header["passes"]
    size = int(header["object"])
    bound, at = {}, size
    for key, kind, shape in header["bound"]:
        array = arrays.empty_aligned(tuple(shape), dtype(kind).numpy)
        array.view(np.uint8).reshape(-1)[:] = np.frombuffer(blobs, np.uint8, array.nbytes, at)
        bound[str(key)] = array
        at += array.nbytes
    return Program(
        signature=Signature.from_json(header["signature"]),
        target=target,
        compiled=Compiled(blobs[:size], header["source"], target.machine, Passes(level, vectorize, unroll)),
        nest=header["nest"],
        flops=extents.from_json(header["flops"]),
        bytes=extents.from_json(header["bytes"]),
        workspace_bytes=int(header["workspace_bytes"]),
        provenance=header["provenance"],
        bound=bound,
    )
