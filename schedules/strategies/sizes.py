"""The sizes at which a program of bounded dims is planned and judged: few, from the least to the most, by equal factors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

from tensorlang.ir import MOST, Nest
from tensorlang.ir.integers import ASSUMED_EXTENT

Sizes: TypeAlias = Mapping[str, int]
"""Values of dims by name."""

STEPS: Final = 6
"""Factors between the least size and the most: from 1 to 64 each doubles, and a program is planned at the first, the third and the last."""


def ladder(least: int, most: int, steps: int = STEPS) -> tuple[int, ...]:
    """Sizes from `least` (at least 1) to `most`, the next the same factor larger."""
    first = max(1, least)
    last = max(first, most)
    return tuple(round(first * (last / first) ** (step / steps)) for step in range(steps + 1))


def samples(nest: Nest, unknown: Collection[str] = ()) -> tuple[Sizes, ...]:
    """Sizes of the dims, all growing together: of one without a most value as far as is assumed, unless it stays `unknown`."""
    found = [
        (name, least, most if most < MOST else max(least, ASSUMED_EXTENT))
        for name, least, most in nest.limits
        if most < MOST or name not in unknown
    ]
    ladders = {name: ladder(least, most) for name, least, most in found}
    if not ladders:
        return ()
    return tuple(dict(zip(ladders, sizes, strict=True)) for sizes in dict.fromkeys(zip(*ladders.values(), strict=True)))


def sizes_text(sizes: Sizes) -> str:
    """Sizes as the value of a knob: `n=8`, `h=32,w=32`."""
    return ",".join(f"{name}={size}" for name, size in sorted(sizes.items()))


def read(text: str) -> Sizes:
    """Sizes from the value of a knob. Raises `ValueError` for anything else."""
    return {name: int(size) for name, _, size in (part.partition("=") for part in text.split(","))}
