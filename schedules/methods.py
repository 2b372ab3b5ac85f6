"""The directives as methods: what users type. Each names the module that explains it.

A method says which arguments there are and of which types; what becomes of them is told by the directive (`Directive.of`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from tensorlang.definition.expr import Expr
from tensorlang.ir import Tail
from tensorlang.schedules.directives.instructions import Instruction
from tensorlang.schedules.names import LoopHandle


class Methods(ABC):
    """A method for each directive; `_step` makes it of the arguments and applies it."""

    __slots__ = ()

    @abstractmethod
    def _step(self, method: str, /, *args: object, **options: object) -> tuple[LoopHandle, ...]:
        """The handles of the loops that a directive makes."""

    def split(self, loop: str, factor: int, tail: Tail = "guard", names: tuple[str, str] | None = None) -> tuple[LoopHandle, LoopHandle]:
        """Split a loop into an outer one and an inner one of `factor` iterations; see `directives.split`."""
        outer, inner = self._step("split", loop, factor, tail=tail, names=names)
        return outer, inner

    def fuse(self, outer: str, inner: str, name: str | None = None) -> LoopHandle:
        """Fuse two directly nested loops into one; see `directives.fuse`."""
        (fused,) = self._step("fuse", outer, inner, name)
        return fused

    def reorder(self, *order: str) -> None:
        """Put loops in this order, outermost first; see `directives.reorder`."""
        self._step("reorder", *order)

    def unroll(self, loop: str) -> None:
        """Emit the body once for each iteration; see `directives.loop_kinds`."""
        self._step("unroll", loop)

    def vectorize(self, loop: str) -> None:
        """Run iterations as lanes of vectors; see `directives.loop_kinds`."""
        self._step("vectorize", loop)

    def parallel(self, loop: str) -> None:
        """Run iterations on several threads; see `directives.loop_kinds`."""
        self._step("parallel", loop)

    def compute_at(self, stage: str, loop: str, within: str = "") -> None:
        """Compute a producer where it is needed; see `directives.compute_at`."""
        self._step("compute_at", stage, loop, **_inside(within))

    def compute_inline(self, stage: str, within: str = "") -> None:
        """Write a producer's expression into its uses; see `directives.compute_inline`."""
        self._step("compute_inline", stage, **_inside(within))

    def cache_read(self, tensor: str, at: str) -> None:
        """Copy the region of a tensor used inside a loop; see `directives.cache_read`."""
        self._step("cache_read", tensor, at)

    def pack(self, tensor: str, at: str, layout: tuple[str, ...] | None = None, along: str | None = None) -> None:
        """Copy what the inner loops use of a tensor in the order in which they use it; see `directives.pack`."""
        self._step("pack", tensor, at, layout=layout, along=along)

    def accumulate(self, tensor: str, at: str, *, partial: bool = False) -> None:
        """Keep the tile of a reduction's output in registers; `partial` sums it apart. See `directives.accumulate`."""
        self._step("accumulate", tensor, at, partial=partial)

    def compute_root(self, stage: str) -> None:
        """Compute a producer whole, before the loops that use it; see `directives.compute_root`."""
        self._step("compute_root", stage)

    def store_at(self, stage: str, loop: str, reuse: str = "slide") -> None:
        """Keep the storage of a placed producer, and what earlier iterations computed, at an outer loop; see `directives.store_at`."""
        self._step("store_at", stage, loop, reuse)

    def store_root(self, stage: str, reuse: str = "slide") -> None:
        """Keep the storage of a placed producer outside all loops; see `directives.store_root`."""
        self._step("store_root", stage, reuse)

    def fold_storage(self, tensor: str, axis: int, extent: int) -> None:
        """Keep only the last `extent` places of an intermediate along an axis; see `directives.fold_storage`."""
        self._step("fold_storage", tensor, axis, extent)

    def reverse_compute_at(self, stage: str, loop: str) -> None:
        """Compute a consumer where its operand is complete; see `directives.reverse_compute_at`."""
        self._step("reverse_compute_at", stage, loop)

    def reverse_compute_inline(self, stage: str, within: str = "") -> None:
        """Write a consumer into the statement that completes its operand; see `directives.reverse_compute_inline`."""
        self._step("reverse_compute_inline", stage, **_inside(within))

    def cache_write(self, tensor: str, at: str) -> None:
        """Compute into a local buffer and copy it back; see `directives.cache_write`."""
        self._step("cache_write", tensor, at)

    def set_memory(self, tensor: str, memory: str) -> None:
        """Keep an intermediate in "register", "stack" or "heap" memory; see `directives.storage`."""
        self._step("set_memory", tensor, memory)

    def transform_layout(self, tensor: str, fn: Callable[..., object] | str) -> None:
        """Store an intermediate in another order, or in blocks; see `directives.transform_layout`."""
        self._step("transform_layout", tensor, fn)

    def pad_to(self, tensor: str, axis: int, multiple: int) -> None:
        """Raise an extent of the storage of an intermediate to a multiple; see `directives.storage`."""
        self._step("pad_to", tensor, axis, multiple)

    def align(self, tensor: str, bytes: int) -> None:
        """Let the storage of an intermediate begin at a multiple of `bytes`; see `directives.storage`."""
        self._step("align", tensor, bytes)

    def hoist(self, stage: str, loop: str) -> None:
        """Compute before a loop what a stage computes anew in each of its iterations; see `directives.hoist`."""
        self._step("hoist", stage, loop)

    def scatter(self, stage: str, loop: str) -> None:
        """Let data say which element an iteration adds to, instead of asking in each; see `directives.scatter`."""
        self._step("scatter", stage, loop)

    def separate(self, stage: str, *loops: str, doubling: bool = False) -> None:
        """Combine what some loops of a reduction go over first, once for all that take the same; see `directives.separate`."""
        self._step("separate", stage, *loops, doubling=doubling)

    def share(self, stage: str) -> None:
        """Compute once what elements of a stage compute alike; see `directives.share`."""
        self._step("share", stage)

    def reuse(self, stage: str, other: str) -> None:
        """Read what another stage has computed in place of a stage that computes the same; see `directives.reuse`."""
        self._step("reuse", stage, other)

    def narrow(self, stage: str) -> None:
        """Compute a stage, and store it where it is an intermediate, in as few bits as hold its integers; see `directives.narrow`."""
        self._step("narrow", stage)

    def prefetch(self, tensor: str, loop: str, distance: int = 1) -> None:
        """Ask for what a later iteration reads; see `directives.memory_traffic`."""
        self._step("prefetch", tensor, loop, distance)

    def stream_stores(self, tensor: str) -> None:
        """Let stores pass the caches by; see `directives.memory_traffic`."""
        self._step("stream_stores", tensor)

    def tensorize(self, loop: str, instruction: Instruction | str) -> None:
        """Let one instruction compute the loops from `loop` inwards; see `directives.tensorize`."""
        self._step("tensorize", loop, instruction)

    def peel(self, loop: str, first: int = 0, last: int = 0) -> None:
        """Run the first and last iterations of a loop in copies of its body; see `directives.peel`."""
        self._step("peel", loop, first=first, last=last)

    def skew(self, loop: str, by: str, factor: int = 1) -> None:
        """Make `loop + factor * by` the loop; see `directives.skew`."""
        self._step("skew", loop, by=by, factor=factor)

    def shift(self, loop: str, amount: int) -> None:
        """Make `loop + amount` the loop; see `directives.skew`."""
        self._step("shift", loop, amount=amount)

    def partition(self, loop: str, across: str | None = None) -> None:
        """Run the iterations for which all conditions hold in a loop of their own; see `directives.partition`."""
        self._step("partition", loop, across)

    def trim(self, loop: str) -> None:
        """Run the iterations of which something may be read, and these as a whole; see `directives.trim`."""
        self._step("trim", loop)

    def fission(self, loop: str, after: str | None = None) -> None:
        """Give each statement in a loop, or what runs up to the loop `after` and the rest, loops of their own; see `directives.fission`."""
        self._step("fission", loop, after=after)

    def fuse_loops(self, first: str, second: str) -> None:
        """Make one loop of two neighbours; see `directives.fuse_loops`."""
        self._step("fuse_loops", first, second)

    def specialize(self, condition: Expr | str) -> None:
        """A version of the nest for extents, or what tables hold, that satisfy a condition; see `directives.specialize`."""
        self._step("specialize", condition)

    def by_cases(self, stage: str, loop: str) -> None:
        """Choose what a stage computes by the iteration of a short loop; see `directives.by_cases`."""
        self._step("by_cases", stage, loop)

    def rfactor(self, loop: str) -> None:
        """Give each iteration of a reduction loop a partial result; see `directives.rfactor`."""
        self._step("rfactor", loop)

    def decompose_reduction(self, loop: str) -> None:
        """Start a reduction right before one of its loops; see `directives.decompose_reduction`."""
        self._step("decompose_reduction", loop)

    def join_reductions(self, first: str, second: str) -> None:
        """Compute two reductions over equal ranges in one pass; see `directives.join_reductions`."""
        self._step("join_reductions", first, second)


def _inside(within: str) -> dict[str, str]:
    """The argument that names a version, unless none is named."""
    return {} if isinstance(within, str) and not within else {"within": within}
