"""Which modules LLVM is known to compile; the others are compiled in a process that may die.

A module is proven by its form: vectors of a power of two lanes, up to 64, for the processor we run on, and not so long that its time
matters. These are the forms that `tests.fuzz.targets` compiles by the thousand. What LLVM takes apart to make it fit (12 lanes, 7 lanes)
meets its rarest code: "Cannot select" ends the process, as does a shuffle of such vectors that becomes an instruction no processor has.
So do products of integers that were widened from 32 to 64 bits, with AVX-512: where LLVM 22 finds that half of them are not wanted, and the
narrow ones come from where it cannot halve them, it asks for an instruction that takes a register as wide as its result.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import astuple, replace
from functools import cache
from typing import Final, Literal

from tensorlang.codegen.llvm import binding, isolated
from tensorlang.codegen.llvm.binding import Compiled, TargetMachine
from tensorlang.codegen.llvm.pipelines import DEFAULT_PASSES, Passes
from tensorlang.errors import BuildError
from tensorlang.ir.machine import LINE_BYTES

QUICK: Final = 1 << 20
"""Bytes of text that LLVM compiles in a few seconds at most; a longer one gets a deadline."""

_log: Final = logging.getLogger("tensorlang")
_VECTOR: Final = re.compile(r"<(\d+) x ")
_WIDENED: Final = re.compile(r"= [sz]ext <\d+ x i32> .* to <\d+ x i64>")


def why_isolated(text: str, machine: TargetMachine) -> str | None:
    """Why LLVM is not known to compile a module; None where it is."""
    if machine != _host():
        return "it is for another processor than this one"
    if len(text) > QUICK:
        return "it is long"
    if "+avx512" in machine.features and "= mul <" in text and _WIDENED.search(text):
        return "it multiplies integers that were widened to 64 bits"
    odd = odd_lanes(text)
    return f"it has vectors of {', '.join(map(str, odd))} lanes" if odd else None


def odd_lanes(text: str) -> list[int]:
    """The numbers of lanes in a module that no processor has: the widest vector holds a line of bytes."""
    lanes = sorted({int(count) for count in _VECTOR.findall(text)})
    return [count for count in lanes if count & (count - 1) or count > LINE_BYTES]


def words(machine: TargetMachine, passes: Passes = DEFAULT_PASSES) -> tuple[str, ...]:
    """A processor, and what is to be done for it, as the process that may die is told."""
    return machine.triple, machine.cpu, machine.features, json.dumps(astuple(passes))


@cache
def _host() -> TargetMachine:
    return binding.host()


def compiled(text: str, machine: TargetMachine, passes: Passes = DEFAULT_PASSES) -> Compiled:
    """Machine code for a module. Raises `BuildError` where LLVM does not come back from it, and what `binding.compile_module` raises."""
    why = why_isolated(text, machine)
    if why is None:
        return binding.compile_module(text, machine, passes)
    return Compiled.of(_isolated("compile", text, machine, passes, why), text, machine, passes)


def rendered(text: str, machine: TargetMachine, form: Literal["llvm", "asm"], passes: Passes = DEFAULT_PASSES) -> str:
    """What `compiled` makes of a text, readable."""
    why = why_isolated(text, machine)
    return binding.render(text, machine, form, passes) if why is None else _isolated(form, text, machine, passes, why).decode()


def _isolated(kind: str, text: str, machine: TargetMachine, passes: Passes, why: str) -> bytes:
    """What the process that may die makes of a module; where it does, without optimisation, by which LLVM takes other ways."""
    try:
        return isolated.ask(kind, *words(machine, passes), text=text)[0]
    except isolated.Died as death:
        if passes.level > 0 and "lanes" in why:
            made = _isolated(kind, text, machine, replace(passes, level=0), why)
            _log.warning("code for %s is not optimised, since LLVM ended on it: %s; %s: use a power of two", machine.cpu, death, why)
            return made
        advice = "; vectorize by a power of two lanes" if "lanes" in why else ""
        raise BuildError(
            f"the code for {machine.cpu} cannot be built: {death}. It was compiled in a process of its own, since {why}{advice}"
        ) from None
