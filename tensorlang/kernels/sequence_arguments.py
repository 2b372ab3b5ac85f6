"""What `sequence` is given, looked at before anything is made of it: ports, steps and places of their kinds, numbers that fit a word.

What comes out holds plain integers and tuples. Whether a place is in range, and apart from others, `touched` says.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, Final, get_args

import numpy as np

from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.definition.extent import MAX_EXTENT
from tensorlang.errors import BuildError, DefinitionError
from tensorlang.ir.dtype import dtype
from tensorlang.kernels.steps import Call, Copy, Memory, Port, Slot, Step, Together
from tensorlang.kernels.touched import nbytes

MOST_BYTES: Final = 1 << 62
"""Bytes of a memory, and of an offset into one: sums of two are still machine words."""
MEMORIES: Final = get_args(Memory)


def arena(given: object) -> int:
    """Bytes of an arena. Raises `BuildError`."""
    number = _index(given)
    if number is None or not 0 <= number <= MOST_BYTES:
        raise BuildError(f"arena= is a number of bytes, at most 2**62, not {given!r:.60}")
    return number


def ports(what: str, given: object) -> tuple[Port, ...]:
    """The inputs or the outputs, with types for their names. Raises `BuildError`."""
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, Port) for one in given):
        raise BuildError(f"{what} of a sequence are ports in a list or a tuple, not {given!r:.60}")
    made = tuple(map(_port, given))
    names = [port.name for port in made]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BuildError(f"{what} of a sequence have names of their own, and two are called {twice!r:.60}")
    return made


def _port(given: Port) -> Port:
    if not isinstance(given.name, str):
        raise BuildError(f"the name of a port is a string, not {given.name!r:.60}")
    where = f"the port {given.name!r:.60}"
    try:
        kind = dtype(given.dtype)
    except DefinitionError as error:
        raise BuildError(f"{where}: {error}") from None
    shape = _numbers(given.shape, f"{where}: its shape")
    if wrong := [extent for extent in shape if not 0 <= extent <= MAX_EXTENT]:
        raise BuildError(f"{where}: an extent is from 0 to 2**48, not {wrong[0]}")
    made = Port(given.name, shape, kind)
    if nbytes(made) > MOST_BYTES:
        raise BuildError(f"{where}: an array of shape {shape} is larger than any memory; pass smaller extents")
    return made


def steps(name: str, given: object) -> tuple[Step | Together, ...]:
    """The steps. Raises `BuildError` that names the first that is none."""
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, (Call, Copy, Together)) for one in given):
        raise BuildError(f"steps of a sequence are calls, copies and groups of lanes in a list or a tuple, not {given!r:.60}")
    made: list[Step | Together] = []
    for place, one in enumerate(given):
        where = f"{name}: step {place}"
        made.append(_together(one, where) if isinstance(one, Together) else _step(one, where))
    return tuple(made)


def _together(given: Together, where: str) -> Together:
    lanes = given.lanes
    if not isinstance(lanes, (list, tuple)) or not all(isinstance(lane, (list, tuple)) for lane in lanes):
        raise BuildError(f"{where}: lanes are tuples of calls and copies in a tuple, not {lanes!r:.60}")
    for step in (step for lane in lanes for step in lane):
        if not isinstance(step, (Call, Copy)):
            raise BuildError(f"{where}: a lane holds calls and copies, not {step!r:.60}")
    return Together(tuple(tuple(_step(step, where) for step in lane) for lane in lanes))


def _step(given: Step, where: str) -> Step:
    return _copy(given, f"{where}, copy") if isinstance(given, Copy) else _call(given, where)


def _copy(given: Copy, where: str) -> Copy:
    shape = _numbers(given.shape, f"{where}: its shape")
    source, target = (_numbers(part, f"{where}: its strides") for part in (given.source_strides, given.target_strides))
    if math.prod(shape) > MAX_EXTENT or any(number > MAX_EXTENT for number in (*shape, *source, *target)):
        raise BuildError(f"{where}: a copy has at most 2**48 elements, and extents and strides of at most 2**48")
    itemsize = _numbers((given.itemsize,), f"{where}: its itemsize")[0]
    return Copy(_slot(given.source, where), _slot(given.target, where), shape, source, target, itemsize)


def _call(given: Call, where: str) -> Call:
    if not isinstance(given.kernel, Kernel):
        raise BuildError(f"{where}: a call is of a kernel as kernels.compile makes it, not of {given.kernel!r:.60}")
    where = f"{where}, {given.kernel.name}"
    for what, side in (("operands", given.operands), ("results", given.results)):
        if not isinstance(side, (list, tuple)):
            raise BuildError(f"{where}: {what} are slots in a tuple, not {side!r:.60}")
    operands, results = (tuple(_slot(slot, where) for slot in side) for side in (given.operands, given.results))
    workspace = None if given.workspace is None else _slot(given.workspace, where)
    return Call(given.kernel, operands, results, _dims(given, where), workspace)


def _dims(given: Call, where: str) -> dict[str, int]:
    known = given.kernel.program.signature.dims
    if not isinstance(given.dims, Mapping) or not all(name in known for name in given.dims):
        told = ", ".join(known) or "none"
        raise BuildError(f"{where}: dims are a dict from the dims of the kernel, which are {told}, to sizes, not {given.dims!r:.60}")
    made = {}
    for name, size in given.dims.items():
        number = _index(size)
        if number is None:
            raise BuildError(f"{where}: the dim {name} is a whole number, not {size!r:.60}")
        made[name] = number
    return made


def _slot(given: object, where: str) -> Slot:
    if not isinstance(given, Slot):
        raise BuildError(f"{where}: a place is a slot, as Slot.input(0), not {given!r:.60}")
    if not isinstance(given.memory, str) or given.memory not in MEMORIES:
        raise BuildError(f"{where}: a slot is in one of the memories {', '.join(map(repr, MEMORIES))}, not in {given.memory!r:.60}")
    number, offset = (_index(part) for part in (given.number, given.offset))
    if number is None or offset is None or abs(offset) > MOST_BYTES:
        wrong = given.number if number is None else given.offset
        raise BuildError(f"{where}: a slot has a whole number and an offset in bytes, below 2**62, not {wrong!r:.60}")
    if given.memory == "array":
        if not isinstance(given.array, np.ndarray):
            raise BuildError(f"{where}: a constant is a NumPy array, not {given.array!r:.60}; pass np.asarray of it")
        if given.array.dtype.hasobject:
            raise BuildError(f"{where}: a constant of {given.array.dtype} holds references, and not numbers")
    if type(given.number) is type(given.offset) is int:
        return given
    return Slot(given.memory, number, offset, given.array)


def _numbers(given: object, what: str) -> tuple[int, ...]:
    """Whole numbers in a tuple."""
    found: list[Any] = [_index(part) for part in given] if isinstance(given, (list, tuple)) else [None]
    if None in found:
        raise BuildError(f"{what} is made of whole numbers in a tuple, not {given!r:.60}")
    return tuple(found)


def _index(value: Any) -> int | None:
    """A whole number; None for anything else, a truth value too."""
    try:
        return None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        return None
