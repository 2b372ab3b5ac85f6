"""What the emitter knows at one point of one function: where it writes, what is in scope, which lanes are on.

A frame is one mutable value per LLVM function, handed to every emitting function. `lanes` is 0 outside a vector loop. `mask` holds the
lanes that are on (None: all); `alive` is the mask that is known to hold some lane, so that under it a scalar access is wanted.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum

from llvmlite import ir as llvm

from tensorlang import ir
from tensorlang.codegen.emission.affine import Polynomial, PolynomialScope
from tensorlang.codegen.emission.debug_lines import FunctionLines
from tensorlang.codegen.emission.numbering import Numbering
from tensorlang.codegen.emission.types import POINTER, VOID, Builder, Type, Value, external
from tensorlang.codegen.emission.vector_access import BufferAddress, VectorAccess
from tensorlang.codegen.emission.workspace import Part
from tensorlang.codegen.target import Target


@dataclass(frozen=True, slots=True)
class Pending:
    """A strided store not yet made. `offset` is that of its first lane in its buffer, `step` how far each lane is beyond the one before.

    `mask`: the lanes that are on, where no more is known than that (None: all of the access).
    """

    access: VectorAccess
    offset: Polynomial
    step: Polynomial
    value: Value
    streamed: bool
    mask: Value | None


@dataclass(frozen=True, slots=True)
class HeapStorage:
    """Heap storage, and the memory of the caller in which it may lie; None where it never does."""

    storage: Value
    within: Value | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """The copies of a vector longer than a register, one for each of them: the axis that counts them, and how many there are."""

    axis: str
    count: int


@dataclass(frozen=True, slots=True)
class Tile:
    """An unrolled loop whose stores wait for one another: its axis, how many copies it makes, and the stores.

    `sure` are the loads, by identity, that each copy makes whatever it chooses; `turned` is what was loaded for all of them.
    """

    axis: str
    copies: int
    stores: tuple[ir.Store, ...]
    sure: frozenset[int]
    turned: dict[object, list[Value]] = field(default_factory=dict)


class Read(IntEnum):
    """What an expression loads: nothing, elements that exist whatever conditions say (`passes.existing`), or some that may not."""

    NOTHING = 0
    SURE = 1
    UNSURE = 2


@dataclass(slots=True)
class Frame:
    """The state of emission in one function.

    `entry` writes where stack storage is declared, `stack` counts its bytes, `heap` is what has to be freed and `exits` the blocks that
    do so where the function fails (see `storage.leave`), `memo` lives for one statement and has the values of its nodes, and by their
    places those of elements that data tell, `numbering` holds what index arithmetic is in scope, `streamed` says that a fence is due,
    `deferred` holds stores that wait for their neighbours, in the copies of a `tile` (see `transpose`, `turned_loads`), `lines` tells
    each instruction which line it comes from, where somebody asked, `part` is the function's own of what the caller may hand over (None
    where it hands over nothing), `limits` what dims can be, `operands` are the buffers that nothing writes, `stored` are the values of
    the statement and `beside` what it reads by lanes evenly apart, once somebody asks (see `spans`), `chunks` the copies that the
    statement is one of (see `neighbours`), `counters` are those of parallel loops, which run one after the other (see `shares`),
    `natural` are the loop variables that are never negative, and `asked` says that the values of the condition around are those that
    are there: nothing was stored since. `copied` are the loops that are written out. `reads` and `dear` are found once for a part of a
    statement: what it loads, and of a side of a choice whether a vector had better skip it.
    """

    target: Target
    function: Value
    builder: Builder
    entry: Builder
    fail: Callable[[Frame, Builder], None]
    space: PolynomialScope = field(default_factory=PolynomialScope)
    places: dict[str, BufferAddress] = field(default_factory=dict)
    scalars: dict[str, Value] = field(default_factory=dict)
    heap: list[HeapStorage] = field(default_factory=list)
    exits: list[Value] = field(default_factory=list)
    stack: int = 0
    outlined: bool = False
    streamed: bool = False
    deferred: list[Pending] | None = None
    tile: Tile | None = None
    lanes: int = 0
    lane_axis: str = ""
    mask: Value | None = None
    alive: Value | None = None
    memo: ChainMap[Hashable, Value] = field(default_factory=ChainMap)
    numbering: Numbering = field(default_factory=Numbering)
    params: dict[str, Value] = field(default_factory=dict)
    reads: dict[int, Read] = field(default_factory=dict)
    dear: dict[int, bool] = field(default_factory=dict)
    lines: FunctionLines | None = None
    part: Part | None = None
    limits: Mapping[ir.Expr, tuple[int, int]] = field(default_factory=dict)
    operands: frozenset[str] = frozenset()
    stored: tuple[ir.Expr, ...] = ()
    beside: frozenset[tuple[str, int, frozenset[object], int]] | None = None
    chunks: Chunks | None = None
    counters: Value | None = None
    natural: frozenset[str] = frozenset()
    asked: bool = False
    copied: frozenset[str] = frozenset()

    def fresh(self) -> None:
        """Forget the values of the statement before: a store may have changed what they read; but not those of a condition just asked."""
        if not self.asked:
            self.memo = ChainMap()
            self.reads, self.dear = {}, {}
        self.asked = False
        self.stored, self.beside = (), None

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Emit where control may not come: a store there does not wait for its neighbours, which are made elsewhere."""
        before = self.deferred, self.tile
        self.deferred = self.tile = None
        with self.numbering.inside():
            yield
        self.deferred, self.tile = before

    @contextmanager
    def masked(self, mask: Value | None, *, alive: bool = False) -> Iterator[None]:
        """Emit under another mask; values found there are not known outside."""
        before = self.mask, self.alive, self.memo
        self.mask, self.memo = mask, self.memo.new_child()
        if alive:
            self.alive = mask
        yield
        self.mask, self.alive, self.memo = before

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Emit a loop: the variables that come into scope there are known nowhere else."""
        outside, natural = dict(self.scalars), self.natural
        with self.space.scope():
            yield
        self.scalars, self.natural = outside, natural

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Emit in a block that does not dominate what follows."""
        before = self.memo, self.tile
        self.memo, self.tile = self.memo.new_child(), None
        with self.numbering.inside():
            yield
        self.memo, self.tile = before

    @property
    def wanted(self) -> bool:
        """Whether some lane is known to be on."""
        return self.mask is None or self.mask is self.alive

    def variable(self, name: str, value: Value) -> None:
        """Bring a loop variable into scope."""
        self.scalars[self.space.loop(name).name] = value
        self.numbering.here(value)

    def bind(self, name: str, value: Polynomial) -> None:
        """Give a loop variable a value made of others."""
        self.space.bind(name, value)

    def reserve(self, kind: Type, name: str, align: int = 0) -> Value:
        """Stack storage, declared where the function begins."""
        storage = self.entry.alloca(kind, name=name)
        storage.type = POINTER  # llvmlite still types it by what it points to
        storage.align = align or None
        return storage

    def place(self, buffer: ir.Buffer, pointer: Value, own: int = 0, spare: int = 0, *, alone: bool = True, idle_kept: bool = True) -> None:
        """Bring a buffer into scope."""
        name = readable(buffer.name)
        self.places[buffer.name] = BufferAddress(name, pointer, buffer.dtype, buffer.in_memory, own, spare, alone, idle_kept)


