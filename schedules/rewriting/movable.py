"""Which stages may be moved or written into others: those that alone write a tensor and do not read it."""

from __future__ import annotations

from collections.abc import Iterable

from tensorlang.ir import Buffer, Nest, Store
from tensorlang.ir.mentions import among, mentions
from tensorlang.ir.traverse import loads_of
from tensorlang.schedules.directive import Refusal


def require_movable(nest: Nest, stage: str, buffers: Iterable[Buffer], loop: str = "") -> None:
    """Raise `Refusal` where a stage reads what it writes (a recurrence), or another one writes it too (a scatter, the state of a scan)."""
    names = {buffer.name for buffer in buffers}
    inner = [part for part in mentions(nest.body).stages if part.startswith(f"{stage}.")]
    for store in (part for part in among(nest.body, (stage, *inner, *names)) if isinstance(part, Store)):
        own = store.stage in (stage, f"{stage}.init")
        writes = any(buffer.name in names for buffer in store.buffers)
        if writes and not own:
            raise Refusal("TL-S301", f"{store.stage!r} writes the tensor of {stage!r} too, so it is computed whole", stage=stage, loop=loop)
        if own or store.stage.startswith(f"{stage}."):
            read = {getattr(load.buffer, "name", "") for expr in (*store.index, *store.values) for load in loads_of(expr)}
            if read & names:
                raise Refusal("TL-S301", f"{stage!r} reads its own elements, so it is computed whole and in order", stage=stage, loop=loop)
