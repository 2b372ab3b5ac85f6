"""What bounds a kernel: for each resource the least time that it would need alone, as a share of the measured time.

The largest share bounds the kernel if it is half or more. Below that nothing is at its limit: threads find no work, what the hot loop
looks like explains it (vectors spilled, arithmetic on single numbers, sums that wait for their last term), or the cost model says what the
core waits for (`waits`). A share above all that was measured bounds nothing: schedules do fewer operations than definitions write (windows
that are put together, sums over what does not move), and bytes are estimated. Each verdict is one sentence with its numbers and one on
what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tensorlang.codegen.reports.assembly import InnerLoop
from tensorlang.codegen.reports.instructions import Issue
from tensorlang.codegen.reports.levels import HOMES, Home
from tensorlang.codegen.reports.machine import Rates
from tensorlang.codegen.reports.spelling import percent, rate, seconds, size
from tensorlang.codegen.reports.waits import Waits

Bound = Literal[
    "compute", "instructions", "functions", "L1", "L2", "L3", "memory", "call", "threads", "starved", "spills", "scalar", "latency",
    "pages", "conflicts", "waits", "shuffles", "ports", "divisions", "unclear",
]  # fmt: skip

LIMIT: Final = 0.5
BUSY: Final = 0.75
DOUBTED: Final = 2.0
"""Measured over predicted time from which the model's word is doubted."""
WHOLE: Final = 1.1
"""The share up to which two measurements of one rate differ; what is above was not done, or not in what was measured."""
AFAR: Final = ("pages", "conflicts", "waits")
"""Waits for memory, of which the hot loop shows nothing."""
NEAR: Final = 0.7
CHAINS: Final = 8
"""Independent sums that keep two units with a latency of four cycles busy."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict is made of.

    `time` in seconds; `flops` is `exact`, or at most so many; `sent` what passes each level of memory in bytes, `least` what passes the
    last of them in any schedule; `lanes` are those of the type of `rates`; `vector_bits` has the machine, `target_bits` what the kernel is
    built for; `forks` parallel loops are started, on `threads` of `available` threads, of which the work shared least evenly keeps the
    share `busy` at work; `waits` is what the cost model says (None: nothing).
    """

    time: float
    flops: int
    rates: Rates
    exact: bool = True
    least: int = 0
    integers: bool = False
    sent: Mapping[Home, int] = field(default_factory=dict)
    calls: Mapping[str, int] = field(default_factory=dict)
    issue: Issue | None = None
    hot: InnerLoop | None = None
    lanes: int = 16
    vector_bits: int = 512
    target_bits: int = 512
    forks: int = 0
    threads: int = 1
    available: int = 1
    busy: float = 1.0
    waits: Waits | None = None

    @property
    def peak(self) -> float:
        """The share of the measured multiply-add peak."""
        return self.flops / self.rates.flops / self.time

    @property
    def slots(self) -> float:
        """The share of the arithmetic instructions that the machine could have issued."""
        if self.issue is None:
            return self.peak
        issued = self.issue.total * 2 * self.lanes / self.rates.flops / self.time
        return issued if self.peak > WHOLE else max(issued, self.peak)  # an instruction may do more than a multiply-add

    def link(self, home: Home) -> float:
        """The share of a level's measured bandwidth."""
        return self.sent.get(home, 0) / self.rates.bandwidth[home] / self.time

    @property
    def shares(self) -> dict[Bound, float]:
        """The least time of each resource, as a share of the measured time; not of arithmetic that was not done."""
        links: dict[Bound, float] = {home: self.link(home) for home in HOMES if home in self.sent}
        fixed: dict[Bound, float] = {"call": self.rates.call / self.time, "threads": self.forks * self.rates.fork / self.time}
        done = min(self.peak, self.slots) <= WHOLE
        return {**({"compute": self.slots} if done else {}), **links, **fixed}


def verdict(facts: Evidence) -> tuple[Bound, str]:
    """What bounds the kernel, and the sentences that say so."""
    bound, share = max(facts.shares.items(), key=lambda item: item[1])
    if share < LIMIT:
        bound, text = _unbounded(facts)
    elif bound == "compute":
        bound, text = _compute(facts)
    elif bound == "call":
        text = (
            f"The call bounds it: passing arguments takes {seconds(facts.rates.call)} of {seconds(facts.time)}. "
            "Do more in one call (a batch axis), or call the C function at `address` from compiled code."
        )
    elif bound == "threads":
        text = (
            f"Starting threads bounds it: {_times(facts.forks, 'parallel loop')} a call, {seconds(facts.rates.fork)} each, "
            f"are {percent(min(share, 1))} of its time. Make a loop further out parallel, or none."
        )
    else:
        text = _link(facts, next(home for home in HOMES if home == bound))
    alone = facts.threads == 1 < facts.available and bound not in ("call", "threads") and facts.time > 20e-6
    return bound, f"{text} It runs on one of {facts.available} threads: make an outer loop parallel." if alone else text