def begin(function: Value, target: Target, fail: Callable[[Frame, Builder], None], parent: Frame | None = None) -> Frame:
    """A frame at the start of a function, which sees the loop variables of `parent`. `finish` closes it."""
    entry, start = function.append_basic_block("entry"), function.append_basic_block("start")
    frame = Frame(target, function, llvm.IRBuilder(start), llvm.IRBuilder(entry), fail)
    if parent is not None:
        frame.space, frame.outlined, frame.limits, frame.operands = parent.space.within(), True, parent.limits, parent.operands
        frame.lines = None if parent.lines is None else parent.lines.outlined(function, parent.builder, frame.builder)
    return frame


def finish(frame: Frame) -> None:
    """Let the function run from its declarations of storage into its code, and make streamed stores visible before it returns."""
    if frame.streamed:
        for last in frame.function.blocks:
            if last.is_terminated and last.terminator.opname == "ret":
                at = llvm.IRBuilder(last)
                at.position_before(last.terminator)
                at.call(external(at.module, "llvm.x86.sse.sfence", VOID, []), [])
    frame.entry.position_at_end(frame.function.entry_basic_block)  # what functions hand over has been declared there, too
    frame.entry.branch(frame.function.blocks[1])


def define(module: llvm.Module, target: Target, name: str, result: Type, arguments: list[Type]) -> Value:
    """A new function with the attributes that every function of a kernel has."""
    function = llvm.Function(module, llvm.FunctionType(result, arguments), name)
    attributes = ["nounwind", f'"target-cpu"="{target.cpu}"', f'"target-features"="{target.features}"']
    if target.has_masks:  # LLVM takes half of an AVX-512 register for many processors
        attributes.append(f'"prefer-vector-width"="{target.vector_bits}"')
    for attribute in attributes:
        set.add(function.attributes, attribute)  # llvmlite's own `add` knows no key-value attributes
    return function


def readable(name: str) -> str:
    """A name of the nest as an LLVM name without quotes."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", name)
