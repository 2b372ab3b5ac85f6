"""`Kernel.report`: what a kernel does, how its code looks, how fast it is on this machine, and what bounds it.

    counts      operations by integer sets, bytes of arguments, working set and traffic by the loops of the hot stage
    code        the hot loop of the assembly
    time        the fastest of some samples, with warm caches, against rates that were measured in this process

Everything is in the fields of `Report`; `str` is the table for people, `to_json` the same for programs, `picture` the roofline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from textwrap import wrap
from typing import Any, Final

from tensorlang.codegen.cost.operation_count import OperationCount
from tensorlang.codegen.reports.assembly import InnerLoop
from tensorlang.codegen.reports.bounds import WHOLE, Bound
from tensorlang.codegen.reports.levels import HOMES, Home, LoopLevel, home
from tensorlang.codegen.reports.machine import Rates
from tensorlang.codegen.reports.roofline import picture
from tensorlang.codegen.reports.spelling import percent, rate, seconds, size
from tensorlang.codegen.reports.waits import Waits, listed
from tensorlang.codegen.runtime.timing import Timing
from tensorlang.codegen.target import Target
from tensorlang.errors import BuildError
from tensorlang.system.files import replacing

SHOWN: Final = 12
NOISY: Final = 1.5


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """One kernel on this machine.

    `bytes` are those of inputs and outputs, `footprint` adds the workspace. `levels` are the loops around the stage with the most
    arithmetic, `sent` what moves to and from each level of memory in a call (an estimate), `hot` the hot loop of the machine code,
    `forks` the parallel loops that a call starts, `in_lanes` the share of the arithmetic whose stages run in vector loops. `peak_share`
    is of the measured multiply-add peak, `bandwidth_share` of the bandwidth of the level that holds the footprint. `bound` names what
    bounds the kernel, `sentence` says it with numbers and what to do. `faults` are stages that the strategy failed to schedule. `waits` is
    what the cost model says of one core: the time, and what a call would save without each limit (None where threads share the work).
    """

    name: str
    signature: str
    target: Target
    dims: Mapping[str, int]
    flops: OperationCount
    calls: Mapping[str, int]
    bytes: int
    footprint: int
    levels: tuple[LoopLevel, ...]
    sent: Mapping[Home, int]
    hot: InnerLoop | None
    threads: int
    forks: int
    in_lanes: float
    timing: Timing
    rates: Rates
    bound: Bound
    sentence: str
    faults: tuple[str, ...] = ()
    waits: Waits | None = None

    @property
    def time(self) -> float:
        """Seconds of one call: the fastest sample."""
        return self.timing.min

    @property
    def intensity(self) -> float:
        """Operations for each byte in and out."""
        return self.flops.value / max(self.bytes, 1)

    @property
    def peak_share(self) -> float:
        """Operations a second, as a share of the measured peak."""
        return self.flops.value / self.time / self.rates.flops

    @property
    def home(self) -> Home:
        """The nearest level that holds all operands and the workspace."""
        return home(self.footprint, self.target.caches)

    @property
    def bandwidth_share(self) -> float:
        """Bytes in and out a second, as a share of what `home` was measured to send."""
        return self.bytes / self.time / self.rates.bandwidth[self.home]

    @property
    def vector_bits(self) -> int:
        """The widest vectors of the hot loop, in bits; 0 without vectors."""
        return 0 if self.hot is None else self.hot.width

    @property
    def vector_share(self) -> float | None:
        """The share of the arithmetic that is on vectors; None where there is no arithmetic.

        Of stages in vector loops it is that of the hot loop. Others, such as recurrences, have none, however wide the hot loop is.
        """
        return None if self.hot is None or self.hot.share is None else self.hot.share * self.in_lanes

    @property
    def spills(self) -> int:
        """Vectors that the hot loop moves to or from the stack."""
        return 0 if self.hot is None else self.hot.spills

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values: every field and every derived number."""
        return {
            "name": self.name,
            "signature": self.signature,
            "target": str(self.target),
            "dims": dict(self.dims),
            "flops": self.flops.value,
            "flops_exact": self.flops.exact,
            "calls": dict(self.calls),
            "bytes": self.bytes,
            "footprint": self.footprint,
            "home": self.home,
            "intensity": self.intensity,
            "levels": [asdict(level) for level in self.levels],
            "sent": dict(self.sent),
            "hot_loop": None if self.hot is None else asdict(self.hot),
            "vector_bits": self.vector_bits,
            "vector_share": self.vector_share,
            "spills": self.spills,
            "threads": self.threads,
            "parallel_loops": self.forks,
            "time": self.time,
            "samples": list(self.timing.samples),
            "rates": self.rates.to_json(),
            "peak_share": self.peak_share,
            "bandwidth_share": self.bandwidth_share,
            "bound": self.bound,
            "sentence": self.sentence,
            "faults": list(self.faults),
            "predicted": None if self.waits is None else self.waits.predicted,
            "waits": [] if self.waits is None else [asdict(cause) for cause in self.waits.causes],
        }

    def picture(self, path: str | PathLike[str] | None = None) -> str:
        """The roofline as SVG text, written to `path` where one is given. Raises `BuildError` where that fails."""
        svg = picture(self.name, self.flops.value, self.bytes, self.time, self.rates, self.home)
        if path is not None:
            try:
                with replacing(path) as file:
                    file.write(svg.encode())
            except OSError as error:
                raise BuildError(f"the picture cannot be written to {str(path)!r}: {error}") from None
        return svg

    def _repr_html_(self) -> str:
        from tensorlang.system import markup  # noqa: PLC0415 - for notebooks alone

        moved = [(name, *row) for name, row in self._moved()]
        loops = [
            ("\u2003" * depth + name, trips, size(level.bytes), level.home) for depth, (name, trips, level) in enumerate(self._loops())
        ]
        return markup.display(
            markup.title(self.signature),
            markup.paragraph(self._where(), "soft"),
            markup.paragraph(self.sentence),
            markup.facts(self._rows()),
            self.picture(),
            markup.table(("moved in a call (estimate)", "bytes", "rate", ""), moved, numbers=(1, 2)) if moved else "",
            markup.table((self._predicted(), "", ""), listed(self.waits), numbers=(1,))
            if self.waits is not None and self.waits.shown
            else "",
            markup.table(("loop", "trips", "an iteration touches", "fits"), loops, numbers=(1, 2)) if loops else "",
        )

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = [self.signature, self._where(), ""]
        lines += [f"  {name:<12}{told}" for name, told in self._rows()]
        if self.sent:
            lines += ["", "  moved in a call (estimate)"]
            lines += [f"    {name:<8}{moved:>9}  {speed:>10}   {share}" for name, (moved, speed, share) in self._moved()]
        if shown := self._loops():
            names = [f"{'  ' * depth}{name}" for depth, (name, _, _) in enumerate(shown)]
            wide = max(20, *map(len, names))
            lines += ["", f"  {'loop':<{wide}}{'trips':>10}   an iteration touches"]
            lines += [
                f"  {name:<{wide}}{trips:>10}   {size(level.bytes):>9}, fits {level.home}"
                for name, (_, trips, level) in zip(names, shown, strict=True)
            ]
        if self.waits is not None and self.waits.shown:
            lines += ["", f"  {self._predicted()}"]
            lines += [f"    {name:<30}{share:>4}" + (f"   {told}" if told else "") for name, share, told in listed(self.waits)]
        said = [line for told in (self.sentence, *self.faults) for line in wrap(told, 110, initial_indent="  ", subsequent_indent="  ")]
        return "\n".join([*lines, "", *said])

    def _where(self) -> str:
        dims = f", {', '.join(f'{name} = {value}' for name, value in self.dims.items())}" if self.dims else ""
        return f"on {self.target}, {self.threads} thread{'s' * (self.threads > 1)}{dims}"

    def _rows(self) -> list[tuple[str, str]]:
        return [("time", self._time()), ("arithmetic", self._arithmetic()), ("operands", self._operands()), ("code", self._code())]

    def _loops(self) -> list[tuple[str, str, LoopLevel]]:
        shown = [level for level in self.levels if level.trips != 1][:SHOWN]
        return [(f"{level.loop}{_kind(level)}", _trips(level), level) for level in shown]

    def _predicted(self) -> str:
        """The head of what the model says."""
        assert self.waits is not None
        told = f"{seconds(self.waits.predicted)} predicted for {seconds(self.time)} measured"
        return f"by the model ({told}) a call would take so much less without"

    def _time(self) -> str:
        told = f"{seconds(self.time)} (fastest of {len(self.timing.samples)}, median {seconds(self.timing.median)}), warm caches"
        return f"{told}; disturbed: is the machine busy?" if self.timing.median > NOISY * self.time else told

    def _arithmetic(self) -> str:
        if not self.flops.value:
            return "none"
        told = f"{'' if self.flops.exact else 'at most '}{self.flops.value:,} operations, {rate(self.flops.value / self.time, 'FLOP')}"
        calls = "".join(f", {count:,} {name}" for name, count in self.calls.items())
        peak = f"{percent(self.peak_share)} of the {rate(self.rates.flops, 'FLOP')} of {self.rates.kind} multiply-adds"
        peak += " (less is done than the definition writes, or narrower)" if self.peak_share > WHOLE else ""
        return f"{told}: {peak}{calls and f' (with{calls[1:]})'}"

    def _operands(self) -> str:
        moved = f"{size(self.bytes)}, {rate(self.bytes / self.time, 'B')}: {percent(self.bandwidth_share)} of the"
        workspace = f" with {size(self.footprint - self.bytes)} of workspace" if self.footprint > self.bytes else ""
        place = f"{rate(self.rates.bandwidth[self.home], 'B')} of {self.home}, which holds them{workspace}"
        if self.home == "memory":
            place = f"{rate(self.rates.bandwidth['memory'], 'B')} of memory; no cache holds them{workspace}"
        return f"{moved} {place}; {self.intensity:.3g} operations a byte"

    def _code(self) -> str:
        if self.hot is None:
            return "not read for this processor"
        where = f"hot loop {self.hot.label}" if self.hot.label else "no loop"
        vectors = f"{self.vector_bits}-bit vectors" if self.vector_bits else "no vectors"
        if self.vector_share is None:
            return f"{vectors}, {self.spills} spills; {where}: {self.hot.instructions} instructions, no arithmetic"
        share = f"{percent(self.vector_share)} of arithmetic on vectors"
        counts = f"{self.hot.vector + self.hot.scalar} of {self.hot.instructions} instructions compute, {self.hot.fused} multiply and add"
        return f"{vectors}, {share}, {self.spills} spills; {where}: {counts}"

    def _moved(self) -> list[tuple[Home, tuple[str, str, str]]]:
        """For each level of memory what it sends in a call, how fast, and how that compares."""
        return [(name, self._moved_from(name)) for name in HOMES if name in self.sent]

    def _moved_from(self, name: Home) -> tuple[str, str, str]:
        speed, most = self.sent[name] / self.time, self.rates.bandwidth[name]
        return size(self.sent[name]), rate(speed, "B"), f"{percent(speed / most)} of the measured {rate(most, 'B')}"


def _kind(level: LoopLevel) -> str:
    return "" if level.kind == "serial" else f" ({level.kind})"


def _trips(level: LoopLevel) -> str:
    return "varies" if level.trips is None else f"{level.trips:,}"
