"""What a sequence of kernels is made of: places in memory, calls of kernels on them, copies, and lanes that may run side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.ir.dtype import DType

Memory: TypeAlias = Literal["input", "output", "arena", "array"]

_NONE: Final = np.zeros(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Port:
    """An input or a result of a sequence: a row-major array of this shape, made of numbers, and type."""

    name: str
    shape: tuple[int, ...]
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """The place of an operand or a result: `offset` bytes into an input, an output or the arena of a sequence, or into an array."""

    memory: Memory
    number: int = 0
    offset: int = 0
    array: npt.NDArray[Any] = field(default_factory=lambda: _NONE, repr=False)

    @classmethod
    def input(cls, number: int, offset: int = 0) -> Slot:
        """A place in the input of this number."""
        return cls("input", number, offset)

    @classmethod
    def output(cls, number: int, offset: int = 0) -> Slot:
        """A place in the result of this number."""
        return cls("output", number, offset)

    @classmethod
    def arena(cls, offset: int) -> Slot:
        """A place in the arena, whose contents last for one call."""
        return cls("arena", 0, offset)

    @classmethod
    def constant(cls, array: npt.NDArray[Any], offset: int = 0) -> Slot:
        """A place in an array that stays as it is, of the operand's type; it is read alone, and no result of a call may lie over it."""
        return cls("array", 0, offset, array)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A kernel on places: operands in the order of a call from Python, results, dims by name, and memory for its intermediates.

    The kernel runs with the code that it has now. `workspace` is a place of `kernel.workspace_bytes`, at a multiple of 64; without it, the
    kernel takes what it needs from the process.
    """

    kernel: Kernel
    operands: tuple[Slot, ...]
    results: tuple[Slot, ...]
    dims: Mapping[str, int] = field(default_factory=dict)
    workspace: Slot | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """`target[i, j] = source[i, j]` for each place of a shape; steps are in elements of `itemsize` bytes (1, 2, 4 or 8), from 0 on."""

    source: Slot
    target: Slot
    shape: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]
    itemsize: int


Step: TypeAlias = Call | Copy


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What a sequence was made of; each stage has lanes, each lane steps."""

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    stages: tuple[tuple[tuple[Step, ...], ...], ...]
    arena: int

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, in an order in which they can be done one after the other."""
        return tuple(step for stage in self.stages for lane in stage for step in lane)


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """Lanes of steps that may run side by side: none of them writes what another one touches."""

    lanes: tuple[tuple[Step, ...], ...]
