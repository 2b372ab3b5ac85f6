"""How much code a nest may be.

A build takes time and memory by the instruction, not by the statement: 4,096 copies of a sum are little, 256 copies of a chain of
sixty functions are minutes and gigabytes. So what is bounded is an estimate of the instructions given to LLVM, made from the nest at
each directive that makes more code, and again from the lowered nest by the build, where no directive was to blame. A directive is asked
for what it adds, which is found in the statements that it has changed.

What makes LLVM slow is code in a row: it takes 100 microseconds for an instruction where there are 40,000, 30 where there are 2,500, and 10
to 25 in a kernel of many loops. So the instructions of small loops count less: a kernel may be four times as large as a loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tensorlang.ir import Nest
from tensorlang.ir.mentions import DEEPEST, mentions
from tensorlang.ir.printer import short
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.legality.code_size import REGISTER, StatementSize, growth, parts
from tensorlang.schedules.legality.memory_limits import within_memory

MAX_INSTRUCTIONS: Final = 40_000
"""Those of one loop, in front of which LLVM sits for four seconds on a quiet Zen 4, and several times as long on other machines."""
MAX_EMITTED: Final = 2 * MAX_INSTRUCTIONS
"""The same for a lowered nest: a schedule knows neither how wide registers are nor which tiles come in versions."""
_LEAST_SHARE: Final = 1 / 4
"""What an instruction of a small loop counts."""
_WHOLE_SHARE: Final = 1 / 2
"""The share of the limit from which the instructions of a loop count whole."""
MAX_CHOICES: Final = 100
"""How deep choices between reads stand in one another: each is a branch inside a branch."""


def within_budget(nest: Nest, before: Nest, loop: str) -> Nest:
    """The nest, if its code is small enough, or no more than `before`. Raises `Refusal`."""
    if (deep := mentions(nest.body).depth) > DEEPEST:
        raise Refusal("TL-S202", f"{deep} loops would stand in one another (at most {DEEPEST}); split or tile less", loop=loop)
    reason = too_much(nest) if growth(nest, before) > 0 else None
    if reason is not None:
        raise Refusal("TL-S202", reason, loop=loop)
    return within_memory(nest, loop=loop)


def too_much(nest: Nest, limit: float = MAX_INSTRUCTIONS, register: int = REGISTER) -> str | None:
    """Why a nest is too much code, with what makes it so and what helps; None where it is not."""
    found = parts(nest, register)
    deep = next((part for part in found if part.choices > MAX_CHOICES), None)
    if deep is not None:
        many = f"choices between reads stand {deep.choices} deep in one another (at most {MAX_CHOICES})"
        return f"in {deep.stage!r}, {many}; compute parts of it in stages of their own, or look the choice up in a table"
    total, counted = sum(part.total for part in found), _counted(found, limit)
    if counted <= limit:
        return None
    worst = max(found, key=lambda part: part.total)
    copies = " x ".join(f"{times} by {short(loop)!r}" for loop, times in worst.copies if times > 1)
    made = f"copies {copies}, of {worst.size:.0f} each" if copies else f"an expression of {worst.size:.0f}"
    advice = "unroll or vectorise less" if copies else "compute parts of it in stages of their own"
    most = limit * total / counted
    return f"the code would be about {total:.0f} instructions (at most {most:.0f}), most of them for {worst.stage!r}: {made}; {advice}"


def _counted(found: Iterable[StatementSize], limit: float) -> float:
    """The instructions, those of small loops less."""
    loops: dict[str, float] = {}
    for part in found:
        loops[part.loop] = loops.get(part.loop, 0.0) + part.total
    whole = max(1.0, _WHOLE_SHARE * limit)
    return sum(size * min(1.0, max(_LEAST_SHARE, size / whole)) for size in loops.values())
