"""How a value lies in memory: `element[i, j] = memory[offset + i * strides[0] + j * strides[1]]`, strides in elements.

A view is another way to look at the same memory, so it is algebra on these numbers. Each function gives the layout of a view, or None
where there is none and elements have to be moved first (of transposed rows no flat vector can be seen).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tensorlang.graph.ir import Array


def in_order(array: Array) -> Array:
    """The array, or a copy of it, whose elements follow each other; unlike `numpy.ascontiguousarray` it has the same axes."""
    return np.asarray(array, order="C")


@dataclass(frozen=True, slots=True)
class Strided:
    """A place for each element. Extents are numbers here: those of a call."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @classmethod
    def contiguous(cls, shape: tuple[int, ...]) -> Strided:
        """Row-major, from the beginning."""
        return cls(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))))

    @property
    def is_contiguous(self) -> bool:
        """Do the elements follow each other in row-major order?"""
        plain = Strided.contiguous(self.shape).strides
        return 0 in self.shape or all(size == 1 or step == other for size, step, other in zip(self.shape, self.strides, plain, strict=True))

    def permute(self, dims: tuple[int, ...]) -> Strided:
        """`result[i, j] = self[j, i]`: axis n is axis `dims[n]` of this."""
        return replace(self, shape=tuple(self.shape[dim] for dim in dims), strides=tuple(self.strides[dim] for dim in dims))

    def expand(self, shape: tuple[int, ...]) -> Strided:
        """Axes of extent 1, and new ones in front, repeated: they are read with stride 0."""
        new = len(shape) - len(self.shape)
        steps = (0,) * new + tuple(
            0 if own == 1 and size != 1 else step for own, size, step in zip(self.shape, shape[new:], self.strides, strict=True)
        )
        return replace(self, shape=shape, strides=steps)

    def slice(self, dim: int, start: int, length: int, step: int) -> Strided:
        """`length` elements of an axis, from `start` on, every `step`-th."""
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + (start * strides[dim] if length else 0)
        shape[dim], strides[dim] = length, strides[dim] * step
        return Strided(tuple(shape), tuple(strides), offset)

    def reshape(self, shape: tuple[int, ...]) -> Strided | None:
        """The same elements in the same order under other extents; None where axes that do not follow each other would be joined."""
        if math.prod(self.shape) == 0:
            return replace(self, shape=shape, strides=Strided.contiguous(shape).strides)
        runs: list[tuple[int, int]] = []  # extents of axes that are one run of memory, with its stride
        for size, step in zip(self.shape, self.strides, strict=True):
            if size == 1:
                continue
            if runs and runs[-1][1] == size * step:
                runs[-1] = (runs[-1][0] * size, step)
            else:
                runs.append((size, step))
        steps: list[int] = []
        left, stride = (1, 1) if not runs else runs.pop()
        for size in reversed(shape):  # the innermost axis takes from the innermost run
            if left == 1 and size != 1 and runs:
                left, stride = runs.pop()
            if left % size:
                return None
            steps.append(stride)
            left, stride = left // size, stride * size
        return replace(self, shape=shape, strides=tuple(reversed(steps)))

    def of(self, memory: Array) -> Array:
        """The elements as an array over memory that is contiguous, without a copy."""
        size = memory.itemsize
        return np.ndarray(
            self.shape, memory.dtype, memory.reshape(-1).view(np.uint8), self.offset * size, tuple(step * size for step in self.strides)
        )
