"""What a strategy needs to know of a processor."""

from __future__ import annotations

from typing import Protocol

from tensorlang.ir.dtype import DType
from tensorlang.schedules.model.machine import Machine


class Processor(Protocol):
    """A processor, as strategies see it (`codegen.target.Target` is one)."""

    @property
    def vector_bits(self) -> int:
        """Width of a vector register."""
        ...

    @property
    def registers(self) -> int:
        """Number of vector registers."""
        ...

    @property
    def isa(self) -> frozenset[str]:
        """CPU features, as LLVM spells them."""
        ...

    @property
    def l1(self) -> int:
        """Bytes of first-level data cache."""
        ...

    @property
    def l2(self) -> int:
        """Bytes of second-level cache."""
        ...

    @property
    def l3(self) -> int:
        """Bytes of the last-level cache, shared by cores."""
        ...

    @property
    def core(self) -> Machine:
        """One core of it, as the cost model sees it."""
        ...

    def lanes(self, dtype: DType, /) -> int:
        """Elements of a type in a vector register."""
        ...
