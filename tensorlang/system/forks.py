"""What a forked child must not find in the middle of something: locks, and what they protect.

The child of `os.fork` has one thread, the one that forked. A lock that another thread held is held for ever there, and what it protects
is half done. So every lock of ours is one of two kinds:

    waited for     held for a moment, or while memory is changed that cannot be made anew: the fork waits until it is free, and it is
                   free on both sides afterwards (`loading`, `compiling`, those that `short_lock` makes, and what `wait_for` names)
    taken anew     held while something long is done whose result is stored at the end: the child gets a new one (`anew`)

A fork takes the first kind in the order above. A thread that holds one of them may wait for a later one, and never for an earlier one; a
short lock is held while nothing else is waited for, and no lock is made meanwhile: which there are is protected too (`_listing`).
"""

from __future__ import annotations

import logging  # noqa: F401 - forks take its locks too: behind ours, if it is there before us, since a thread that holds ours may log
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Protocol

loading: Final = threading.RLock()
"""Held while a part of this package is imported on use: Python's own locks of modules are not freed in a child."""

compiling: Final = threading.RLock()
"""Held around everything that LLVM does."""


class Renewed(Protocol):
    """An object with locks that a child takes anew."""

    def renew(self) -> None:
        """Make the locks again, as they are in a new object."""


_listing: Final = threading.RLock()
"""Held while a lock or an owner is added below: a fork waits for it before the short locks, and no other is made until it is over."""
_others: Final[list[tuple[Callable[[], object], Callable[[], object]]]] = []
_short: Final[weakref.WeakSet[threading.RLock]] = weakref.WeakSet()
_renewed: Final[weakref.WeakSet[Renewed]] = weakref.WeakSet()
_held: Final[list[Callable[[], object]]] = []
"""How to release what this process holds around a fork."""


def short_lock() -> threading.RLock:
    """A new lock that a fork waits for."""
    lock = threading.RLock()
    with _listing:
        _short.add(lock)
    return lock


def wait_for(acquire: Callable[[], object], release: Callable[[], object]) -> None:
    """Let a fork wait for somebody else's lock too, behind `compiling`."""
    _others.append((acquire, release))


def anew(owner: Renewed) -> None:
    """Call `owner.renew()` in every child, as long as the object is alive."""
    with _listing:
        _renewed.add(owner)


def _before() -> None:
    for acquire, release in _in_order():
        acquire()
        _held.append(release)


def _in_order() -> Iterator[tuple[Callable[[], object], Callable[[], object]]]:
    """How to acquire and release what a fork waits for; one by one, since what is being loaded has locks of its own."""
    yield from ((lock.acquire, lock.release) for lock in (loading, compiling))
    yield from _others
    yield _listing.acquire, _listing.release
    yield from ((lock.acquire, lock.release) for lock in list(_short))


def _after() -> None:
    while _held:
        with suppress(RuntimeError):  # a fork that Python did not announce held nothing
            _held.pop()()


def _in_child() -> None:
    _after()
    for owner in list(_renewed):
        owner.renew()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
