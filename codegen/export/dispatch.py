"""Which of several versions of a kernel runs here: x86-64 processors asked by `cpuid`, once.

    int32_t tensorlang.choose(void)         the number of the first version whose instructions are there, else -1

A bit of `cpuid` says that the processor has an instruction; that the operating system keeps the wide registers is said by `xgetbv`. The
answer is kept: threads that ask at the same time find the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensorlang.codegen.target import Target
from tensorlang.codegen.target.description import needed
from tensorlang.errors import BuildError

CHOOSE: Final = "tensorlang.choose"

_WORDS: Final[dict[tuple[int, int, int], str]] = {
    (1, 0, 2): "0 sse3, 1 pclmul, 9 ssse3, 12 fma, 13 cx16, 19 sse4.1, 20 sse4.2, 20 crc32, 22 movbe, 23 popcnt, 25 aes, 28 avx, 29 f16c",
    (1, 0, 3): "8 cx8, 15 cmov, 23 mmx, 24 fxsr, 25 sse, 26 sse2",
    (7, 0, 1): "3 bmi, 5 avx2, 8 bmi2, 16 avx512f, 17 avx512dq, 19 adx, 21 avx512ifma, 28 avx512cd, 29 sha, 30 avx512bw, 31 avx512vl",
    (7, 0, 2): "1 avx512vbmi, 6 avx512vbmi2, 8 gfni, 9 vaes, 10 vpclmulqdq, 11 avx512vnni, 12 avx512bitalg, 14 avx512vpopcntdq",
    (7, 0, 3): "8 avx512vp2intersect, 23 avx512fp16",
    (7, 1, 0): "0 sha512, 1 sm3, 2 sm4, 4 avxvnni, 5 avx512bf16, 23 avxifma",
    (7, 1, 3): "4 avxvnniint8, 5 avxneconvert, 10 avxvnniint16",
    (0x80000001, 0, 2): "0 sahf, 5 lzcnt, 6 sse4a, 8 prfchw, 11 xop, 15 lwp, 16 fma4, 21 tbm",
    (0x80000001, 0, 3): "29 64bit",
}
"""By leaf, its part and its register (0 to 3: eax to edx): bits and the features that they stand for.

Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CPUID; AMD64 Architecture Programmer's Manual, volume 3, E."""

BITS: Final = {name: (place, int(bit)) for place, text in _WORDS.items() for bit, name in (entry.split() for entry in text.split(", "))}


def module(targets: Sequence[Target]) -> str:
    """The LLVM IR of `CHOOSE` for targets, the best first. Raises `BuildError` where the processor cannot be asked."""
    lines, count = [], 0
    for number, target in enumerate(targets):
        tests = _tests(target)
        lines.append(f"try{number}:")
        known = []
        for (leaf, part, register), mask in tests.items():
            lines += [
                f"  %w{count} = call i32 @tensorlang.cpuid(i32 {_signed(leaf)}, i32 {part}, i32 {register})",
                f"  %m{count} = and i32 %w{count}, {_signed(mask)}",
                f"  %c{count} = icmp eq i32 %m{count}, {_signed(mask)}",
            ]
            known.append(f"%c{count}")
            count += 1
        registers = _registers(target)
        lines += [f"  %k{number} = call i1 @tensorlang.keeps(i32 {registers})"]
        together = f"%k{number}"
        for place, one in enumerate(known):
            lines.append(f"  %t{number}.{place} = and i1 {together}, {one}")
            together = f"%t{number}.{place}"
        following = f"try{number + 1}" if number + 1 < len(targets) else "none"
        lines += [f"  br i1 {together}, label %take{number}, label %{following}", f"take{number}:", "  br label %done"]
    results = ", ".join(f"[ {number}, %take{number} ]" for number in range(len(targets)))
    return _MODULE.replace("OUTS", _CPUID).replace("TESTS", "\n".join(lines)).replace("RESULTS", f"{results}, [ -1, %none ]")


def order(targets: Sequence[Target]) -> list[int]:
    """The places of targets, the one with most instructions first. Raises `BuildError` where none may be assumed of the others.

    The last one's instructions are those of the entries, which run on every processor of the library.
    """
    sets = [needed(target) for target in targets]
    for target in targets:
        if not target.is_x86:
            raise BuildError(f"several targets in one library are levels of x86-64, and not {target}; export one library for each target")
        _tests(target)
    places = sorted(range(len(targets)), key=lambda place: -len(sets[place]))
    least = sets[places[-1]]
    for place in places:
        if not least <= sets[place]:
            extra = ", ".join(sorted(least - sets[place]))
            raise BuildError(f"{targets[places[-1]]} has {extra}, which {targets[place]} lacks: one target has to have the least of all")
        if [sets[place] == other for other in sets].count(True) > 1:
            raise BuildError(f"several targets have the instructions of {targets[place]}: name each level once")
    return places


