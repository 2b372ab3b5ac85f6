"""Which bytes a step of a sequence reads and writes: what has to be there, and apart, before machine code may be let loose on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from tensorlang.codegen.cache.signature import Argument
from tensorlang.codegen.runtime import arrays
from tensorlang.definition.extent import beyond
from tensorlang.errors import BuildError
from tensorlang.ir.dtype import DType
from tensorlang.ir.integers import value_of
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.kernels.steps import Call, Copy, Port, Slot, Step


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """Bytes of a memory that a step touches, as elements of which type, if any.

    `over` is the operand whose memory a result may have; what is written is there for later steps to read, if it is `kept`.
    """

    slot: Slot
    size: int
    written: bool
    what: str
    dtype: DType | None = None
    over: int | None = None
    kept: bool = True

    def meets(self, other: ByteSpan) -> bool:
        """Do the two share a byte?"""
        one, two = self.slot, other.slot
        same = one.memory == two.memory and one.number == two.number and (one.memory != "array" or one.array is two.array)
        return same and max(one.offset, two.offset) < min(one.offset + self.size, two.offset + other.size)


@dataclass(frozen=True, slots=True)
class Memories:
    """How many bytes each memory of a sequence has."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arena: int

    def size(self, slot: Slot) -> int:
        """Those of the memory of a place, -1 where there is no such memory."""
        match slot.memory:
            case "arena":
                return self.arena
            case "array":
                return slot.array.nbytes if slot.array.flags.c_contiguous else -1
            case "input" | "output":
                port = self.port(slot)
                return -1 if port is None else nbytes(port)
            case _:
                assert_never(slot.memory)

    def port(self, slot: Slot) -> Port | None:
        """The input or the result in which a place is, if there is one of its number."""
        ports = {"input": self.inputs, "output": self.outputs}.get(slot.memory, ())
        return ports[slot.number] if 0 <= slot.number < len(ports) else None

    def check(self, spans: Sequence[ByteSpan], where: str) -> None:
        """Raise `BuildError` where a step leaves its memory, writes what it must not, or writes where it reads."""
        for span in spans:
            room, slot = self.size(span.slot), span.slot
            if not 0 <= slot.offset <= room - span.size:
                raise BuildError(
                    f"{where}: {span.what} takes {span.size} bytes from {slot.offset} on, and its {slot.memory} has {max(room, 0)}"
                )
            port = self.port(slot)
            if port is not None and span.dtype not in (None, port.dtype):
                raise BuildError(f"{where}: {span.what} is {span.dtype}, and the {slot.memory} {port.name!r} {port.dtype}")
            if span.written and slot.memory in ("input", "array"):
                raise BuildError(f"{where}: {span.what} would be written into an {slot.memory}, which is read alone")
        for place, span in enumerate(spans):
            for other_place, other in enumerate(spans[:place]):
                below = span.over == other_place and span.slot.offset == other.slot.offset
                if (span.written or other.written) and span.meets(other) and not below:
                    raise BuildError(f"{where}: {span.what} overlaps {other.what}")


