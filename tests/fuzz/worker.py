"""A disposable process that judges cases: it may crash, and the case with it; whoever asked takes a new one.

Requests are lines of JSON on standard input: `{"seed": 7}`, with a `"cell"` that it is to be drawn for or without, or `{"case": {...}}`.
Answers are lines on standard output: `say` (what is going on), `case` (the case of a seed, before it is judged), and `done`, with the
oracle that disagreed or null.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any, Final

from . import starved
from .case import Case

ROOT: Final = Path(__file__).resolve().parents[2]
LIMIT: Final = 180.0
"""Seconds that a case may take before it counts as a failure: two programs at the limit of the budget, built beside other work.

Where a process that took longer has run for less than that, and has something to do, it waits for a processor, and goes on.
"""
PATIENCE: Final = 20
"""So many times as long on the wall, at most."""
MEMORY: Final = 8 << 30
RECURSION: Final = 10_000
"""Calls in one another at most: the term of a long recurrence is as deep as the recurrence is long."""
YOUNG: Final = 50_000
"""New objects after which garbage is looked for: a case makes millions that are gone without it."""
DEATH_SIGNAL: Final = 1
"""`PR_SET_PDEATHSIG`: a worker does not outlive whoever started it."""


def tell(text: str) -> None:
    """Write a line for whoever runs the command."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def serve(fault: str | None) -> None:
    """Answer requests until the input ends. `fault` is applied to the compiler before."""
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    faulthandler.enable()
    sys.setrecursionlimit(RECURSION)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever prints goes to the log
    oracles, replay = importlib.import_module("tests.fuzz.oracles"), importlib.import_module("tests.fuzz.replay")
    if fault is not None:
        importlib.import_module("tests.fuzz.faults").inject(fault)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 20, 20)
    judge = oracles.Judge(say=lambda text: out.write(json.dumps({"say": text}) + "\n"))
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {"done": None}
        judge.tally = replay.Tally()
        start = time.perf_counter()
        try:
            case = request["case"] if "case" in request else judge.generate(request["seed"], cell_of(request))
            out.write(json.dumps({"case": case}) + "\n")
            judge.check(case)
        except replay.Wrong as wrong:
            answer = {"done": wrong.oracle, "text": wrong.text}
        except Exception as error:  # noqa: BLE001 - the verdict of last resort
            import traceback

            where = "; ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)[-3:])
            answer = {"done": "exception", "text": f"{type(error).__name__}: {error!s:.300} at {where}"}
        counts = dict(judge.tally.counts)
        out.write(
            json.dumps({**answer, "counts": counts, "rejects": judge.tally.false_rejects, "seconds": time.perf_counter() - start}) + "\n"
        )


def cell_of(request: dict[str, Any]) -> Any:
    """The cell of the table of coverage that a request asks for, if any."""
    return tuple(request["cell"]) if request.get("cell") else None


class Worker:
    """A worker process and its replacements."""

    def __init__(self, fault: str | None = None) -> None:
        self.fault = fault
        self.process: subprocess.Popen[bytes] | None = None
        self.log: IO[bytes] | None = None
        self.buffer = b""
        self.answered = 0

    def start(self) -> subprocess.Popen[bytes]:
        """The running process, a new one where there is none."""
        if self.process is None:
            if self.log is not None:
                self.log.close()
            self.log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
            command = [sys.executable, "-m", "tests.fuzz.run", "--serve", *([] if self.fault is None else ["--fault", self.fault])]
            paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
            environment = {**os.environ, "PYTHONPATH": paths, "TENSORLANG_NUM_THREADS": "3", "PYTHONHASHSEED": "0"}
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, cwd=ROOT, env=environment, start_new_session=True
            )
            self.buffer, self.answered = b"", 0
        return self.process

    def stop(self) -> int | None:
        """End the process; its exit code."""
        code = None
        if self.process is not None:
            code = self.process.poll()
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout):
                if stream is not None:
                    stream.close()
            code = self.process.returncode if code is None else code
        self.process = None
        return code

    def close(self) -> None:
        """End the process and forget its last words."""
        self.stop()
        if self.log is not None:
            self.log.close()

    def _line(self, deadline: float) -> bytes | None:
        """The next line, b"" where the process ended, None where the time is up."""
        process = self.start()
        assert process.stdout is not None
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            part = os.read(process.stdout.fileno(), 1 << 16)
            if not part:
                return b""
            self.buffer += part
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line

    def ask(self, request: dict[str, Any], limit: float = LIMIT) -> dict[str, Any]:
        """The answer to a request: `done` is None or names an oracle, "crash" or "timeout"; `case` is the case."""
        process = self.start()
        assert process.stdin is not None
        case: Case | None = request.get("case")
        said, start, used = "start", time.monotonic(), starved.seconds(process.pid)
        deadline = start + limit
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass
        while True:
            line = self._line(deadline)
            patient = line is None and deadline < start + PATIENCE * limit
            if patient and starved.starved(process.pid) and starved.seconds(process.pid) < used + limit:
                deadline = time.monotonic() + limit / PATIENCE
                continue
            if not line:
                code = self.stop()
                tail = self.tail()
                what = "timeout" if line is None else "crash"
                text = f"at {said}: " + (f"no answer in {limit:.0f} s" if line is None else f"exit code {code}; {tail}")
                return {"done": what, "text": text, "case": case, "counts": {}, "rejects": [], "seconds": limit}
            answer = json.loads(line)
            if "say" in answer:
                said = answer["say"]
            elif "case" in answer:
                case = answer["case"]
            else:
                self.answered += 1
                if self.answered >= 400:
                    self.stop()
                return {**answer, "case": case}

    def tail(self) -> str:
        """The last words of the process."""
        if self.log is None:
            return ""
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        told = [line for line in lines if line.strip()]
        return " | ".join(told[-6:])[:400]
