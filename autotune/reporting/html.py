"""`autotune report LOG --html FILE`: one page that says what a log holds, opens offline and needs no script; winners' pages beside it.

The page is `templates/page.html`, which is given `sections.Study` for each study. Text from the log is escaped by the templates, and in
the charts where it is drawn; a log can be anyone's. The page asks for nothing from anywhere, and its colours follow the reader's scheme.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tensorlang.autotune.log.log import Log
from tensorlang.autotune.reporting import winner_pages
from tensorlang.autotune.reporting.parts import Table
from tensorlang.autotune.reporting.report import studies
from tensorlang.autotune.reporting.sections import study
from tensorlang.autotune.reporting.winners import total, weights
from tensorlang.errors import LogError, did_you_mean
from tensorlang.system.files import replacing
from tensorlang.system.pages import rendered

MARKS: Final = 12_000
"""Dots in all charts of one kind on a page."""
SKIPPED: Final = 200
"""Skipped lines that are listed."""


def write(log: Log, path: str | os.PathLike[str], task: str | None = None, *, measure: bool = True, winners: bool = False) -> Path:
    """Write the page on a log to `path`, and return that path.

    `task` chooses studies by operator or by the start of their fingerprint. The roofline measures this machine for a few seconds where it
    is the CPU of the log; `measure=False` leaves it out. With `winners` the page links one for each winning schedule (`s.visualize`), which
    is written beside it. Raises `LogError` for a log without trials, a task that it does not hold, or a
    path that cannot be written.
    """
    held = studies(log)
    chosen = [tuned for tuned in held if task is None or task in (tuned.op, tuned.fingerprint[: len(task)])]
    if not chosen:
        known = sorted({tuned.op for tuned in held})
        raise LogError(f"{log.path} holds no task {task!r}{did_you_mean(str(task), known)}")
    where = Path(path)
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LogError(f"cannot write {where}: {error.strerror}") from None
    pages = winner_pages.write(chosen, where, measure=measure) if winners else [winner_pages.WinnerPage()] * len(chosen)
    most = max(150, min(2_500, MARKS // len(chosen)))
    page = rendered(
        "tensorlang.autotune.reporting",
        title=f"autotune: {', '.join(dict.fromkeys(tuned.op for tuned in chosen))[:80]}",
        log=log,
        read=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        studies=[study(tuned, most, measure=measure) for tuned in chosen],
        pages=pages,
        total=total(chosen, weights(log)),
        skipped=Table(["skipped"], [(str(problem),) for problem in log.problems[:SKIPPED]]),
    )
    try:
        with replacing(where) as file:
            file.write(page.encode())
    except OSError as error:
        raise LogError(f"cannot write {where}: {error.strerror}") from None
    return where
