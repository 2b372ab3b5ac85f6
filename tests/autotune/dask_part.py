"""A scheduler or a worker as a process of its own, whose machine may be made up; and stand-ins for kernels that note when they ran.

    run(told, "scheduler")
    run(told, "worker", ADDRESS, HOST, CPU, MEASURE, THREADS)

It tells its address when it is up. CPU "" means the real one, MEASURE is the amount of the resource.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

from tensorlang.autotune.measurement import host
from tensorlang.autotune.workers.protocol import Candidate, WorkerTask
from tensorlang.codegen.target import target
from tests.autotune import stand_ins


def run(told: Connection, what: str, *arguments: str) -> None:
    """Be a scheduler or a worker until killed, in silence."""
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    asyncio.run({"scheduler": scheduler, "worker": worker}[what](told, *arguments))


async def scheduler(told: Connection) -> None:
    from distributed import Scheduler  # the tuner's own processes, which build with this module, do without

    async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as running:
        told.send(running.address)
        await running.finished()


async def worker(told: Connection, address: str, name: str, cpu: str, measure: str, threads: str) -> None:
    from distributed import Worker

    pretend(name, cpu)
    os.environ["PART"] = name
    resources = {"measure": float(measure)} if float(measure) else {}
    running = Worker(address, nthreads=int(threads), resources=resources, host="127.0.0.1", dashboard=False, heartbeat_interval="200ms")
    async with running:
        told.send(running.address)
        await running.finished()


def pretend(name: str, cpu: str) -> None:
    """This machine is called `name` and has this CPU."""
    real, here = host.machine(), target("native")
    machine = real | {"host": name} | ({"model": cpu} if cpu else {})
    mock.patch.object(host, "machine", return_value=machine).start()
    mock.patch("tensorlang.autotune.cluster.remote.named_target", return_value=replace(here, cpu=cpu or here.cpu)).start()


class Noted(stand_ins.Kernel):
    """Writes to the file that its configuration names when each call began and ended."""

    def bind(self, x: Any, *, out: Any) -> Callable[[], object]:
        call = super().bind(x, out=out)

        def noted() -> None:
            start = time.monotonic()
            call()
            line = json.dumps([os.environ["PART"], self.config["name"], start, time.monotonic()])
            with Path(self.config["notes"]).open("a") as file:
                file.write(line + "\n")

        return noted


def build(task: WorkerTask, candidate: Candidate, tell: Callable[[str], None]) -> stand_ins.Kernel:
    made = stand_ins.build(task, candidate, tell)
    return Noted(made.config) if "notes" in made.config else made


def warm(task: WorkerTask) -> None:
    stand_ins.warm(task)


def save(kernel: stand_ins.Kernel) -> bytes:
    return stand_ins.save(kernel)


def load(task: WorkerTask, data: bytes) -> stand_ins.Kernel:
    made = stand_ins.load(task, data)
    return Noted(made.config) if "notes" in made.config else made
