"""What the cost model says that a kernel waits for, in words: how much of its time, where, and which directive would help.

The model (`schedules.model.causes`) speaks of one core and of the loops alone. Its shares explain a measured time where no measured rate is
at its limit; the times themselves stand beside what was measured, so that one can see how far to believe them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tensorlang.codegen.reports.spelling import percent, size
from tensorlang.ir.printer import short
from tensorlang.schedules.model.causes import Cause, Kind, Stride

Waiting = Literal["pages", "conflicts", "waits", "latency", "shuffles", "ports", "divisions"]

LEAST: Final = 0.15
"""The share of the predicted time from which a cause explains a kernel."""
SHOWN: Final = 0.02
"""The share from which it is listed."""
AFAR: Final = ("pages", "conflicts", "latency")
"""What an operand costs that is not walked as it lies."""
NAMES: Final[dict[Kind, str]] = {
    "arithmetic": "arithmetic units and issue",
    "divisions": "divisions and roots",
    "chain": "latency of sums",
    "shuffles": "shuffles",
    "loads": "load and store ports",
    "L2": "bandwidth of L2",
    "L3": "bandwidth of L3",
    "memory": "bandwidth of memory",
    "latency": "latency of caches and memory",
    "conflicts": "sets of caches",
    "pages": "page walks",
}


@dataclass(frozen=True, slots=True)
class Waits:
    """The seconds of a call by the model, and what it would save without each limit, the dearest first."""

    predicted: float
    causes: tuple[Cause, ...] = ()

    @property
    def shown(self) -> tuple[Cause, ...]:
        """The causes that are worth a line."""
        return tuple(cause for cause in self.causes if cause.seconds >= SHOWN * self.predicted)

    def share(self, cause: Cause) -> float:
        """What a call would save without a limit, of its time."""
        return cause.seconds / self.predicted if self.predicted else 0.0

    def verdict(self) -> tuple[Waiting, str] | None:
        """What it waits for, and the sentences that say so; None where no wait explains much of its time.

        What one operand costs that is not walked as it lies (pages, sets, latency) counts together; the dearest part of it is told.
        """
        found: list[tuple[float, Cause]] = []
        for cause in self.causes:
            alike = [other for other in self.causes if cause.kind in AFAR and other.kind in AFAR and _operand(other) == _operand(cause)]
            found.append((sum(map(self.share, alike or [cause])), cause))
        for share, cause in sorted(found, key=lambda item: (-item[0], -item[1].seconds)):
            said = _sentences(cause)
            if said is not None and share >= LEAST:
                bound, why, what = said
                return bound, f"It waits for {why}: by the model a call would take {percent(self.share(cause))} less without. {what}"
        return None


def _operand(cause: Cause) -> str:
    return "" if cause.stride is None else cause.stride.buffer


def where(stride: Stride | None) -> str:
    """The walk of an operand that runs into a limit."""
    if stride is None:
        return ""
    apart = f"steps of `{short(stride.loop)}` take {stride.buffer} {size(stride.apart)} on"
    if stride.of == "lines":
        return apart
    few = f"{stride.places:,} {stride.of}" if stride.of == "pages" else f"{stride.places:,} of {stride.room:,} {stride.of}"
    return f"{apart}, over {few}" + (f" where the TLB keeps {stride.room:,}" if stride.of == "pages" else "")


def _sentences(cause: Cause) -> tuple[Waiting, str, str] | None:
    """The word of a cause, what it is and what to do about it; None for what is no wait (arithmetic, bandwidth)."""
    told = f" ({where(cause.stride)})" if cause.stride is not None else ""
    match cause.kind:
        case "pages":
            return "pages", f"walks of page tables{told}", _along_memory(cause.stride)
        case "conflicts":
            return "conflicts", f"lines that lost their place to others of the same few sets{told}", _along_memory(cause.stride)
        case "latency":
            return "waits", f"lines that no prefetcher brings{told}", _along_memory(cause.stride)
        case "chain":
            return "latency", "sums, each for its last term", "Accumulate a larger tile, or split the reduction with `rfactor`."
        case "shuffles":
            return "shuffles", "shuffles of vectors", "Vectorize an axis along which operands are contiguous, or `pack` those that are not."
        case "divisions":
            return (
                "divisions",
                "the divider",
                (
                    "Where elements are divided by what an inner loop does not change, multiply by the reciprocal, `x * (1 / c)`, if the "
                    "last bit or two may differ."
                ),
            )
        case "loads":
            return (
                "ports",
                "load and store ports",
                "Choose a larger tile in registers: each vector that is loaded then takes part in more arithmetic.",
            )
        case _:
            return None


def _along_memory(stride: Stride | None) -> str:
    """What to do about an operand that is not walked as it lies."""
    if stride is None:
        return "Reorder the loops so that the innermost ones follow memory."
    loop, buffer = short(stride.loop), stride.buffer
    if stride.reused and not stride.written:
        return f"Pack {buffer} (`pack`) outside of the loops that read it again, or reorder so that `{loop}` stands further out."
    blocks = f"Walk {buffer} in blocks: `split` `{loop}`, or the loop around it, and let the loop over blocks stand further out"
    return f"{blocks}." if stride.of == "pages" else f"{blocks}, or pad its rows (`pad_to`)."


def listed(waits: Waits) -> Sequence[tuple[str, str, str]]:
    """For each cause its name, the share of the time and the walk that runs into it."""
    return [(NAMES[cause.kind], percent(waits.share(cause)), where(cause.stride)) for cause in waits.shown]
