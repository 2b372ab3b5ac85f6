"""From the samples of several processes to one row: ratios pair by pair, a verdict, and what could not take part.

A ratio is the peer's time by ours in the same round: above 1 ours is faster. A row's ratio to a peer is the median over the rounds of all
processes; for a peer that allocates in every call, of all processes with the allocator with which it had its fastest sample.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from bench.peers.engines import OURS
from bench.peers.supervise import Found
from bench.peers.workload import Workload
from bench.peers.workloads.family import Family

TIE: Final = 1.07
"""Ratios within a row move by 3 % between processes, by 12 % at the ninetieth percentile: less than this is no difference."""
PROBE: Final = f"{OURS} multiply-adds"

Verdict: TypeAlias = Literal["win", "tie", "loss"]
Columns: TypeAlias = Mapping[str, Sequence[float | None]]


def verdict(ratio: float) -> Verdict:
    """Of a ratio to the best peer."""
    return "win" if ratio > TIE else "loss" if ratio < 1 / TIE else "tie"


def geomean(values: Iterable[float]) -> float:
    """NaN for none."""
    logarithms = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logarithms)) if logarithms else math.nan


def ratios(ours: Sequence[float | None], theirs: Sequence[float | None]) -> list[float]:
    """Pair by pair, of the rounds in which both took part."""
    return [b / a for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]


def known(column: Sequence[float | None]) -> list[float]:
    """The samples that were taken."""
    return [found for found in column if found is not None]


@dataclass(frozen=True, slots=True)
class Share:
    """What the processes with one allocator say of a peer."""

    allocator: str
    ratios: tuple[tuple[float, ...], ...]
    samples: tuple[float, ...]
    best_of_ours: float

    def facts(self) -> dict[str, Any]:
        """Plain values: medians, bests, and the median of each process, which tells how much to believe."""
        return {
            "ratio": statistics.median(found for process in self.ratios for found in process),
            "ratio_best": min(self.samples) / self.best_of_ours,
            "median": statistics.median(self.samples),
            "best": min(self.samples),
            "allocator": self.allocator,
            "rounds": len(self.samples),
            "processes": [statistics.median(process) for process in self.ratios],
        }


def peer(columns: Sequence[tuple[str, Columns]], name: str, *, allocates: bool) -> dict[str, Any] | None:
    """A peer's part of a row. None where no round compares it with ours."""
    shares = []
    columns = columns if allocates else [("any", samples) for _, samples in columns]
    for allocator in dict.fromkeys(allocator for allocator, _ in columns):
        own = [found for kind, found in columns if kind == allocator and name in found]
        processes = tuple(tuple(pairs) for found in own if (pairs := ratios(found[OURS], found[name])))
        if processes:
            samples = tuple(sample for found in own for sample in known(found[name]))
            shares.append(Share(allocator, processes, samples, min(sample for found in own for sample in known(found[OURS]))))
    return min((share.facts() for share in shares), key=lambda facts: float(facts["best"]), default=None)


def row(workload: Workload, family: Family, found: Sequence[Found]) -> dict[str, Any]:
    """One line of the history, without what all lines of a run have in common."""
    failed = {name: reason for process in found for name, reason in process.failed.get(workload.name, {}).items()}
    events = [(process.allocator, process.done[workload.name]) for process in found if workload.name in process.done]
    columns = [(allocator, event["samples"]) for allocator, event in events if OURS in event["samples"]]
    made: dict[str, Any] = {"workload": workload.name, "family": family.name, "unit": workload.unit, "failed": failed}
    if not columns:
        return {**made, "ours": None, "peers": {}, "build": {}}
    about = {name: facts for _, event in events for name, facts in event["about"].items()}
    build = {name: [event["about"][name]["seconds"] for _, event in events if name in event["about"]] for name in about}
    own = [sample for _, samples in columns for sample in known(samples[OURS])]
    names = dict.fromkeys(name for _, samples in columns for name in samples if name not in {OURS, PROBE})
    facts = {name: peer(columns, name, allocates=about[name]["allocates"]) for name in names}
    peers = {
        name: {**part, "rate": workload.rate(part["median"]), "aside": about[name]["aside"], "note": about[name]["note"]}
        for name, part in facts.items()
        if part is not None
    }
    median = statistics.median(own)
    made["ours"] = {"median": median, "best": min(own), "rate": workload.rate(median), "note": about[OURS]["note"], "rounds": len(own)}
    probes = [sample for _, samples in columns for sample in known(samples.get(PROBE, ()))]
    if probes:
        made["ours"]["share_of_peak"] = workload.work / min(own) / (int(about[PROBE]["note"]) / min(probes))
    best = best_peer(peers, family)
    if best is not None:
        made |= {"best_peer": best, "ratio": peers[best]["ratio"], "verdict": verdict(peers[best]["ratio"])}
    return {**made, "peers": peers, "build": build}


def best_peer(peers: Mapping[str, Mapping[str, Any]], family: Family) -> str | None:
    """The peer that a row is held to: that of the family, else the fastest of those that were given the same layout."""
    if family.against is not None:
        return family.against if family.against in peers else None
    counted = {name: part["ratio"] for name, part in peers.items() if not part["aside"]}
    return min(counted, key=lambda name: counted[name], default=None)


def contenders(workload: Workload, found: Found, margin: float) -> list[str] | None:
    """Who is asked again in the next process: ours, and the peers that are within `margin` of the best of them.

    None, for everybody, where this process says nothing.
    """
    event = found.done.get(workload.name)
    if event is None or OURS not in event["samples"]:
        return None
    times = {name: statistics.median(known(column)) for name, column in event["samples"].items()}
    best = min((time for name, time in times.items() if not name.startswith(OURS)), default=0.0)
    return [name for name, time in times.items() if name.startswith(OURS) or time <= margin * best]