def _compute(facts: Evidence) -> tuple[Bound, str]:
    most = "" if facts.exact else "at most "
    peak = most + percent(facts.peak if facts.peak > WHOLE else min(facts.peak, 1))
    slots = most + percent(min(facts.slots, 1))
    issue, hot = facts.issue, facts.hot
    if issue is not None and issue.functions > issue.total / 2:
        names = " and ".join(f"{count:,} of {name}" for name, count in sorted(facts.calls.items(), key=lambda item: -item[1]))
        return "functions", (
            f"Named functions bound it: the calls, {names}, are {percent(issue.functions / issue.total)} of its arithmetic instructions, "
            f"which fill {slots} of what the machine can issue. Compute each value once, or with a cheaper function."
        )
    single = 0 if hot is None else hot.vector + hot.scalar - hot.fused
    good = hot is None or (hot.width == facts.vector_bits and hot.fused >= single)
    if hot is None or good or (facts.peak >= LIMIT and not facts.integers):
        near = (facts.slots if facts.peak > WHOLE else facts.peak) >= NEAR
        rest = "Only less arithmetic or a narrower type would make it much faster." if near else "Tuning may find the rest."
        if facts.peak > WHOLE:  # dot products, or more numbers in a vector: the instructions are the limit
            return "compute", f"Arithmetic instructions bound it: they fill {slots} of what the machine can issue. {rest}"
        return "compute", f"Arithmetic bounds it: it reaches {peak} of the measured multiply-add peak. {rest}"
    head = (
        f"Arithmetic instructions bound it: they fill {slots} of what the machine can issue, for {peak} of its multiply-add peak, because"
    )
    if hot.scalar > hot.vector:
        return "scalar", f"{head} {hot.scalar} of {hot.scalar + hot.vector} in the hot loop are on single numbers. Vectorize an axis."
    if hot.width < facts.vector_bits:
        wide = f"vectors have {hot.width} of {facts.vector_bits} bits"
        what = "Split the vector loop by a larger factor" if facts.target_bits == facts.vector_bits else "Build it for this machine"
        return "instructions", f"{head} {wide}. {what}."
    what = "a dot-product instruction (see `tensorize`)" if facts.integers else "a multiply-add"
    return "instructions", (
        f"{head} {single} of {single + hot.fused} in the hot loop do one operation each. Where products are summed, {what} does more."
    )


def _link(facts: Evidence, home: Home) -> str:
    sent = facts.sent[home]
    what = {"L1": "L1 bandwidth", "L2": "L2 bandwidth", "L3": "L3 bandwidth", "memory": "Memory bandwidth"}[home]
    share = facts.link(home)
    bounds, does = ("bounds", "move") if share <= WHOLE else ("may bound", "would move, by what the loops tell,")
    fact = (
        f"{what} {bounds} it: about {size(sent)} {does} to and from {home} at {rate(sent / facts.time, 'B')}, "
        f"{percent(share if share > WHOLE else min(share, 1))} of what was measured."
    )
    if sent <= 1.25 * facts.least:
        return f"{fact} Its operands need that much in any schedule: fuse it with what comes before or after."
    inner = HOMES[HOMES.index(home) - 1] if home != "L1" else "registers"
    more = f"That is {sent / max(facts.least, 1):.1f} times what its operands need"
    return f"{fact} {more}: choose a tile that stays in {inner} for longer."


def _unbounded(facts: Evidence) -> tuple[Bound, str]:
    hot, waited = facts.hot, _waited(facts)
    if facts.threads > 1 and facts.busy < BUSY:
        return "starved", (
            f"Threads starve: a parallel loop has work for {percent(facts.busy)} of the time of {facts.threads} threads. "
            "Share a loop of more iterations, or of a multiple of the threads."
        )
    if waited is not None and waited[0] in AFAR:
        return waited
    if hot is not None and hot.spills:
        vectors = f"{_times(hot.spills, 'vector')} to or from the stack for {_times(hot.vector, 'arithmetic instruction')}"
        return "spills", f"Spills hold it back: the hot loop moves {vectors}. Unroll less, or choose a smaller tile in registers."
    if hot is not None and hot.scalar > hot.vector:
        single = f"{hot.scalar} of {hot.scalar + hot.vector} arithmetic instructions in the hot loop are on single numbers"
        return "scalar", f"Scalar code holds it back: {single}. Vectorize an axis."
    if hot is not None and 0 < hot.chains < CHAINS and hot.chains >= hot.vector / 2:
        return "latency", (
            f"Latency holds it back: the hot loop has {_times(hot.chains, 'sum')}, each waiting for its last term; {CHAINS} keep the "
            "machine busy. Accumulate a larger tile, or split the reduction with `rfactor`."
        )
    if waited is not None:
        return waited
    parts = sorted(facts.shares.items(), key=lambda item: -item[1])[:3]
    told = ", ".join(f"{name} {percent(share)}" for name, share in parts if share > 0)
    why = "loops may cost more than their bodies, or data decides"
    return "unclear", f"Nothing measured is at its limit ({told}), and the model sees no wait: {why}. Other tiles may help: tune it."


def _waited(facts: Evidence) -> tuple[Bound, str] | None:
    """What the model says it waits for, and how far that is to be believed."""
    found = None if facts.waits is None else facts.waits.verdict()
    if facts.waits is None or found is None:
        return None
    off = facts.time / facts.waits.predicted
    return found if off < DOUBTED else (found[0], f"{found[1]} It takes {off:.1f} times what the model predicts: there is more to it.")


def _times(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
