"""All figures in one run: a Markdown table on the screen and in `results/latest.md`, everything behind it in `results/latest.json`.

    python -m bench                     everything
    python -m bench startup call        these families only

The exit code is 1 where a bound is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import call, library, library_calls, library_memory, matmul, scheduling, startup, tuner
from bench.measure import Figure
from tensorlang.codegen.target import target

RESULTS = Path(__file__).resolve().parent / "results"

FAMILIES: Mapping[str, Callable[[Path], list[Figure]]] = {
    "startup": lambda _: startup.figures(),
    "call": lambda _: call.figures(),
    "scheduling": lambda _: scheduling.figures(),
    "library": lambda _: library.figures() + library_calls.figures() + library_memory.figures(),
    "matmul": matmul.figures,
    "tuner": tuner.figures,
}


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    cpu = [line.split(":")[1].strip() for line in _lines(Path("/proc/cpuinfo")) if line.startswith("model name")]
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu[0] if cpu else platform.processor(),
        "core": target().cpu,
        "cpus": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("numpy", "llvmlite", "islpy", "scikit-optimize", "scikit-learn")},
        "environment": {key: value for key, value in os.environ.items() if key.startswith(("OPENBLAS_", "OMP_", "TENSORLANG_"))},
    }


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def table(figures: Sequence[Figure]) -> str:
    """A Markdown table."""
    lines = ["| figure | value | bound | kept | spread |", "| --- | ---: | ---: | --- | ---: |"]
    for figure in figures:
        spread = f"{figure.facts['spread']:.1%}" if "spread" in figure.facts else ""
        value, bound = f"{figure.value:.3g} {figure.unit}", f"{figure.sense} {figure.bound:g}"
        lines.append(f"| {figure.name} | {value} | {bound} | {'yes' if figure.kept else 'NO'} | {spread} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure the project's figures.")
    parser.add_argument("families", nargs="*", help=f"of {', '.join(FAMILIES)} (default: all)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for latest.json and latest.md")
    options = parser.parse_args(arguments)
    unknown = set(options.families) - set(FAMILIES)
    if unknown:
        parser.error(f"no family {', '.join(sorted(unknown))}; known: {', '.join(FAMILIES)}")
    chosen = options.families or list(FAMILIES)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            print(f"measuring {name} ...", flush=True)
            figures += FAMILIES[name](Path(folder) / "matmul.jsonl")
    options.results.mkdir(parents=True, exist_ok=True)
    found = {"machine": machine(), "figures": [figure.to_json() for figure in figures]}
    (options.results / "latest.json").write_text(json.dumps(found, indent=2) + "\n")
    (options.results / "latest.md").write_text(table(figures))
    print(f"\n{table(figures)}\nwritten to {options.results}")
    return 0 if all(figure.kept for figure in figures) else 1
