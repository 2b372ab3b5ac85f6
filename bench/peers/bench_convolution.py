"""ResNet-50's convolutions, as a pytest-benchmark suite."""

from __future__ import annotations

from typing import Any

from bench.peers.suite import family, show

pytestmark = family("convolution")


def test_convolution(benchmark: Any, workload: str, candidate: str) -> None:
    """A candidate in its workload's group."""
    show(benchmark, workload, candidate)
