"""The methods of a schedule that say where values are computed and stored.

These are `compute_root`, `store_at`, `store_root`, `fold_storage`, `reverse_compute_at`, `reverse_compute_inline`, `cache_write`,
`set_memory`, `transform_layout`, `pad_to`, `align`, `prefetch`, `stream_stores` and `tensorize`. They stand apart from `Schedule` because
they share nothing with it but how a directive is made and applied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from tensorlang.schedules.cache_write import CacheWrite
from tensorlang.schedules.compute_root import ComputeRoot
from tensorlang.schedules.fold_storage import FoldStorage
from tensorlang.schedules.instructions import Instruction, define
from tensorlang.schedules.layout import TransformLayout, spelled
from tensorlang.schedules.reverse_compute_at import ReverseComputeAt
from tensorlang.schedules.reverse_inline import ReverseComputeInline
from tensorlang.schedules.storage import Align, PadTo, SetMemory
from tensorlang.schedules.store_at import StoreAt
from tensorlang.schedules.store_root import StoreRoot
from tensorlang.schedules.tensorize import Tensorize
from tensorlang.schedules.traffic import PrefetchRegion, StreamStores

PlacementDirective: TypeAlias = (
    "ComputeRoot | StoreAt | StoreRoot | FoldStorage | ReverseComputeAt | ReverseComputeInline | CacheWrite | SetMemory | TransformLayout"
    " | PadTo | Align | PrefetchRegion | StreamStores | Tensorize"
)

PLACEMENT: dict[str, type[PlacementDirective]] = {
    "compute_root": ComputeRoot,
    "store_at": StoreAt,
    "store_root": StoreRoot,
    "fold_storage": FoldStorage,
    "reverse_compute_at": ReverseComputeAt,
    "reverse_compute_inline": ReverseComputeInline,
    "cache_write": CacheWrite,
    "set_memory": SetMemory,
    "transform_layout": TransformLayout,
    "pad_to": PadTo,
    "align": Align,
    "prefetch": PrefetchRegion,
    "stream_stores": StreamStores,
    "tensorize": Tensorize,
}


def made(kind: str, loop: Callable[[object], str], name: Callable[[object, str], str], *args: Any, **options: Any) -> PlacementDirective:
    """The frozen value of a call; `loop` and `name` resolve what it names. Raises `Refusal`."""
    match kind:
        case "store_at":
            stage, at, *rest = args
            return StoreAt(name(stage, "a stage"), loop(at), *rest, **options)
        case "store_root":
            stage, *rest = args
            return StoreRoot(name(stage, "a stage"), *rest, **options)
        case "reverse_compute_at":
            stage, at = args
            return ReverseComputeAt(name(stage, "a stage"), loop(at))
        case "cache_write":
            at = options.pop("at") if "at" in options else args[1]
            return CacheWrite(name(args[0], "a tensor"), loop(at))
        case "transform_layout":
            tensor, fn = args
            return TransformLayout(name(tensor, "a tensor"), spelled(fn))
        case "prefetch":
            tensor, at, *rest = args
            return PrefetchRegion(name(tensor, "a tensor"), loop(at), *rest, **options)
        case "stream_stores":
            return StreamStores(name(args[0], "a tensor"))
        case "tensorize":
            at, instruction = args
            if isinstance(instruction, Instruction):
                instruction = define(instruction).name
            return Tensorize(loop(at), name(instruction, "an instruction"))
        case "set_memory" | "pad_to" | "align" | "fold_storage":
            steps = {"set_memory": SetMemory, "pad_to": PadTo, "align": Align, "fold_storage": FoldStorage}
            step: Callable[..., PlacementDirective] = steps[kind]
            return step(name(args[0], "a tensor"), *args[1:], **options)
        case "reverse_compute_inline":
            return ReverseComputeInline(name(args[0], "a stage"))
        case _:
            return ComputeRoot(name(args[0], "a stage"))


class _Applies(Protocol):
    """What a schedule brings: make a directive by name and apply it."""

    def _do(self, kind: str, /, *args: Any, **options: Any) -> object: ...


class Placement:
    """The methods; each names the module that explains it."""

    __slots__ = ()

    def compute_root(self: _Applies, stage: str) -> None:
        """Compute a producer whole, before the loops that use it; see `schedules.compute_root`."""
        self._do("compute_root", stage)

    def store_at(self: _Applies, stage: str, loop: str, reuse: str = "slide") -> None:
        """Keep the storage of a placed producer, and what earlier iterations computed, at an outer loop; see `schedules.store_at`."""
        self._do("store_at", stage, loop, reuse)

    def store_root(self: _Applies, stage: str, reuse: str = "slide") -> None:
        """Keep the storage of a placed producer outside all loops; see `schedules.store_root`."""
        self._do("store_root", stage, reuse)

    def fold_storage(self: _Applies, tensor: str, axis: int, extent: int) -> None:
        """Keep only the last `extent` places of an intermediate along an axis; see `schedules.fold_storage`."""
        self._do("fold_storage", tensor, axis, extent)

    def reverse_compute_at(self: _Applies, stage: str, loop: str) -> None:
        """Compute a consumer where its operand is complete; see `schedules.reverse_compute_at`."""
        self._do("reverse_compute_at", stage, loop)

    def reverse_compute_inline(self: _Applies, stage: str) -> None:
        """Write a consumer into the statement that completes its operand; see `schedules.reverse_inline`."""
        self._do("reverse_compute_inline", stage)

    def cache_write(self: _Applies, tensor: str, at: str) -> None:
        """Compute into a local buffer and copy it back; see `schedules.cache_write`."""
        self._do("cache_write", tensor, at)

    def set_memory(self: _Applies, tensor: str, memory: str) -> None:
        """Keep an intermediate in "register", "stack" or "heap" memory; see `schedules.storage`."""
        self._do("set_memory", tensor, memory)

    def transform_layout(self: _Applies, tensor: str, fn: Callable[..., object] | str) -> None:
        """Store an intermediate in another order, or in blocks; see `schedules.layout`."""
        self._do("transform_layout", tensor, fn)

    def pad_to(self: _Applies, tensor: str, axis: int, multiple: int) -> None:
        """Raise an extent of the storage of an intermediate to a multiple; see `schedules.storage`."""
        self._do("pad_to", tensor, axis, multiple)

    def align(self: _Applies, tensor: str, bytes: int) -> None:
        """Let the storage of an intermediate begin at a multiple of `bytes`; see `schedules.storage`."""
        self._do("align", tensor, bytes)

    def prefetch(self: _Applies, tensor: str, loop: str, distance: int = 1) -> None:
        """Ask for what a later iteration reads; see `schedules.traffic`."""
        self._do("prefetch", tensor, loop, distance)

    def stream_stores(self: _Applies, tensor: str) -> None:
        """Let stores pass the caches by; see `schedules.traffic`."""
        self._do("stream_stores", tensor)

    def tensorize(self: _Applies, loop: str, instruction: Instruction | str) -> None:
        """Let one instruction compute the loops from `loop` inwards; see `schedules.tensorize`."""
        self._do("tensorize", loop, instruction)
