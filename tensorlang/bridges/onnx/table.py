"""The table from ONNX's operators to the canonical ones: a family in a file, a translation in a row.

An operator without a row is read by the function of its schema, if it has one (`functions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorlang.bridges.onnx import (
    control,
    elements,
    interpolation,
    layers,
    moving,
    quantised,
    recurrent,
    reductions,
    signal,
    training,
    windows,
)
from tensorlang.bridges.onnx.call import Translation

TRANSLATIONS: Final[Mapping[str, Translation]] = (
    dict(elements.ROWS)
    | moving.ROWS
    | reductions.ROWS
    | layers.ROWS
    | windows.ROWS
    | control.ROWS
    | quantised.ROWS
    | interpolation.ROWS
    | recurrent.ROWS
    | signal.ROWS
    | training.ROWS
)
"""By ONNX's names, those of other domains with the domain."""
