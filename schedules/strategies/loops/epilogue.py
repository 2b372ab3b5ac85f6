"""Epilogue fusion: the stage that consumes a result (bias, activation, residual, conversion) is computed from its register tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice
from tensorlang.schedules.strategies.analysis.stages import StageInfo, readers


def epilogue_knob() -> Choice:
    """Whether the consumer is computed from the tiles, or from the whole result."""
    return Choice("epilogue", ["fused", "apart"])


def fuse_epilogue(s: Schedule, config: Mapping[str, Any], consumer: str) -> None:
    """Compute the consumer from the tiles where the point says so."""
    if config.get("epilogue") == "fused":
        s.reverse_compute_inline(consumer)


def sole_reader(s: Schedule, stage: StageInfo) -> str:
    """The only other stage that reads the result of a stage, or ""."""
    names = {name for name, _ in readers(s.nest, stage.store.buffers)} - {stage.name}
    return names.pop() if len(names) == 1 else ""
