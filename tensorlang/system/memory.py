"""How much memory there is."""

from __future__ import annotations

import os
from pathlib import Path


def memory() -> int:
    """Bytes of memory that this process may use, the container's share where it has one; 0 if unknown."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        physical = 0
    try:
        share = int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):  # no limit reads "max"
        return physical
    return min(physical, share) if physical else share
