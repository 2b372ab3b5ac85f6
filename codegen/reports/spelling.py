"""Quantities as people read them: three digits and a unit."""

from __future__ import annotations


def seconds(value: float) -> str:
    """`128 ns`, `4.21 ms`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= 0.9995 * size:
            return f"{_three(value / size)} {unit}"
    return f"{_three(value * 1e9)} ns"


def size(value: float) -> str:
    """`280 B`, `71.5 KiB`: what a cache is compared with."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if value >= 0.9995 * (1 << power):
            return f"{_three(value / (1 << power))} {unit}"
    return f"{value:.0f} B"


def rate(value: float, what: str) -> str:
    """`429 GFLOP/s`, `38.6 GB/s`."""
    for prefix, power in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= 0.9995 * power:
            return f"{_three(value / power)} {prefix}{what}/s"
    return f"{_three(value / 1e3)} k{what}/s"


def percent(share: float) -> str:
    """`84%`; what is little is `under 1%`."""
    return f"{share:.0%}" if share >= 0.01 or share == 0 else "under 1%"


def _three(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
