"""The tables of the page: for each a function from rows of the history to lines of cells, and `table`, which makes Markdown of them."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from bench.peers.summary import geomean, verdict
from bench.peers.workloads.family import Family

Row: TypeAlias = Mapping[str, Any]

PEAK: Final = 0.95
"""Of the measured rate of multiply-adds, that products of matrices from 256 up are to reach."""


def cell(value: float) -> str:
    """Three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown; the first column is text, the others are numbers unless their head ends with a space."""
    lines = [head, ["---" if place == 0 or name.endswith(" ") else "---:" for place, name in enumerate(head)], *rows]
    return "\n".join(f"| {' | '.join(part.strip() for part in line)} |" for line in lines) + "\n"


def others(row: Row) -> str:
    """The ratios to all peers, the fastest first."""
    parts = sorted(row["peers"].items(), key=lambda item: float(item[1]["ratio"]))
    return ", ".join(f"{name} {part['ratio']:.2f}{' (' + part['aside'] + ')' if part['aside'] else ''}" for name, part in parts)


def figures(rows: Sequence[Row]) -> list[float]:
    """The ratios of the rows that have one."""
    return [row["ratio"] for row in rows if row.get("ratio") is not None]


def goals(family: Family, rows: Sequence[Row]) -> list[str]:
    """A line of the overview."""
    found = figures(rows)
    counts = Counter(verdict(ratio) for ratio in found)
    wanted = [f"geomean {family.geomean:.2f}"] if family.geomean is not None else []
    wanted += [f"none below {family.least:.2f}"] if family.least is not None else []
    kept = (family.geomean is None or geomean(found) >= family.geomean) and (family.least is None or min(found) >= family.least)
    tally = f"{counts['win']} / {counts['tie']} / {counts['loss']}"
    return [family.title, ", ".join(wanted), f"{geomean(found):.2f}", f"{min(found):.2f}", tally, "yes" if kept else "**no**"]


def peak(rows: Sequence[Row]) -> list[list[str]]:
    """Another line of the overview: our share of the machine's multiply-adds, where rows measured them."""
    found = [row["ours"]["share_of_peak"] for row in rows if row["ours"] and "share_of_peak" in row["ours"]]
    if not found:
        return []
    kept = "yes" if min(found) >= PEAK else "**no**"
    return [
        ["of the machine's multiply-adds, n from 256", f"none below {PEAK:.2f}", f"{geomean(found):.2f}", f"{min(found):.2f}", "", kept]
    ]


def family_table(rows: Sequence[Row]) -> str:
    """One line for each workload."""
    lines = []
    for row in rows:
        name = f"`{row['workload']}`"
        if row["ours"] is None:
            lines.append([name, "none", *[""] * 6])
            continue
        share = row["ours"].get("share_of_peak")
        rate = f"{cell(row['ours']['rate'])} {row['unit']}" + (f" ({share:.0%})" if share is not None else "")
        rate += " tuned" if row["ours"]["note"] in {"tuned", "nearest"} else ""
        if row.get("ratio") is None:
            lines.append([name, rate, *[""] * 5, others(row)])
            continue
        best = row["peers"][row["best_peer"]]
        judged = f"**{row['verdict']}**" if row["verdict"] == "loss" else row["verdict"]
        ratio, fastest = f"{row['ratio']:.2f}", f"{best['ratio_best']:.2f}"
        lines.append([name, rate, row["best_peer"], cell(best["rate"]), ratio, fastest, judged, others(row)])
    return table(["workload", "ours", "best peer ", "its rate", "ratio", "best", "verdict ", "ratios to all "], lines)


def losses(rows: Sequence[Row]) -> Iterator[list[str]]:
    """Every peer that is more than a tie faster, the worst first; peers of another layout too."""
    found = [(part["ratio"], row, name, part) for row in rows for name, part in row["peers"].items() if verdict(part["ratio"]) == "loss"]
    for ratio, row, name, part in sorted(found, key=lambda item: float(item[0])):
        rates = [f"{cell(row['ours']['rate'])} {row['unit']}", cell(part["rate"])]
        yield [f"`{row['workload']}`", name, *rates, f"{ratio:.2f}", part["aside"] or ("the best" if row.get("best_peer") == name else "")]


def builds(rows: Sequence[Row]) -> list[list[str]]:
    """Seconds to build a candidate and call it once: in the first process of a run, and in later ones, which find what that left."""
    names = dict.fromkeys(name for row in rows for name in row["build"])
    lines = []
    for name in names:
        found = [row["build"][name] for row in rows if name in row["build"]]
        first, later = [seconds[0] for seconds in found], [value for seconds in found for value in seconds[1:]]
        again = f"{statistics.median(later):.3f}" if later else ""
        lines.append([name, str(len(found)), f"{statistics.median(first):.3f}", f"{max(first):.3f}", again])
    return lines


def bounds(file: Path) -> list[list[str]]:
    """Figures of the other benches."""
    if not file.exists():
        return []
    found = json.loads(file.read_text())["figures"]
    return [
        [
            figure["name"],
            f"{figure['value']:.3g} {figure['unit']}",
            f"{figure['sense']} {figure['bound']:g}",
            "yes" if figure["kept"] else "**no**",
        ]
        for figure in found
    ]


def absentees(rows: Sequence[Row]) -> Iterator[str]:
    """Who did not take part, and why."""
    for name, reason in {name: reason for row in rows for name, reason in row["absent"].items()}.items():
        yield f"- {name} is not here: {reason}"
    for row in rows:
        for name, reason in row["failed"].items():
            yield f"- `{row['workload']}`: {name}: {reason}"
