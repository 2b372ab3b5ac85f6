"""Python's collector of cycles, out of the way where very many objects are made that stay: it would look at all of them again and again."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """No collection until the block ends, where there is one at all; cycles that are made meanwhile are found by the next."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
