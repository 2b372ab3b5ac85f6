"""Classes of processors, and the log that the package has for each: `index.json`, beside the logs.

A class is an architecture, features that all its processors have, and the width of their vectors. A schedule says nothing of
instructions, so one that was found on one processor of a class means the same on all; how fast it is there, the cost model of that
processor is asked before it is served (`log.lending`).
"""

from __future__ import annotations

import hashlib
import logging
from functools import cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from tensorlang.codegen.target import Target
from tensorlang.system import files

FOLDER: Final = Path(__file__).parent
INDEX: Final = "index.json"

_log: Final = logging.getLogger("tensorlang")


class Processors(Struct, frozen=True, kw_only=True):
    """A class: its name, what its processors have, its log with the digest of that, where it was tuned, and how many programs it has."""

    name: str
    arch: str
    features: tuple[str, ...]
    vector_bits: int
    log: str
    sha256: str
    tuned_on: tuple[str, ...] = ()
    programs: int = 0

    def has(self, target: Target) -> bool:
        """Is a target in it?"""
        return target.arch == self.arch and target.vector_bits == self.vector_bits and target.isa.issuperset(self.features)


def classes(folder: Path = FOLDER) -> tuple[Processors, ...]:
    """The classes that a folder has; none, and a line in the log, where the index is missing or damaged."""
    try:
        return msgspec.json.decode(files.contents(folder / INDEX), type=tuple[Processors, ...])
    except (OSError, msgspec.MsgspecError) as error:
        _log.warning("the shipped database in %s cannot be read: %s", folder, error)
        return ()


@cache
def class_of(target: Target, folder: Path = FOLDER) -> tuple[Processors | None, str]:
    """The class of a target whose log is whole, else why there is none."""
    known = classes(folder)
    for one in known:
        if not one.has(target):
            continue
        try:
            found = hashlib.sha256(files.contents(folder / one.log)).hexdigest()
        except OSError as error:
            found = f"it cannot be read: {error.strerror}"
        if found == one.sha256:
            return one, ""
        _log.warning("the shipped database of %s is not used: %s is not the file of this version", one.name, folder / one.log)
        return None, f"the shipped database of {one.name} is damaged"
    names = ", ".join(one.name for one in known)
    return None, f"the package ships no records for {target.cpu}{f'; it has some for {names}' if names else ''}"
