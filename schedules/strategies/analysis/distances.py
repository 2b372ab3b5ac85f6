"""How far back a recurrence reads what it made, in iterations of its loops: along which of them it waits for itself."""

from __future__ import annotations

from collections.abc import Mapping

from tensorlang.ir import Axis, Binary, Load
from tensorlang.ir.linear import linear
from tensorlang.schedules.strategies.analysis.stages import StageInfo, tensor_of


def distances_of(stage: StageInfo) -> list[dict[str, int]]:
    """How far back each read of its own results lies, by loops; empty where that is not a constant for one of them."""
    own = {buffer.name for buffer in stage.store.buffers}
    found = [_distance(stage, load) for load in stage.loads if tensor_of(load).name in own]
    known = [apart for apart in found if apart is not None]
    return known if len(known) == len(found) else []


def _distance(stage: StageInfo, load: Load) -> dict[str, int] | None:
    found: dict[str, int] = {}
    for here, there in zip(stage.store.index, load.index, strict=True):
        apart = linear(Binary("sub", there, here))
        if apart.terms or not isinstance(here, Axis):
            return None
        found[here.name] = apart.constant
    return found


def apart_along(stage: StageInfo) -> Mapping[str, bool]:
    """Does a stage read what it made elsewhere along each loop over its elements? Empty where it reads none, or at no fixed distances."""
    distances = distances_of(stage)
    return {loop.loop: any(apart.get(loop.loop) for apart in distances) for loop in stage.outer} if distances else {}
