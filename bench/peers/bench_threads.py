"""Two threads over one, as a pytest-benchmark suite."""

from __future__ import annotations

from typing import Any

from bench.peers.suite import family, show

pytestmark = family("threads")


def test_threads(benchmark: Any, workload: str, candidate: str) -> None:
    """A candidate in its workload's group."""
    show(benchmark, workload, candidate)
