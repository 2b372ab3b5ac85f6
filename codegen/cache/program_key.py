"""Names of programs by content: what decides the code of a kernel, as one digest.

Two builds share a kernel where these agree: the nests with every name in them (they are the names of arguments), the target with its
caches, and whatever else the caller says decided the schedule: for a default schedule the threads and the description of the machine, for
one that was given nothing. Equal parts of a nest are numbered once, so that the text which is
digested is as long as the nest has different parts, however often they occur, and does not depend on which of them are one object.

What is kept for other processes has to name the compiler too (`generator`): versions, and the sources as they lie on disk.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, Final

from tensorlang.codegen.llvm import binding
from tensorlang.codegen.target import Target
from tensorlang.ir import Const

_LOADED: Final = time.time_ns()
_BESIDE: Final = ("autotune", "bridges", "graph", "kernels", "__pycache__")


def digest(target: Target, *parts: object) -> str:
    """The name of a program: hexadecimal, 64 digits. `parts` are nests, strings, numbers, None, and tuples of these."""
    numbering = _Numbering()
    top = tuple(numbering.number(part) for part in parts)
    caches = target.caches
    machine = (target.triple, target.cpu, target.features, target.name, caches.l1, caches.l2, caches.l3, caches.cores)
    return hashlib.sha256(repr((machine, top, list(numbering.numbers))).encode()).hexdigest()


class _Numbering:
    """Numbers for the different parts of a nest, in the order in which they are met; the entries are tuples of names and numbers."""

    __slots__ = ("numbers", "seen")

    def __init__(self) -> None:
        self.numbers: dict[tuple[object, ...], int] = {}
        self.seen: dict[int, int] = {}

    def number(self, part: Any) -> object:
        """The number of a node or a tuple; anything else stands for itself, with its type."""
        kind: type = type(part)
        if kind is str:
            return part
        if kind is tuple:
            return self.numbers.setdefault(("()", *map(self.number, part)), len(self.numbers))
        if not hasattr(kind, "__dataclass_fields__"):
            return (kind.__name__, part)
        found = self.seen.get(id(part))
        if found is None:
            if kind is Const:  # by spelling: 1, 1.0 and True are equal to Python, and so are 0.0 and -0.0
                entry: tuple[object, ...] = ("Const", repr(part.value), part.dtype)
            else:
                entry = (kind.__name__, *map(self.number, _operands(kind)(part)))
            found = self.seen[id(part)] = self.numbers.setdefault(entry, len(self.numbers))
        return found


@cache
def _operands(kind: type) -> Any:
    """A function from a node to the values of its fields."""
    names = [field.name for field in fields(kind) if field.compare]  # what is only kept with a node is no part of it
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda part: (get(part),)


@cache
def generator() -> str | None:
    """What makes code of a nest: the versions of this package and of LLVM, and the sources, by name, size and time of change.

    None where sources are newer than this process, which may then run code that they do not hold.
    """
    import tensorlang  # noqa: PLC0415 - the facade, for its version and its folder

    newest, stamps = 0, []
    for folder in tensorlang.__path__:
        for name, status in sorted(_sources(folder)):
            newest = max(newest, status.st_mtime_ns)
            stamps.append(f"{name} {status.st_size} {status.st_mtime_ns}")
    text = "\n".join([tensorlang.__version__, *map(str, sorted(binding.versions().items())), *stamps])
    return None if newest > _LOADED else hashlib.sha256(text.encode()).hexdigest()


def _sources(folder: str, inside: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """The Python files below a folder, but not those of the tuner, of the library, of graphs and of bridges: they write no code."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield inside + entry.name, entry.stat()
            elif "." not in entry.name and entry.name not in _BESIDE and entry.is_dir():
                yield from _sources(entry.path, f"{inside}{entry.name}/")
