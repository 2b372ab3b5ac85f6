"""How far a time, or a verdict, can be trusted: one word that a record carries and that every table, page and look-up repeats.

    clean      nothing interrupted the samples that count: times by the clock
    shared     others did, all the time: times are what the thread itself spent on the core, which waiting does not lengthen
    noisy      others did, and what the threads spent themselves cannot be told: the times hold waiting
    drifted    nothing interrupted, but the machine was slower than at its best, by a fixed piece of work (see `sentinel`)
    undecided  a final measurement in which a candidate led and the interval of its lead holds 1

A final measurement takes turns, so a machine that slows down meets all finalists alike: there, "drifted" says that the times do not compare
with those of another day, while the verdict stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final


class Quality(StrEnum):
    """Worst last."""

    CLEAN = "clean"
    SHARED = "shared"
    DRIFTED = "drifted"
    NOISY = "noisy"
    UNDECIDED = "undecided"


MEANING: Final = {
    Quality.CLEAN: "nothing interrupted the samples that count: times are by the clock",
    Quality.SHARED: "others ran on the measured core: times are what the thread itself spent on it",
    Quality.DRIFTED: "the machine was slower than at its best: times do not compare with those of other days",
    Quality.NOISY: "others ran on the measured cores, and times hold waiting: measure again when it is quiet",
    Quality.UNDECIDED: "a candidate led, but not surely: the default stands; measure again when it is quiet",
}
"""What a reader is told."""


def shown(quality: Quality | None) -> str:
    """The word for a table; a dash where a record does not say."""
    return "-" if quality is None else str(quality)


def worst(qualities: Iterable[Quality | None]) -> Quality | None:
    """The least trustworthy of those that are known; None where none is."""
    order = list(Quality)
    return max((quality for quality in qualities if quality is not None), key=order.index, default=None)


def doubtful(quality: Quality | None) -> bool:
    """Does a verdict of this quality prove nothing? One whose quality no record says, as older ones, is not doubted for that."""
    return quality in (Quality.NOISY, Quality.UNDECIDED)
