"""The operations behind the mathematical functions, counted: what each takes of a processor that multiplies and adds in one.

Equal operations are done once, those of constants not at all, and what no result needs is left out, as LLVM does. A comparison that
chooses one of the numbers that it compares is one instruction. What only rare operands need (`where_rare`) is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tensorlang.codegen.emission.math import FUNCTIONS
from tensorlang.codegen.emission.math.values import Mask, Real

KIND: Final = {"add": "sums", "sub": "sums", "mul": "products", "fma": "products", "div": "divisions", "sqrt": "roots"}
LATENCY: Final = {"add": 0.75, "sub": 0.75, "mul": 1.0, "fma": 1.0, "div": 3.0, "sqrt": 3.0, "widen": 1.0, "narrow": 1.0}
"""In latencies of a multiply-add, as in `schedules.model.latencies`."""
SHORT: Final = 0.25
"""That of everything else."""


@dataclass(frozen=True)
class Step:
    """An operation on values; a constant has none, an operand neither."""

    op: str
    kind: str = ""
    weight: float = 1.0
    of: tuple[Step, ...] = ()

    @property
    def constant(self) -> bool:
        return not self.kind and self.op != "operand"


@dataclass(frozen=True)
class CountedLanes:
    """Lanes whose values are the steps that make them; the wide ones of a narrow function take two registers (`weight`)."""

    bits: int
    has_fma: bool = True
    has_round: bool = True
    has_scale: bool = False
    weight: float = 1.0
    known: dict[object, Step] = field(default_factory=dict, compare=False, repr=False)

    def step(self, op, *of, kind="others", weight=None):
        found = Step(op, "" if all(part.constant for part in of) else kind, self.weight if weight is None else weight, of)
        return self.known.setdefault((op, weight, tuple(map(id, of))), found)

    def constant(self, value):
        return self.known.setdefault(("constant", float(value).hex()), Step(f"constant {value}"))

    def integer(self, value):
        return self.known.setdefault(("integer", value), Step(f"integer {value}"))

    def real(self, op, left, right):
        return self.step(op, left, right, kind=KIND[op], weight=self.divided if op == "div" else None)

    @property
    def divided(self):
        """What a division weighs: that of a wide register takes twice the time."""
        return self.weight * self.weight

    def negate(self, value):
        return self.step("neg", value, weight=0.0)  # part of the product or sum that takes it

    def fma(self, a, b, c):
        return self.step("fma", a, b, c, kind="products")

    def sqrt(self, value):
        return self.step("sqrt", value, kind="roots", weight=self.divided)

    def round(self, mode, value):
        return self.step(f"round {mode}", value, kind="sums")

    def compare(self, op, left, right):
        return self.step(f"compare {op}", left, right, kind="products")

    def whole(self, op, left, right):
        return self.step(f"whole {op}", left, right, kind="sums" if op in ("shl", "lshr", "ashr") else "others")

    def nonzero(self, value):
        return self.step("nonzero", value)

    def to_bits(self, value):
        return value

    def from_bits(self, value):
        return value

    def mask(self, op, left, right):
        return self.step(f"mask {op}", left, right)

    def select(self, mask, yes, no):
        if mask.op.startswith("compare") and set(map(id, mask.of)) == {id(yes), id(no)}:
            return self.step(f"extremum {mask.op}", *mask.of, kind="sums")
        return self.step("select", mask, yes, no)

    def widen(self, value):
        wide = CountedLanes(64, weight=2.0, known=self.known)
        return wide, wide.step("widen", value, kind="sums")

    def narrow(self, value):
        return CountedLanes(32, known=self.known), self.step("narrow", value, kind="sums", weight=3.0)

    def lookup(self, name, table, index):
        return self.step(f"lookup {name} {len(table)}", index)

    def where_rare(self, name, mask, operand, compute, otherwise):
        del name, operand, compute
        return tuple(self.step("where rare", mask, value, kind="others", weight=0.0) for value in otherwise)


def counted(function: str, bits: int) -> tuple[dict[str, float], float]:
    """Operations of each kind in a function of operands of so many bits, and the latency from its first operand to its value."""
    lanes = CountedLanes(bits)
    operands = [Real(lanes, Step("operand", of=(Step(f"number {place}"),))) for place in range(2 if function in ("pow", "atan2") else 1)]
    value = FUNCTIONS[function](*operands)
    assert isinstance(value, Real | Mask)
    return _count(value.raw), _latency(value.raw, {})


def _count(last: Step) -> dict[str, float]:
    open_steps, seen = [last], set[int]()
    counts = dict.fromkeys(("products", "sums", "others", "divisions", "roots"), 0.0)
    while open_steps:
        step = open_steps.pop()
        if id(step) in seen:
            continue
        seen.add(id(step))
        if step.kind:
            counts[step.kind] += step.weight
        open_steps.extend(step.of)
    return counts


def _latency(step: Step, known: dict[int, float]) -> float:
    if id(step) not in known:
        own = LATENCY.get(step.op, SHORT) if step.kind and step.weight else 0.0
        known[id(step)] = own + max((_latency(part, known) for part in step.of), default=0.0)
    return known[id(step)]
