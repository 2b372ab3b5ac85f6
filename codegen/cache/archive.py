"""Kernels as files.

    magic (8 bytes), SHA-256 of all that follows (32 bytes), length of the header (8 bytes), header (JSON), object code, bound arrays

Nothing is executed or linked before the digest of every byte agrees, the header is sound (see `header`) and was made for this code (see
`interface_symbol`), and this machine and this version of LLVM can use it. All this finds damage and mistakes, not malice: a file holds
machine code, which nobody can prove harmless, and deserves the same trust as a program.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang.codegen.cache import extents, header, interface_symbol
from tensorlang.codegen.cache.header import Header
from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.cache.recipe import Recipe
from tensorlang.codegen.cache.signature import Signature
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.llvm.binding import Compiled
from tensorlang.codegen.runtime import arrays
from tensorlang.codegen.target import Target, why_foreign
from tensorlang.codegen.target.caches import host_caches
from tensorlang.codegen.target.processors import caches_of
from tensorlang.errors import BuildError
from tensorlang.ir.dtype import dtype
from tensorlang.system import files

MAGIC: Final = b"TLKERNEL"
SCHEMA: Final = 7
"""Version of the format and of the calling convention of the code in it."""

_DIGEST: Final = len(MAGIC)
_BODY: Final = _DIGEST + hashlib.sha256().digest_size
_LENGTH: Final = 8


class Outdated(BuildError):  # noqa: N818 - a state of a file, that may be mended
    """A sound file for another version or another processor; `recipe` says how its kernel is built again, where it holds that."""

    def __init__(self, why: str, rebuild: Rebuild | None = None) -> None:
        super().__init__(why)
        self.rebuild = rebuild


@dataclass(frozen=True, slots=True)
class Rebuild:
    """What a file says beside its code: the recipe, what the code was compiled as, the fixed operands by these names, the target.

    `signature`: what the caller knew the kernel as, where that is something else.
    """

    recipe: Recipe
    code: Signature
    bound: Mapping[str, npt.NDArray[Any]]
    target: str
    signature: Signature | None = None


def write(program: Program, path: str | PathLike[str]) -> None:
    """Write a program to a file, whole or not at all. Raises `BuildError` where that fails."""
    data = encode(program)
    _ = header.read(*_parts(data[_BODY:]))  # what cannot be read is not written
    try:
        with files.replacing(path) as file:
            file.write(data)
    except OSError as error:
        raise BuildError(f"the kernel {program.signature.name!r} cannot be saved to {str(path)!r}: {error.strerror}") from None


def read(path: str | PathLike[str]) -> Program:
    """The program in a file. Raises `BuildError` where it is missing, damaged, or not for this machine and version."""
    try:
        data = files.contents(path)
    except OSError as error:
        raise BuildError(f"no kernel can be loaded from {str(path)!r}: {error.strerror}") from None
    try:
        return decode(data)
    except Outdated as error:
        raise Outdated(f"no kernel can be loaded from {str(path)!r}: {error}", error.rebuild) from None
    except BuildError as error:
        raise BuildError(f"no kernel can be loaded from {str(path)!r}: {error}") from None


def encode(program: Program, key: str = "") -> bytes:
    """The bytes of a file; the same program gives the same bytes. `key` is for who looks it up by one, and builds where it is not there."""
    recipe = None if key else program.recipe()
    bound = [(name, np.ascontiguousarray(array)) for name, array in sorted(program.bound.items())]
    head = {
        "schema": SCHEMA,
        **binding.versions(),
        "key": key,
        "target": [program.target.triple, program.target.cpu, program.target.features, program.target.name],
        "passes": [program.compiled.passes.level, program.compiled.passes.vectorize, program.compiled.passes.unroll],
        "signature": program.signature.to_json(),
        "code": None if program.code is None else program.code.to_json(),
        "source": base64.b64encode(program.compiled.shrunk).decode(),
        "nest": program.nest,
        "flops": extents.to_json(program.flops),
        "bytes": extents.to_json(program.bytes),
        "workspace_bytes": program.workspace_bytes,
        "thread_workspace_bytes": program.thread_workspace_bytes,
        "threads": program.threads,
        "provenance": program.provenance,
        "provenance_reason": program.provenance_reason,
        "object": len(program.compiled.object),
        "bound": [[name, str(dtype(array.dtype)), array.shape] for name, array in bound],
        "recipe": None if recipe is None else [recipe.definition, recipe.schedule],
    }
    text = json.dumps(head, sort_keys=True, separators=(",", ":")).encode()
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
    found, behind = _parts(body)
    if key is not None and found.get("key") != key:
        raise BuildError("it was written under another key")
    stale = _other_version(found)
    if stale is not None and found.get("schema") != SCHEMA:
        raise Outdated(stale)
    head, blobs = header.read(found, behind), body[len(body) - behind :]
    if stale is not None:
        raise Outdated(stale, _rebuild(head, blobs))
    return _program(head, blobs)


def _parts(body: bytes) -> tuple[dict[str, Any], int]:
    """The JSON object of the header, and how many bytes are behind it."""
    start = _LENGTH + int.from_bytes(body[:_LENGTH], "little")
    if len(body) < start:
        raise BuildError("it ends within its header")
    return header.loads(body[_LENGTH:start]), len(body) - start


def _other_version(found: dict[str, Any]) -> str | None:
    """What made a file, where that is not what reads it."""
    for what, wanted in {"schema": SCHEMA, **binding.versions()}.items():
        if found.get(what) != wanted:
            return f"it was saved with {what} {found.get(what)!s:.40}, this is {what} {wanted}; build the kernel again"
    return None


def _rebuild(head: Header, blobs: bytes) -> Rebuild | None:
    if head.recipe is None:
        return None
    code = head.code or head.signature
    names = {mine.name: own.name for mine, own in zip(head.signature.inputs, code.inputs, strict=True)}
    bound = {names[name]: array for name, array in _bound(head, blobs).items()}
    return Rebuild(head.recipe, code, bound, head.name, None if head.code is None else head.signature)


def _program(head: Header, blobs: bytes) -> Program:
    arch, _ = binding.triple_parts(head.triple)
    caches = host_caches() if head.name.startswith("native") else caches_of(arch, head.cpu)
    target = Target(head.triple, head.cpu, head.features, head.name, caches)
    reason = why_foreign(target)
    if reason is not None:
        raise Outdated(f"it was built for {target}: {reason}", _rebuild(head, blobs))
    code = blobs[: head.object]
    if not interface_symbol.matches(code, head.code or head.signature, target):
        raise BuildError("its header does not belong to its code: the code was compiled for another signature or other instructions")
    return Program(
        signature=head.signature,
        target=target,
        compiled=Compiled(code, head.source, target.machine, head.passes),
        nest=head.nest,
        flops=head.flops,
        bytes=head.bytes,
        workspace_bytes=head.workspace_bytes,
        thread_workspace_bytes=head.thread_workspace_bytes,
        threads=head.threads,
        provenance=head.provenance,
        provenance_reason=head.provenance_reason,
        bound=_bound(head, blobs),
        stored=head.recipe,
        code=head.code,
    )


def _bound(head: Header, blobs: bytes) -> dict[str, npt.NDArray[Any]]:
    """The fixed operands, which follow the code."""
    bound, at = {}, head.object
    for name, kind, shape in head.bound:
        array = arrays.empty_aligned(shape, kind.numpy)
        array.view(np.uint8).reshape(-1)[:] = np.frombuffer(blobs, np.uint8, array.nbytes, at)
        bound[name] = array
        at += array.nbytes
    return bound
