"""The pages that show the winning schedules of a report, beside it: `report.html` links `report-winner-1.html`.

They stand in files of their own because they run a script, which the report forbids itself: a log can be anyone's. Each is self-contained.
What cannot be made leaves the report as it is, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tensorlang.autotune.reporting import replay
from tensorlang.autotune.reporting.report import Tuned

PAGES: Final = 8
"""Pages that are made for one report, at most."""
MEASURED: Final = 2
"""Up to so many studies, winners are built and measured again, where this is the CPU of the log."""


@dataclass(frozen=True, slots=True)
class WinnerPage:
    """The name of a page that stands beside the report, or why there is none."""

    name: str = ""
    instead: str = ""


def write(chosen: Sequence[Tuned], report: Path, *, measure: bool) -> list[WinnerPage]:
    """Write the page of each winner beside a report, in the order of its studies. Never raises for what a log holds."""
    return [_page(tuned, report, place, measure=measure and len(chosen) <= MEASURED) for place, tuned in enumerate(chosen)]


def _page(tuned: Tuned, report: Path, place: int, *, measure: bool) -> WinnerPage:
    best = tuned.best
    if best is None:
        return WinnerPage()
    if place >= PAGES:
        return WinnerPage(instead=f"The first {PAGES} winners have pages of their own; choose this one with --task.")
    name = f"{report.stem}-winner-{place + 1}.html"
    try:
        schedule = replay.schedule(best)
        schedule.visualize(report.with_name(name), measure=measure and replay.peak(best, measure=True)[0] is not None)
    except replay.BROKEN as error:
        return WinnerPage(instead=f"The winner has no page of its own: {(str(error).splitlines() or [type(error).__name__])[0]}")
    return WinnerPage(name)
