"""The table from ONNX's operators to the canonical ones: a family in a file, a translation in a row.

An operator without a row is read by the function of its schema, if it has one (`functions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorlang.bridges.onnx import (
    attention,
    control,
    counting,
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

_FAMILIES: Final = (
    elements, moving, reductions, layers, windows, control, quantised, interpolation, recurrent, signal, training, counting, attention,
)  # fmt: skip

TRANSLATIONS: Final[Mapping[str, Translation]] = {name: translation for family in _FAMILIES for name, translation in family.ROWS.items()}
"""By ONNX's names, those of other domains with the domain."""
