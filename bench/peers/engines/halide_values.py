"""What Halide pipelines share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import halide as hl

from bench.peers.workload import Array

VECTOR: Final[int] = hl.get_host_target().natural_vector_size(hl.Float(32))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A function, its parameters with the arrays for them, and how often it has to be called, each time on what it made before."""

    output: hl.Func
    inputs: tuple[tuple[Any, Array], ...]
    repeat: int = 1


def parameter(rank: int, name: str) -> Any:
    """A float32 array."""
    return hl.ImageParam(hl.Float(32), rank, name)
