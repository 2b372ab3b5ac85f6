"""Is a floating-point result near enough to what it should be: within the bound of its error that follows from the expression?"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import tensorlang as tl

from .arrays import difference
from .bounds import Bounds, Rough
from .case import Case
from .program import Program, operands
from .replay import Wrong

Array = np.ndarray[Any, Any]


def within(case: Case, name: str, result: Array, expected: Array, extents: dict[str, int], oracle: str) -> str:
    """Raise `Wrong` where a floating-point result lies farther off than its error; whether its bound was "used", or there is "none"."""
    builder = Bounds(case)
    try:
        program = builder.program()
    except Rough:
        if '"atan2"' not in json.dumps(case["stages"]):  # beside a zero of either sign the angle jumps
            loosely(name, result, expected, oracle)
        return "none"
    error = builder.errors.get(name)
    feeds = {program.operands[key]: array for key, array in operands(program, case, extents, twin=False).items()}
    limit = np.zeros(expected.shape)
    if error is not None:
        needed, dims = reached((error,), program), dict[str, Any](dims_used((error,), case, extents))
        limit = tl.evaluate(error, {tensor: array for tensor, array in feeds.items() if tensor in needed}, None, **dims)
    a, b = result.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= limit * 1.0001
        largest = float(np.finfo(np.float64).max) if str(expected.dtype) == "float64" else float(meaning_max(str(expected.dtype)))
        edge = np.maximum(np.abs(np.where(np.isfinite(a), a, 0)), np.abs(np.where(np.isfinite(b), b, 0))) > largest * 0.9
    good = near | (np.isnan(a) & np.isnan(b)) | (a == b) | ~np.isfinite(limit) | edge
    if not good.all():
        at = tuple(int(part) for part in np.argwhere(~good)[0])
        raise Wrong(
            oracle, f"at {extents}: {name}{list(at)} is {a[at]!r}, not {b[at]!r} within {limit[at]!r}; {difference(result, expected)}"
        )
    return "used"


def loosely(name: str, result: Array, expected: Array, oracle: str) -> None:
    """Raise `Wrong` where a result of which no bound is known is far from what it should be."""
    a, b = result.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        finite = np.isfinite(b)
        scale = float(np.max(np.abs(b[finite]), initial=1.0))
        far = finite & ~(np.abs(a - b) <= 0.1 * scale) if scale < 1e4 else np.zeros(b.shape, np.bool_)
    if result.dtype == np.float16:  # sums of what has place in it may have none, in one order and not in another
        far &= np.isfinite(a)
    if far.any():
        raise Wrong(oracle, f"{name} is far off: {difference(result, expected)}")


def meaning_max(name: str) -> float:
    """The greatest finite value of a type."""
    return {"float16": 65504.0, "bfloat16": 3.38e38, "float32": 3.4e38}[name]


def reached(outputs: tuple[Any, ...], program: Program) -> set[Any]:
    """The operands that outputs depend on."""
    from tensorlang.definition.tensor import definitions

    found = set(definitions(outputs))
    return {tensor for tensor in program.operands.values() if tensor.definition in found}


def dims_used(outputs: tuple[Any, ...], case: Case, extents: dict[str, int]) -> dict[str, int]:
    """The run-time extents of a program."""
    return {name: extents[name] for name in case["symbolic"] if name in tl.Schedule(outputs).nest.dims}
