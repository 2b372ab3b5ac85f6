"""int8 and bfloat16 matrix products, int8 convolutions, as a pytest-benchmark suite."""

from __future__ import annotations

from typing import Any

from bench.peers.suite import family, show

pytestmark = family("narrow")


def test_narrow(benchmark: Any, workload: str, candidate: str) -> None:
    """A candidate in its workload's group."""
    show(benchmark, workload, candidate)
