"""Frozen dataclasses that are made by the ten thousand.

A frozen dataclass sets each field by `object.__setattr__`, which looks the field up by its name, and half of the time to make a node of
three fields goes there. The descriptor of a slot sets it at once.

A tree of them would be hashed from its leaves up each time that it is looked up, and so would each part of it: as often as it is deep. Each
keeps its hash, which is no field, so that it goes into no copy and no pickle: another process hashes texts otherwise.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, Final, TypeVar, dataclass_transform

T = TypeVar("T")


class _Hashed:
    """The slot in which a hash is kept."""

    __slots__ = ("_hash",)


_keep: Final = _Hashed.__dict__["_hash"].__set__


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(cls: type[T]) -> type[T]:
    """`@dataclass(frozen=True, slots=True)`, with values that are made in half the time; their signature is the same.

    Raises `TypeError` for a class with `__post_init__`, which would not be called.
    """
    if hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls.__name__} does more than set its fields when it is made")
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    make: Any = type(cls)
    cls = dataclasses.dataclass(frozen=True, slots=True)(make(cls.__name__, (_Hashed, *cls.__bases__), body))
    slow: Any = cls.__init__
    given = [name for name in inspect.signature(slow).parameters if name != "self"]
    scope: dict[str, Any] = {}
    lines = [f"def __init__(self, {', '.join(given)}):"]
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        name, value = field.name, field.name if field.init else f"_default_{field.name}"
        scope[f"_set_{name}"], scope[f"_default_{name}"] = getattr(cls, name).__set__, field.default
        if field.default_factory is not dataclasses.MISSING:
            scope[f"_make_{name}"], scope["_absent"] = field.default_factory, inspect.signature(slow).parameters[name].default
            value = f"_make_{name}() if {name} is _absent else {name}"
        lines.append(f"    _set_{name}(self, {value})")
    exec("\n".join(lines), scope)  # noqa: S102 - as dataclasses write theirs
    quick = scope["__init__"]
    for name in ("__defaults__", "__annotations__", "__qualname__", "__module__", "__doc__"):
        setattr(quick, name, getattr(slow, name))
    hashed = cls.__hash__

    def kept(self: T) -> int:
        found: int | None = getattr(self, "_hash", None)
        if found is None:
            found = hashed(self)
            _keep(self, found)
        return found

    for name, made in (("__init__", quick), ("__hash__", kept)):
        setattr(cls, name, made)  # what a type checker takes for an error
    return cls
