"""A machine as the cost model sees it: issue slots, caches, pages and memory of one core, and what a thread costs.

A description is plain data, from a table of processors or measured (`codegen.target.cores`, `codegen.calibration`). Cycles are those of
the clock that the core keeps under vector code. Bandwidths are those of one core that has the shared levels and memory to itself.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ports:
    """What a core issues: operations a cycle of each class, on vectors of the full width.

    `arithmetic` are multiply-adds, sums and products; `latency` is the number of cycles until the result of one can be used; `window` how
    many operations wait in the reorder buffer. `divisions` and `roots` are of 32-bit numbers, in vectors a cycle; `gathers` are lanes a
    cycle that are loaded from places which are data. Vectors that are `narrow` times as narrow, and single numbers, are issued so many
    times as often: twice where a whole vector takes each unit twice, as one of 512 bits does on a Zen 4. `units` are operations of all
    classes a cycle where some units do not multiply: they add, and any of them does what is no sum or product (comparisons, choices,
    extrema, conversions, the steps of functions); 0 where all units multiply.
    """

    issue: float
    arithmetic: float
    loads: float
    stores: float
    shuffles: float
    latency: float
    window: int
    divisions: float = 0.2
    roots: float = 0.15
    gathers: float = 1.0
    narrow: float = 1.0
    units: float = 0.0


@dataclass(frozen=True, slots=True)
class Latencies:
    """Cycles until a result can be used: of a division, a square root, a shuffle across the whole vector.

    Those of a multiply-add are `Ports.latency`, those of a load `Cache.latency` of the level that has the line.
    """

    division: float = 11.0
    root: float = 13.0
    shuffle: float = 3.0


@dataclass(frozen=True, slots=True)
class Cache:
    """A level: bytes (a shared level in full) and ways; bytes a cycle that it gives to the level before it, and cycles until the first.

    Neighbouring lines fall into its sets in turn. Where a hash of the address chooses the set, no stride falls into few of them, and it is
    described as one set, whose ways are all its lines.
    """

    size: int
    ways: int
    bandwidth: float
    latency: float


@dataclass(frozen=True, slots=True)
class Pages:
    """Translations of addresses: bytes of a page, entries of the last level of the TLB, cycles of a walk where it misses.

    `ways`: those of its sets, which neighbouring pages fall into in turn; 0 where a page may have any entry, or a hash chooses the set.
    """

    size: int
    entries: int
    walk: float
    ways: int = 0

    @property
    def reach(self) -> int:
        """Bytes that the TLB translates without a walk."""
        return self.size * self.entries


@dataclass(frozen=True, slots=True)
class Memory:
    """Beyond the last cache: bytes a cycle, cycles until the first, and bytes a cycle that stores take past the caches.

    `both`: the exponent by which times of reading and of such stores add up: 1 where one waits for the other, many where both go on at
    once; `back`: the same of lines that come and lines that go back.
    """

    bandwidth: float
    latency: float
    streaming: float
    both: float = 1.5
    back: float = 64.0


@dataclass(frozen=True, slots=True)
class Machine:
    """One core of a processor.

    `hertz`: cycles a second; `line`: bytes; `outstanding`: lines that may be waited for at once; `overlap`: the exponent by which times of
    resources add up, 1 where none overlaps and infinity where all do (the ECM model has loads wait for the lines of L1 on Intel's cores,
    and everything overlap on AMD's); `registers`: vectors that code can name; `fork`: seconds in which a parallel loop begins on all
    threads and ends; `streams`: places in different pages that the prefetchers follow at once; `kept`: the share of the last cache beyond
    which nothing is found again, since others use it too; `together`: how many times as much as one core several move from memory.
    """

    name: str
    source: str
    hertz: float
    vector_bits: int
    ports: Ports
    caches: tuple[Cache, ...]
    pages: Pages
    memory: Memory
    line: int
    outstanding: float
    overlap: float
    registers: int = 16
    latencies: Latencies = Latencies()
    fork: float = 4e-6
    streams: float = 32.0
    kept: float = 0.8
    together: float = 4.0

    def lanes(self, bits: int) -> int:
        """How many elements of so many bits fill a vector register."""
        return max(1, self.vector_bits // bits)

    def often(self, bits: float) -> float:
        """How many times as often as whole vectors those of so many bits are issued."""
        return self.ports.narrow if bits * self.ports.narrow <= self.vector_bits else 1.0
