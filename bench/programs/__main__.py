"""`python -m bench.programs`: see the package.

    python -m bench.programs --peers numba jax torch     beside three peers; `all` is all of them, and each ratio is to the best as well
    python -m bench.programs --threads                   what two threads gain, of programs that take more than a millisecond on one
    python -m bench.programs --isa x86-64-v3             ours and the peers held to AVX2, which is another machine where vectors are wider

What is counted is the time of the process, not of the thread that calls: XLA computes what is not small on a thread of its own even
where it is held to one, so that the caller's time would be next to nothing. Everybody has one thread, so the two are the same for
others. What two threads gain is told by the clock on the wall, in a process that loads no peer (`two_threads`).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import tensorlang as tl
from bench.peers.isa import ENVIRONMENT, ISAS, NATIVE, VARIABLE, ours, unheld, why_not
from bench.peers.tables import table
from bench.programs import engines, two_threads
from bench.programs.engines import PEERS, Call
from bench.programs.families import summary
from bench.programs.known import PROGRAMS
from bench.programs.program import Program
from bench.programs.timing import ratio, same, turns
from bench.run import machine
from bench.sections import PAGE, name_of, written
from tensorlang.autotune import tune
from tensorlang.errors import did_you_mean

TRIALS: Final = 200


class Part(NamedTuple):
    """A peer in a row: the median of its seconds, and that of its time by ours."""

    seconds: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Row:
    """Medians of seconds, seconds until the kernel was built, the peers, and why others took no part.

    Where it was tuned: the seconds of that, and the time of the best peer by it. Where two threads were tried: time of one by that of two.
    """

    name: str
    ours: float
    build: float
    peers: Mapping[str, Part]
    absent: Mapping[str, str] = field(default_factory=dict)
    tuned: float | None = None
    tuned_ratio: float | None = None
    two: float | None = None

    @property
    def ratio(self) -> float | None:
        """The time of the best peer by ours; above 1 ours is faster."""
        return min((part.ratio for part in self.peers.values()), default=None)


def compared(program: Program, peers: Sequence[str], seconds: float = 0.0, two: float | None = None, isa: str = NATIVE) -> Row:
    """A program beside these peers, tuned before for at most so many `seconds`, and what `two` threads gain; ours held to an `isa`.

    Raises `SystemExit` where one computes something else.
    """
    outputs, given = program.define()
    start = time.perf_counter()
    kernel = tl.build(outputs, target=ours(isa))
    build = time.perf_counter() - start
    out = kernel(*given)
    made = engines.results(out)

    def one() -> Any:
        return kernel(*given, out=out)

    sides: dict[str, Call] = {"ours": one}
    absent: dict[str, str] = {}
    for peer in peers:
        call = engines.compiled(peer, program, given, made)
        if isinstance(call, str):
            absent[peer] = call
        elif not same(made, engines.results(call())):
            raise SystemExit(f"{program.name}: the kernel and {peer} differ")
        else:
            sides[peer] = call
    if seconds:
        tuned = tune(outputs, trials=TRIALS, budget=seconds, threads=1, target=ours(isa)).kernel
        sides["tuned"] = lambda: tuned(*given, out=out)
    samples = turns(sides, time.process_time)
    medians = {name: statistics.median(taken) for name, taken in samples.items()}
    parts = {name: Part(medians[name], ratio(samples[name], samples["ours"])) for name in sides if name in peers}
    best = min(parts, key=lambda name: parts[name].ratio, default=None)
    return Row(
        program.name,
        medians["ours"],
        build,
        parts,
        absent,
        medians.get("tuned"),
        ratio(samples[best], samples["tuned"]) if seconds and best is not None else None,
        two,
    )


def means(rows: Sequence[Row]) -> Iterator[str]:
    """In how many rows each peer took part, and the geometric mean there."""
    for name in dict.fromkeys(name for row in rows for name in (*row.peers, *row.absent)):
        found = [row.peers[name].ratio for row in rows if name in row.peers]
        mean = f", geometric mean {statistics.geometric_mean(found):.2f}" if found else ""
        yield f"{PEERS[name].title} ({PEERS[name].subject}) took part in {len(found)}{mean}"


def left_out(rows: Sequence[Row]) -> Iterator[str]:
    """Each reason why peers took no part, once, with the programs that it holds for."""
    for name, why in dict.fromkeys((name, why) for row in rows for name, why in row.absent.items()):
        yield f"{PEERS[name].title} took no part in {', '.join(row.name for row in rows if row.absent.get(name) == why)}: {why}"


def section(*, tuned: bool) -> str:
    """What the section is about: defaults, or what the tuner found, of which there may be fewer."""
    return "Programs that were tuned" if tuned else "Programs without a schedule"


def page(rows: Sequence[Row], about: Mapping[str, Any], peers: Sequence[str], isa: str = NATIVE) -> str:
    """The section of this machine: the families, and a line for each program, the slowest beside its best peer first."""
    rows = sorted(rows, key=lambda row: (row.ratio is None, row.ratio))
    ratios = [row.ratio for row in rows if row.ratio is not None]
    tuned = [row.tuned_ratio for row in rows if row.tuned_ratio is not None]
    command = "python -m bench.programs --page" + ("" if list(peers) == ["numba"] else f" --peers {' '.join(peers)}")
    command += "" if isa == NATIVE else f" --isa {isa}"
    head = (
        f"### {section(tuned=bool(tuned))} on {name_of(about, isa)}\n\n"
        f"`{command}`, {datetime.now(UTC):%Y-%m-%d}: default schedules on one thread. Microseconds of the process's time, in turns; "
        "a ratio is the time of the best peer by ours.\n\n"
        f"{len(rows)} programs: geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}, "
        f"{sum(ratio < 1 for ratio in ratios)} slower than the best peer. {'. '.join(means(rows))}.\n\n"
    )
    head += "".join(f"{line}.\n\n" for line in left_out(rows))
    judged = {row.name: row.tuned_ratio if tuned else row.ratio for row in rows}
    families = list(summary({name: found for name, found in judged.items() if found is not None}, tuned=bool(tuned)))
    head += table(["family", "goal", "programs", "geomean", "least", "kept"], families) + "\n" if families else ""
    columns = {
        "program": [f"`{row.name}`" for row in rows],
        "tensorlang": [f"{row.ours * 1e6:.0f}" for row in rows],
        **{name: [f"{row.peers[name].seconds * 1e6:.0f}" if name in row.peers else "none" for row in rows] for name in peers},
        "ratio": [_shown(row.ratio) for row in rows],
        "seconds to build": [f"{row.build:.2f}" for row in rows],
    }
    if tuned:
        head += (
            f"Tuned (`--tune`, at most {TRIALS} trials): geometric mean {statistics.geometric_mean(tuned):.2f}, least {min(tuned):.2f}, "
            f"{sum(ratio < 1 for ratio in tuned)} slower than the best peer.\n\n"
        )
        columns["tuned"] = [f"{row.tuned * 1e6:.0f}" if row.tuned is not None else "" for row in rows]
        columns["ratio of tuned"] = [_shown(row.tuned_ratio) for row in rows]
    two = [row.two for row in rows if row.two is not None]
    if two:
        head += (
            f"`--threads`: time on one thread by that on two, on the wall, of {len(two)} programs that take more than "
            f"{two_threads.LONG * 1e3:.0f} ms: geometric mean {statistics.geometric_mean(two):.2f}, least {min(two):.2f}.\n\n"
        )
        columns["two threads"] = [_shown(row.two) for row in rows]
    return head + table(list(columns), list(zip(*columns.values(), strict=True)))


def _shown(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def line(row: Row) -> str:
    """A row on the screen."""
    text = f"{row.name:22s} {row.ours * 1e6:10.1f} us"
    text += "".join(f", {name} {part.seconds * 1e6:10.1f} ({part.ratio:6.2f})" for name, part in row.peers.items())
    parts = {"ratio": row.ratio, "tuned": row.tuned_ratio, "two threads": row.two}
    return text + "".join(f", {name} {ratio:6.2f}" for name, ratio in parts.items() if ratio is not None)


def chosen(names: list[str]) -> Iterator[Program]:
    """The programs of these names, or all. Raises `SystemExit` for an unknown one."""
    known = {program.name: program for program in PROGRAMS}
    for name in names or known:
        if name not in known:
            raise SystemExit(f"there is no program {name!r}{did_you_mean(name, list(known))}")
        yield known[name]


def taking_part(names: Sequence[str], isa: str = NATIVE) -> Iterator[str]:
    """The peers that are installed and can be held to an `isa`; why another is not is printed."""
    free = unheld(isa)
    for name in PEERS if "all" in names else dict.fromkeys(names):
        why = free.get("torch compile" if name == "torch" else name) or engines.unusable(name)
        if why is None:
            yield name
        else:
            print(f"{name} takes no part: {why}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Compare, print a line for each, and write the table where it is asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.programs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help="programs to compare; all without any")
    parser.add_argument(
        "--tune", type=float, default=0.0, metavar="SECONDS", help="tune each program for at most so long, and compare that too"
    )
    parser.add_argument("--peers", nargs="+", default=["numba"], choices=[*PEERS, "all"], help="beside whom (default: numba)")
    parser.add_argument("--threads", action="store_true", help="what two threads gain as well")
    parser.add_argument("--isa", choices=ISAS, default=NATIVE, help="hold everybody to these instructions (default: all there are)")
    parser.add_argument("--page", action="store_true", help="write the table of this machine; of what was tuned its own")
    options = parser.parse_args(arguments)
    if options.threads and len(os.sched_getaffinity(0)) < 2:
        parser.error("--threads needs two cores")
    if options.isa != NATIVE and os.environ.get(VARIABLE) != options.isa:
        if options.threads:
            parser.error(f"--threads is for everything that the machine has, not for --isa {options.isa}")
        if (why := why_not(options.isa)) is not None:
            parser.error(f"--isa {options.isa} cannot be measured here: {why}")
        command = [sys.executable, "-m", "bench.programs", *(sys.argv[1:] if arguments is None else arguments)]
        return subprocess.run(command, env={**os.environ, **ENVIRONMENT[options.isa]}, check=False).returncode  # read when peers are loaded
    programs = list(chosen(options.names))
    gains = two_threads.gains([program.name for program in programs]) if options.threads else {}
    tl.set_threads(1)
    peers = list(taking_part(options.peers, options.isa))
    if not peers:
        raise SystemExit("no peer is left")
    rows: list[Row] = []
    for program in programs:
        rows.append(compared(program, peers, options.tune, gains.get(program.name), options.isa))
        print(line(rows[-1]), flush=True)
    ratios = [row.ratio for row in rows if row.ratio is not None]
    if ratios:
        print(f"geometric mean of {len(ratios)}: {statistics.geometric_mean(ratios):.2f} against the best peer")
    print(*means(rows), *left_out(rows), sep="\n")
    if options.page:
        about = machine()
        about_what = section(tuned=bool(options.tune)).lower()
        written(PAGE, {("figures", f"of {about_what} on {name_of(about, options.isa)}"): page(rows, about, peers, options.isa)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
