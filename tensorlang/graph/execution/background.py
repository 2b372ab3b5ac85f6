"""Threads in which calls run beside the one that asked: a pool for each number of them, there from the first call on.

A forked child has none of its parent's threads, so it begins with no pools.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

_pools: Final[dict[int, ThreadPoolExecutor]] = {}
_lock = threading.Lock()


def submit(threads: int, function: Callable[..., T], *arguments: object) -> Future[T]:
    """Call a function in one of so many threads, when one is free."""
    with _lock:
        pool = _pools.get(threads)
        if pool is None:
            pool = _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="tensorlang run")
    return pool.submit(function, *arguments)


def _anew() -> None:
    global _lock  # noqa: PLW0603 - that of the parent may be held by a thread that is not here
    _lock = threading.Lock()
    _pools.clear()


os.register_at_fork(after_in_child=_anew)