def _tests(target: Target) -> dict[tuple[int, int, int], int]:
    """The words of `cpuid` that are asked for a target, and the bits that have to be set. Raises `BuildError`."""
    masks: dict[tuple[int, int, int], int] = {}
    for name in sorted(needed(target)):
        if name not in BITS:
            raise BuildError(f"{target} may use {name}, for which a library does not test the processor; name a level such as 'x86-64-v3'")
        place, bit = BITS[name]
        masks[place] = masks.get(place, 0) | 1 << bit
    return masks


def _registers(target: Target) -> int:
    """The registers that the operating system has to keep, as `xgetbv` numbers them: 1 and 2 for 256 bits, 5 to 7 for 512."""
    return 0xE6 if "avx512f" in target.isa else 0x6 if "avx" in target.isa else 0


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


_CPUID: Final = "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"
"""What the instruction gives, takes and changes, as LLVM spells it."""

_MODULE: Final = """
@tensorlang.chosen = internal global i32 -2

define hidden i32 @tensorlang.choose() nounwind {
  %kept = load atomic i32, ptr @tensorlang.chosen monotonic, align 4
  %known = icmp ne i32 %kept, -2
  br i1 %known, label %found, label %try0
found:
  ret i32 %kept
TESTS
none:
  br label %done
done:
  %number = phi i32 RESULTS
  store atomic i32 %number, ptr @tensorlang.chosen monotonic, align 4
  ret i32 %number
}

define internal i32 @tensorlang.cpuid(i32 %leaf, i32 %part, i32 %register) nounwind noinline {
  %group = and i32 %leaf, -2147483648
  %most = call { i32, i32, i32, i32 } asm sideeffect "cpuid", "OUTS"(i32 %group, i32 0)
  %last = extractvalue { i32, i32, i32, i32 } %most, 0
  %there = icmp ule i32 %leaf, %last
  br i1 %there, label %parts, label %without
parts:
  %first = call { i32, i32, i32, i32 } asm sideeffect "cpuid", "OUTS"(i32 %leaf, i32 0)
  %count = extractvalue { i32, i32, i32, i32 } %first, 0
  %counted = icmp ule i32 %part, %count
  %whole = icmp eq i32 %part, 0
  %has = or i1 %counted, %whole
  br i1 %has, label %ask, label %without
ask:
  %words = call { i32, i32, i32, i32 } asm sideeffect "cpuid", "OUTS"(i32 %leaf, i32 %part)
  %a = extractvalue { i32, i32, i32, i32 } %words, 0
  %b = extractvalue { i32, i32, i32, i32 } %words, 1
  %c = extractvalue { i32, i32, i32, i32 } %words, 2
  %d = extractvalue { i32, i32, i32, i32 } %words, 3
  %is.a = icmp eq i32 %register, 0
  %is.b = icmp eq i32 %register, 1
  %is.c = icmp eq i32 %register, 2
  %cd = select i1 %is.c, i32 %c, i32 %d
  %bcd = select i1 %is.b, i32 %b, i32 %cd
  %abcd = select i1 %is.a, i32 %a, i32 %bcd
  ret i32 %abcd
without:
  ret i32 0
}

define internal i1 @tensorlang.keeps(i32 %registers) nounwind noinline {
  %any = icmp ne i32 %registers, 0
  br i1 %any, label %able, label %right
able:
  %word = call i32 @tensorlang.cpuid(i32 1, i32 0, i32 2)
  %bit = and i32 %word, 134217728
  %asks = icmp ne i32 %bit, 0
  br i1 %asks, label %ask, label %wrong
ask:
  %kept = call { i32, i32 } asm sideeffect "xgetbv", "={ax},={dx},{cx}"(i32 0)
  %low = extractvalue { i32, i32 } %kept, 0
  %both = and i32 %low, %registers
  %good = icmp eq i32 %both, %registers
  ret i1 %good
right:
  ret i1 1
wrong:
  ret i1 0
}
"""
