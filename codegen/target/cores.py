"""Cores by the names that LLVM gives them, as the cost model sees them: ports, windows, bandwidths, pages.

A row is a microarchitecture. Sizes of caches are those of `processors` for a named target, and those that the system tells for "native";
ways, bandwidths and latencies are the row's. Rates are operations a cycle on `datapath` bits: a wider vector takes several. `bandwidth` and
`latency` are bytes and cycles of L1, L2, the last cache and memory, sustained by one core; `window` is the scheduler of vector operations;
`walk` the cycles of a page walk that misses L1. Where a source gives none, the figure is that of the core before it.

`slow` holds what units do that are not pipelined, `shuffle` the latency of what crosses the vector: of x86-64 as `llvm` has them, which a
calibration of Zen 3 confirms, Zen as Zen 2 and Zen 5 as 512 bits of Zen 4; of aarch64 the slower end of what the guides say, since they
give ranges. Lanes that are gathered are those of single loads, in which LLVM gathers for AMD and NEON (`measured` on Zen 3), else of the
instruction, by `fog`.

Sources: `fog` is A. Fog, "The microarchitecture of Intel, AMD and VIA CPUs" and "Instruction tables"; `uops` is A. Abel and J. Reineke,
"uops.info" (ASPLOS 2019); `intel` the Intel 64 and IA-32 Architectures Optimization Reference Manual (248966); `amd` AMD's Software
Optimization Guide for the family; `arm` the core's Software Optimization Guide; `apple` the Apple Silicon CPU Optimization Guide; `ecm`
J. Hofmann et al., "Execution-Cache-Memory performance model" for the overlap of transfers; `llvm` the
scheduling models of LLVM (`X86Schedule*.td`, `AArch64Sched*.td`); `measured` a run of the calibration there.
"""

from __future__ import annotations

import hashlib
from dataclasses import astuple, replace
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from tensorlang.codegen.target import calibrated
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.schedules.model.machine import Cache, Latencies, Machine, Memory, Pages, Ports

if TYPE_CHECKING:
    from tensorlang.codegen.target.caches import Caches
    from tensorlang.codegen.target.description import Target


class Core(NamedTuple):
    """A row of the table."""

    ghz: float
    datapath: int
    ports: tuple[float, float, float, float, float]
    """Issue, arithmetic, loads, stores, shuffles."""
    latency: int
    window: int
    ways: tuple[int, int]
    """Of L1 and L2; 0 where a hash of the address chooses the set, as in last levels (Maurice et al., RAID 2015). A Zen 4 has 1,024 rows of
    256 bytes in L2 that are 8 KiB apart (a chain of loads takes 22 cycles there, as where they are 8,256 bytes apart)."""
    bandwidth: tuple[float, float, float, float]
    cycles: tuple[float, float, float, float]
    pages: tuple[int, int, float] | tuple[int, int, float, int]
    """Bytes of a page, entries of the second TLB, cycles of a walk; and the ways of that TLB, unless a hash chooses the set, as on Intel's
    cores (Gras et al., USENIX Security 2018), or nobody knows: a Zen 4 keeps half as many of every second page, and a quarter of every
    fourth."""
    streaming: float
    outstanding: float
    overlap: float
    """Of vectors as wide as the datapath. Of wider ones arithmetic takes several turns, and the rest fits beside them: a Zen 4's tiles of
    512 bits whose operands come from L2 take the most of their resources. What memory gives and is sent past the caches overlaps by half of
    it: on Intel's cores, whose exponent is 2, not at all; a Zen 4 reads 67 MB in 1.5 to 2 ms, fills as many in 2.4, and copies in 3.5."""
    slow: tuple[tuple[float, float], tuple[float, float], float]
    """Cycles from one vector of 32-bit divisions to the next, and of one; the same of square roots; lanes that are gathered in a cycle."""
    shuffle: float
    """Cycles of a shuffle across the vector."""
    source: str
    names: str
    streams: float = 32
    """Places in different pages that prefetchers follow at once: 32 on Intel's cores (`intel`), and where nothing is known. A Zen 4 reads 8
    rows at once by 25 GB/s, 16 by 19 and 32 by 14: as fast up to 10 or 12, by 0.8 along 16 and 0.5 along 32 (a vector times a matrix);
    a Zen 3 by 14 to 16 GB/s up to 12, 11 to 14 along 16 and 6 to 8 along 24. Where rows are 16 KiB apart, and all in one set, it is 10
    along 16 already (`Followed`)."""
    units: float = 0
    """Vector operations of all classes a cycle, where some units do not multiply: AMD's cores have four, two multiply and two add (`fog`);
    softmax and layer norm recorded on a Zen 5 take the time of three."""
    kept: float = 0.8
    """The share of the last level that a core has for itself: 16 of 36 MB are gone on a guest of a Cascade Lake
    when they are read again, though stores pass the caches by; a Zen 4 finds 16 of 32 again beside neighbours who are not busy."""
    back: float = 64
    """The exponent by which lines that memory gives and those that go back to it add up. A Zen 4 reads 67 MB in 1.9 ms, copies them through
    its caches in 4.4 (as many come for what is written, and go), and in 5.3 where rows of 4 KiB are read and written in turn."""
    together: float = 4
    """Times as much as one core that several move from memory: two of a Zen 4 copy 1.27 times as much as one, and read 1.22. Elsewhere what
    the memory of a socket gives by what a core takes is more."""


