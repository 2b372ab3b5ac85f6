"""The disposable process: builds candidates, or checks and times them, and may die of any of them.

    python -m tensorlang.autotune.workers.worker SOCKET PARENT MEMORY CORES

It dies with its parent and before it where memory runs out, leaves no core file, may use so much memory and no more, and speaks on a
socket that candidates do not know. It is told a `task` once and then candidates; it says which phase it is in, so that the parent, which
owns every deadline, can tell a compilation that does not end from a kernel that does not.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from tensorlang.autotune.workers.builder import Maker, Wrong, pin
from tensorlang.autotune.workers.protocol import Channel, Closed

_PR_SET_PDEATHSIG = 1


def serve(channel: Channel) -> None:
    """Answer requests until the parent hangs up."""
    maker: Maker | None = None
    bench: Any = None
    while True:
        request = channel.receive()
        blobs = request.get("blobs", [])
        try:
            match request:
                case {"task": task}:
                    maker = Maker(task, channel)
                    if hasattr(maker.module, "warm"):
                        maker.module.warm(task)
                    if task.get("role") != "build":
                        from tensorlang.autotune.workers.measurer import Bench  # noqa: PLC0415 - builders measure nothing

                        bench = Bench(task, blobs, maker)
                    channel.send({"reply": {"status": "ok"}})
                case {"build": candidate} if maker is not None:
                    told, saved = maker.build(candidate)
                    channel.send({"reply": told, "blobs": [saved]})
                case {"trial": candidate} if bench is not None:
                    channel.send({"reply": bench.trial(candidate, *blobs)})
                case {"paired": candidates} if bench is not None:
                    channel.send({"reply": bench.paired(candidates, blobs, request.get("seconds"))})
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


def _isolate(parent: int, memory: int) -> None:
    """Die with the parent, and rather than it; no core file; a bound on memory."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def main(arguments: list[str]) -> None:
    """Serve on the inherited socket."""
    descriptor, parent, memory = map(int, arguments[:3])
    _isolate(parent, memory)
    pin([int(core) for core in arguments[3].split(",")])
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 500)  # where a candidate that writes to low descriptors does not hit it
    os.close(descriptor)
    channel = Channel(socket.socket(fileno=high), longest=None)
    channel.send({"hello": os.getpid()})
    try:
        serve(channel)
    except Closed:
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
