"""The tables of models: latency, what compiling takes, memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bench.models.calls import SIDE, TINY

OURS, TUNED = "tensorlang", "tensorlang tuned"
"""By the names of `engines.ENGINES`."""


def tables(found: Sequence[Mapping[str, Any]], left: Mapping[str, str]) -> str:
    """All of them as Markdown."""
    return "\n".join(_lines(found, left))


def of_calls(found: Mapping[str, float]) -> str:
    """What `bench.models.calls` found, in a sentence."""
    return (
        f"A call of a graph of {TINY} tiny kernels takes {found['overhead']:.2f} of what the kernels take, bound and called one by one "
        f"(processor time); two products of {SIDE} rows by `run_async` {found['side_by_side']:.2f} of the same in sequence (by the clock)."
    )


def _lines(found: Sequence[Mapping[str, Any]], left: Mapping[str, str]) -> Iterator[str]:
    engines = list(found[0]["engines"])
    others, ours = [name for name in engines if name not in (OURS, TUNED)], [name for name in engines if name in (OURS, TUNED)]
    loads = [one["load"] for one in found]
    yield (
        f"`python -m bench.models`, {datetime.now(tz=UTC):%Y-%m-%d}: one thread, batch 1, random weights, float32, all engines in turn in "
        f"one process. Milliseconds of processor, medians; by the clock in brackets. The load of the machine was {min(loads):.1f} to "
        f"{max(loads):.1f}: compare within a row. A ratio is that of ours to the fastest of the others.\n"
    )
    if left:
        yield f"Left out: {'; '.join(f'{name}, since {reason}' for name, reason in left.items())}.\n"
    ratios = ours if others else []
    yield _row("model", *engines, *(name.replace(OURS, "ratio") for name in ratios))
    yield _row(*["---"] * (1 + len(engines) + len(ratios)))
    for one in found:
        times = {name: one["engines"][name]["processor_ms"] for name in engines}
        cells = [f"{times[name]:.1f} ({one['engines'][name]['wall_ms']:.1f})" for name in engines]
        yield _row(one["model"], *cells, *(f"{times[name] / min(times[other] for other in others):.2f}" for name in ratios))
    yield "\nSeconds of processor from the files of a model to its first result, in a process of its own; warm: again, with what it kept.\n"
    yield from _built(found, engines, "processor", "{:.1f}")
    if OURS in found[0]["built"]:
        yield "\nSeconds of processor of ours from a graph to its kernels, all passes included: when nothing was kept, and when all was.\n"
        yield _row("model", "cold", "warm", "warm / cold")
        yield _row(*["---"] * 4)
        for one in found:
            cold, warm = (one["built"][OURS][state]["compile"] for state in ("cold", "warm"))
            yield _row(one["model"], f"{cold:.2f}", f"{warm:.2f}", f"{warm / cold:.3f}")
    yield (
        "\nMegabytes of memory that this process had at most, its libraries included. What ours takes more when nothing is kept is LLVM: "
        "its pages, and its heap after some sixty kernels, which other processes would have if they compiled.\n"
    )
    yield from _built(found, engines, "peak_mb", "{:.0f}")


def _built(found: Sequence[Mapping[str, Any]], engines: Sequence[str], fact: str, form: str) -> Iterator[str]:
    columns = [(name, state) for name in engines for state in found[0]["built"][name]]
    warm = {name for name, state in columns if state == "warm"}
    yield _row("model", *(f"{name}, {state}" if name in warm else name for name, state in columns))
    yield _row(*["---"] * (len(columns) + 1))
    for one in found:
        yield _row(one["model"], *(form.format(one["built"][name][state][fact]) for name, state in columns))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
