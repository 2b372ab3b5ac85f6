"""The history: one line of JSON for each row of each run, appended as soon as the row is measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bench.sections import name_of

FILE: Final = Path(__file__).resolve().parents[1] / "results" / "peers.jsonl"


def append(file: Path, row: Mapping[str, Any]) -> None:
    """One line, whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lines:
        lines.write(json.dumps(rounded(row), sort_keys=True) + "\n")


def rounded(value: Any) -> Any:
    """With five digits in every number: the file is kept for long, and no more is known."""
    match value:
        case float():
            return float(f"{value:.5g}")
        case Mapping():
            return {key: rounded(part) for key, part in value.items()}
        case list() | tuple():
            return [rounded(part) for part in value]
        case _:
            return value


def read(file: Path) -> Iterator[dict[str, Any]]:
    """Every readable line; a torn one, which only a killed run can leave, is passed over."""
    if not file.exists():
        return
    for line in file.read_text().splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        yield row


def latest(file: Path, *, quick: bool = False) -> dict[str, dict[str, dict[str, Any]]]:
    """For each machine, and set of instructions that it was held to, the last row of each workload.

    Rows of quick runs, which only show that everything works, count if `quick` says so.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in read(file):
        if quick or not row["quick"]:
            found.setdefault(name_of(row["machine"], row.get("isa", "native")), {})[row["workload"]] = row
    return found