class Filled:
    """The bytes of the arena and the results that steps have written, joined where they meet: nothing else is there to be read."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], list[tuple[int, int]]] = {}

    def check(self, spans: Sequence[ByteSpan], where: str) -> None:
        """Raise `BuildError` where a step reads what none before it has written; then note what it writes."""
        for span in spans:
            slot = span.slot
            if not span.written and span.size and slot.memory in ("arena", "output"):
                runs = self._runs.get((slot.memory, slot.number), [])
                if not any(first <= slot.offset and slot.offset + span.size <= end for first, end in runs):
                    raise BuildError(f"{where}: {span.what} would be read from bytes of the {slot.memory} that no step before has written")
        for span in spans:
            if span.written and span.kept and span.size:
                self._add(span)

    def _add(self, span: ByteSpan) -> None:
        slot = span.slot
        runs = self._runs.setdefault((slot.memory, slot.number), [])
        first, end = slot.offset, slot.offset + span.size
        joined = [run for run in runs if run[0] <= end and first <= run[1]]
        runs[:] = [run for run in runs if run not in joined]
        runs.append((min([first, *(run[0] for run in joined)]), max([end, *(run[1] for run in joined)])))


def nbytes(port: Port) -> int:
    """The bytes of an array."""
    return math.prod(port.shape) * port.dtype.bytes


def spans(step: Step, where: str) -> list[ByteSpan]:
    """What a step touches: for a call the inputs in the order of the function, the results, the workspace. Raises `BuildError`."""
    return _of_copy(step, where) if isinstance(step, Copy) else _of_call(step, where)


def _of_copy(step: Copy, where: str) -> list[ByteSpan]:
    axes = (step.shape, step.source_strides, step.target_strides)
    if len({len(part) for part in axes}) != 1 or any(number < 0 for part in axes for number in part) or step.itemsize not in (1, 2, 4, 8):
        raise BuildError(f"{where}: a copy has a stride from 0 on for each axis, and elements of 1, 2, 4 or 8 bytes")
    read, written = (_reach(step.shape, strides) * step.itemsize for strides in axes[1:])
    return [ByteSpan(step.source, read, False, "the source"), ByteSpan(step.target, written, True, "the target")]


def _of_call(step: Call, where: str) -> list[ByteSpan]:
    signature, bound = step.kernel.program.signature, step.kernel.program.bound
    passed = [argument for argument in signature.passed if argument.name not in bound]
    if len(step.operands) != len(passed) or len(step.results) != len(signature.outputs):
        raise BuildError(
            f"{where}: {signature} takes {len(passed)} operands and gives {len(signature.outputs)} results, "
            f"not {len(step.operands)} and {len(step.results)}"
        )
    for name in signature.dims:
        if name not in step.dims:
            raise BuildError(f"{where}: the dim {name!r} of {signature} is not given")
        if wrong := beyond(name, step.dims[name], signature.limits):
            raise BuildError(f"{where}: {wrong}")
    given = dict(zip((argument.name for argument in passed), step.operands, strict=True))
    found = []
    for argument in signature.inputs:
        slot = given.get(argument.name) or Slot.constant(bound[argument.name])
        found.append(ByteSpan(slot, _bytes(argument, step.dims), False, f"operand {argument.name!r}", argument.dtype))
    for argument, slot in zip(signature.outputs, step.results, strict=True):
        found.append(ByteSpan(slot, _bytes(argument, step.dims), True, f"result {argument.name!r}", argument.dtype, argument.over))
    for span, argument in zip(found, (*signature.inputs, *signature.outputs), strict=True):
        if span.slot.memory == "array" and span.slot.array.dtype != argument.dtype.numpy:
            raise BuildError(f"{where}: {span.what} is {argument.dtype}, and the constant given for it {span.slot.array.dtype}")
        if _start(span.slot) % argument.dtype.bytes:
            of = " of an array that may not be aligned" if span.slot.memory == "array" else ""
            raise BuildError(f"{where}: {span.what} is at byte {span.slot.offset}{of}, which is no place of {argument.dtype}")
    if step.workspace is not None:
        if step.workspace.memory != "arena" or step.workspace.offset % LINE_BYTES:
            raise BuildError(f"{where}: a workspace lies in the arena, at a multiple of {LINE_BYTES} bytes")
        found.append(ByteSpan(step.workspace, step.kernel.workspace_bytes, True, "the workspace", kept=False))
    return found


def _start(slot: Slot) -> int:
    """Where a place begins, up to what is aligned for every type."""
    return slot.offset + (arrays.address(slot.array) if slot.memory == "array" else 0)


def _bytes(argument: Argument, dims: Mapping[str, int]) -> int:
    shape = [value_of(extent, dims) for extent in argument.shape]
    elements = _reach(shape, argument.strides) if argument.strides else math.prod(max(extent, 0) for extent in shape)
    return elements * argument.dtype.bytes


def _reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last one."""
    if any(extent <= 0 for extent in shape):
        return 0
    return 1 + sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True))
