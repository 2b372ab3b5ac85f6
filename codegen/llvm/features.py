"""Which instructions a CPU has, asked of LLVM itself.

LLVM inlines a function into another only where the caller's instruction set includes the callee's. So for each feature we write a
tiny function that needs "this CPU and that feature" and a caller for "this CPU": the calls that are gone after inlining are the
features that the CPU has. That is exact for every CPU and every combination of features, with no table to keep.

A name that LLVM does not know ends the process, and so do some combinations ("-sse2" on x86-64). Names outside the short list
below, and features written by a user, are therefore tried in a process that may die first: once to list what LLVM knows, once to
compile the probe.
"""

from __future__ import annotations

import json
from dataclasses import astuple
from functools import cache, lru_cache
from typing import Final

from tensorlang.codegen.llvm import binding, isolated
from tensorlang.codegen.llvm.binding import TargetMachine
from tensorlang.codegen.llvm.pipelines import DEFAULT_PASSES
from tensorlang.errors import BuildError, InternalError, did_you_mean


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SAFE: Final[dict[str, frozenset[str]]] = {
    "x86_64": _words(
        """
        x86-64 x86-64-v2 x86-64-v3 x86-64-v4 core2 nehalem westmere sandybridge ivybridge haswell broadwell skylake skylake-avx512
        cascadelake cooperlake cannonlake icelake-client icelake-server tigerlake rocketlake alderlake raptorlake sapphirerapids
        emeraldrapids graniterapids sierraforest btver2 bdver2 bdver4 znver1 znver2 znver3 znver4 znver5
        """
    ),
    "aarch64": _words(
        """
        generic cortex-a53 cortex-a55 cortex-a57 cortex-a72 cortex-a73 cortex-a76 cortex-a78 cortex-x1 cortex-x2 cortex-x4 neoverse-e1
        neoverse-n1 neoverse-n2 neoverse-n3 neoverse-v1 neoverse-v2 neoverse-v3 a64fx ampere1 apple-m1 apple-m2 apple-m3 apple-m4 grace
        thunderx2t99
        """
    ),
}
"""CPU names that compile without harm, by architecture (a test tries each)."""

ISA: Final[dict[str, frozenset[str]]] = {
    "x86_64": _words(
        """
        64bit adx aes amx-avx512 amx-bf16 amx-complex amx-fp16 amx-fp8 amx-int8 amx-movrs amx-tf32 amx-tile avx avx10.1 avx10.2 avx2
        avx512bf16 avx512bitalg avx512bw avx512cd avx512dq avx512f avx512fp16 avx512ifma avx512vbmi avx512vbmi2 avx512vl avx512vnni
        avx512vp2intersect avx512vpopcntdq avxifma avxneconvert avxvnni avxvnniint16 avxvnniint8 bmi bmi2 ccmp cf cldemote clflushopt clwb
        clzero cmov cmpccxadd crc32 cx16 cx8 egpr enqcmd f16c fma fma4 fsgsbase fxsr gfni hreset invpcid kl lwp lzcnt mmx movbe movdir64b
        movdiri movrs mwaitx ndd nf pclmul pconfig pku popcnt ppx prefetchi prfchw ptwrite push2pop2 raoint rdpid rdpru rdrnd rdseed rtm
        sahf serialize sgx sha sha512 shstk sm3 sm4 sse sse2 sse3 sse4.1 sse4.2 sse4a ssse3 tbm tsxldtrk uintr usermsr vaes vpclmulqdq
        waitpkg wbnoinvd widekl xop xsave xsavec xsaveopt xsaves zu
        """
    ),
    "aarch64": _words(
        """
        aes bf16 complxnum crc dit dotprod f32mm f64mm flagm fp-armv8 fp16fml fptoint fullfp16 i8mm jsconv lse lse2 neon pauth rand ras rcpc
        rcpc-immo rdm sb sha2 sha3 sm4 sve sve2 sve2-aes sve2-bitperm sve2-sha3 sve2-sm4 sve2p1 sme sme2
        """
    ),
}
"""Features that are instructions (not tuning), by architecture, as LLVM spells them."""

