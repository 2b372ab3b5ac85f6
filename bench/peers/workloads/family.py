"""A family: workloads of one kind and what is asked of the ratios to their best peers."""

from __future__ import annotations

from dataclasses import dataclass

from bench.peers.workload import Workload


@dataclass(frozen=True, slots=True)
class Family:
    """Workloads of one kind.

    `geomean` and `least` are the goals: our speed by the best peer's, over the family and in each row. `against` names the candidate that
    rows are held to, otherwise it is the best peer of each row; `engines` are those that take part, otherwise all.
    """

    name: str
    title: str
    workloads: tuple[Workload, ...]
    geomean: float | None = None
    least: float | None = None
    note: str = ""
    against: str | None = None
    engines: tuple[str, ...] | None = None