TABLE: Final[dict[str, tuple[Core, ...]]] = {
    "x86_64": (
        Core(3.4, 256, (4, 2, 2, 1, 1), 5, 60, (8, 8), (64, 28, 14, 4.0), (4, 12, 40, 220), (4096, 1024, 35), 4.0, 10, 2.0,
             ((14, 21), (14, 21), 0.7), 3, "fog, intel: Haswell and Broadwell; ecm", "haswell broadwell x86-64-v3"),
        Core(3.6, 256, (4, 2, 2, 1, 1), 4, 97, (8, 4), (64, 30, 16, 5.0), (4, 12, 42, 240), (4096, 1536, 35), 5.0, 10, 2.0,
             ((5, 11), (6, 12), 1.5), 3, "fog, intel: Skylake client; ecm", "skylake cannonlake"),
        Core(2.9, 512, (4, 2, 2, 1, 1), 4, 97, (8, 16), (128, 34, 8, 3.8), (5, 14, 200, 260), (4096, 1536, 280), 3.0, 12, 2.0,
             ((10, 18), (12, 20), 1.5), 3,
             "fog, intel: Skylake server, 12 fill buffers; measured on a guest of a Cascade Lake: third level, memory, walks",
             "skylake-avx512 cascadelake cooperlake x86-64-v4", kept=0.4),
        Core(3.0, 512, (5, 2, 2, 1, 1), 4, 160, (12, 20), (128, 40, 10, 4.0), (5, 14, 75, 280), (4096, 2048, 50), 4.0, 12, 2.0,
             ((10, 18), (12, 20), 1.5), 3, "fog, intel: Ice Lake and Sunny Cove", "icelake-client icelake-server rocketlake tigerlake"),
        Core(4.5, 256, (6, 2, 3, 2, 2), 4, 97, (12, 10), (96, 48, 16, 6.0), (5, 15, 70, 330), (4096, 2048, 40), 6.0, 16, 2.0,
             ((5, 11), (6, 12), 1.5), 3, "fog, intel: Golden Cove with AVX2", "alderlake raptorlake"),
        Core(3.0, 512, (6, 2, 2, 1, 1), 4, 97, (12, 16), (128, 48, 9, 4.5), (5, 15, 150, 340), (4096, 2048, 50), 4.5, 16, 2.0,
             ((10, 18), (12, 20), 1.5), 3,
             "fog, intel: Golden Cove with AVX-512; measured on a virtual machine of a Granite Rapids: latency of the third level",
             "sapphirerapids emeraldrapids graniterapids"),
        Core(3.6, 128, (4, 2, 2, 1, 2), 5, 96, (8, 8), (32, 28, 14, 5.0), (4, 12, 40, 300), (4096, 1536, 40), 5.0, 8, 3.0,
             ((5, 10), (7, 14), 0.8), 2, "fog, amd family 17h: Zen", "znver1", units=4),
        Core(3.4, 256, (5, 2, 2, 1, 2), 5, 96, (8, 8), (64, 28, 18, 6.0), (4, 12, 40, 320), (4096, 2048, 40), 6.0, 10, 3.0,
             ((5, 10), (7, 14), 0.8), 2, "fog, amd family 17h models 30h-: Zen 2", "znver2", units=4),
        Core(3.5, 256, (6, 2, 2, 1, 2), 4, 128, (8, 8), (64, 30, 18, 4.5), (4, 12, 65, 400), (4096, 1400, 350), 6.0, 12, 4.0,
             ((3, 11), (5, 15), 0.8), 3,
             "fog, amd family 19h: Zen 3; measured on a virtual machine of a Milan: third level, memory, walks, streams", "znver3", 12, 4),
        Core(3.7, 256, (6, 2, 2, 1, 2), 4, 128, (8, 0), (64, 30, 26, 9.5), (4, 14, 52, 380), (4096, 3072, 85, 24), 8.0, 16, 4.0,
             ((3, 11), (5, 15), 0.8), 3,
             "fog, amd family 19h models 10h-: Zen 4, 512 bits in two halves; measured on a virtual machine of a Genoa: sets of L2, third "
             "level, memory, pages, streams",
             "znver4", 10, 4, back=2.0, together=1.3),
        Core(4.0, 512, (8, 2, 2, 1, 2), 4, 228, (12, 16), (128, 60, 24, 7.0), (4, 14, 50, 400), (4096, 4096, 40), 10.0, 16, 4.0,
             ((6, 11), (10, 15), 0.8), 3, "amd family 1Ah: Zen 5 with the whole datapath", "znver5", units=3),
    ),
    "aarch64": (
        Core(2.5, 128, (4, 2, 2, 1, 2), 4, 60, (4, 8), (32, 24, 12, 6.0), (4, 11, 80, 300), (4096, 1280, 40), 6.0, 10, 3.0,
             ((5, 10), (5, 10), 1.0), 2, "arm, Neoverse N1", "neoverse-n1 cortex-a76 cortex-a78"),
        Core(2.6, 128, (8, 4, 3, 2, 4), 4, 120, (4, 8), (48, 32, 16, 8.0), (4, 11, 80, 300), (4096, 2048, 40), 8.0, 16, 3.0,
             ((5, 10), (5, 10), 1.5), 2,
             "arm, Neoverse V1; V2 and N2 differ in sizes", "neoverse-v1 neoverse-v2 neoverse-n2 cortex-x1 cortex-x2 grace"),
        Core(3.2, 128, (8, 4, 3, 2, 4), 4, 144, (8, 12), (48, 32, 32, 16.0), (3, 16, 16, 320), (16384, 3072, 40), 16.0, 16, 4.0,
             ((2, 10), (3, 13), 1.5), 2, "apple, Firestorm and later performance cores", "apple-m1 apple-m2 apple-m3 apple-m4"),
    ),
}  # fmt: skip
"""What is known, by architecture."""

