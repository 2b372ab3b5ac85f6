"""The worker's side of a measurement: a kernel is timed only after its result was compared with the reference.

Where the reference covers only some elements, the whole result is also compared with the default schedule's, which is built here once.
Operands are there once, whatever is measured: all candidates write to the same outputs.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from tensorlang.autotune.measurement.arrays import Array, Guarded, Spec, elements, fill, inputs, mismatch, places
from tensorlang.autotune.measurement.cold_caches import Flush
from tensorlang.autotune.measurement.measure import interleave, measure
from tensorlang.autotune.measurement.sentinel import Sentinel
from tensorlang.autotune.measurement.steady import Steady
from tensorlang.autotune.measurement.timer import timer_of
from tensorlang.autotune.measurement.unsteady import Unsteady
from tensorlang.autotune.workers.builder import Builder, Wrong, pin
from tensorlang.autotune.workers.protocol import NOTHING, Blob, Candidate, Compiling, Facts, Running, WorkerTask
from tensorlang.codegen.target.caches import host_caches
from tensorlang.errors import TensorlangError


class Measurer:
    """A task made ready: inputs, guarded outputs, the reference; and the candidates on it."""

    def __init__(self, task: WorkerTask, builder: Builder) -> None:
        self.task = task
        self.builder = builder
        self.cores = task.cores or ()
        self.inputs = inputs(task.inputs, task.seed, task.sample)
        self.at = [None if at is None else places(at, len(spec.shape)) for at, spec in zip(task.at, task.results, strict=True)]
        self.values = [_values(blob, spec, at) for blob, spec, at in zip(task.expected, task.results, self.at, strict=True)]
        packed = task.unsteady or (None,) * len(task.results)
        self.unsteady = [None if blob is None else Unsteady.unpacked(blob.data) for blob in packed]
        for place in task.bound:
            self._bind(place)
        self.digests = [guarded.digest() for guarded in self.inputs]
        self.outputs = [Guarded(spec) for spec in task.results]
        self.agreed: list[Array] | None = None
        self._asked = False
        self.timer = timer_of(task.threads)
        self.steady = Steady(Sentinel())
        self.flush = Flush(host_caches(), self.cores) if task.policy.cache == "cold" else None

    def trial(self, candidate: Candidate, kernel: Blob | None = None) -> Facts:
        """One candidate by itself: the kernel that was saved, or what is built of it here."""
        self._agree(candidate)
        call, facts = self._prepare(candidate, kernel)
        start = time.perf_counter()
        policy = self.task.policy
        self.steady.learn(candidate.usual)
        result, sentinel = self.steady(
            lambda: measure(call, policy, candidate.incumbent, timer=self.timer, flush=self.flush), policy.total_s / 2
        )
        run_s = (facts.run_s or 0.0) + time.perf_counter() - start
        return msgspec.structs.replace(
            facts, run_s=run_s, samples=result.samples, number=result.number, censored=result.censored, sentinel=sentinel,
            quality=result.quality,
        )  # fmt: skip

    def paired(self, candidates: Sequence[Candidate], kernels: Sequence[Blob], seconds: float | None) -> tuple[Facts, ...]:
        """Several candidates, their samples interleaved, for about so many seconds."""
        given = [kernels[place] if kernels else None for place in range(len(candidates))]
        trusted = next((place for place, one in enumerate(candidates) if one.trusted), None)
        if trusted is None:
            self._agree(candidates[0])
        elif trusted and any(at is not None for at in self.at):
            self._prepare(candidates[trusted], given[trusted], trusted)  # those before it are compared with its whole result too
        made = [self._prepare(one, given[place], place) for place, one in enumerate(candidates)]
        before = self.steady.sentinel()
        results = interleave([call for call, _ in made], self.task.policy, timer=self.timer, flush=self.flush, seconds=seconds)
        sentinel = min(before, self.steady.sentinel())  # slow all the while; rounds see to the rest
        return tuple(
            msgspec.structs.replace(facts, samples=result.samples, number=result.number, sentinel=sentinel, quality=result.quality)
            for (_, facts), result in zip(made, results, strict=True)
        )

    def _prepare(self, candidate: Candidate, kernel: Blob | None, place: int = 0) -> tuple[Callable[[], object], Facts]:
        """Load or build a candidate and verify it; its call, and what is known of it."""
        if kernel is None:
            built, facts = self.builder.make(candidate, place)
        else:
            self.builder.channel.send(Compiling(place))
            built, facts = self.builder.kernels.load(self.task, kernel.data), NOTHING
        self.builder.channel.send(Running(facts))
        start = time.perf_counter()
        pin(self.cores)
        for guarded in self.outputs:
            guarded.poison()
        arrays = tuple(guarded.array for guarded in self.outputs)
        dims = self.task.dims
        out = arrays if len(arrays) > 1 else arrays[0]
        call: Callable[[], object] = built.bind(*(guarded.array for guarded in self.inputs), out=out, **dims)
        call()
        self._verify()
        if candidate.trusted and any(at is not None for at in self.at):
            self._agree_on(arrays)
        cost = built.cost(**dims)
        run_s = time.perf_counter() - start
        return call, msgspec.structs.replace(facts, run_s=run_s, flops=float(cost["flops"]), bytes=float(cost["bytes"]))

    def _agree(self, candidate: Candidate) -> None:
        """Have the whole result of the default schedule, where the reference has a sample and this worker did not see the default."""
        default = self.task.default
        if default is None or self._asked or candidate.trusted or all(at is None for at in self.at):
            return
        self._asked = True
        if self.agreed is None:
            with contextlib.suppress(Wrong, TensorlangError):  # its own trial has told why
                self._prepare(Candidate(default, trusted=True), None)

    def _agree_on(self, arrays: tuple[Array, ...]) -> None:
        """Keep the whole results of the default, in the memory of those that were kept before."""
        if self.agreed is None:
            self.agreed = [array.copy() for array in arrays]
        else:
            for kept, array in zip(self.agreed, arrays, strict=True):
                kept[...] = array

    def _bind(self, place: int) -> None:
        """Put the array that is bound to an argument in its place."""
        if (blob := self.task.bound.get(place)) is not None:
            array = self.inputs[place].array
            array[...] = np.frombuffer(blob.data, array.dtype).reshape(array.shape)

    def _restore(self, place: int) -> None:
        """Make an input again that was written to, its surroundings too."""
        guarded = self.inputs[place]
        guarded.seal()
        fill(guarded, self.task.inputs[place], self.task.seed, place, self.task.sample)
        self._bind(place)

    def _verify(self) -> None:
        for place, (guarded, digest) in enumerate(zip(self.inputs, self.digests, strict=True)):
            if guarded.digest() != digest or not guarded.intact():
                self._restore(place)
                raise Wrong("it wrote to an input")
        reduction = self.task.reduction
        held = zip(self.outputs, self.task.results, self.values, self.unsteady, strict=True)
        for place, (guarded, spec, want, unsteady) in enumerate(held):
            if not guarded.intact():
                guarded.seal()
                raise Wrong(f"it wrote outside output {place}")
            got, kind = elements(guarded.array, self.at[place]), spec.dtype
            if why := mismatch(got, want, kind, reduction, unsteady):
                raise Wrong(f"output {place}: {why}")
            if self.agreed is not None and (why := mismatch(guarded.array, self.agreed[place], kind, reduction, beyond=unsteady)):
                raise Wrong(f"output {place}, against the default schedule: {why}")


def _values(blob: Blob, spec: Spec, at: Any) -> Array:
    values: Array = np.frombuffer(blob.data, spec.dtype.numpy)
    return values.reshape(spec.shape) if at is None else values