UNUSED: Final = _words(
    """
    amx-avx512 amx-bf16 amx-complex amx-fp16 amx-fp8 amx-int8 amx-movrs amx-tf32 amx-tile cldemote clflushopt clwb clzero enqcmd
    fsgsbase fxsr hreset invpcid kl lwp movdir64b movdiri mwaitx pconfig pku prefetchi ptwrite raoint rdpid rdpru rdrnd rdseed rtm
    serialize sgx shstk tsxldtrk uintr usermsr waitpkg wbnoinvd widekl xsave xsavec xsaveopt xsaves dit pauth rand ras sb
    """
)
"""Instructions that LLVM uses only when a program names them: code runs on a host that lacks (or hides) them."""


def probe(triple: str, arch: str, cpu: str, extra: str) -> tuple[str, ...]:
    """The features of `ISA` that a CPU has. In this process: the names must be known to be good."""
    names = sorted(ISA.get(arch, ()))
    base = f'"target-cpu"="{cpu}" "target-features"="{extra}'
    lines = ["define float @baseline(float %x, float %y) #0 {\n  %z = fadd float %x, %y\n  ret float %z\n}"]
    lines.append("define i32 @caller(i32 %x0) #0 {")
    lines += [f"  %x{n + 1} = call i32 @callee{n}(i32 %x{n})" for n in range(len(names))]
    lines += [f"  ret i32 %x{len(names)}\n}}", f'attributes #0 = {{ {base}" }}']
    for n, name in enumerate(names):
        lines.append(f"define internal i32 @callee{n}(i32 %x) #{n + 1} {{\n  %y = xor i32 %x, {n}\n  ret i32 %y\n}}")
        lines.append(f'attributes #{n + 1} = {{ {base}{"," if extra else ""}+{name}" }}')
    optimised = binding.render("\n".join(lines), TargetMachine(triple, "", ""), "llvm", whole=True)  # which callees are put into the caller
    return tuple(name for n, name in enumerate(names) if f"@callee{n}(" not in optimised)


@cache
def features_of(triple: str, arch: str, cpu: str, extra: str = "") -> tuple[str, ...]:
    """The instruction-set features of a CPU with a user's `extra` features ("+a,-b") applied.

    Raises `BuildError` for a CPU or a feature that LLVM does not know, and for a combination that it cannot compile for.
    """
    if extra or cpu not in SAFE.get(arch, ()):
        cpus, features = known_names(triple)
        if cpu not in cpus:
            other = "; another architecture is a triple and a CPU, as 'wasm32-unknown-unknown:generic'"
            raise BuildError(f"{cpu!r} is not a CPU that LLVM knows for {triple}{did_you_mean(cpu, sorted(cpus)) or other}")
        for item in extra.split(",") if extra else ():
            if item[:1] not in ("+", "-") or item[1:] not in features:
                hint = did_you_mean(item.lstrip("+-"), sorted(features))
                raise BuildError(f"{item!r} is not a feature that LLVM knows for {triple}, written +name or -name{hint}")
        try:
            isolated.ask("probe", triple, arch, cpu, extra)
        except isolated.Died as death:
            raise BuildError(f"LLVM cannot compile for CPU {cpu!r} with features {extra!r} on {triple}: {death}") from None
    return probe(triple, arch, cpu, extra)


@cache
def known_names(triple: str) -> tuple[frozenset[str], frozenset[str]]:
    """Every CPU and every feature that LLVM knows for a triple. Raises `BuildError` where it cannot be asked."""
    try:
        _, printed = isolated.ask("names", triple, fresh=True)
    except isolated.Died:
        printed = ""
    head, _, features = printed.partition("Available features for this target:")
    _, found, cpus = head.partition("Available CPUs for this target:")
    if not found:
        raise BuildError(f"LLVM does not tell which CPUs there are for {triple!r}")
    return _first_words(cpus), _first_words(features)


def _first_words(listing: str) -> frozenset[str]:
    return frozenset(line.split(" - ")[0].strip() for line in listing.splitlines() if " - " in line)


@lru_cache(maxsize=16)
def compiles_apart(text: str, machine: TargetMachine) -> str | None:
    """Why LLVM cannot compile a module, tried in a process that may die of it; None where it can."""
    try:
        isolated.ask("compile", machine.triple, machine.cpu, machine.features, json.dumps(astuple(DEFAULT_PASSES)), text=text)
    except (isolated.Died, BuildError, InternalError) as error:
        return str(error)
    return None
