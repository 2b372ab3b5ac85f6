"""A value that an object makes when it is first asked for, and then keeps.

`functools.cached_property` without its lock: the one of Python 3.11 is held for all objects of a class while one of them makes its value.
Threads that build would wait for each other, and a child forked meanwhile would wait for a thread that it does not have. Two threads
may make a value twice; all that is made so is a function of the object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 - it is used as a decorator, like the one that it stands for
    """The result of a method, as an attribute. The object needs a `__dict__`."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make = make
        self.name = ""
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Self | T:
        """Called once for an object: what it stores hides this."""
        if instance is None:
            return self
        value: T = self.make(instance)
        vars(instance)[self.name] = value
        return value
