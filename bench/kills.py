"""A real short job, ended by a signal at a random moment, and gone on with: nothing that was finished is lost, and nobody survives.

Each life of the job is `autotune job` on the same folder of logs, with a few more trials asked for than there are, so that the moments
fall into everything that a job does: starting, loading the surrogates, compiling with several builders, measuring, the final
measurement, the summary. The processes of a life are known by a variable in their environment, so that a process which has left its
group or has been adopted is found as well.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tensorlang.autotune import Log
from tensorlang.autotune.log.record import Trial

ROOT: Final = Path(__file__).resolve().parents[1]
MARK: Final = "TENSORLANG_LIFE"
MORE: Final = 5
"""Trials of each task in one life."""
FRESH: Final = 20
"""Lives with the same logs; later ones would spend their time on reading."""
SURVIVAL_S: Final = 2.0
JOB: Final = """
trials = {trials}
threads = 1
workers = 2
[[task]]
operator = "matmul"
shape = {{ M = 48, N = 48, K = 48 }}
[[task]]
operator = "softmax"
shape = {{ M = 32, N = 256 }}
strategy = "evolutionary"
"""


@dataclass(slots=True)
class Toll:
    """What a signal cost, over all lives that it ended; `late` counts lives that were over before."""

    killed: int = 0
    late: int = 0
    finished: int = 0
    lost: int = 0
    repeated: int = 0
    survivors: int = 0
    unreadable: int = 0
    torn: int = 0
    slowest_s: float = 0.0
    codes: Counter[int] = field(default_factory=Counter)

    @property
    def kept(self) -> bool:
        """Was every promise kept?"""
        return not (self.lost or self.repeated or self.survivors or self.unreadable)


class Lives:
    """Lives of one job, in a folder that is made anew now and then."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._lived = 0
        self._lasts = 0.0
        self._known: set[str] = set()
        self._counted: set[str] = set()
        self._torn = 0

    def end(self, number: signal.Signals, toll: Toll) -> None:
        """One life that this signal ends, and what it cost."""
        if self._folder is None or self._lived >= FRESH:
            self.close(toll)
            self._folder = tempfile.TemporaryDirectory(prefix="tensorlang-lives-")
            self._known, self._counted, self._lived = set(), set(), 0
            self._lasts = max(self._whole(), 0.5)
        self._lived += 1
        life, mark = self._start()
        with life:
            try:
                life.wait(self._random.uniform(0, self._lasts))
                toll.late += 1
            except subprocess.TimeoutExpired:
                self._known |= {trial.id for trial in self._trials(toll)}
                life.send_signal(number)
                start = time.monotonic()
                toll.killed += 1
                toll.codes[_wait(life)] += 1
                alive = survivors(mark)
                while alive and time.monotonic() < start + SURVIVAL_S:
                    time.sleep(0.02)
                    alive = survivors(mark)
                toll.slowest_s = max(toll.slowest_s, time.monotonic() - start)
                toll.survivors += len(alive)
        self._account(toll)

    def close(self, toll: Toll) -> None:
        """Let the last life of these logs end by itself: it goes on from all the others."""
        if self._folder is None:
            return
        if self._lived:
            self._whole()
            self._account(toll)
            seen = Counter((trial.task["op"], str(sorted(trial.config.items()))) for trial in self._trials(toll) if trial.status != "infra")
            toll.repeated += sum(count - 1 for count in seen.values())
        self._folder.cleanup()
        self._folder = None

    def _start(self) -> tuple[subprocess.Popen[bytes], str]:
        assert self._folder is not None, "made by the caller"
        folder, mark = Path(self._folder.name), uuid.uuid4().hex
        counts = Counter(trial.task["op"] for trial in self._trials(Toll()))
        least = min((counts[name] for name in ("matmul", "softmax")), default=0)
        (folder / "jobs.toml").write_text(JOB.format(trials=least + MORE))
        command = [sys.executable, "-c", "from tensorlang.autotune.cli.main import main; main()", "job", str(folder / "jobs.toml")]
        environment = {**os.environ, MARK: mark, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, env=environment, start_new_session=True), mark

    def _whole(self) -> float:
        """Seconds of a life that nothing ends. Raises `RuntimeError` if it fails."""
        start = time.monotonic()
        life, _ = self._start()
        with life:
            if (code := life.wait(300)) != 0:
                raise RuntimeError(f"the job ended with {code} though nothing ended it; run it by hand: {life.args!r}")
        return time.monotonic() - start

    def _trials(self, toll: Toll) -> list[Trial]:
        assert self._folder is not None, "made by the caller"
        logs = Log(Path(self._folder.name) / "logs/")
        try:
            found = list(logs) if logs.path.is_dir() else []
        except Exception as error:  # noqa: BLE001 - any of them is what must not be
            print(f"unreadable: {error}", file=sys.stderr)
            toll.unreadable += 1
            return []
        self._torn = len(logs.problems)
        return found

    def _account(self, toll: Toll) -> None:
        """What is in the logs now, against what was known to be."""
        ids = {trial.id for trial in self._trials(toll)}
        toll.lost += len(self._known - ids)
        toll.finished += len(ids - self._counted)
        toll.torn = max(toll.torn, self._torn)
        self._known |= ids
        self._counted |= ids


def _wait(life: subprocess.Popen[bytes]) -> int:
    """The exit code of a process that was told to end; one that does not is killed, and 999 stands for it."""
    try:
        return life.wait(SURVIVAL_S)
    except subprocess.TimeoutExpired:
        life.kill()
        life.wait()
        return 999


def survivors(mark: str) -> list[int]:
    """The processes with this mark in their environment that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (
                    f"{MARK}={mark}".encode() in (entry / "environ").read_bytes()
                    and (entry / "stat").read_text().rsplit(")", 1)[1][1] != "Z"
                ):
                    found.append(int(entry.name))
            except OSError:
                continue  # it has ended meanwhile
    return found


def campaign(plan: Sequence[tuple[signal.Signals, int]], seed: int = 0) -> dict[str, Toll]:
    """So many lives ended by each signal."""
    tolls = {}
    for number, count in plan:
        toll = tolls[number.name] = Toll()
        lives = Lives(seed + number)
        while toll.killed < count:
            lives.end(number, toll)
        lives.close(toll)
    return tolls
