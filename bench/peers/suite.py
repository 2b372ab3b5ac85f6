"""The workloads as pytest-benchmark suites: a group for each workload, a test for each candidate.

pytest-benchmark times one function after the other. Here the candidates of a workload take turns in a worker first, and its tests then
hand each candidate's samples to pytest-benchmark, by a timer that reads a tape: tables, JSON, histograms and comparisons are of samples
that were taken side by side.
"""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest

from bench.peers import rounds, supervise
from bench.peers.engines import ENGINES, OURS
from bench.peers.summary import known, peer
from bench.peers.supervise import Found
from bench.peers.workloads import FAMILIES, named

SECONDS: Final = float(os.environ.get("TENSORLANG_BENCH_SECONDS", "1"))
CANDIDATES: Final = (
    OURS,
    f"{OURS} one thread",
    "numpy",
    "numba",
    "torch",
    "torch channels last",
    "torch compile",
    "onnxruntime",
    "openvino",
    "jax",
    "halide",
    "halide Mullapudi2016",
    "halide Adams2019",
)


class Tape:
    """A clock that moves only when a sample is played."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time on this clock."""
        return self.now

    def play(self, samples: list[float]) -> None:
        """Let the next sample pass."""
        self.now += samples.pop(0)


TAPE: Final = Tape()
CACHE: Final = tempfile.TemporaryDirectory()  # compiled code; removed when the interpreter ends
SELECTED: Final[dict[str, list[str]]] = {}
"""The workloads of each family that this session asks for, from `conftest`."""


def selected(workload: str) -> None:
    """Note that a session asks for a workload."""
    (home,) = (name for name, part in FAMILIES.items() if named(workload) in part.workloads)
    names = SELECTED.setdefault(home, [])
    if workload not in names:
        names.append(workload)


@functools.cache
def found(family_name: str) -> Found:
    """The turns of the candidates of a family's workloads, once in a session."""
    names = SELECTED[family_name]
    job: dict[str, Any] = {
        "engines": list(FAMILIES[family_name].engines or ENGINES),
        "seconds": SECONDS,
        "most": rounds.MOST,
        "skip": {},
        "keep": {},
    }
    return supervise.run(names, job, "heap", max(named(name).threads for name in names), Path(CACHE.name))


def family(name: str) -> list[pytest.MarkDecorator]:
    """What a suite of a family is marked with."""
    return [
        pytest.mark.benchmark(timer=TAPE),
        pytest.mark.parametrize("candidate", CANDIDATES),
        pytest.mark.parametrize("workload", [workload.name for workload in FAMILIES[name].workloads]),
    ]


def show(benchmark: Any, workload: str, candidate: str) -> None:
    """Play a candidate's samples; skip it, with the reason, where it has none."""
    process = found(next(name for name, workloads in SELECTED.items() if workload in workloads))
    event = process.done.get(workload, {"samples": {}})
    if candidate not in event["samples"]:
        absent, failed = process.absent.get(candidate.split(maxsplit=1)[0]), process.failed.get(workload, {})
        pytest.skip(absent or failed.get(candidate) or failed.get("all") or "has nothing for this operator")
    samples = known(event["samples"][candidate])
    benchmark.group = workload
    facts = peer([(process.allocator, event["samples"])], candidate, allocates=False) if OURS in event["samples"] else None
    benchmark.extra_info |= {"rate": named(workload).rate(min(samples)), "unit": named(workload).unit, "ratio": facts and facts["ratio"]}
    benchmark.pedantic(TAPE.play, args=(list(samples),), rounds=len(samples))
