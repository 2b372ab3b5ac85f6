"""A sequence with every address taken out: functions by number, places as offsets from a base, and what stays as one block of weights.

Base 0 are numbers, 1 the arena, 2 the weights, from 3 on inputs and outputs, in order. Function 0 copies. Lanes come one after the other.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.runtime import arrays
from tensorlang.codegen.runtime.workspaces import SUFFIX
from tensorlang.errors import BuildError
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.kernels.sequences import Sequence, copy_form
from tensorlang.kernels.steps import Copy, Parts, Port, Slot, Step
from tensorlang.kernels.touched import spans

NUMBER, ARENA, WEIGHTS, PASSED = range(4)
HEADER: Final = LINE_BYTES
"""Bytes of a file of weights before the first of them."""
COPY: Final = "copy"


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A kernel's code by its symbol and its address here, and how many words it takes; the function that copies has no program."""

    symbol: str
    words: int
    program: Program | None = None
    address: int = 0


@dataclass(frozen=True, slots=True)
class Instruction:
    """A function and what is passed to it: a base and an offset for each word."""

    function: int
    words: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """The program: `weights` are arrays with their offsets in a file of `weights_bytes`, and `layout` is a digest of these offsets."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arena: int
    functions: tuple[Function, ...]
    code: tuple[Instruction, ...]
    weights: tuple[tuple[int, npt.NDArray[Any]], ...]
    weights_bytes: int
    layout: int


class _Making:
    """Functions and weights as they are met, each once."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.functions: dict[tuple[str, bytes], int] = {(COPY, b""): 0}
        self.found: list[Function] = [Function(COPY, 3)]
        self.offsets: dict[object, int] = {}
        self.weights: list[tuple[int, npt.NDArray[Any]]] = []
        self.end = HEADER

    def weight(self, array: npt.NDArray[Any], key: object) -> int:
        """Where an array stands in the weights."""
        if key not in self.offsets:
            self.offsets[key] = self.end
            self.weights.append((self.end, array))
            self.end += -(-array.nbytes // LINE_BYTES) * LINE_BYTES
        return self.offsets[key]

    def word(self, slot: Slot) -> tuple[int, int]:
        """The base and the offset of a place."""
        match slot.memory:
            case "input":
                return PASSED + slot.number, slot.offset
            case "output":
                return PASSED + len(self.parts.inputs) + slot.number, slot.offset
            case "arena":
                return ARENA, slot.offset
            case _:
                key = (arrays.address(slot.array), slot.array.nbytes)
                return WEIGHTS, self.weight(slot.array, key) + slot.offset

    def instruction(self, step: Step) -> Instruction:
        """A step. Raises `BuildError` for a kernel that takes memory of its own."""
        if isinstance(step, Copy):
            form = copy_form(step)
            return Instruction(0, (self.word(step.source), self.word(step.target), (WEIGHTS, self.weight(form, form.tobytes()))))
        kernel = step.kernel
        caller, program = kernel._linked, kernel.program  # noqa: SLF001 - whether it takes a workspace
        signature = program.signature
        words = [self.word(span.slot) for span in spans(step, "")[: len(signature.inputs) + len(signature.outputs)]]
        words += [(NUMBER, step.dims[dim]) for dim in signature.dims]
        symbol = program.compiled_as.name
        if caller.within:
            if step.workspace is None:
                raise BuildError(f"{self.parts.name} cannot be exported: {kernel.name} takes memory of its own; give it a workspace=")
            symbol += SUFFIX
            words += [self.word(step.workspace), (NUMBER, kernel.threads)]
        key = (symbol, program.compiled.object)
        if key not in self.functions:
            self.functions[key] = len(self.found)
            address = caller.within or caller.address
            self.found.append(Function(symbol, len(words), program, address))
        return Instruction(self.functions[key], tuple(words))


def image(sequence: Sequence) -> Image:
    """The program of a sequence. Raises `BuildError`."""
    parts = sequence.parts
    making = _Making(parts)
    code = tuple(making.instruction(step) for step in parts.steps)
    places = repr([(offset, array.nbytes, str(array.dtype)) for offset, array in making.weights])
    layout = int.from_bytes(hashlib.sha256(f"{parts.name} {places}".encode()).digest()[:8], "little") >> 1
    return Image(
        parts.name, parts.inputs, parts.outputs, parts.arena, tuple(making.found), code, tuple(making.weights), making.end, layout
    )  # fmt: skip


def as_bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The bytes of an array in row-major order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
