"""What a disposable process does first: it dies with its parent and before it where memory runs out, and speaks on a private socket."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tensorlang.autotune.workers.builder import pin
from tensorlang.autotune.workers.channel import Channel, Closed
from tensorlang.autotune.workers.protocol import Hello

Heard = TypeVar("Heard")

_PR_SET_PDEATHSIG = 1


def _connected(arguments: list[str], read: Callable[[bytes, list[bytes]], Heard]) -> Channel[Heard]:
    """The channel to the parent, of arguments `SOCKET PARENT MEMORY CORES`; this process is then confined as they say."""
    descriptor, parent, memory = map(int, arguments[:3])
    isolate(parent, memory)
    pin([int(core) for core in arguments[3].split(",")])
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 500)  # where code that writes to low descriptors does not hit it
    os.close(descriptor)
    return Channel(socket.socket(fileno=high), read, longest=None)


def served(arguments: list[str], read: Callable[[bytes, list[bytes]], Heard], serve: Callable[[Channel[Heard]], None]) -> None:
    """Answer on the inherited socket until the parent hangs up."""
    channel = _connected(arguments, read)
    channel.send(Hello(os.getpid()))
    try:
        serve(channel)
    except Closed:
        os._exit(0)


def isolate(parent: int, memory: int) -> None:
    """Die with the parent, and rather than it; no core file; a bound on memory."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        least = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        resource.setrlimit(resource.RLIMIT_AS, (least, least))
