"""What code is compiled for: a processor, its instructions and its caches.

A target is plain data. A named processor has the caches of that processor (`processors`), so what is built for it is the same on every
machine; "native" has those of this one. `features` always spells out the whole instruction set, whether it was detected, implied by a
CPU's name or asked for, so that everything else (vector width, FMA, whether code may run here) is read from one string.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from tensorlang.codegen.target.caches import TYPICAL, Caches, host_caches
from tensorlang.codegen.target.processors import caches_of
from tensorlang.errors import BuildError
from tensorlang.system.lazy import cached_property

if TYPE_CHECKING:
    from tensorlang.codegen.llvm.binding import TargetMachine
    from tensorlang.ir.dtype import DType
    from tensorlang.schedules.model.machine import Machine as CoreModel

_WORD: Final = r"[A-Za-z0-9_][A-Za-z0-9_.\-]*"
_SPEC: Final = re.compile(rf"(?:(?P<triple>{_WORD}):)?(?P<cpu>{_WORD})(?:[:,](?P<features>[+-]{_WORD}(?:,[+-]{_WORD})*))?")
_WIDE: Final = frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})
_ARCHITECTURES: Final = ("x86_64", "aarch64", "riscv64", "arm", "thumb", "riscv32", "wasm32")
_TRIPLES: Final = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}


@dataclass(frozen=True)
class Target:
    """A processor: `triple`, `cpu` and `features` as LLVM takes them; `name` is what the user wrote and does not count in `==`."""

    triple: str
    cpu: str
    features: str
    name: str = field(compare=False)
    caches: Caches = field(default=TYPICAL, compare=False)

    @cached_property
    def isa(self) -> frozenset[str]:
        """Names of the features that are present; of two that contradict, the later one counts."""
        present: dict[str, bool] = {}
        for item in filter(None, self.features.split(",")):
            present[item[1:]] = item[0] == "+"
        return frozenset(name for name, there in present.items() if there)

    @property
    def arch(self) -> str:
        """The first part of the triple: "x86_64", "aarch64", ..."""
        return self.triple.split("-", 1)[0]

    @property
    def is_x86(self) -> bool:
        """Whether this is 64-bit x86."""
        return self.arch in ("x86_64", "amd64")

    @property
    def is_arm(self) -> bool:
        """Whether this is 64-bit Arm."""
        return self.arch in ("aarch64", "arm64")

    @cached_property
    def vector_bits(self) -> int:
        """Width of the widest vector register. AVX-512 counts with its byte, quadword and short-vector parts."""
        if self.is_x86:
            return 512 if self.has_masks else 256 if "avx" in self.isa else 128
        return 128

    @cached_property
    def registers(self) -> int:
        """Number of vector registers."""
        return 32 if self.is_arm or self.has_masks else 16

    @cached_property
    def has_fma(self) -> bool:
        """Whether a multiply-add is one instruction (else `llvm.fma` is a library call for each lane)."""
        return not self.isa.isdisjoint(("fma", "fma4")) if self.is_x86 else self.is_arm

    @cached_property
    def has_round(self) -> bool:
        """Whether rounding to an integral value is one instruction."""
        return "sse4.1" in self.isa if self.is_x86 else self.is_arm

    @property
    def has_masks(self) -> bool:
        """Whether memory operands of any type can be masked, by mask registers: AVX-512."""
        return self.is_x86 and self.isa >= _WIDE

    @property
    def has_scale(self) -> bool:
        """Whether a product with a power of two, rounded once, is one instruction (else `llvm.ldexp` is a library call)."""
        return self.has_masks

    def lanes(self, dtype: DType) -> int:
        """How many elements of a type fill the widest vector register."""
        return max(1, self.vector_bits // dtype.bits)

    @property
    def l1(self) -> int:
        """Bytes of the first-level data cache."""
        return self.caches.l1

    @property
    def l2(self) -> int:
        """Bytes of the second-level cache."""
        return self.caches.l2

    @property
    def l3(self) -> int:
        """Bytes of the last-level cache, shared by cores."""
        return self.caches.l3

    @property
    def cores(self) -> int:
        """Cores that may run threads."""
        return self.caches.cores

    @cached_property
    def is_native(self) -> bool:
        """Whether code for this target runs on this machine: the same platform, and no instruction that is missing here."""
        return why_foreign(self) is None

    @property
    def machine(self) -> TargetMachine:
        """The part that LLVM is told."""
        from tensorlang.codegen.llvm.binding import TargetMachine  # noqa: PLC0415 - keeps the import of this module cheap

        return TargetMachine(self.triple, self.cpu, self.features)

    @property
    def core(self) -> CoreModel:
        """One core of it, as the cost model sees it."""
        from tensorlang.codegen.target.cores import machine_of  # noqa: PLC0415 - keeps the import of this module cheap

        return machine_of(self)

    def with_caches(self, caches: Caches) -> Target:
        """The same instructions beside other caches: a machine that is not here, whose kernels can run here."""
        return replace(self, caches=caches)

    def __str__(self) -> str:
        return f"{self.triple}:{self.cpu}"


def target(spec: str | Target | None = None) -> Target:
    """The target named by "native" (also None), "cpu", "cpu,+feature,-feature" or "triple:cpu[:features]".

    Raises `BuildError` for a name that LLVM does not know: checked without giving it to LLVM in this process.
    """
    if isinstance(spec, Target):
        return spec
    if spec is not None and not isinstance(spec, str):
        raise BuildError(f"a target is a string such as 'native' or 'x86-64-v3', not {spec!r}")
    return _parse("native" if spec is None else spec)


@cache
def _parse(spec: str) -> Target:
    match = _SPEC.fullmatch(spec.strip())
    if match is None:
        forms = "'native', a CPU as 'x86-64-v3', with features as 'znver4,-avx512f', or 'triple:cpu'"
        raise BuildError(f"{spec!r} is not a target; write {forms}")
    triple, cpu, extra = match["triple"], match["cpu"], match["features"] or ""
    from tensorlang.codegen.llvm import binding, features  # noqa: PLC0415 - they load LLVM

    host = binding.host()
    host_arch, _ = binding.triple_parts(host.triple)
    if cpu == "native":
        if triple is not None:
            raise BuildError(f"{spec!r}: 'native' is this machine, it takes no triple")
        if not extra:
            return Target(host.triple, host.cpu, host.features, spec, host_caches())
        found = features.features_of(host.triple, host_arch, host.cpu, f"{_usable(host.features)},{extra}")
        return Target(host.triple, host.cpu, _spell(found, f"{host.features},{extra}"), spec, host_caches())
    if triple is None:
        homes = [arch for arch, cpus in features.SAFE.items() if cpu in cpus]
        triple = host.triple if host_arch in homes or not homes else _TRIPLES[homes[0]]
    arch, _ = binding.triple_parts(triple)
    if arch not in _ARCHITECTURES:
        raise BuildError(f"{spec!r} is for {arch}; kernels are built for {', '.join(_ARCHITECTURES)}")
    found = features.features_of(triple, arch, cpu, extra)
    return Target(triple, cpu, _spell(found, extra), spec, caches_of(arch, cpu))


def _spell(present: tuple[str, ...], extra: str) -> str:
    """The whole instruction set, then what the user asked for: his word is the last."""
    return ",".join(["+" + name for name in present] + ([extra] if extra else []))


def _usable(features: str) -> str:
    """The features that are off on the host though its CPU's name may imply them."""
    return ",".join(item for item in features.split(",") if item.startswith("-"))


def why_foreign(wanted: Target) -> str | None:
    """Why code for a target cannot run on this machine; None where it can."""
    from tensorlang.codegen.llvm import binding  # noqa: PLC0415 - it loads LLVM

    here = target("native")
    if binding.triple_parts(wanted.triple) != binding.triple_parts(here.triple):
        return f"it is for {wanted.triple}, this machine is {here.triple}"
    missing = needed(wanted) - here.isa
    return f"this machine lacks {', '.join(sorted(missing))}" if missing else None


def needed(wanted: Target) -> frozenset[str]:
    """The features that code for a target may use: instructions, not tuning. Raises `BuildError` for an unknown triple."""
    from tensorlang.codegen.llvm import binding, features  # noqa: PLC0415 - they load LLVM

    used = wanted.isa - features.UNUSED
    known = features.ISA.get(binding.triple_parts(wanted.triple)[0])
    return used if known is None else used & known
