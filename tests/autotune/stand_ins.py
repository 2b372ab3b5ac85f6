"""Stand-ins for kernels: `build` doubles its input; the configuration says how it misbehaves."""

import contextlib
import ctypes
import json
import mmap
import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tensorlang.autotune.measurement.arrays import Spec, inputs
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.workers.protocol import Blob, Candidate, WorkerTask
from tensorlang.ir.dtype import dtype


class Kernel:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config

    def bind(self, x: Any, *, out: Any) -> Callable[[], object]:
        def call() -> None:
            meet(self.config, "run")
            misbehave(self.config.get("run"), x, out)
            time.sleep(self.config.get("sleep", 0))

        return call

    def cost(self) -> dict[str, float]:
        return {"flops": 100.0, "bytes": 800.0}


def meet(config: dict[str, Any], moment: str) -> None:
    """Leave a file and wait for others, where the configuration says so: {"meet": {"build": {"leave": file, "wait": [file, ...]}}}."""
    plan = config.get("meet", {}).get(moment)
    if plan is not None:
        Path(plan["leave"]).touch()
        while not all(Path(file).exists() for file in plan["wait"]):
            time.sleep(0.001)


def misbehave(how: str | None, x: Any, out: Any) -> None:
    match how:
        case "segv":
            ctypes.string_at(0)
        case "hang":
            time.sleep(1000)
        case "exit":
            os._exit(1)
        case "kill":
            os.kill(os.getpid(), 9)
        case "abort":
            sys.stderr.write("LLVM ERROR: as told\n")
            sys.stderr.flush()
            os.abort()
        case "illegal":
            illegal_instruction()
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "garbage":
            for fd in range(3, 10):
                with contextlib.suppress(OSError):
                    os.write(fd, b"garbage" * 100)
        case "oom":
            np.ones(1 << 40)
        case "big":
            np.ones(1 << 29)
        case "raise":
            raise RuntimeError("as told")
        case "nothing":
            return
        case "input":
            x[0] = 7
        case "outside":
            base = out.ctypes.data
            ctypes.memset(base + out.nbytes, 0, 1)
    np.multiply(x, 2.001 if how == "wrong" else 2, out=out)


def illegal_instruction() -> None:
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\x0f\x0b" if platform.machine() in ("x86_64", "AMD64") else bytes(4))
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()


def warm(task: WorkerTask) -> None:
    del task


def build(task: WorkerTask, candidate: Candidate, tell: Callable[[str], None]) -> Kernel:
    del task
    config = candidate.config or {}
    tell('{"steps": []}')
    time.sleep(config.get("building", 0))
    meet(config, "build")
    how = config.get("compile")
    if how is not None:
        misbehave(how, np.zeros(4), np.zeros(4))
    return Kernel(config)


def save(kernel: Kernel) -> bytes:
    return json.dumps(kernel.config).encode()


def load(task: WorkerTask, data: bytes) -> Kernel:
    del task
    return Kernel(json.loads(data))


def spec() -> Spec:
    return Spec((100,), dtype("float32"))


def task(policy: Policy, builder: str, **more: Any) -> WorkerTask:
    """The task whose right answers `build` computes."""
    expected = Blob((inputs([spec()], 0)[0].array * 2).tobytes())
    return WorkerTask(
        **{
            "builder": builder,
            "policy": policy,
            "threads": 1,
            "inputs": (spec(),),
            "results": (spec(),),
            "expected": (expected,),
            "at": (None,),
            "reduction": 1,
            **more,
        }
    )
