"""How many instructions arithmetic takes: as the hot loop has them, and for named functions as they are compiled for this machine.

`exp` counts as one operation, yet is some twenty instructions. What one call takes is read from the machine code of `z[i] = exp(x[i])`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from tensorlang.codegen.calling.runnable import Runnable
from tensorlang.codegen.compilation import of_schedule
from tensorlang.codegen.reports import assembly
from tensorlang.codegen.reports.assembly import InnerLoop
from tensorlang.codegen.target import Target
from tensorlang.definition import elementary
from tensorlang.ir.dtype import DType, dtype
from tensorlang.ir.functions import FUNCTIONS
from tensorlang.language.definitions import compute, placeholder
from tensorlang.schedules.schedule import Schedule

_HALF: Final = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Issue:
    """Arithmetic instructions of one call, about: all of them, and those inside of named functions."""

    total: float
    functions: float


def issue(flops: int, calls: Mapping[str, int], hot: InnerLoop | None, element: DType, target: Target) -> Issue | None:
    """What a program's operations take in instructions, if all of it goes like its hot loop; None where that has no arithmetic."""
    arithmetic = 0 if hot is None else hot.vector + hot.scalar
    if hot is None or not arithmetic:
        return None
    lanes = (hot.vector * max(hot.width // bits(element), 1) + hot.scalar) / arithmetic
    fusion = 1.0 if calls else arithmetic / hot.operations
    inside = sum(times * weight(name, element, target) for name, times in calls.items()) / lanes
    return Issue((flops - sum(calls.values())) * fusion / lanes + inside, inside)


def bits(element: DType) -> int:
    """How wide a value of this type is in a register: halves are computed with as float32."""
    return 32 if element in _HALF else max(element.bits, 8)


@cache
def weight(name: str, element: DType, target: Target) -> int:
    """Arithmetic instructions of a named function, for one vector."""
    kind = element if element in ("float32", "float64") else dtype("float32")
    lanes = target.lanes(kind)
    operands = [placeholder((4 * lanes,), kind, name=operand) for operand in "xy"[: FUNCTIONS[name].arity]]
    s = Schedule(compute((4 * lanes,), lambda i: getattr(elementary, name)(*(operand[i] for operand in operands)), name="z"))
    (loop,) = s.loops("z")
    _, inner = s.split(loop, lanes)
    s.vectorize(inner)
    hot = assembly.read(Runnable(of_schedule(s, target).program()).inspect("asm")).hot
    return max(1, hot.vector + hot.scalar if hot else 1)
