"""The process in which candidates take turns: it reads one job as JSON and writes one event as JSON on each line.

    load    an engine is about to be imported        absent  it cannot be used, and why
    make    a candidate is about to be built,        failed  a candidate raised or computed something else
            called once and checked                  done    a workload's samples, one for each round

`load`, `make` and `rounds` say how long they may take, so that the parent knows whom to blame for a crash or a hang, and goes on without.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, Final

from bench.peers import engines, rounds
from bench.peers.engines import OURS, Makers
from bench.peers.engines.tensorlang import PROBE
from bench.peers.workload import Array, Workload
from bench.peers.workloads import named

LOAD_S: Final = 90.0
MAKE_S: Final = 90.0
PACKAGES: Final = ("numpy", "llvmlite", "numba", "torch", "onnxruntime", "openvino", "jax", "halide")

Tell = Callable[..., None]


def full_name(engine: str, variant: str) -> str:
    """As in tables: the engine, and its variant if it has one."""
    return f"{engine} {variant}".strip()


def versions() -> dict[str, str]:
    """Of what is installed."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def loaded(job: Mapping[str, Any], tell: Tell) -> dict[str, ModuleType]:
    """The engines that can be used."""
    found = {}
    for name in job["engines"]:
        tell("load", candidate=name, deadline=LOAD_S)
        module = engines.loaded(name, job.get("package", engines.__name__))
        reason = module.available()
        if reason is None:
            found[name] = module
        else:
            tell("absent", candidate=name, reason=reason)
    return found


def measured(name: str, job: Mapping[str, Any], modules: Mapping[str, ModuleType], tell: Tell) -> None:
    """One workload: make, check and calibrate each candidate, then take turns."""
    workload = named(name)
    operands = workload.operands()
    expected = workload.expected(operands)
    turns: dict[str, rounds.Turn] = {}
    seconds: dict[str, float] = {}
    made: dict[str, engines.Candidate] = {}  # they own the memory that calls write into
    wanted, skipped = job["keep"].get(name), job["skip"].get(name, ())
    for engine, module in modules.items():
        for variant, maker in makers(engine, module, workload, operands, tell).items():
            called = full_name(engine, variant)
            if called in skipped or (wanted is not None and called not in wanted):
                continue
            tell("make", workload=name, candidate=called, deadline=job.get("make_seconds", MAKE_S))
            start = time.perf_counter()
            try:
                candidate = maker()
                outcome = candidate.result(candidate.call())
                seconds[called] = time.perf_counter() - start
                wrong = None if variant == PROBE else workload.why_wrong(outcome, expected)
                if wrong is not None:
                    tell("failed", workload=name, candidate=called, reason=wrong)
                    continue
                made[called] = candidate
                turns[called] = rounds.Turn(candidate.call, candidate.before, stays=engine == OURS, apart=variant == PROBE).calibrated()
            except Exception as error:  # noqa: BLE001 - a peer may raise anything
                tell("failed", workload=name, candidate=called, reason=told(error))
    tell("rounds", workload=name, deadline=60 + 10 * job["seconds"])
    samples = rounds.take(turns, job["seconds"], job["most"]) if turns else {}
    about = {called: facts(made[called]) | {"seconds": seconds[called]} for called in samples}
    tell("done", workload=name, samples=samples, about=about)


def makers(engine: str, module: ModuleType, workload: Workload, operands: Sequence[Array], tell: Tell) -> Makers:
    """What an engine offers for a workload; nothing where it raises."""
    try:
        found: Makers = module.make(workload, operands)
    except Exception as error:  # noqa: BLE001 - a peer may raise anything
        tell("failed", workload=workload.name, candidate=engine, reason=told(error))
        return {}
    return found


def told(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def facts(candidate: engines.Candidate) -> dict[str, Any]:
    """What the parent has to know of a candidate."""
    return {"allocates": candidate.allocates, "aside": candidate.aside, "note": candidate.note}


def main() -> None:
    """One job."""
    events = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print is not an event
    warnings.simplefilter("ignore")

    def tell(event: str, **facts: Any) -> None:
        print(json.dumps({"event": event, **facts}), file=events, flush=True)

    job = json.load(sys.stdin)
    modules = loaded(job, tell)
    tell("versions", versions=versions())
    for name in job["workloads"]:
        measured(name, job, modules, tell)
        gc.collect()
    os._exit(0)  # no library's farewell can fail now


if __name__ == "__main__":
    main()
