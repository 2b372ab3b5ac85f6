"""A workload, as data: what is computed, on which operands, what the result has to be, and how much work that is."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np

from bench.peers import images, plain
from tensorlang.codegen.runtime.arrays import empty_aligned

Array: TypeAlias = np.ndarray[Any, Any]
Unit: TypeAlias = Literal["GFLOP/s", "GB/s", "M calls/s"]


@dataclass(frozen=True, slots=True)
class Workload:
    """One row of a table.

    `operator` is what engines dispatch on, with `attributes`. `constants` are the places of operands that do not change between calls,
    which an engine may pack once. `work` is what the unit counts for one call: operations, compulsory bytes, or 1000 for a call.
    A result may differ from that in 64 bits by `tolerance` times its largest magnitude. A `probe` row also measures the machine's rate
    of multiply-adds.
    """

    name: str
    operator: str
    shapes: tuple[tuple[int, ...], ...]
    work: int
    unit: Unit = "GFLOP/s"
    dtypes: tuple[str, ...] = ()
    constants: tuple[int, ...] = ()
    attributes: Mapping[str, int] = field(default_factory=dict)
    tolerance: float = 2e-5
    threads: int = 1
    probe: bool = False

    @property
    def types(self) -> tuple[str, ...]:
        """The element type of each operand: float32 where nothing else is said."""
        return self.dtypes or ("float32",) * len(self.shapes)

    @property
    def plain_types(self) -> bool:
        """Is everything float32?"""
        return set(self.types) == {"float32"}

    @property
    def in_bytes(self) -> bool:
        """Are the operands bytes, and the sums of their products int32?"""
        return self.types[0] == "uint8"

    @property
    def sums(self) -> str:
        """The type of the sums of products."""
        return "int32" if self.in_bytes else "float32"

    @property
    def result(self) -> tuple[tuple[int, ...], str]:
        """Shape and type of the result."""
        match self.operator:
            case "matmul":
                left, right = self.shapes
                shape = (*left[:-1], *((right[-1],) if len(right) > 1 else ()))
                return shape, "int32" if self.in_bytes else self.types[0]
            case "transpose":
                return self.shapes[0][::-1], "float32"
            case "conv2d" | "depthwise":
                (_, _, height, width), (outputs, _, rows, columns) = self.shapes
                pad, stride = self.attributes["padding"], self.attributes["stride"]
                return (1, outputs, (height + 2 * pad - rows) // stride + 1, (width + 2 * pad - columns) // stride + 1), self.sums
            case operator if operator in images.OPERATORS:
                return images.result(operator, self.attributes, *self.shapes), "float32"
            case "harris":
                return tuple(extent - 4 for extent in self.shapes[0][1:]), "float32"
            case _:
                return self.shapes[0], "float32"

    def operands(self) -> list[Array]:
        """The same in every process: normally distributed, or bytes."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        return [aligned(drawn(rng, shape, kind)) for shape, kind in zip(self.shapes, self.types, strict=True)]

    def expected(self, operands: Sequence[Array]) -> Array:
        """The result, computed by NumPy in 64 bits."""
        return plain.OPERATORS[self.operator](self.attributes, *(array.astype("float64") for array in operands))

    def why_wrong(self, found: Array, expected: Array) -> str | None:
        """What is wrong with a result; None for nothing."""
        if found.shape != expected.shape:
            return f"wrong result: shape {found.shape} instead of {expected.shape}"
        worst = float(np.max(np.abs(found.astype("float64") - expected), initial=0.0))
        allowed = self.tolerance * float(np.max(np.abs(expected), initial=0.0))
        return None if worst <= allowed else f"wrong result: off by {worst:.3g} where {allowed:.3g} is allowed"

    def rate(self, seconds: float) -> float:
        """In the workload's unit."""
        return self.work / seconds / 1e9


def aligned(array: Array) -> Array:
    """A copy that begins at a line of the cache; NumPy's large arrays lie 16 bytes behind one."""
    copy = blank(array.shape, array.dtype)
    copy[...] = array
    return copy


def blank(shape: tuple[int, ...], dtype: Any) -> Array:
    """Room for a result, where kernels would make it themselves (at a line of the cache, a huge one apart from operands), touched once."""
    room: Array = empty_aligned(shape, np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype))
    room.fill(0)
    return room


def drawn(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> Array:
    """Values of a type; unsigned bytes stay below 128, so that peers which only have signed ones compute the same."""
    match kind:
        case "uint8":
            return rng.integers(0, 128, shape, "uint8")
        case "int8":
            return rng.integers(-127, 128, shape, "int8")
        case "bfloat16":
            return rng.standard_normal(shape, "float32").astype(ml_dtypes.bfloat16)
        case _:
            return rng.standard_normal(shape, "float32").astype(kind)
