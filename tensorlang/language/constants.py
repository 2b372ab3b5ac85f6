"""`buffer`: an operand that is bound to an array when the definition is written."""

from __future__ import annotations

import numpy as np

from tensorlang import ir
from tensorlang.definition.extent import optional_name
from tensorlang.definition.tensor import Placeholder, Tensor, serial
from tensorlang.errors import DefinitionError
from tensorlang.ir.dtype import dtype


def buffer(array: object, name: str | None = None) -> Tensor:
    """An operand bound to `array` now, without a copy: kernels read what it holds when they run, and are not passed it.

    Raises `DefinitionError` for anything that is not an array, has another type, or does not lie contiguous in memory.
    """
    label = optional_name(name, "a tensor")
    if not isinstance(array, (np.ndarray, np.generic, memoryview)) and not hasattr(array, "__dlpack__"):
        raise DefinitionError(f"tl.buffer takes an array, not a {type(array).__name__} ({array!r:.60})")
    try:
        found = np.asarray(array)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DefinitionError(f"this {type(array).__name__} cannot be read as an array: {error}") from error
    if not found.flags.c_contiguous or not found.flags.aligned or not found.dtype.isnative:
        raise DefinitionError("tl.buffer takes an array that lies contiguous in memory, aligned and in native byte order; copy it before")
    return Tensor(Placeholder(label, tuple(ir.const(size) for size in found.shape), dtype(found.dtype), serial(), found))
