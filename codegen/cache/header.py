"""The header of a saved kernel, checked before anything is made from it.

A digest finds damage; it does not say that the header means something. Every value is looked at: its type, its range, how long and how
deep it is, whether names can be names, and whether the parts agree with one another and with what lies behind the header. Nothing of it
reaches LLVM, `ctypes` or the allocator before. What the header says about the code is compared with the code (see `interface_symbol`).
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final, cast

from tensorlang.codegen.cache import extents
from tensorlang.codegen.cache.program import Provenance
from tensorlang.codegen.cache.recipe import MOST_TEXT, Recipe
from tensorlang.codegen.cache.signature import MAX_ARGUMENTS, Signature
from tensorlang.codegen.llvm.binding import MAX_TEXT
from tensorlang.codegen.llvm.pipelines import Passes
from tensorlang.errors import BuildError, TensorlangError
from tensorlang.ir import Expr, const
from tensorlang.ir.dtype import DType
from tensorlang.serialization.spelling import MAX_RANK, fail, read_dtype, read_list, read_number, read_record, read_text

KEYS: Final = (
    "schema", "llvmlite", "llvm", "key", "target", "passes", "signature", "code", "source", "nest", "flops", "bytes", "workspace_bytes",
    "thread_workspace_bytes", "threads", "provenance", "provenance_reason", "object", "bound", "recipe",
)  # fmt: skip

_WORD: Final = re.compile(r"[A-Za-z0-9_.+-]{1,100}")
_FEATURES: Final = re.compile(r"(?:[+-][A-Za-z0-9_.-]{1,60}(?:,|\Z)){0,2000}")
_PROVENANCES: Final = ("tuned", "nearest", "default")
_MOST_TEXT: Final = 1 << 26
_MOST_REASON: Final = 1 << 16
_MOST_BYTES: Final = 1 << 62
_MOST_THREADS: Final = 1024


@dataclass(frozen=True, slots=True)
class Header:
    """What a header says, all of it sound in itself; `bound` are names, types and shapes in the order of their bytes."""

    triple: str
    cpu: str
    features: str
    name: str
    passes: Passes
    signature: Signature
    source: bytes
    nest: str
    flops: Expr
    bytes: Expr
    workspace_bytes: int
    thread_workspace_bytes: int
    threads: int | None
    provenance: Provenance | None
    provenance_reason: str
    object: int
    bound: tuple[tuple[str, DType, tuple[int, ...]], ...]
    recipe: Recipe | None
    code: Signature | None = None
    """Under which the code was compiled, where it is not `signature`."""


def loads(text: bytes) -> dict[str, Any]:
    """The JSON object of a header. Raises `BuildError`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BuildError(f"its header is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BuildError("its header is not a JSON object")
    return found


def read(data: dict[str, Any], size: int) -> Header:
    """The header in a JSON object, with `size` bytes behind it. Raises `BuildError` that names the field."""
    try:
        return _read(data, size)
    except (TensorlangError, ValueError) as error:
        raise BuildError(f"its header makes no sense: {error}") from None


def _read(data: dict[str, Any], size: int) -> Header:
    read_record(data, "the header", KEYS)
    triple, cpu, features, name = read_list(data["target"], "target", 4, 4)
    for what, value, form in (("triple", triple, _WORD), ("cpu", cpu, _WORD), ("features", features, _FEATURES)):
        if not isinstance(value, str) or not form.fullmatch(value):
            fail(f"target, {what}", "a name that LLVM may know", value)
    signature = Signature.from_json(data["signature"])
    provenance = data["provenance"]
    if provenance is not None and provenance not in _PROVENANCES:
        fail("provenance", f"null or one of {', '.join(_PROVENANCES)}", provenance)
    code = read_number(data["object"], "object", size + 1)
    bound = _bound_arrays(data["bound"], signature)
    behind = sum(math.prod(shape) * dtype.bytes for _, dtype, shape in bound)
    if code + behind != size:
        fail("object and bound", f"{size} bytes behind the header", code + behind)
    return Header(
        triple,
        cpu,
        features,
        read_text(name, "target, name", 1 << 16),
        _passes(data["passes"]),
        signature,
        _shrunk(data["source"]),
        read_text(data["nest"], "nest", _MOST_TEXT),
        extents.from_json(data["flops"], signature.dims),
        extents.from_json(data["bytes"], signature.dims),
        read_number(data["workspace_bytes"], "workspace_bytes", _MOST_BYTES),
        read_number(data["thread_workspace_bytes"], "thread_workspace_bytes", _MOST_BYTES),
        _threads(data["threads"]),
        cast("Provenance | None", provenance),
        read_text(data["provenance_reason"], "provenance_reason", _MOST_REASON),
        code,
        bound,
        read_recipe(data["recipe"]),
        _compiled_as(data["code"], signature),
    )


def _shrunk(value: object) -> bytes:
    try:
        return base64.b64decode(read_text(value, "source", MAX_TEXT), validate=True)
    except ValueError:
        fail("source", "compressed LLVM IR in base 64", value)


def _threads(value: object) -> int | None:
    found = None if value is None else read_number(value, "threads", _MOST_THREADS + 1)
    if found == 0:
        fail("threads", f"null or a number from 1 to {_MOST_THREADS}", value)
    return found


def read_recipe(value: object) -> Recipe | None:
    """A definition and a schedule as text, neither of which is looked into here. Raises `ValueError`."""
    if value is None:
        return None
    definition, schedule = read_list(value, "recipe", 2, 2)
    steps = None if schedule is None else read_text(schedule, "recipe, schedule", MOST_TEXT)
    return Recipe(read_text(definition, "recipe, definition", MOST_TEXT), steps)


def _compiled_as(value: object, signature: Signature) -> Signature | None:
    """What the code was compiled as: the same function, by other names; how a caller sees strided arguments is the caller's."""
    if value is None:
        return None
    found = Signature.from_json(value)
    inputs, outputs = ([argument.name for argument in arguments] for arguments in (signature.inputs, signature.outputs))
    if found.order or found.under(signature.name, inputs, outputs, signature.order).seen_as(signature) != signature:
        fail("code", "the signature by other names", str(found))
    return found


def _passes(value: object) -> Passes:
    level, vectorize, unroll = read_list(value, "passes", 3, 3)
    if not isinstance(vectorize, bool) or not isinstance(unroll, bool):
        fail("passes", "a level and two truth values", value)
    return Passes(read_number(level, "passes, level", 4), vectorize, unroll)


def _bound_arrays(value: object, signature: Signature) -> tuple[tuple[str, DType, tuple[int, ...]], ...]:
    """Fixed operands: each is an input whose shape is known, and is as that says."""
    inputs = {argument.name: argument for argument in signature.inputs}
    found: dict[str, tuple[str, DType, tuple[int, ...]]] = {}
    for place, entry in enumerate(read_list(value, "bound", MAX_ARGUMENTS)):
        where = f"bound, {place}"
        name, kind, shape = read_list(entry, where, 3, 3)
        dtype = read_dtype(kind, where)
        sizes = tuple(read_number(extent, where, _MOST_BYTES) for extent in read_list(shape, where, MAX_RANK))
        argument = inputs.get(read_text(name, where, 1 << 16))
        if argument is None or name in found:
            fail(where, "an input that is not bound yet", name)
        if argument.dtype != dtype or argument.shape != tuple(map(const, sizes)):
            fail(where, f"an array of {argument}", shape)
        found[name] = (name, dtype, sizes)
    return tuple(found.values())
