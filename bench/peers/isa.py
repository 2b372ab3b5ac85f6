"""Everybody held to one set of instructions: the variables that peers read when they load, and who reads none.

A processor with AVX-512 is a second machine this way: `--isa x86-64-v3` gives ours and the peers AVX2 with 16 registers of 256 bits. What
cannot be held is left out, with the reason; on a processor that has nothing wider there is nothing to hold, and everybody takes part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tensorlang.codegen.target import target, why_foreign
from tensorlang.codegen.target.description import needed
from tensorlang.errors import BuildError

NATIVE: Final = "native"
AVX2: Final = "x86-64-v3"
ISAS: Final = (NATIVE, AVX2)
VARIABLE: Final = "TENSORLANG_BENCH_ISA"
"""Tells our own worker what it is held to."""
WIDER_THAN_AVX2: Final = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V4"
"""NumPy's names of the kernels to leave alone, of versions before and from 2.4; it passes over those that it does not know."""
ENVIRONMENT: Final[Mapping[str, Mapping[str, str]]] = {
    NATIVE: {},
    AVX2: {
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": WIDER_THAN_AVX2,
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "DNNL_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "FBGEMM_ENABLE_INSTRUCTIONS": "AVX2",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
        "NUMBA_CPU_NAME": AVX2,
        "NUMBA_CPU_FEATURES": "",
        "HL_JIT_TARGET": "x86-64-linux-avx-avx2-f16c-fma-sse41",
        VARIABLE: AVX2,
    },
}
UNHELD: Final[Mapping[str, Mapping[str, str]]] = {
    NATIVE: {},
    AVX2: {
        "onnxruntime": "its own kernels (MLAS) go by CPUID, and no variable says otherwise",
        "openvino": "its releases hold oneDNN (ONEDNN_MAX_CPU_ISA) and not their own kernels",
        "jax": "XLA's own code is held (--xla_cpu_max_isa), its kernels of products and convolutions (YNNPACK) are not: they pass the peak",
        "torch compile": "it has the compiler emit code for the processor that it finds (-march=native)",
    },
}


def ours(isa: str) -> str:
    """The target of our own kernels: this machine, of which the peers too see all but the instructions that everybody leaves alone."""
    if isa == NATIVE:
        return NATIVE
    spared = needed(target(NATIVE)) - needed(target(isa))
    return ",".join([NATIVE, *(f"-{feature}" for feature in sorted(spared))])


def why_not(isa: str) -> str | None:
    """Why these instructions cannot be measured here, if they cannot."""
    try:
        return why_foreign(target(isa))
    except BuildError as error:
        return str(error)


def is_wider(isa: str) -> bool:
    """Does this processor have wider vectors, or more of them?"""
    here, held = target(NATIVE), target(isa)
    return (here.vector_bits, here.registers) > (held.vector_bits, held.registers)


def unheld(isa: str) -> Mapping[str, str]:
    """The candidates that would use more than these instructions here, each with the reason."""
    return UNHELD[isa] if isa != NATIVE and is_wider(isa) else {}
