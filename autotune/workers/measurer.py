"""The worker's side of a measurement: a kernel is timed only after its result was compared with the reference.

Where the reference covers only some elements, the whole result is also compared with the default schedule's, which is built here once.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorlang.autotune.log.record import summary
from tensorlang.autotune.measurement.arrays import Array, Guarded, Spec, inputs, mismatch
from tensorlang.autotune.measurement.cold_caches import Flush
from tensorlang.autotune.measurement.measure import Policy, interleave, measure
from tensorlang.autotune.measurement.sentinel import Sentinel
from tensorlang.autotune.workers.builder import Maker, Wrong, pin
from tensorlang.codegen.caches import host_caches
from tensorlang.errors import TensorlangError


class Bench:
    """A task made ready: inputs, guarded outputs, the reference; and the candidates on it."""

    def __init__(self, task: dict[str, Any], blobs: list[bytes], maker: Maker) -> None:
        self.task = task
        self.maker = maker
        self.policy = Policy(**task["policy"])
        self.specs = [Spec.from_json(pair) for pair in task["outputs"]]
        self.inputs = inputs([Spec.from_json(pair) for pair in task["inputs"]], task["seed"], signed=task["signed"])
        self.at = [None if at is None else tuple(np.array(at, np.int64).T) for at in task["at"]]
        places = list(zip(self.specs, self.at, strict=True))
        self.values = [_values(blob, spec, at) for blob, (spec, at) in zip(blobs, places, strict=False)]
        for place, blob in zip(task.get("bound", ()), blobs[len(places) :], strict=True):
            array = self.inputs[place].array
            array[...] = np.frombuffer(blob, array.dtype).reshape(array.shape)
        self.pristine = [guarded.array.copy() for guarded in self.inputs]
        self.agreed: list[Array] | None = None
        self._asked = False
        self.sentinel = Sentinel()
        caches = host_caches()
        self.flush = Flush(caches, task["cores"]) if self.policy.cache == "cold" else None

    def trial(self, candidate: dict[str, Any], saved: bytes | None = None) -> dict[str, Any]:
        """One candidate by itself: the kernel that was `saved`, or what is built of it here."""
        self._agree(candidate)
        call, told = self._prepare(candidate, saved)
        start = time.perf_counter()
        sentinel = self.sentinel()
        result = measure(call, self.policy, candidate.get("incumbent"), flush=self.flush)
        samples = list(result.samples)
        told["run_s"] += time.perf_counter() - start
        facts = {"status": "ok", "samples": samples, "number": result.number, "censored": result.censored, "sentinel": sentinel}
        return {**told, **facts, **summary(samples)}

    def paired(self, candidates: list[dict[str, Any]], saved: list[bytes], seconds: float | None) -> dict[str, Any]:
        """Several candidates, their samples interleaved, for about so many seconds."""
        self._agree(candidates[0])
        made = [self._prepare(one, saved[place] if saved else None, place) for place, one in enumerate(candidates)]
        results = interleave([call for call, _ in made], self.policy, flush=self.flush, seconds=seconds)
        rows = [
            {**told, "samples": list(result.samples), "number": result.number, **summary(list(result.samples))}
            for (_, told), result in zip(made, results, strict=True)
        ]
        return {"status": "ok", "rows": rows}

    def _prepare(self, candidate: dict[str, Any], saved: bytes | None, place: int = 0) -> tuple[Callable[[], object], dict[str, Any]]:
        """Load or build a candidate and verify it; its call, and what is known of it."""
        if saved is None:
            built, told = self.maker.make(candidate, place)
        else:
            self.maker.channel.send({"phase": "compiling", "place": place})
            built, told = self.maker.module.load(self.task, saved), {}
        self.maker.channel.send({"phase": "running", **told})
        start = time.perf_counter()
        pin(self.task["cores"])
        outputs = [Guarded(spec) for spec in self.specs]
        for guarded in outputs:
            guarded.poison()
        arrays = tuple(guarded.array for guarded in outputs)
        dims = self.task.get("dims", {})
        out = arrays if len(arrays) > 1 else arrays[0]
        call: Callable[[], object] = built.bind(*(guarded.array for guarded in self.inputs), out=out, **dims)
        call()
        self._verify(outputs)
        if candidate.get("trusted") and any(at is not None for at in self.at):
            self.agreed = [array.copy() for array in arrays]
        cost = built.cost(**dims)
        run_s = time.perf_counter() - start
        return call, told | {"run_s": run_s, "flops": float(cost["flops"]), "bytes": float(cost["bytes"])}

    def _agree(self, candidate: dict[str, Any]) -> None:
        """Have the whole result of the default schedule, where the reference has a sample and this worker did not see the default."""
        default = self.task.get("default")
        if default is None or self._asked or candidate.get("trusted") or all(at is None for at in self.at):
            return
        self._asked = True
        if self.agreed is None:
            with contextlib.suppress(Wrong, TensorlangError):  # its own trial has told why
                self._prepare({"config": default, "trusted": True}, None)

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


def _values(blob: bytes, spec: Spec, at: Any) -> Array:
    values: Array = np.frombuffer(blob, spec.dtype.numpy)
    return values.reshape(spec.shape) if at is None else values
