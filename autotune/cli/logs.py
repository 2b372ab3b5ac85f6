"""`autotune status`, `best`, `report`, `merge`, `verify`, `export` and `compare`: the commands that read logs."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated

import typer

from tensorlang.autotune.cli.common import LogArgument, LogArguments, Usage, console, open_log
from tensorlang.errors import LogError, did_you_mean


def status(logs: LogArguments) -> None:
    """Show who is tuning what, how far it is and when it will be done; then trials, best, speed-up and failures of each task."""
    from tensorlang.autotune.reporting import activity, report  # noqa: PLC0415 - see `main`

    screen = console()
    gc.disable()  # what is read stays until the end
    for log in map(open_log, logs):
        records = list(log.glimpses())
        running = activity.show(screen, log, records=records)
        try:
            report.status(screen, log, records)
        except LogError:
            if not running:
                raise


def best(
    logs: LogArguments,
    kind: Annotated[str | None, typer.Option("--format", help="json or csv: a row for each task, with interval and flags.")] = None,
) -> None:
    """Show the best configuration of each task, and its schedule as Python."""
    from tensorlang.autotune.reporting import report as reports, winners  # noqa: PLC0415 - see `main`

    gc.disable()  # what is read stays until the end
    if kind is not None:
        if kind not in winners.FORMATS:
            raise Usage(f"there is no format {kind!r} of winners{did_you_mean(kind, winners.FORMATS) or '; there are json and csv'}")
        sys.stdout.write(winners.text([open_log(path) for path in logs], kind))
        return
    screen = console()
    for log in map(open_log, logs):
        reports.best(screen, log)


def report(
    logs: LogArguments,
    html: Annotated[
        Path | None, typer.Option(help="Write one self-contained page instead, and one of each winner beside it; of one log.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Only this task, with --html: its operator or the start of its fingerprint.")] = None,
) -> None:
    """Show the fastest trials, failures by reason, and noise; or write them as a page with charts."""
    screen = console()
    opened = [open_log(path) for path in logs]
    if html is None:
        if task is not None:
            raise Usage("--task goes with --html")
        from tensorlang.autotune.reporting import report as reports  # noqa: PLC0415 - see `main`

        for log in opened:
            reports.report(screen, log)
        return
    if len(opened) > 1:
        raise Usage("--html takes one log; `autotune merge` makes one of several")
    from tensorlang.autotune.reporting import html as html_report  # noqa: PLC0415
    from tensorlang.autotune.reporting.display import plain  # noqa: PLC0415

    plain(screen, f"written: {html_report.write(opened[0], html, task, winners=True)}")


def merge(
    logs: LogArguments,
    into: Annotated[Path, typer.Option(help="The log file that all records go into, each once; what it has stays.")],
) -> None:
    """Bring the records of several logs together, each once; doing it again changes nothing."""
    from tensorlang.autotune.log.merge import merge as merged  # noqa: PLC0415
    from tensorlang.autotune.reporting.display import plain, plural  # noqa: PLC0415 - see `main`

    for path in logs:
        open_log(path)
    if into.is_dir():
        raise Usage(f"--into: {into} is a folder; name a file, as {into / 'merged.jsonl'}")
    found = merged(logs, into)
    screen = console()
    plain(screen, f"{into}: {plural(found.records, 'record')}, {found.added:,} added, {plural(found.duplicates, 'duplicate')}")
    for problem in found.problems[:5]:
        plain(screen, f"skipped {problem}")
    if len(found.problems) > 5:
        plain(screen, f"... and {plural(len(found.problems) - 5, 'more line')} skipped")


def verify(logs: LogArguments) -> None:
    """Rebuild the best schedule of each task in a fresh process, check its results and time it; those of other CPUs are skipped."""
    from tensorlang.autotune.reporting.display import duration, plain  # noqa: PLC0415 - see `main`
    from tensorlang.autotune.reporting.report import studies  # noqa: PLC0415
    from tensorlang.autotune.reporting.verify import verify as verified  # noqa: PLC0415

    screen, held = console(), True
    for log in map(open_log, logs):
        for tuned in studies(log):
            verdict = verified(tuned)
            held = held and verdict.holds
            told = [str(verdict.verdict)]
            if verdict.now is not None and verdict.tolerance is not None:
                told[0] += f", {duration(verdict.now)} now, {duration(verdict.then)} in the log"
                told[0] += f" (tolerance {verdict.tolerance:.0%})"
            plain(screen, f"{tuned.title}: {': '.join(filter(None, (*told, verdict.why)))}")
    if not held:
        raise typer.Exit(1)


def export(
    log: LogArgument,
    kind: Annotated[str, typer.Option("--format", help="t4 (Kernel Tuner's results), csv or json (one row for each trial).")] = "t4",
    out: Annotated[
        str | None, typer.Option(help="The file to write (default: standard output); a folder: a t4 file for each task.")
    ] = None,
) -> None:
    """Write the trials of a log in a form that other tools read."""
    from tensorlang.autotune.log import export as exports  # noqa: PLC0415 - see `main`

    if kind not in exports.FORMATS:
        raise Usage(f"there is no format {kind!r}{did_you_mean(kind, exports.FORMATS)}")
    opened = open_log(log)
    if out is None:
        sys.stdout.write(exports.text(opened, kind))
    elif not out.endswith("/") and not Path(out).is_dir():
        exports.write(opened, kind, Path(out))
    elif kind == "t4":
        exports.write_tasks(opened, Path(out))
    else:
        raise Usage(f"--out: {out} is a folder; a table of all tasks is one file, as {Path(out) / f'trials.{kind}'}")


def compare(first: LogArgument, second: LogArgument) -> None:
    """Compare the winners of two logs, task by task."""
    from tensorlang.autotune.reporting import compare as compares  # noqa: PLC0415 - see `main`

    a, b = open_log(first), open_log(second)
    console().print(compares.table(compares.compare(a, b)))
