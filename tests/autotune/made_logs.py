"""Logs made up of a real task and its real space, with times by formula: what the reports say of them is known beforehand."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import summary, to_line
from tensorlang.autotune.measurement import host
from tensorlang.autotune.task import Task
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose


def matmul(m: int = 48, n: int = 64, k: int = 32) -> Any:
    a, b, axis = tl.placeholder((m, k), name="A"), tl.placeholder((k, n), name="B"), tl.reduce_axis(k, name="k")
    return tl.compute((m, n), lambda i, j: tl.sum(a[i, axis] * b[axis, j], axis=axis), name="C")


class Made:
    """A study: `trial` and the like give its records, `log` writes them."""

    def __init__(self, outputs: Any = None, *, op: str = "matmul", run: str = "run", **shared: Any) -> None:
        self.task = Task.of(matmul() if outputs is None else outputs, op)
        self.plan = choose(self.task.outputs, target(), 1)
        self.run = run
        self.shared = {
            "task": self.task.to_json(),
            "strategy": {"name": self.plan.name, "space": self.plan.space.fingerprint},
            "target": host.target_fields(target()),
            "threads": 1,
            "cache": "warm",
            "policy": {"least": 5},
            "machine": host.machine(),
            "software": host.software(),
            **shared,
        }

    def configs(self, count: int, seed: int = 0) -> list[dict[str, Any]]:
        return self.plan.space.sample(np.random.default_rng(seed), count)

    def record(self, kind: str, name: str, at: float, **fields: Any) -> dict[str, Any]:
        own = hashlib.sha256(f"{self.run} {self.task.op} {kind} {name}".encode()).hexdigest()[:32]
        return {"id": own, "run": self.run, "time_unix": 1.7e9 + at, **self.shared, "kind": kind, **fields}

    def trial(self, seq: int, config: dict[str, Any], time: float | None, source: str = "random", **fields: Any) -> dict[str, Any]:
        samples = [] if time is None else [time * (1 + 0.002 * step) for step in (0, 3, 1, 4, 2)]
        failed = {"type": "Wrong", "message": "differs from the reference", "signal": None}
        return self.record(
            "trial", str(seq), seq + 1.0, seq=seq, config=config, schedule=None, source=source, prediction=None,
            status="ok" if time else "wrong_result", error=None if time else failed, samples=samples, number=10, **summary(samples),
            censored=False, flops=2.0 * 48 * 64 * 32, bytes=4.0 * (48 * 32 + 32 * 64 + 48 * 64), compile_s=0.1, run_s=0.2, wall_s=0.5,
        ) | fields  # fmt: skip

    def start(self, **fields: Any) -> dict[str, Any]:
        points = self.plan.space.count.feasible
        return self.record("run_start", "", 0.0, trials=24, seed=0, search="random", budget=None, points=points) | fields

    def end(self, reason: str = "trials") -> dict[str, Any]:
        return self.record("run_end", "", 1e6, reason=reason)

    def study(self, count: int = 24, time: Callable[[dict[str, Any], int], float | None] | None = None) -> list[dict[str, Any]]:
        """A whole job: the default, random points, a few of the model's; the winner has a schedule and a final measurement."""
        points = [self.plan.default, *(config for config in self.configs(count) if config != self.plan.default)][:count]
        of = time or (lambda config, seq: (200 - 2 * min(seq, 40) + (seq * 37) % 29) * 1e-6)
        sources = ["default", *("model" if 2 * seq > count else "random" for seq in range(1, len(points)))]
        trials = [self.trial(seq, point, of(point, seq), source) for seq, (point, source) in enumerate(zip(points, sources, strict=True))]
        valid = [trial for trial in trials if trial["status"] == "ok"]
        if not valid:
            return [self.start(), *trials, self.end()]
        best = min(valid, key=lambda trial: trial["min"])
        for trial in (best, trials[0]):
            trial["schedule"] = self.plan.schedule(trial["config"]).to_json()
        return [self.start(), *trials, self.final(best, trials[0]), self.end()]

    def final(self, best: dict[str, Any], base: dict[str, Any], *, rounds: int = 15, **fields: Any) -> dict[str, Any]:
        rows = [
            {"id": trial["id"], "config": trial["config"], "samples": [trial["min"] * (1 + 0.001 * step) for step in range(rounds)]}
            for trial in {trial["id"]: trial for trial in (base, best)}.values()
        ]
        told = {"default_time": base["min"], "speedup": base["min"] / best["min"]}
        return self.record(
            "final", "", 1e5, trials=24, finalists=rows, failed=[], winner=best["id"], time=best["min"], default=base["id"], **told
        ) | fields  # fmt: skip


def write(path: Path, *groups: Iterable[dict[str, Any]]) -> Log:
    path.write_bytes(b"".join(to_line(record) for group in groups for record in group))
    return Log(path)
