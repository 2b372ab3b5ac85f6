"""The tables beside peers in docs/performance.md, one for each machine, from the last row of each workload in the history.

python -m bench.peers.page [--history FILE] [--page FILE] [--quick]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.child import ROOT
from bench.peers import history
from bench.peers.isa import NATIVE, UNHELD
from bench.peers.reasons import reasons
from bench.peers.summary import TIE, best_peer, verdict
from bench.peers.tables import Row, absentees, bounds, builds, family_table, figures, goals, losses, peak, table
from bench.peers.workloads import FAMILIES
from bench.sections import PAGE, Kind, written

RESULTS: Final = ROOT / "bench" / "results"
METHOD: Final = """\
`python -m bench.peers` writes a history, `bench/results/peers.jsonl`, and `python -m bench.peers.page` the tables beside other libraries
from the last row of each workload on each machine; `make bench-peers` does both, and `make bench-peers-suites` hands the same workloads to
pytest-benchmark. Peers are the extra `peers`; one that is not installed is left out, and named above. `make bench-peers ISA=x86-64-v3`
holds ours and the peers to AVX2, with 16 registers of 256 bits, by the variables that stand in `bench/peers/isa.py`; who goes by the
processor alone is left out, and named too.

A process makes all candidates for a workload, checks each result against NumPy's in 64 bits (float32 to 2e-5 of the largest magnitude,
bfloat16 to 1e-2, integers exactly) and then lets them take turns on one core with one thread each, samples of at least 2 ms. A ratio is
the peer's time by ours in the same round, above 1 where ours is faster; a row has the median over all rounds of all processes, and "best"
is the ratio of the fastest samples. Processes alternate between glibc's allocator as it is and one that keeps big blocks, since some peers
allocate their result in every call; for these, the one with which they had their fastest sample counts. From one process to the next such
ratios move by 3 %, at the ninetieth percentile by 12 %, so less than 7 % is a tie. A peer that took 1.5 times the best peer's time in the
first process has only that one. The best of many peers is a little flattered by noise. Ours is the default schedule, without tuning,
unless a row says "tuned": `make bench-tuned` searches schedules for a subset that `bench/peers/tuning.py` names, and such a row shows the
default beside the tuned one.

TVM needs versions of its own and a search for each operator: `python -m bench.metaschedule` compares with it.

Peers that are given or give another layout than the row's (NHWC images) skip work that the others do. They are shown, not counted.
"""

BUILDING: Final = """\
Seconds until a candidate has returned its first result. Later processes find the code that the first one compiled where a library keeps it
(ours, `torch.compile`), and only build candidates that were near the best.
"""


def section(name: str, rows: Mapping[str, Row]) -> str:
    """What one machine showed."""
    families = [(family, [rows[w.name] for w in family.workloads if w.name in rows]) for family in FAMILIES.values()]
    everything = [row for _, part in families for row in part]
    overview = [goals(family, part) for family, part in families if figures(part)] + peak(everything)
    parts = [f"### {name}\n", *machines(everything)]
    parts.append(f"A ratio above {TIE:.2f} is a win of ours, one below {1 / TIE:.2f} a loss, anything between a tie.\n")
    parts.append(table(["family", "goal ", "geomean", "least", "wins / ties / losses", "kept "], overview))
    if lost := list(losses(everything)):
        parts += ["#### What is slower\n", table(["workload", "peer ", "ours", "its rate", "ratio", "note "], lost)]
    if why := list(reasons(everything)):
        parts += ["#### Why\n", "\n".join(why) + "\n"]
    for family, part in families:
        if part:
            parts += [f"#### {family.title}\n", *([family.note + "\n"] if family.note else []), family_table(part)]
            parts += ["In brackets: our share of the measured rate of multiply-adds, each by its fastest sample.\n"] * any(
                row["ours"] and "share_of_peak" in row["ours"] for row in part
            )
    parts += [
        "#### Building\n",
        BUILDING,
        table(["candidate", "rows", "first, median s", "first, longest s", "later, median s"], builds(everything)),
    ]
    if missing := list(absentees(everything)):
        parts += ["#### Not taking part\n", "\n".join(missing) + "\n"]
    return "\n".join(parts)


def held(row: Row) -> Row:
    """A row without peers that were found not to be held to its instructions after it was measured."""
    isa = row.get("isa", NATIVE)
    unheld = {name: reason for name, reason in UNHELD[isa].items() if name in row["peers"] and isa != NATIVE}
    if not unheld:
        return row
    peers = {name: part for name, part in row["peers"].items() if name not in unheld}
    best = best_peer(peers, FAMILIES[row["family"]])
    judged = {} if best is None else {"best_peer": best, "ratio": peers[best]["ratio"], "verdict": verdict(peers[best]["ratio"])}
    rest = {name: value for name, value in row.items() if name not in {"best_peer", "ratio", "verdict"}}
    return {**rest, **judged, "peers": peers, "absent": {**row["absent"], **unheld}}


def sections(found: Mapping[str, Mapping[str, Row]], results: Path = RESULTS) -> dict[tuple[Kind, str], str]:
    """Those of the page that this bench knows: a machine's each, the figures of other benches, how it was measured."""
    made: dict[tuple[Kind, str], str] = {("peers", name): section(name, rows) for name, rows in found.items()}
    others = []
    for title, file in (("Start-up, calls and scheduling", "latest.json"), ("TVM's MetaSchedule", "metaschedule.json")):
        if lines := bounds(results / file):
            others += [
                f"### {title}\n",
                f"From `bench/results/{file}`, a bench of its own.\n",
                table(["figure", "value", "bound ", "kept "], lines),
            ]
    if others:
        made["figures", "of other benches"] = "\n".join(others)
    return made | {("method", "peers"): METHOD}


def machines(rows: Sequence[Row]) -> Iterator[str]:
    """Each run that rows come from."""
    for run, row in {row["run"]: row for row in rows}.items():
        what = ", ".join(f"{name} {number}" for name, number in row["versions"].items())
        quick = ", a quick one: its figures only show that everything works" if row["quick"] else ""
        machine = row["machine"]
        yield f"Run {run} of {row['date']}{quick}: {machine['cpu']}, {machine['cpus']} cores; Python {machine['python']}, {what}.\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="bench.peers.page", description="Write the tables of docs/performance.md from the history.")
    parser.add_argument("--history", type=Path, default=history.FILE, metavar="FILE")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="rows of quick runs count too")
    options = parser.parse_args(arguments)
    found = history.latest(options.history, quick=options.quick)
    written(options.page, sections({name: {workload: held(row) for workload, row in rows.items()} for name, rows in found.items()}))
    print(f"written to {options.page}")


if __name__ == "__main__":
    main()
