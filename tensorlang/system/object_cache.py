"""What was built in this process, by name: asked for again it is there, and threads that ask for one thing at once build it once.

A bounded number of values is kept, the latest used. A builder that fails leaves nothing behind: each who waited for it tries again, and
gets an error of its own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from tensorlang.system import forks

T = TypeVar("T")

KEPT: Final = 128
"""Kernels of one process that are kept: the different operators of a model. Each holds 0.2 to 0.5 MB, its nests and texts included."""


class ObjectCache(Generic[T]):
    """Values by name, at most `size` of them, each built by one thread at a time."""

    def __init__(self, size: int = KEPT) -> None:
        self.size = size
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = forks.short_lock()
        self.renew()
        forks.anew(self)

    def get(self, name: Hashable, make: Callable[[], T]) -> T:
        """The value of a name, made where it is missing. Raises what `make` raises."""
        found = self._known(name)
        if found is not None:
            return found
        with self._lock:
            building = self._building.setdefault(name, threading.Lock())
        with building:
            found = self._known(name)
            if found is not None:
                return found
            try:
                made = make()
                self._keep(name, made)
            finally:
                with self._lock:
                    self._building.pop(name, None)
            return made

    def clear(self) -> None:
        """Forget everything; kernels that are in use stay as they are."""
        with self._lock:
            self._values.clear()

    def __len__(self) -> int:
        return len(self._values)

    def _known(self, name: Hashable) -> T | None:
        with self._lock:
            found = self._values.get(name)
            if found is not None:
                self._values.move_to_end(name)
            return found

    def _keep(self, name: Hashable, value: T) -> None:
        dropped = []  # freed after the lock: what they refer to may take its time
        with self._lock:
            self._values[name] = value
            while len(self._values) > self.size:
                dropped.append(self._values.popitem(last=False))

    def renew(self) -> None:
        """Nobody builds: in a forked child, who did is not there any more."""
        self._building: dict[Hashable, threading.Lock] = {}
