"""What is linked once for a process, and stays: code that other code calls, or that is called by its address."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Generic, ParamSpec, TypeVar, final

from tensorlang.codegen.llvm import binding

P = ParamSpec("P")
T = TypeVar("T")


@final
class LinkedOnce(Generic[P, T]):
    """A function whose results are kept, as by `functools.cache`, and made by one thread.

    `cache` lets two threads make one each and keeps the second: the first is unloaded, while code that was linked meanwhile calls it.
    """

    def __init__(self, make: Callable[P, T]) -> None:
        self.make = make
        self._known = cache(make)

    def __call__(self, *args: P.args, **named: P.kwargs) -> T:
        """The result for these arguments. Raises what making it raises."""
        with binding.lock:
            return self._known(*args, **named)  # type: ignore[arg-type]

    def is_made(self) -> bool:
        """Is there a result?"""
        return self._known.cache_info().currsize > 0
