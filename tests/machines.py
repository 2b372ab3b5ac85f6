"""Processors to test strategies on: whichever machine runs the tests, what they decide is that of a machine which a test names."""

from __future__ import annotations

from tensorlang.codegen.target import Target, target

MACHINES = ("haswell", "cascadelake", "icelake-server", "znver4", "znver5", "neoverse-v1")
"""Caches and vectors of every kind: 256 KiB to 2 MiB of second level, 8 to 60 MiB of last level, 128 to 512 bits."""


def runnable(name: str) -> Target:
    """A processor as it is where its code runs here, else the instructions of this machine beside its caches."""
    named = target(name)
    return named if named.is_native else target("native").with_caches(named.caches)
