"""Programs by name, those of a user's file made in a process that may loop, exit or die of it.

Back come definitions as plain data, which are rebuilt and checked here as those of a log are; so nothing of a user's file is ever
imported by the tuner.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Final

import numpy as np
from msgspec import Struct

from tensorlang.autotune import operators
from tensorlang.autotune.measurement.arrays import Array, Spec
from tensorlang.autotune.task import bound_arrays, placeholders
from tensorlang.autotune.workers.limited import LimitedProcess, duty
from tensorlang.autotune.workers.protocol import Blob
from tensorlang.definition.tensor import as_outputs
from tensorlang.errors import TuningError
from tensorlang.ir.dtype import dtype as named_type
from tensorlang.serialization import canonical
from tensorlang.serialization.rebuild import rebuild
from tensorlang.system.memory import memory

LIMIT_S: Final = 30.0
"""Seconds that a user's function may take where nobody says."""


class DefinitionRequest(Struct, frozen=True):
    """What `operators.program` is given."""

    name: str
    extents: dict[str, int]
    dtype: str | None = None


class BoundArray(Struct, frozen=True):
    """An array that `tl.buffer` bound to an argument."""

    spec: Spec
    data: Blob


class Definition(Struct, frozen=True):
    """A program: its kernel's name, where the function returned several, its definitions, the arrays bound to its arguments by place."""

    kernel: str | None
    document: dict[str, Any]
    bound: dict[int, BoundArray] = {}


class Definitions(Struct, frozen=True):
    """What a function returned, and its label."""

    label: str
    programs: tuple[Definition, ...]


def program(
    name: str, extents: Mapping[str, int], dtype: str | None = None, *, limit_s: float = LIMIT_S, process: LimitedProcess | None = None
) -> tuple[str, Any]:
    """A label and the outputs of a program, as `operators.program` gives them, in `limit_s` seconds; a mapping where there are several.

    Raises `TuningError` also where a user's function does not return, or takes its process with it.
    """
    if not operators.is_own(name):
        return operators.program(name, extents, dtype)
    with LimitedProcess(memory()) if process is None else nullcontext(process) as limited:
        found = limited.call(duty(defined), DefinitionRequest(name, dict(extents), dtype), Definitions, limit_s, name)
    made = {made.kernel: rebuild(made.document, _arrays(made.bound)) for made in found.programs}
    return found.label, made.get(None, made)


def defined(request: DefinitionRequest) -> Definitions:
    """The definitions of a request; runs the user's file."""
    label, outputs = operators.program(request.name, request.extents, request.dtype)
    programs = outputs if isinstance(outputs, Mapping) else {None: outputs}
    return Definitions(label, tuple(_described(kernel, made) for kernel, made in programs.items()))


def _described(kernel: object, made: object) -> Definition:
    outputs = as_outputs(made)
    arguments = placeholders(outputs)
    bound = {
        place: BoundArray(Spec(array.shape, named_type(arguments[place].dtype)), Blob(np.ascontiguousarray(array).tobytes()))
        for place, array in bound_arrays(outputs).items()
    }
    return Definition(None if kernel is None else str(kernel), canonical.describe(outputs), bound)


def _arrays(bound: Mapping[int, BoundArray]) -> dict[int, Array]:
    """The arrays themselves. Raises `TuningError` for bytes that are not what their spec says."""
    try:
        return {place: np.frombuffer(given.data.data, given.spec.dtype.numpy).reshape(given.spec.shape) for place, given in bound.items()}
    except ValueError as error:
        raise TuningError(f"a bound array that is not what it says: {error}") from None
