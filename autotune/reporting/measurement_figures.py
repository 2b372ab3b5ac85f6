"""The charts of what was measured: the finalists side by side, noise, load and drift, failures, the roofline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from tensorlang.autotune.jobs.peak import Peak
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.study_records import Decision
from tensorlang.autotune.reporting.charts import Chart, Scale, spread, thinned
from tensorlang.autotune.reporting.display import duration, plural
from tensorlang.autotune.reporting.parts import Figure, Mark, Table
from tensorlang.schedules.spaces.space import spelling


def finalists(final: Decision, trials: Sequence[Trial]) -> Figure | None:
    """The paired rounds: each finalist's time over the winner's in the same round. None where the log does not have them."""
    winner = final.finalist(final.winner)
    if winner is None or not winner.samples:
        return None
    won, runs = winner.samples, winner.by_process
    configs = {trial.id: trial.config for trial in trials}
    found = {row.id: row.samples for row in final.finalists if row.id in configs and len(row.samples) == len(won)}
    ratios = {key: [a / b for a, b in zip(some, won, strict=True)] for key, some in found.items()}
    if not ratios:
        return None
    every = [ratio for some in ratios.values() for ratio in some]
    places = {trial.id: count for count, trial in enumerate(trials, 1)}
    names = {key: f"trial {places[key]}{_role(final, key)}" for key in ratios}
    chart = Chart(
        "The finalists, side by side", f"{plural(len(won), 'round')} of {plural(len(ratios), 'candidate')}.",
        Scale.over(every, log=True, spell=lambda value: f"{value:.4g}x"), Scale(0, len(ratios)),
        height=50 + 30 * len(ratios), margins=(8, 14, 40, 156),
    )  # fmt: skip
    chart.axes("time / winner's time in the same round", y_ticks=[])
    for place, (key, some) in enumerate(ratios.items()):
        centre = len(ratios) - place - 0.5
        y = chart.place(chart.x.low, centre)[1]
        chart.text(148, y + 4, names[key], "label end")
        chart.dots([(ratio, centre + 0.5 * off) for ratio, off in zip(some, spread(len(some)), strict=True)],
                   "default" if key == final.default else "model", [f"{ratio:.4f}x" for ratio in some])  # fmt: skip
        chart.stroke(chart.place(median(some), centre)[0], y, 12, "middle", f"{names[key]}: median {median(some):.4f}x")
    cells = [(names[key], duration(min(found[key])), f"{median(some):.4f}x", spelling(configs[key])) for key, some in ratios.items()]
    numbers = Table(["finalist", "least time", "median ratio", "configuration"], cells, numbers=(1, 2))
    where = "a fresh process" if len(runs) == 1 else f"{len(runs)} fresh processes"
    caption = f"One dot for each round in {where}; bars are medians. The winner is 1 by definition."
    return Figure("The finalists, side by side", chart.svg(), caption, numbers=numbers)


def _role(final: Decision, key: str) -> str:
    return (" default" if key == final.default else "") + (" winner" if key == final.winner else "")


def noise(trials: Sequence[Trial], most: int) -> Figure:
    """The spread of the samples of each trial."""
    valid = [(count, trial) for count, trial in enumerate(trials, 1) if trial.time is not None]
    levels = [100 * trial.noise for _, trial in valid]
    middle, worst, least = median(levels), max(levels), 0.01
    chart = Chart(
        "Noise of each trial", f"The median trial has {middle:.2f}% noise, the worst {worst:.1f}%.", Scale(0, len(trials) + 1),
        Scale(least, max(30.0, 1.5 * worst), log=True, spell="{:g}%".format), height=230,
    )  # fmt: skip
    chart.axes("trials", "1.4826 MAD / median", y_ticks=[tick for tick in (0.01, 0.1, 1, 10, 100) if tick <= chart.y.high])
    points = [(float(count), max(level, least)) for (count, _), level in zip(valid, levels, strict=True)]
    kept = thinned([(x, math.log(y)) for x, y in points], most)
    told = [f"trial {valid[place][0]}: {levels[place]:.2f}%" for place in kept]
    chart.dots([points[place] for place in kept], "neighbour", told, 2.8)
    chart.level(max(middle, least), "base", f"median {middle:.2f}%")
    ranks = sorted(levels)
    below = ((share, ranks[min(int(share * len(ranks)), len(ranks) - 1)]) for share in (0.5, 0.9, 0.99))
    rows = [(f"{share:.0%} of the trials below", f"{level:.2f}%") for share, level in below]
    caption = "Spread of a trial's samples; it estimates one standard deviation."
    return Figure("Noise of each trial", chart.svg(), caption, numbers=Table(["share", "noise"], rows, numbers=(1,)))


def series(title: str, caption: str, points: Sequence[tuple[float, float]], label: str, most: int) -> Figure:
    """A quantity of the machine along the trials."""
    chart = Chart(title, caption, Scale(0, max(x for x, _ in points) + 1), Scale.over([0.0, *(y for _, y in points)], pad=0.1), height=230)
    chart.axes("trials", label)
    kept = [points[place] for place in thinned(points, most)]
    chart.line(kept, "best")
    return Figure(title, chart.svg(), caption)


def failures(rows: Sequence[tuple[str, int, str]], reasons: Table) -> Figure:
    """How many trials failed for which reason: (status, count, an example); `reasons` stand below the chart."""
    most = max(count for _, count, _ in rows)
    chart = Chart(
        "Failures by reason", ", ".join(f"{count} {status}" for status, count, _ in rows), Scale(0, most), Scale(0, len(rows)),
        height=14 + 26 * len(rows), margins=(6, 60, 6, 126),
    )  # fmt: skip
    for row, (status, count, example) in enumerate(rows):
        top = 8 + 26 * row
        width = chart.place(count, 0)[0] - 126
        chart.text(118, top + 13, status.replace("_", " "), "label end")
        chart.box(126, top, max(width, 2), 18, "bar", f"{count} {status}: {example}")
        chart.text(126 + max(width, 2) + 6, top + 13, f"{count:,}", "note")
    return Figure("Failures by reason", chart.svg(), table=reasons)


def roofline(points: Mapping[str, tuple[float, float]], peak: Peak, notes: str) -> Figure:
    """Operations a byte against operations a second, under what the machine was measured to do: `points` by name."""
    flops, bandwidth = peak.flops or 0.0, peak.bandwidth
    ridge = flops / bandwidth if bandwidth else 1.0
    xs = [x for x, _ in points.values()]
    low, high = min(*xs, ridge) / 8, max(*xs, ridge) * 8
    floor = min([y for _, y in points.values()] + ([bandwidth * low] if bandwidth else [])) / 2
    top = max([flops, *(y for _, y in points.values())]) * 1.8
    chart = Chart(
        "Roofline", f"{', '.join(f'{name}: {y / 1e9:.4g} GFLOP/s at {x:.3g} FLOP/byte' for name, (x, y) in points.items())}.",
        Scale(low, high, log=True), Scale(floor, top, log=True, spell=lambda value: f"{value / 1e9:g}"),
    )  # fmt: skip
    chart.axes("operations for each byte of arguments and results", "GFLOP/s")
    start = max(low, floor / bandwidth) if bandwidth else low
    chart.line([*([(start, bandwidth * start), (ridge, flops)] if bandwidth else [(low, flops)]), (high, flops)], "roof")
    x, y = chart.place(high, flops)
    chart.text(x - 4, y - 6, f"multiply-adds {flops / 1e9:.4g} GFLOP/s", "note end")
    if bandwidth:
        x, y = chart.place((start * ridge) ** 0.5, bandwidth * (start * ridge) ** 0.5)
        chart.text(x + 10, y + 10, f"memory {bandwidth / 1e9:.3g} GB/s", "note")
    for name, (x, y) in points.items():
        chart.mark(x, y, f"{'winner' if name == 'best' else 'default'} mark", f"{name}: {y / 1e9:.4g} GFLOP/s")
    key = [Mark("diamond", "winner" if name == "best" else "default", name) for name in points]
    rows = [(name, f"{x:.3g}", f"{y / 1e9:.4g}", f"{y / flops:.1%}") for name, (x, y) in points.items()]
    numbers = Table(["schedule", "FLOP/byte", "GFLOP/s", "share of peak"], rows, numbers=(1, 2, 3))
    return Figure("Roofline", chart.svg(), notes, key=key, numbers=numbers)
