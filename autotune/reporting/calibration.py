"""What a calibration found, beside what ships; and the description in force, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from tensorlang.autotune.measurement import host
from tensorlang.codegen.calibration.calibrate import Calibration
from tensorlang.codegen.calibration.figures import Figure, get, paths
from tensorlang.codegen.target import calibrated, target
from tensorlang.codegen.target.cores import digest, machine_of, shipped
from tensorlang.schedules.model.machine import Machine

_TITLES = {
    "hertz": "clock under vector code",
    "ports.arithmetic": "multiply-adds",
    "ports.latency": "latency of a multiply-add",
    "ports.loads": "loads",
    "ports.stores": "stores",
    "ports.divisions": "divisions",
    "ports.roots": "square roots",
    "ports.gathers": "gathers",
    "latencies.division": "latency of a division",
    "latencies.root": "latency of a square root",
    "memory.bandwidth": "bandwidth of memory",
    "memory.latency": "latency of memory",
    "memory.streaming": "streaming stores",
    "memory.both": "reads and streaming stores at once",
    "together": "memory of all threads by that of one",
    "pages.size": "page of an array",
    "pages.entries": "pages in the TLB",
    "pages.walk": "page walk",
    "outstanding": "lines waited for at once",
    "fork": "fork and join of a parallel loop",
}


def title(path: str) -> str:
    """A field in words."""
    if path in _TITLES:
        return _TITLES[path]
    _, place, what = path.split(".")
    return f"{what} of L{int(place) + 1}"


def table(found: Calibration) -> Table:
    """Measured beside shipped, and why what was measured is not believed."""
    made = _table(f"{_processor()}: measured in {found.seconds:.1f} s", "figure", "shipped", "measured", "unit", "note")
    for figure in found.figures:
        unit, factor = figure.unit
        measured = "-" if figure.measured is None else _number(figure.measured * factor)
        why = figure.why and f"kept {_number(figure.value * factor)}: {figure.why}"
        made.add_row(title(figure.path), _number(figure.shipped * factor), measured, unit, why)
    return made


def in_force() -> tuple[Table, str]:
    """The description of this machine that schedules are chosen by, and where it comes from."""
    here = target("native")
    machine, ships, found = machine_of(here), shipped(here), calibrated.in_force()
    measured = () if found is None else found[1].measured
    made = _table(f"{_processor()}: description {digest(machine)}", "figure", "shipped", "in force", "unit", "note")
    for path in paths(machine):
        unit, factor = Figure(path, 0, None, 0).unit
        told = "measured" if path in measured else ""
        made.add_row(title(path), _number(get(ships, path) * factor), _number(get(machine, path) * factor), unit, told)
    for name, value in _fixed(machine):
        made.add_row(name, value, value, "", "")
    return made, f"from {found[0]}" if found is not None else f"from the table that ships: {machine.source}"


def described(found: Calibration, path: Path | None) -> dict[str, object]:
    """The same for programs."""
    figures = [
        {"field": figure.path, "shipped": figure.shipped, "measured": figure.measured, "value": figure.value, "why": figure.why}
        for figure in found.figures
    ]
    return {"seconds": round(found.seconds, 3), "digest": digest(found.machine), "path": path and str(path), "figures": figures}


def _fixed(machine: Machine) -> Iterator[tuple[str, str]]:
    """What no calibration changes."""
    yield "vectors", f"{machine.registers} of {machine.vector_bits} bits"
    for place, cache in enumerate(machine.caches):
        sets = "sets by a hash" if cache.ways * machine.line == cache.size else f"{cache.ways} ways"
        yield f"size of L{place + 1}", f"{cache.size >> 10:,} KiB, {sets}"
    yield "window", str(machine.ports.window)
    yield "overlap", str(machine.overlap)


def _table(name: str, *columns: str) -> Table:
    made = Table(title=name, title_justify="left")
    for column in columns:
        made.add_column(column, justify="right" if column in ("shipped", "measured", "in force") else "left")
    return made


def _processor() -> str:
    return f"{host.machine()['model']} ({target('native').cpu})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
