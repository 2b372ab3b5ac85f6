"""The data caches of processors by the names that LLVM gives them: what a named target has, wherever the kernel is built.

A row is a processor (or several that differ in nothing here): capacities in KiB of the first, second and last level, the last level in
full for the cores that share it, and how many these are. Where a core is sold with several sizes, the row is the part named with it. A
core without a third level repeats its second. Only "native" asks the machine (`caches.host_caches`).

Sources: `intel` is the Intel 64 and IA-32 Architectures Optimization Reference Manual (248966), the chapter of the microarchitecture;
`wikichip` the page of the microarchitecture there; `amd` AMD's Software Optimization Guide for the family; `arm` the core's Technical
Reference Manual for what it allows and the product for what was chosen.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tensorlang.codegen.target.caches import TYPICAL, Caches


class Row(NamedTuple):
    """Caches in KiB, the cores that share the last level, where that is written, and the processors that it holds for."""

    l1: int
    l2: int
    l3: int
    cores: int
    source: str
    names: str


TABLE: Final[dict[str, tuple[Row, ...]]] = {
    "x86_64": (
        Row(32, 4096, 4096, 2, "intel, Core microarchitecture: second level shared by two cores; Core 2 Duo E6700", "core2"),
        Row(32, 256, 8192, 4, "intel, Nehalem microarchitecture; Xeon X5570", "nehalem x86-64 x86-64-v2"),
        Row(32, 256, 12288, 6, "wikichip, Westmere: 2 MiB a core; Xeon X5680", "westmere"),
        Row(32, 256, 8192, 4, "intel, Sandy Bridge microarchitecture: 2 MiB a core; Core i7-2600", "sandybridge ivybridge"),
        Row(32, 256, 8192, 4, "intel, Haswell microarchitecture: 2 MiB a core; Core i7-4770", "haswell x86-64-v3"),
        Row(32, 256, 6144, 4, "wikichip, Broadwell (client): 1.5 MiB a core; Core i7-5775C", "broadwell"),
        Row(32, 256, 8192, 4, "intel, Skylake client microarchitecture: 2 MiB a core; Core i7-6700", "skylake cannonlake"),
        Row(32, 1024, 39424, 28, "intel, Skylake server microarchitecture: 1.375 MiB a core; Xeon 8180", "skylake-avx512 x86-64-v4"),
        Row(32, 1024, 39424, 28, "wikichip, Cascade Lake and Cooper Lake: 1.375 MiB a core; Xeon 8280", "cascadelake cooperlake"),
        Row(48, 512, 8192, 4, "intel, Ice Lake client microarchitecture: 2 MiB a core; Core i7-1065G7", "icelake-client"),
        Row(48, 1280, 61440, 40, "wikichip, Ice Lake (server): 1.5 MiB a core; Xeon 8380", "icelake-server"),
        Row(48, 1280, 12288, 4, "wikichip, Tiger Lake: 3 MiB a core; Core i7-1165G7", "tigerlake"),
        Row(48, 512, 16384, 8, "wikichip, Rocket Lake: 2 MiB a core; Core i9-11900", "rocketlake"),
        Row(48, 1280, 30720, 8, "wikichip, Alder Lake, performance cores; Core i9-12900", "alderlake"),
        Row(48, 2048, 36864, 8, "wikichip, Raptor Lake, performance cores; Core i9-13900", "raptorlake"),
        Row(48, 2048, 107520, 56, "wikichip, Sapphire Rapids: 1.875 MiB a core; Xeon 8480+", "sapphirerapids"),
        Row(48, 2048, 327680, 64, "wikichip, Emerald Rapids: 5 MiB a core; Xeon 8592+", "emeraldrapids"),
        Row(48, 2048, 516096, 128, "Intel's product page of the Xeon 6980P (Granite Rapids)", "graniterapids"),
        Row(32, 4096, 110592, 144, "Intel's product page of the Xeon 6780E (Sierra Forest): second level shared by four", "sierraforest"),
        Row(32, 2048, 2048, 4, "amd, family 16h: second level shared by four", "btver2"),
        Row(16, 2048, 8192, 8, "amd, family 15h: second level of a pair of cores; FX-8350", "bdver2"),
        Row(32, 1024, 1024, 2, "amd, family 15h models 60h-7fh: second level of a pair of cores", "bdver4"),
        Row(32, 512, 8192, 4, "amd, family 17h: 8 MiB for each four cores", "znver1"),
        Row(32, 512, 16384, 4, "amd, family 17h models 30h-: 16 MiB for each four cores", "znver2"),
        Row(32, 512, 32768, 8, "amd, family 19h: 32 MiB for each eight cores", "znver3"),
        Row(32, 1024, 32768, 8, "amd, family 19h models 10h-: 32 MiB for each eight cores", "znver4"),
        Row(48, 1024, 32768, 8, "amd, family 1ah: 32 MiB for each eight cores", "znver5"),
    ),
    "aarch64": (
        Row(32, 512, 512, 4, "arm, Cortex-A53: second level shared by four; Raspberry Pi 3", "cortex-a53"),
        Row(32, 1024, 1024, 4, "arm, Cortex-A72: second level shared by four; Raspberry Pi 4", "cortex-a72 generic"),
        Row(32, 2048, 2048, 4, "arm, Cortex-A57: second level shared by four; Tegra X1", "cortex-a57"),
        Row(64, 2048, 2048, 4, "arm, Cortex-A73: second level shared by four; Kirin 960", "cortex-a73"),
        Row(64, 512, 2048, 4, "arm, Cortex-A76; Raspberry Pi 5", "cortex-a76 cortex-a78"),
        Row(64, 1024, 8192, 8, "arm, Cortex-X1 and X2, with the largest third level of DynamIQ of their time", "cortex-x1 cortex-x2"),
        Row(64, 1024, 32768, 64, "arm, Neoverse N1; Graviton2 has 1 MiB a core and 32 MiB", "neoverse-n1"),
        Row(64, 1024, 32768, 64, "arm, Neoverse V1; Graviton3 has 1 MiB a core and 32 MiB", "neoverse-v1"),
        Row(64, 2048, 36864, 96, "arm, Neoverse V2; Graviton4 has 2 MiB a core and 36 MiB", "neoverse-v2"),
        Row(64, 1024, 116736, 72, "NVIDIA's tuning guide of Grace: 1 MiB a core and 114 MiB", "grace"),
        Row(64, 8192, 8192, 12, "Fujitsu's A64FX microarchitecture manual: second level of a group of twelve", "a64fx"),
        Row(32, 256, 32768, 32, "Marvell's ThunderX2 product brief", "thunderx2t99"),
        Row(128, 12288, 12288, 4, "Apple Silicon CPU Optimization Guide, performance cores of M1: shared by four", "apple-m1"),
        Row(128, 16384, 16384, 4, "Apple Silicon CPU Optimization Guide, performance cores: shared by four", "apple-m2 apple-m3 apple-m4"),
    ),
}
"""What is known, by architecture. The levels of x86-64 are the oldest processor that has them, `generic` a small core."""

_BY_NAME: Final = {
    (arch, name): Caches(row.l1 << 10, row.l2 << 10, row.l3 << 10, row.cores)
    for arch, rows in TABLE.items()
    for row in rows
    for name in row.names.split()
}


def caches_of(arch: str, cpu: str) -> Caches:
    """The caches of a processor by its LLVM name; a plain guess for one that is not in the table."""
    return _BY_NAME.get((arch, cpu), TYPICAL)
