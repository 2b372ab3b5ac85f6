"""Workers from outside: their environment, their deadlines, and what a crash or a hang means."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from bench.child import ROOT
from bench.peers.isa import ENVIRONMENT, NATIVE

Allocator: TypeAlias = Literal["heap", "default"]
BIG: Final = str(1 << 34)
LOADING_S: Final = 120.0
XLA_ON_ONE_THREAD: Final = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
"""Flags that XLA reads when it is loaded."""
HOLDING: Final = frozenset(name for held in ENVIRONMENT.values() for name in held)
"""What tells libraries which kernels to take."""
THREADS: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "HL_NUM_THREADS",
    "TVM_NUM_THREADS",
    "TENSORLANG_NUM_THREADS",
)


@dataclass(slots=True)
class Found:
    """What one process found: a "done" event for each workload, and who could not take part."""

    allocator: Allocator
    done: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    failed: dict[str, dict[str, str]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def environment(allocator: Allocator, threads: int, cache: Path, isa: str = NATIVE) -> dict[str, str]:
    """One number of threads for every library, one set of instructions; a cache of compiled code for each compiler.

    Nothing but `isa` forces a choice of kernels: what the surroundings say of it is left out.

    With the allocator "heap", big results are taken from memory that the process has already; by default glibc maps each anew, and a
    peer that allocates on every call pays for the pages.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OPENBLAS_", "MALLOC_")) and key not in HOLDING}
    kept |= dict.fromkeys(THREADS, str(threads))
    if allocator == "heap":
        kept |= {"MALLOC_MMAP_THRESHOLD_": BIG, "MALLOC_TRIM_THRESHOLD_": BIG, "MALLOC_TOP_PAD_": str(1 << 26)}
    held = dict(ENVIRONMENT[isa])
    if threads == 1:
        held["XLA_FLAGS"] = f"{XLA_ON_ONE_THREAD} {held.get('XLA_FLAGS', '')}".strip()
    return (
        kept
        | held
        | {
            "JAX_PLATFORMS": "cpu",
            "TENSORLANG_CACHE": str(cache / "tensorlang"),
            "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
            "NUMBA_CACHE_DIR": str(cache / "numba"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [kept.get("PYTHONPATH")])]),
        }
    )


def cores(threads: int) -> set[int]:
    """The last ones: the first takes most interrupts."""
    return set(sorted(os.sched_getaffinity(0))[-threads:])


def events(job: Mapping[str, Any], env: Mapping[str, str], threads: int) -> Iterator[Mapping[str, Any]]:
    """What a worker tells; at the end one event "lost" if it died or was killed after its deadline, with the reason."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.peers.worker"],
        cwd=ROOT,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores(threads)),  # noqa: PLW1509 - this process has one thread
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                worker.stdin.write(json.dumps(job).encode())
                worker.stdin.close()
            deadline, pending = LOADING_S, b""
            while True:
                if not select.select([worker.stdout], [], [], deadline)[0]:
                    yield {"event": "lost", "reason": f"no answer within {deadline:g} s"}
                    return
                part = os.read(worker.stdout.fileno(), 1 << 16)
                if not part:
                    break
                *lines, pending = (pending + part).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    deadline = event.get("deadline", LOADING_S)
                    yield event
            if worker.wait():
                code = worker.returncode
                yield {"event": "lost", "reason": f"crashed with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"}
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)


def run(workloads: Sequence[str], job: Mapping[str, Any], allocator: Allocator, threads: int, cache: Path, isa: str = NATIVE) -> Found:
    """All of these workloads, in as many workers as it takes: each crash or hang costs one candidate, or one workload, and a new worker."""
    surroundings = environment(allocator, threads, cache, isa)
    found = Found(allocator)
    left, engines = list(workloads), list(job["engines"])
    skip: dict[str, list[str]] = {name: list(job["skip"].get(name, ())) for name in workloads}
    while left:
        now: Mapping[str, Any] = {}
        lost = ""
        for event in events({**job, "workloads": left, "engines": engines, "skip": skip}, surroundings, threads):
            match event["event"]:
                case "absent":
                    found.absent[event["candidate"]] = event["reason"]
                case "versions":
                    found.versions = event["versions"]
                case "failed":
                    found.failed.setdefault(event["workload"], {})[event["candidate"]] = event["reason"]
                case "done":
                    found.done[event["workload"]] = event
                    left.remove(event["workload"])
                case "lost":
                    lost = event["reason"]
                case _:
                    now = event
        if not lost or not left:
            return found
        match now.get("event"):
            case "load":
                found.absent[now["candidate"]] = lost
                engines.remove(now["candidate"])
            case "make":
                skip[now["workload"]].append(now["candidate"])
                found.failed.setdefault(now["workload"], {})[now["candidate"]] = lost
            case "rounds":
                found.failed.setdefault(now["workload"], {})["all"] = f"{lost} in the rounds"
                left.remove(now["workload"])
            case _:
                raise RuntimeError(f"a worker ended before it began: {lost}")
    return found
