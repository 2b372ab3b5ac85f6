"""What a compiled graph does: kernels on values, and copies of values whose elements do not lie as somebody needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tensorlang import kernels
from tensorlang.graph.execution.grouping import Group
from tensorlang.graph.ir import Value
from tensorlang.graph.places import Place


@dataclass(frozen=True, slots=True)
class KernelStep:
    """A kernel on values, in the order of its call; it gives the results of its group."""

    group: Group
    kernel: kernels.ServedKernel
    operands: tuple[Value, ...]

    @property
    def results(self) -> tuple[Value, ...]:
        """What it gives."""
        return self.group.results

    def __str__(self) -> str:
        results = ", ".join(value.name for value in self.results)
        return f"{results} = {self.group} ({', '.join(value.name for value in self.operands)})"


@dataclass(frozen=True, slots=True)
class CopyStep:
    """Elements moved into row-major order: those of a view that cannot be seen where its operand lies, an operand, an output."""

    result: str
    source: Place
    itemsize: int

    def __str__(self) -> str:
        return f"{self.result} = a copy ({self.source.memory})"


Step: TypeAlias = KernelStep | CopyStep