GENERIC: Final[dict[str, Core]] = {
    "x86_64": Core(3.0, 256, (4, 2, 2, 1, 1), 4, 96, (8, 8), (64, 28, 14, 5.0), (4, 13, 50, 280), (4096, 1536, 40), 5.0, 10, 2.5,
                   ((5, 11), (6, 13), 1.0), 3, "between Skylake and Zen 2", ""),
    "aarch64": Core(2.4, 128, (4, 2, 2, 1, 2), 4, 60, (4, 8), (32, 24, 12, 5.0), (4, 12, 60, 280), (4096, 1024, 40), 5.0, 8, 3.0,
                    ((7, 13), (7, 13), 1.0), 3, "Neoverse N1, with less memory", ""),
}  # fmt: skip
"""A core of which only the architecture is known."""

RENAMED: Final[dict[str, tuple[str, frozenset[str]]]] = {
    "sapphirerapids": (
        "avx512fp16",
        frozenset(["skylake-avx512", "cascadelake", "cooperlake", "icelake-client", "icelake-server", "rocketlake", "tigerlake"]),
    )
}
"""Cores by an instruction set that those before them lack, and the names of these: a hypervisor may tell the model of an older one."""

FORK: Final = 4e-6
"""Seconds that a parallel loop takes beyond the work of a thread. Two threads that are awake take 1.3 us on a Zen 3; more take longer."""

