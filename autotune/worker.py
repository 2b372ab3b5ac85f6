"""The disposable process: builds, checks and times candidates, and may die of any of them.

    python -m tensorlang.autotune.worker SOCKET PARENT MEMORY

It dies with its parent, leaves no core file, may use so much memory and no more, and speaks on a socket that candidates do not know.
It is told a `task` once and then candidates; it says which phase it is in, so that the parent, which owns every deadline, can tell a
compilation that does not end from a kernel that does not. A candidate is timed only after its result was compared with the reference,
and, where the reference covers only some elements, with the whole result of the default schedule.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorlang.autotune.arrays import Array, Guarded, Spec, inputs, mismatch
from tensorlang.autotune.measure import Policy, interleave, measure
from tensorlang.autotune.protocol import Channel, Closed
from tensorlang.autotune.record import summary

_PR_SET_PDEATHSIG = 1


class Wrong(Exception):  # noqa: N818 - an outcome
    """The kernel computed something else."""


class Bench:
    """A task made ready: inputs, guarded outputs, the reference; and the candidates on it."""

    def __init__(self, task: dict[str, Any], channel: Channel) -> None:
        self.task = task
        self.channel = channel
        self.policy = Policy(**task["policy"])
        self.specs = [Spec.from_json(pair) for pair in task["outputs"]]
        self.inputs = inputs([Spec.from_json(pair) for pair in task["inputs"]], task["seed"], signed=task["signed"])
        self.pristine = [guarded.array.copy() for guarded in self.inputs]
        self.values = [_loaded(path, spec) for path, spec in zip(task["reference"], self.specs, strict=True)]
        self.at = [None if at is None else tuple(np.array(at, np.int64).T) for at in task["at"]]
        self.agreed: list[Any] | None = None
        module, function = task["builder"].split(":")
        self.build = getattr(importlib.import_module(module), function)

    def prepare(self, candidate: dict[str, Any]) -> tuple[Callable[[], object], dict[str, Any]]:
        """Build and verify a candidate; its call, and what is known of it."""
        start = time.perf_counter()
        self.channel.send({"phase": "compiling"})
        told: dict[str, Any] = {}
        built = self.build(self.task, candidate, lambda schedule: told.update(schedule=schedule))
        told["compile_s"] = time.perf_counter() - start
        self.channel.send({"phase": "running", **told})
        start = time.perf_counter()
        _pin(self.task["cores"])
        outputs = [Guarded(spec) for spec in self.specs]
        for guarded in outputs:
            guarded.poison()
        arrays = tuple(guarded.array for guarded in outputs)
        call = built.bind(*(guarded.array for guarded in self.inputs), out=arrays if len(arrays) > 1 else arrays[0])
        call()
        self._verify(outputs)
        if candidate.get("trusted") and any(at is not None for at in self.at):
            self.agreed = [array.copy() for array in arrays]
        cost = built.cost()
        told["run_s"] = time.perf_counter() - start
        return call, told | {"flops": float(cost["flops"]), "bytes": float(cost["bytes"])}

    def trial(self, candidate: dict[str, Any]) -> dict[str, Any]:
        """One candidate by itself."""
        call, told = self.prepare(candidate)
        self.channel.send({"phase": "ready"})
        self.channel.receive()
        start = time.perf_counter()
        result = measure(call, self.policy, candidate.get("incumbent"))
        samples = list(result.samples)
        told["run_s"] += time.perf_counter() - start
        return {**told, "status": "ok", "samples": samples, "number": result.number, "censored": result.censored, **summary(samples)}

    def paired(self, candidates: list[dict[str, Any]]) -> dict[str, Any]:
        """Several candidates, their samples interleaved."""
        calls, tolds = [], []
        for place, candidate in enumerate(candidates):
            self.channel.send({"phase": "compiling", "place": place})
            call, told = self.prepare(candidate)
            calls.append(call)
            tolds.append(told)
        results = interleave(calls, self.policy)
        rows = [
            {**told, "samples": list(result.samples), "number": result.number, **summary(list(result.samples))}
            for told, result in zip(tolds, results, strict=True)
        ]
        return {"status": "ok", "rows": rows}

    def _verify(self, outputs: list[Guarded]) -> None:
        for guarded, before in zip(self.inputs, self.pristine, strict=True):
            if guarded.array.tobytes() != before.tobytes() or not guarded.intact():
                guarded.array[...] = before
                raise Wrong("it wrote to an input")
        for place, (guarded, spec, want) in enumerate(zip(outputs, self.specs, self.values, strict=True)):
            if not guarded.intact():
                raise Wrong(f"it wrote outside output {place}")
            got = guarded.array if (at := self.at[place]) is None else guarded.array[at]
            if why := mismatch(got, want, spec.dtype, self.task["reduction"]):
                raise Wrong(f"output {place}: {why}")
            if self.agreed is not None and (why := mismatch(guarded.array, self.agreed[place], spec.dtype, self.task["reduction"])):
                raise Wrong(f"output {place}, against the default schedule: {why}")


def serve(channel: Channel) -> None:
    """Answer requests until the parent hangs up."""
    bench: Bench | None = None
    while True:
        request = channel.receive()
        try:
            match request:
                case {"task": task}:
                    bench = Bench(task, channel)
                    channel.send({"reply": {"status": "ok"}})
                case {"trial": candidate} if bench is not None:
                    channel.send({"reply": bench.trial(candidate)})
                case {"paired": candidates} if bench is not None:
                    channel.send({"reply": bench.paired(candidates)})
                case _:
                    channel.send({"reply": _failure("infra", ValueError(f"a request that is not known: {sorted(request)}"))})
        except Closed:
            raise
        except Wrong as error:
            channel.send({"reply": _failure("wrong_result", error)})
        except MemoryError as error:
            channel.send({"reply": _failure("oom", error)})
        except Exception as error:  # noqa: BLE001 - whatever a candidate raises is its outcome
            channel.send({"reply": _failure("error", error)})


def _failure(status: str, error: Exception) -> dict[str, Any]:
    told = {"type": type(error).__name__, "message": str(error)[:500], "signal": None}
    return {"status": status, "error": told, "traceback": "".join(traceback.format_exception(error))[-4000:]}


def _loaded(path: str, spec: Spec) -> Array:
    values: Array = np.load(path, allow_pickle=False)
    return values.view(spec.dtype.numpy)  # bfloat16 is stored as its bits


def _pin(cores: list[int]) -> None:
    if cores and hasattr(os, "sched_setaffinity") and os.sched_getaffinity(0) != set(cores):
        os.sched_setaffinity(0, cores)


def _isolate(parent: int, memory: int) -> None:
    """Die with the parent; no core file; a bound on memory."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def main(arguments: list[str]) -> None:
    """Serve on the inherited socket."""
    descriptor, parent, memory = map(int, arguments)
    _isolate(parent, memory)
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 500)  # where a candidate that writes to low descriptors does not hit it
    os.close(descriptor)
    channel = Channel(socket.socket(fileno=high))
    channel.send({"hello": os.getpid()})
    try:
        serve(channel)
    except Closed:
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
