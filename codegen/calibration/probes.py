"""What is measured, each as a kernel of `kernels` with operands and the work of a call. Names are what `figures` reads.

A level is measured by what is larger than the level before it and fits its half; memory by pieces of arrays that the last cache cannot
hold, one in each call. Chains go through their lines at random, so that nothing can be fetched ahead.
"""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang.codegen.calibration import kernels
from tensorlang.codegen.calibration.kernels import DEPTH, FLOAT, linked
from tensorlang.codegen.calibration.rounds import CALL, BoundKernel, Probe
from tensorlang.codegen.runtime import arrays
from tensorlang.codegen.runtime.threads import get_threads
from tensorlang.codegen.target import Target
from tensorlang.schedules.model.machine import Machine
from tensorlang.system.lazy import cached_property
from tensorlang.system.memory import memory

STEPS: Final = 4000
"""Half the steps of a chain of few cycles."""
CYCLES: Final = 50_000
"""What a call through a table should take: far more than the call itself, far less than from one disturbance to the next."""
PIECE: Final = 4 << 20
"""Bytes of what one call reads or writes beyond the caches: less than a millisecond."""
LEAST, MOST = 64 << 20, 512 << 20
"""Bytes of the arrays that no cache holds."""
AROUND: Final = 3
"""Times the level before: what goes around in so much is never there again, and of a level that is shared others leave us so much."""
SHARE: Final = 8
"""Of the memory that there is, an array takes no more than one part in so many."""
LOADS: Final = 1 << 14
"""Of a call, that wait for no other."""
PAGE: Final = mmap.PAGESIZE
APART: Final = PAGE + 64
"""Bytes from one line to the next where each has a page of its own, and all sets of the caches are used alike."""
PAGES: Final = (512, 768, 1024, 1536, 2048, 3072, 4096, 6144)
"""Numbers of pages that are visited in turn."""
SHORT: Final = 0.003
"""Seconds of a round for what is one of many."""
WORD: Final = 8
BESIDE: Final = 4
"""Elements from those of a chain to those of another one through lines of the same table."""


