"""Stand-ins for kernels: `build` doubles its input; the configuration says how it misbehaves."""

import contextlib
import ctypes
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorlang.autotune.arrays import Spec
from tensorlang.dtype import dtype


class Kernel:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config

    def bind(self, x: Any, *, out: Any) -> Callable[[], object]:
        def call() -> None:
            misbehave(self.config.get("run"), x, out)
            time.sleep(self.config.get("sleep", 0))

        return call

    def cost(self) -> dict[str, float]:
        return {"flops": 100.0, "bytes": 800.0}


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
        case "garbage":
            for fd in range(3, 10):
                with contextlib.suppress(OSError):
                    os.write(fd, b"garbage" * 100)
        case "oom":
            np.ones(1 << 40)
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


def build(task: dict[str, Any], candidate: dict[str, Any], tell: Callable[[str], None]) -> Kernel:
    del task
    config = candidate.get("config") or {}
    tell('{"steps": []}')
    how = config.get("compile")
    if how is not None:
        misbehave(how, np.zeros(4), np.zeros(4))
    return Kernel(config)


def spec() -> Spec:
    return Spec((100,), dtype("float32"))
