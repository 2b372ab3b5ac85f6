"""What a statement touches of a buffer: where that lies, and how the lanes lie in it. `memory` says which instruction that takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tensorlang.codegen.emission.types import Builder, Value, in_memory, known
from tensorlang.ir import Expr
from tensorlang.ir.dtype import DType


@dataclass(frozen=True, slots=True)
class BufferAddress:
    """Where a buffer is: address, element type, shape, and for storage of ours of constant size its elements (0: others may see it).

    The shape is that of the array which the declaration is a part of; its axes are in scope. `spare` bytes beyond
    the last element may be read, whatever they hold. `alone`: no other buffer has elements there. `idle_kept`: what lanes that are off
    hold has to stay (see `idle_lanes`).
    """

    name: str
    pointer: Value
    dtype: DType
    shape: tuple[Expr, ...] = ()
    own: int = 0
    spare: int = 0
    alone: bool = True
    idle_kept: bool = True


class Held(NamedTuple):
    """A vector that one or two registers hold, as integers, from lane `first` of both on."""

    registers: tuple[Value, ...]
    first: int


@dataclass(frozen=True, slots=True)
class VectorAccess:
    """The elements that one statement touches: `base`, and for lane l the element `step * l`, or `offsets[l]`, beyond it.

    `before`: how far before `base` a block of `step * lanes` elements begins that may be read whole (None: no more than is wanted may be).
    `held`: the registers that hold it already (None: none do). `rises`: no offset is less than the one before, nor more than that by two.
    `apart`: how many elements each lane is beyond the one before, where that is the same for all, and known at run time.
    """

    place: BufferAddress
    base: Value
    lanes: int = 0
    step: int = 0
    offsets: Value | None = None
    owned: bool = False
    before: int | None = None
    held: Held | None = None
    rises: bool = False
    apart: Value | None = None

    @property
    def uniform(self) -> bool:
        """Whether every lane means the same element."""
        return self.step == 0 and self.offsets is None

    @property
    def is_distinct(self) -> bool:
        """Is it known that no two lanes mean the same element?"""
        offsets = self.constant_offsets()
        return offsets is not None and len(set(offsets)) == len(offsets)

    def constant_offsets(self) -> tuple[int, ...] | None:
        """Each lane's distance from `base`, where it is known."""
        if self.offsets is None:
            return tuple(self.step * lane for lane in range(self.lanes))
        offsets = known(self.offsets)
        return offsets if isinstance(offsets, tuple) else None


def address(builder: Builder, dtype: DType, base: Value, offset: Value) -> Value:
    """The address `offset` elements beyond `base`."""
    if known(offset) == 0:
        return base
    return builder.gep(base, [offset], source_etype=in_memory(dtype))
