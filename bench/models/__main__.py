"""`python -m bench.models`: ResNet-50, MobileNetV3, BERT and GPT-2 beside other engines, one thread, batch 1.

    python -m bench.models                          all four, the tables on the terminal
    python -m bench.models --models bert --steps    besides, the kernels that lose the most to torch's
    python -m bench.models --tune 20                ours tuned as well, each model for at most so many minutes
    python -m bench.models --page                   also into docs/performance.md

Each engine is built in processes of its own, which tell time and memory; then all of them run in one process in turn.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import child, sections
from bench.models import files, page
from bench.models.engines import ENGINES, missing, tune
from bench.run import machine

CACHES = {"tensorlang": "TENSORLANG_CACHE", "torch compile": "TORCHINDUCTOR_CACHE_DIR"}
"""Where an engine keeps what it built: cold is an empty folder, warm the same one again."""


def measured(folder: Path, name: str, engines: Sequence[str], rounds: int, size: str) -> dict[str, Any]:
    """The facts of one model."""
    own = files.written(folder, name, size)
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, **{variable: f"{cache}/{place}" for place, variable in enumerate(CACHES.values())}}
        built: dict[str, dict[str, Any]] = {}
        for engine in engines:
            for state in ("cold", "warm") if engine in CACHES else ("cold",):
                built.setdefault(engine, {})[state] = child.run("-m", "bench.models.child", own, engine, env=env)
                print(f"{name}: {engine} {state}: {built[engine][state]}", flush=True)
        latency = child.run("-m", "bench.models.latency", own, rounds, *engines, env=env)
    return {"model": name, "built": built, **latency}


def main(arguments: Sequence[str] | None = None) -> list[Mapping[str, Any]]:
    """Measure, print, and write if that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--models", nargs="+", default=list(files.NAMES))
    parser.add_argument("--engines", nargs="+", default=[name for name in ENGINES if name != page.TUNED], choices=list(ENGINES))
    parser.add_argument("--tune", type=float, metavar="MINUTES", help="tune each model for at most so long, and measure that too")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--size", choices=("full", "small"), default="full")
    parser.add_argument("--folder", type=Path, default=Path("out/models"))
    parser.add_argument("--steps", action="store_true", help="the kernels of each model beside torch's")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md")
    given = parser.parse_args(arguments)
    if given.tune is not None and page.TUNED not in given.engines:
        given.engines.insert(1, page.TUNED)
    engines = [name for name in given.engines if missing(name) is None]
    left = {name: reason for name in given.engines if (reason := missing(name)) is not None}
    found: list[Mapping[str, Any]] = []
    calls = child.run("-m", "bench.models.calls")
    for name in given.models:
        if given.tune is not None:
            tune(files.written(given.folder.resolve(), name, given.size), given.tune)
        found.append(measured(given.folder.resolve(), name, engines, given.rounds, given.size))
        print(page.tables(found[-1:], left), flush=True)
        if given.steps:
            print(child.text("-m", "bench.models.steps", given.folder.resolve() / f"{name}-{given.size}"), flush=True)
    if given.page:
        sections.written(sections.PAGE, {("graphs", sections.name_of(machine())): f"{page.tables(found, left)}\n\n{page.of_calls(calls)}"})
    print(page.of_calls(calls))
    return found


if __name__ == "__main__":
    main()