_BY_NAME: Final = {(arch, name): core for arch, cores in TABLE.items() for core in cores for name in core.names.split()}


def machine_of(target: Target) -> Machine:
    """The machine that the cost model sees in a target: as it was measured here (see `calibrated`), else what ships.

    Raises `BuildError` where `TENSORLANG_MACHINE` names no description of this CPU, and the target is this machine.
    """
    ours, measured = shipped(target), calibrated.machine_of(target)
    if measured is None or measured.vector_bits == ours.vector_bits:
        return measured or ours
    # features were taken away: what these vectors do was not measured
    return replace(measured, vector_bits=ours.vector_bits, registers=ours.registers, ports=ours.ports, latencies=ours.latencies)


def shipped(target: Target) -> Machine:
    """The row of a target's core, with its own vectors and caches."""
    row = next((newer for newer, (feature, older) in RENAMED.items() if target.cpu in older and feature in target.isa), target.cpu)
    return _described(target.arch, target.cpu, row, target.vector_bits, target.registers, target.caches)


@cache
def _described(arch: str, cpu: str, row: str, vector_bits: int, registers: int, sizes: Caches) -> Machine:
    core = _BY_NAME.get((arch, row)) or GENERIC.get(arch, GENERIC["aarch64"])
    halves = max(1.0, vector_bits / core.datapath)
    issue, arithmetic, loads, stores, shuffles = core.ports
    division, root, gathers = core.slow
    ports = Ports(
        issue, arithmetic / halves, loads / halves, stores / halves, shuffles / halves, core.latency, core.window,
        1 / division[0] / halves, 1 / root[0] / halves, gathers, halves, core.units / halves,
    )  # fmt: skip
    levels = (sizes.l1, sizes.l2, sizes.l3) if sizes.l3 > sizes.l2 else (sizes.l1, sizes.l2)
    ways = [_ways(size, usual) for size, usual in zip(levels, (*core.ways, 0), strict=False)]
    caches = tuple(Cache(*level) for level in zip(levels, ways, core.bandwidth, core.cycles, strict=False))
    memory = Memory(core.bandwidth[-1], core.cycles[-1], core.streaming, max(1.0, core.overlap / 2), core.back)
    return Machine(
        cpu, core.source, core.ghz * 1e9, vector_bits, ports, caches, Pages(*core.pages), memory, LINE_BYTES,
        core.outstanding, core.overlap**halves, registers, Latencies(division[1], root[1], core.shuffle), FORK, core.streams, core.kept,
        core.together,
    )  # fmt: skip


def _ways(size: int, usual: int) -> int:
    """The ways of a cache, near those that are usual: its sets are a power of two, of which an address has some bits, or one for a hash."""
    lines = max(1, size // LINE_BYTES)
    if not usual:
        return lines
    return min((lines >> bits for bits in range(lines.bit_length())), key=lambda ways: (abs(ways - usual), ways))


@cache
def digest(machine: Machine) -> str:
    """Sixteen hexadecimal digits that tell a description from every other one, in every process: 4 and 4.0 are the same."""
    return hashlib.sha256(repr(_plain(astuple(machine))).encode()).hexdigest()[:16]


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return float(value) if isinstance(value, int) else value
