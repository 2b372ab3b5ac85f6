"""The shipped database of a class of processors, which answers as any database does; its records vouch for themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tensorlang.autotune.log.database import Database
from tensorlang.autotune.log.match import Match
from tensorlang.autotune.shipped.classes import FOLDER, Processors, class_of
from tensorlang.codegen.target import Target


class Shipped(Database):
    """A database whose records were compared with their definitions before they were put into the package, and are so by its tests.

    So none is validated again where it is used, on whichever processor of the class.
    """

    def __init__(self, processors: Processors, folder: Path = FOLDER) -> None:
        """Raises `LogError` for a log that is gone."""
        self.processors = processors
        super().__init__(folder / processors.log)

    def matches(
        self,
        outputs: Any,
        target: str | Target | None = None,
        threads: int | None = None,
        cache: str = "warm",
        constants: Iterable[str] = (),
    ) -> Iterator[Match]:
        """As any database has them, each with the class that it was shipped for."""
        for match in super().matches(outputs, target, threads, cache, constants):
            said = match.reason if match.kind is None else f"shipped for {self.processors.name}: {match.reason}"
            yield replace(match, vouched=True, reason=said)


def shipped(target: Target, folder: Path = FOLDER) -> tuple[Shipped | None, str]:
    """The shipped database for a target, opened once; else why there is none."""
    found, why = class_of(target, folder)
    return (None, why) if found is None else (_opened(found, folder), "")


@cache
def _opened(processors: Processors, folder: Path) -> Shipped:
    return Shipped(processors, folder)
