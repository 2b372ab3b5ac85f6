"""The methods of a schedule that say where values are computed and stored: `compute_root`, `store_at`, `reverse_compute_at`,
`cache_write`, `set_memory`, `transform_layout`, `pad_to`, `align`, `prefetch`, `stream_stores`, `tensorize`.

They stand apart from `Schedule` because they share nothing with it but how a directive is made and applied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from tensorlang.schedules.compute_root import ComputeRoot
from tensorlang.schedules.reverse_compute_at import ReverseComputeAt
from tensorlang.schedules.store_at import StoreAt

PlacementDirective: TypeAlias = "ComputeRoot | StoreAt | ReverseComputeAt"

PLACEMENT: dict[str, type[PlacementDirective]] = {
    "compute_root": ComputeRoot,
    "store_at": StoreAt,
    "reverse_compute_at": ReverseComputeAt,
}


def made(kind: str, loop: Callable[[object], str], name: Callable[[object, str], str], *args: Any, **options: Any) -> PlacementDirective:
    """The frozen value of a call; `loop` and `name` resolve what it names. Raises `Refusal`."""
    match kind:
        case "store_at" | "reverse_compute_at":
            stage, at = args
            return (StoreAt if kind == "store_at" else ReverseComputeAt)(name(stage, "a stage"), loop(at))
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

    def store_at(self: _Applies, stage: str, loop: str) -> None:
        """Keep the storage of a placed producer at an outer loop; see `schedules.store_at`."""
        self._do("store_at", stage, loop)

    def reverse_compute_at(self: _Applies, stage: str, loop: str) -> None:
        """Compute a consumer where its operand is complete; see `schedules.reverse_compute_at`."""
        self._do("reverse_compute_at", stage, loop)
