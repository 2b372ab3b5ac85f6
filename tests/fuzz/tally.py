"""The table of a campaign: shards whose tallies accumulate in a file, their failures rechecked, and the totals as a page.

    {"shards": [{"seed", "cases", "seconds", "date", "failures": {kind: [case*]}, "open": {case: {"kind", "json"}}, "counts"}], totals}

A shard is the first cases of a seed; case K of seed N is drawn from the number N * 1,000,000 + K, so no two shards share one. Whatever
failed once stays in `failures`; `open` holds those that fail still, with the case itself, because a compiler that has changed may draw
another one from the same number. A recheck judges both.
"""

from __future__ import annotations

import fcntl
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from .case import from_json, to_json
from .shrink import signature

STRIDE: Final = 1_000_000
"""Numbers of a shard: its own number times this, plus the number of the case."""
MARK: Final = "<!-- campaign -->"
COVERAGE: Final = "<!-- coverage -->"

Shard = dict[str, Any]
Table = dict[str, Any]
Verdicts = dict[tuple[int, str], dict[str, str] | None]
Ask = Callable[[dict[str, Any]], dict[str, Any]]


@contextmanager
def locked(file: Path) -> Iterator[dict[str, Any]]:
    """What a JSON file holds, for one process at a time; written back afterwards."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.seek(0)
        text = stream.read()
        held: dict[str, Any] = json.loads(text) if text else {}
        yield held
        stream.seek(0)
        stream.truncate()
        stream.write(json.dumps(held, indent=1) + "\n")


@contextmanager
def opened(file: Path) -> Iterator[Table]:
    """The table in a file, for one process at a time; written back with its totals."""
    with locked(file) as table:
        shards = table.pop("shards", [])
        inside: Table = {"shards": shards}
        yield inside
        table.update(totals(inside["shards"]))
        table["shards"] = inside["shards"]


def totals(shards: list[Shard]) -> dict[str, int]:
    """Distinct numbers judged, failures ever found, fixed since, and open."""
    found = sum(len(cases) for shard in shards for cases in shard["failures"].values())
    still = sum(len(shard["open"]) for shard in shards)
    return {"cases": sum(shard["cases"] for shard in shards), "found": found, "fixed": found - still, "open": still}


def added(table: Table, shard: Shard) -> None:
    """Put a run into a table: a seed has one shard, that of its longest run, and keeps what shorter ones found."""
    old = next((entry for entry in table["shards"] if entry["seed"] == shard["seed"]), None)
    if old is not None:
        longest = max(old, shard, key=lambda entry: (entry["cases"], entry is shard))
        failing = {number: entry for number, entry in old["open"].items() if int(number) >= shard["cases"]} | shard["open"]
        shard = {**longest, "failures": united(old["failures"], shard["failures"]), "open": failing}
    others = [entry for entry in table["shards"] if entry is not old]
    table["shards"] = sorted([*others, shard], key=lambda entry: int(entry["seed"]))


def united(old: dict[str, list[int]], new: dict[str, list[int]]) -> dict[str, list[int]]:
    """The failures of two runs of a seed, each case once, under the kind that it had first."""
    known = {number for numbers in old.values() for number in numbers}
    found = {kind: list(numbers) for kind, numbers in old.items()}
    for kind, numbers in new.items():
        fresh = [number for number in numbers if number not in known]
        if fresh:
            found[kind] = sorted([*found.get(kind, []), *fresh])
    return dict(sorted(found.items()))


def rechecked(table: Table, ask: Ask, say: Callable[[str], None] = lambda _: None) -> Verdicts:
    """Judge the open cases of a table again: what each fails with now, None where it passes."""
    verdicts: Verdicts = {}
    for shard in table["shards"]:
        for number, entry in shard["open"].items():
            requests: list[dict[str, Any]] = [{"seed": shard["seed"] * STRIDE + int(number)}]
            requests += [{"case": from_json(entry["json"])}] if entry["json"] else []
            answers = [ask(request) for request in requests]
            wrong = next((answer for answer in answers if answer["done"] is not None), None)
            say(f"seed {shard['seed']} case {number}: {'passes' if wrong is None else signature(wrong)}")
            verdicts[shard["seed"], number] = (
                None if wrong is None else {"kind": signature(wrong), "json": to_json(wrong["case"]) if wrong["case"] else entry["json"]}
            )
    return verdicts


def cleared(table: Table, verdicts: Verdicts) -> int:
    """Strike the open cases that pass now; how many stay."""
    for shard in table["shards"]:
        now = {number: verdicts.get((shard["seed"], number), entry) for number, entry in shard["open"].items()}
        shard["open"] = {number: entry for number, entry in now.items() if entry is not None}
    return totals(table["shards"])["open"]


def summed(table: Table) -> Counter[str]:
    """The counts of all shards together."""
    counts: Counter[str] = Counter()
    for shard in table["shards"]:
        counts.update(shard["counts"])
    return counts


def rendered(table: Table) -> str:
    """The totals as text for a page."""
    shards, sums, counts = table["shards"], totals(table["shards"]), summed(table)
    spare, apart, unknown = (counts[f"refusal {verdict}"] for verdict in ("not needed", "needed for other values", "not judged"))
    judged = counts["refusal needed"] + apart + spare
    share = 100 * spare / max(1, judged)
    last, hours = max((shard["date"] for shard in shards), default="never"), sum(shard["seconds"] for shard in shards) / 3600
    summary = (
        f"{sums['cases']:,} distinct seeds in {len(shards)} shards, {hours:.1f} hours, last on {last}: {sums['found']} failing cases, "
        f"{sums['fixed']} of them fixed, {sums['open']} open. Refusals for a dependence that could be judged: {judged:,}, of which "
        f"{spare:,} ({share:.1f} %) were not needed and {apart:,} are for other values; {unknown:,} could not be judged."
    )
    groups = [*listed("stages judged", counts, "stage"), *listed("oracles that judged", counts, "oracle")]
    return "\n".join([summary, "", *groups, *steps(counts), *failures(shards)]).rstrip()


def grouped(counts: Counter[str], group: str) -> dict[str, int]:
    """The counts of a group, most first."""
    inside = {name.split(" ", 1)[1]: count for name, count in counts.items() if name.startswith(f"{group} ")}
    return dict(sorted(inside.items(), key=lambda entry: (-entry[1], entry[0])))


def listed(title: str, counts: Counter[str], group: str) -> list[str]:
    """A group of counts as a sentence."""
    return [f"{title.capitalize()}: " + ", ".join(f"{name} {count:,}" for name, count in grouped(counts, group).items()) + ".", ""]


def steps(counts: Counter[str]) -> list[str]:
    """Every directive: how often it was accepted, refused, and refused because the call was bad on purpose."""
    accepted, refused, illegal = (grouped(counts, group) for group in ("accepted", "refused", "illegal"))
    spare = grouped(counts, "spare")
    names = sorted(accepted.keys() | refused.keys() | illegal.keys(), key=lambda name: (-accepted.get(name, 0), name))
    rows = [
        f"| `{name}` | {accepted.get(name, 0):,} | {refused.get(name, 0):,} | {illegal.get(name, 0):,} | {spare.get(name, 0):,} |"
        for name in names
    ]
    heads = ["| step | accepted | refused | bad on purpose, refused | refused without need |", "| --- | ---: | ---: | ---: | ---: |"]
    return [*heads, *rows, ""]


def failures(shards: list[Shard]) -> list[str]:
    """The kinds of failures: how many cases each had, and which are open."""
    found, still = Counter[str](), dict[str, list[str]]()
    for shard in shards:
        found.update({kind: len(numbers) for kind, numbers in shard["failures"].items()})
        for number, entry in shard["open"].items():
            still.setdefault(entry["kind"], []).append(f"{shard['seed']}:{number}")
    if not found:
        return []
    rows = [f"| `{kind.replace('|', '/')}` | {count} | {', '.join(still.pop(kind, []))} |" for kind, count in sorted(found.items())]
    rows += [f"| `{kind.replace('|', '/')}` | | {', '.join(cases)} |" for kind, cases in sorted(still.items())]
    return ["| failure | cases | open (seed:case) |", "| --- | ---: | --- |", *rows]


def written(page: Path, text: str, mark: str = MARK) -> None:
    """Put text between the marks of a page."""
    old = page.read_text() if page.exists() else ""
    before, _, after = (old if mark in old else f"{old}{mark}\n{mark}\n").split(mark)
    page.write_text(f"{before}{mark}\n\n{text}\n\n{mark}{after}")
