"""`autotune calibrate`: this machine, measured, beside what ships for it."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from tensorlang.autotune.cli.common import Usage, console


def calibrate(
    out: Annotated[Path | None, typer.Option(help="The file to write (default: TENSORLANG_MACHINE, else in the cache folder).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON instead of a table.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure and print, and store nothing.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Measure nothing: print the description in force, and where it comes from.")] = False,
) -> None:
    """Measure this machine in at most ten seconds, print measured beside shipped, and store the description."""
    if show and (dry_run or out is not None):
        raise Usage("--show measures nothing, so it goes with neither --dry-run nor --out")
    if dry_run and out is not None:
        raise Usage("--dry-run stores nothing, so it does not go with --out")
    _show(as_json=as_json) if show else _measure(out, as_json=as_json, dry_run=dry_run)


def _measure(out: Path | None, *, as_json: bool, dry_run: bool) -> None:
    from tensorlang.autotune.measurement import host  # noqa: PLC0415 - see `main`
    from tensorlang.autotune.reporting import calibration  # noqa: PLC0415
    from tensorlang.autotune.reporting.display import plain  # noqa: PLC0415
    from tensorlang.codegen.calibration.calibrate import calibrate as measured  # noqa: PLC0415
    from tensorlang.codegen.target import calibrated, target  # noqa: PLC0415
    from tensorlang.codegen.target.described import Described, write  # noqa: PLC0415

    path = None if dry_run else out or calibrated.place()
    found, here = measured(), target("native")
    if path is not None:
        if out is None:
            _make_folder(path.parent)
        about = Described(
            arch=here.arch, cpu=here.cpu, processor=host.machine()["model"], time_unix=round(time.time(), 3),
            measured=found.measured, machine=found.machine,
        )  # fmt: skip
        write(about, path)
        calibrated.forget()  # from now on this is in force
    if as_json:
        sys.stdout.write(json.dumps(calibration.described(found, path), indent=2) + "\n")
        return
    screen = console()
    screen.print(calibration.table(found))
    if path is not None:
        plain(screen, f"stored: {path}")


def _make_folder(folder: Path) -> None:
    from tensorlang.errors import BuildError  # noqa: PLC0415 - see `main`

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(f"the folder {str(folder)!r} cannot be made: {error.strerror}") from None


def _show(*, as_json: bool) -> None:
    if as_json:
        from dataclasses import asdict  # noqa: PLC0415 - see `main`

        from tensorlang.codegen.target import calibrated, machine  # noqa: PLC0415
        from tensorlang.codegen.target.cores import digest  # noqa: PLC0415

        found, here = calibrated.in_force(), machine("native")
        told = {"digest": digest(here), "path": found and str(found[0]), "machine": asdict(here)}
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
        return
    from tensorlang.autotune.reporting import calibration  # noqa: PLC0415
    from tensorlang.autotune.reporting.display import plain  # noqa: PLC0415

    screen, (table, where) = console(), calibration.in_force()
    screen.print(table)
    plain(screen, where)