@dataclass(frozen=True, eq=False)
class Bench:
    """The operands that probes share, and the probes."""

    target: Target
    machine: Machine

    def probes(self) -> list[Probe]:
        """All of them, the most telling first."""
        found = [
            Probe("cycle", self._clock),
            Probe("multiply-add", self._multiply_adds),
            Probe("multiply-add chain", self._chain),
            *(Probe(f"read {level}", partial(self._read, size)) for level, size, _ in self._levels()),
            *(Probe(f"chase {level}", partial(self._around, size, latency)) for level, size, latency in self._levels()),
            Probe("add in place", self._added),
        ]
        if self.beyond > self.machine.caches[-1].size * 1.5:
            found += [
                Probe("read memory", partial(self._read_memory, PIECE), 0.02),
                Probe("chase memory", self._chase_memory),
                Probe("random", self._random),
                Probe("stream", self._stream, 0.02),
                Probe("read half", partial(self._read_memory, self.beyond // 2), 0.02),
                Probe("copy half", self._copy, 0.02),
            ]
            if get_threads() > 1:
                found.append(Probe("read half together", partial(self._read_memory, self.beyond // 2, get_threads()), 0.02))
        found.append(Probe(CALL, self._alone))
        if get_threads() > 1:
            found += [Probe("share", partial(self._shares, 1)), Probe("fork", partial(self._shares, get_threads()))]
        for count in self.counts:
            found.append(Probe(f"pages {count}", partial(self._strided, count, APART), SHORT))
            found.append(Probe(f"lines {count}", partial(self._strided, count, self.machine.line), SHORT))
        return [
            *found,
            Probe("chase pages", partial(self._around_pages, APART), SHORT),
            Probe("chase lines", partial(self._around_pages, self.machine.line, start=BESIDE), SHORT),
            Probe("pages of arrays", partial(self._strided, self.counts[-1], APART, of_arrays=True), SHORT),
            Probe("gather", self._gather),
            Probe("division", partial(self._recurring, kernels.quotients, 8), SHORT),
            Probe("root", partial(self._recurring, kernels.roots, 8), SHORT),
            Probe("division chain", partial(self._recurring, kernels.quotients, 1), SHORT),
            Probe("root chain", partial(self._recurring, kernels.roots, 1), SHORT),
        ]

    @property
    def beyond(self) -> int:
        """Bytes of an array that the caches do not hold, a power of two."""
        wanted = min(max(2 * self.machine.caches[-1].size, LEAST), MOST)
        return 1 << (min(wanted, memory() // SHARE or wanted) - 1).bit_length()

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of pages that fit such an array."""
        return tuple(count for count in PAGES if count * APART <= self.beyond)

    def _levels(self) -> Iterator[tuple[str, int, float]]:
        """The caches by name, each with the bytes to measure it by, and the latency that ships."""
        before = 0
        for place, cache in enumerate(self.machine.caches):
            yield f"L{place + 1}", min(cache.size // 2, AROUND * before if before else cache.size, self.beyond), cache.latency
            before = cache.size

    # Arithmetic -----------------------------------------------------------------------------------------------------------------

    def _clock(self) -> BoundKernel:
        kernel = linked(kernels.clock(), self.target)
        return BoundKernel(kernel.bind(np.full(1, 12345, np.int64), n=STEPS), 2 * STEPS * kernels.CYCLES)

    def _multiply_adds(self) -> BoundKernel:
        found = self._tile(*kernels.tile_of(self.target))
        return found if self.target.has_fma else replace(found, work=2 * found.work)  # a product and a sum, each an operation

    def _chain(self) -> BoundKernel:
        return self._tile(1, 1)

    def _tile(self, rows: int, columns: int) -> BoundKernel:
        kernel = linked(kernels.multiply_adds(self.target, 1, FLOAT, (rows, columns)), self.target)
        return BoundKernel(kernel.bind(*kernels.factors(self.target, FLOAT, (rows, columns))), 4 * DEPTH * rows * columns)

    def _recurring(self, schedule: Callable[[Target, int], Any], vectors: int) -> BoundKernel:
        start = np.full(vectors * self.target.lanes(FLOAT), 1.7, np.float32)
        return BoundKernel(linked(schedule(self.target, vectors), self.target).bind(start, n=STEPS // 2), 2 * (STEPS // 2) * vectors)

    # Caches ---------------------------------------------------------------------------------------------------------------------

    @cached_property
    def _sums(self) -> Any:
        return linked(kernels.sums(self.target, 1), self.target)

    @cached_property
    def _data(self) -> npt.NDArray[Any]:
        data = arrays.empty_aligned((self.beyond // 4,), FLOAT.numpy)
        data.fill(1)
        return data

    def _rows(self, size: int, start: int = 0, threads: int = 1) -> npt.NDArray[Any]:
        """A part of the data, as `sums` takes it, of which each thread has a part."""
        row = kernels.row_of_sums(self.target)
        count = max(size // (4 * row * threads), 1)
        return self._data[start // 4 : start // 4 + threads * count * row].reshape(threads, count, row)

    def _read(self, size: int) -> BoundKernel:
        rows = self._rows(size)
        again = max(PIECE // rows.nbytes, 1)
        return BoundKernel(self._sums.bind(rows, again=again), again * rows.nbytes)

    def _added(self) -> BoundKernel:
        lanes, again = self.target.lanes(FLOAT), 256
        size = self.machine.caches[0].size // 8 // (4 * lanes) * 4 * lanes
        kernel = linked(kernels.added(self.target, size, again), self.target)
        return BoundKernel(kernel.bind(np.ones(again, np.float32)), again * size // lanes)

    @cached_property
    def _chased(self) -> Any:
        return linked(kernels.chase(self.beyond // WORD), self.target)

    def _ring(self, size: int) -> npt.NDArray[Any]:
        """A table in which a chain goes through all lines of its first bytes, at random."""
        table, step = arrays.empty_aligned((self.beyond // WORD,), np.dtype(np.int64)), self.machine.line // WORD
        order = np.random.default_rng(0).permutation(max(size // self.machine.line, 2)) * step
        table[order] = np.roll(order, -1)
        return table

    def _around(self, size: int, latency: float) -> BoundKernel:
        return self._chase(self._ring(size), latency, size)

    def _chase_memory(self) -> BoundKernel:
        return self._chase(self._everywhere, self.machine.memory.latency)

    def _chase(self, table: npt.NDArray[Any], latency: float, size: int = 0, start: int = 0) -> BoundKernel:
        """Through a table; `size` bytes of it are visited before, so that all are where they are when the chain comes by again."""
        one, other, steps = np.full(1, start, np.int64), np.zeros(1, np.int64), max(int(CYCLES / latency / 2), 1)
        calls = self._chased.bind(table, one, out=other, n=steps), self._chased.bind(table, other, out=one, n=steps)
        around = self._chased.bind(table, one, out=other, n=max(size // self.machine.line // 2, 1))
        return BoundKernel(_in_turn(calls), 2 * steps, around)

    def _gather(self) -> BoundKernel:
        size, again = 1 << (self.machine.caches[0].size // 16).bit_length() - 1, 16  # a quarter of the first cache each: table, places
        places = np.random.default_rng(0).permutation(size).astype(np.int32)
        kernel = linked(kernels.gathered(self.target, size, again), self.target)
        return BoundKernel(kernel.bind(np.ones(size, np.float32), places), again * size)

    # Memory ---------------------------------------------------------------------------------------------------------------------

    @cached_property
    def _everywhere(self) -> npt.NDArray[Any]:
        return self._ring(self.beyond)

    @cached_property
    def _indexed(self) -> Any:
        return linked(kernels.indexed(self.beyond // WORD), self.target)

    def _read_memory(self, size: int, threads: int = 1) -> BoundKernel:
        """So many bytes, of which each thread has a part."""
        kernel = self._sums if threads == 1 else linked(kernels.sums(self.target, threads), self.target)
        pieces = [self._rows(size, start, threads) for start in range(0, self.beyond - size + 1, size)]
        return BoundKernel(_in_turn([kernel.bind(rows, again=1) for rows in pieces]), pieces[0].nbytes)

    def _copy(self) -> BoundKernel:
        """One half to the other, past the caches."""
        half = self._data.size // 2
        kernel = linked(kernels.doubled(self.target, half), self.target)
        return BoundKernel(kernel.bind(self._data[:half], out=self._data[half:]), 4 * half)

    def _random(self) -> BoundKernel:
        step = self.machine.line // WORD
        places = (np.random.default_rng(1).permutation(self.beyond // self.machine.line) * step).astype(np.int32)
        return BoundKernel(_in_turn([self._indexed.bind(self._everywhere, part) for part in np.split(places, len(places) // LOADS)]), LOADS)

    def _stream(self) -> BoundKernel:
        kernel, size = linked(kernels.filled(self.target, PIECE // 4), self.target), PIECE // 4
        one = np.ones(1, np.float32)
        return BoundKernel(_in_turn([kernel.bind(one, out=self._data[at : at + size]) for at in range(0, self._data.size, size)]), PIECE)

    # Pages and threads ------------------------------------------------------------------------------------------------------------

    @cached_property
    def _small_pages(self) -> npt.NDArray[Any]:
        """A table in pages of the smallest size."""
        memory = mmap.mmap(-1, self.beyond)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        return np.frombuffer(memory, np.int64)

    def _strided(self, count: int, apart: int, *, of_arrays: bool = False) -> BoundKernel:
        table = self._everywhere if of_arrays else self._small_pages
        places = np.arange(count, dtype=np.int32) * np.int32(apart // WORD)
        table[places] = table[places]  # pages that nobody wrote to are one page
        turns = max(LOADS // count, 1)
        return BoundKernel(self._indexed.bind(table, np.tile(places, turns)), turns * count)

    def _around_pages(self, apart: int, start: int = 0) -> BoundKernel:
        """A chain at random through a line of each of many pages, or as many lines in a row; two share no element of the table."""
        table, count = self._small_pages, min(self.beyond, LEAST) // APART
        places = np.random.default_rng(0).permutation(count) * (apart // WORD) + start
        table[places] = np.roll(places, -1)
        return self._chase(table, self.machine.pages.walk, count * self.machine.line, start)

    def _alone(self) -> BoundKernel:
        return BoundKernel(linked(kernels.alone(), self.target).bind(np.ones(2, np.float32)), 1)

    def _shares(self, count: int) -> BoundKernel:
        return BoundKernel(linked(kernels.shares(count), self.target).bind(np.ones((count, kernels.SUMMANDS), np.float32)), 1)


def _in_turn(calls: Sequence[Callable[[], Any]]) -> Callable[[], Any]:
    """One call that makes the next of several each time."""
    following = itertools.cycle(calls)

    def call() -> Any:
        return next(following)()

    return call
