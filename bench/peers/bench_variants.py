"""Convolutions of other kinds, as a pytest-benchmark suite."""

from __future__ import annotations

from typing import Any

from bench.peers.suite import family, show

pytestmark = family("variants")


def test_variant(benchmark: Any, workload: str, candidate: str) -> None:
    """A candidate in its workload's group."""
    show(benchmark, workload, candidate)
