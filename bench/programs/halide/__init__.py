"""Programs of images as Halide pipelines: an algorithm each, and a schedule by hand in its classic manner, for one thread.

A pipeline is a function of the program's name that takes the shape of the result, whether it is to be scheduled by hand, and a parameter
for each operand; it returns the function whose buffer is the result. Dimensions are innermost first: `x` is the last axis of an array.
The autoschedulers are given the same algorithms; Adams2019 searches for eleven minutes for that of `local_laplacian`. `calls` compiles;
the other modules need Halide, and are imported when it is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "stencils": ("blur16", "blur", "unsharp", "edges", "demosaic", "dilation", "chained", "corners", "max_filter"),
    "weighted": ("bilateral", "non_local_means", "bilateral_grid"),
    "sums": ("equalised", "iir_blur"),
    "pyramids": ("local_laplacian", "interpolated"),
    "sensors": ("camera",),
}
PIPELINES: Final[Mapping[str, str]] = {name: module for module, names in MODULES.items() for name in names}
"""The module of each, by the name of the program."""
