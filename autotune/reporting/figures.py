"""The charts of one study: how the best came about, what each knob did, noise, the finalists, the space, the roofline.

Each function takes trials (or what `analysis` made of them) and gives a figure: the chart, what it says in words, its numbers folded below.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from tensorlang.autotune.jobs.peak import Peak
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.reporting import page
from tensorlang.autotune.reporting.analysis import Baseline, Effect, Level, default_of, improvements, samples_of, text_of
from tensorlang.autotune.reporting.charts import Chart, Scale, ranked, spread, thinned
from tensorlang.autotune.reporting.display import duration, plural
from tensorlang.schedules.spaces.space import spelling
from tensorlang.system import markup

SOURCES: Final = {"default": "default", "seed": "seed", "random": "random", "model": "model", "neighbour": "neighbour", "grid": "grid-walk"}
ROW: Final = 22
LONGEST_LABEL: Final = 17


def progress(trials: Sequence[Trial], at: Sequence[float], chance: Baseline | None, *, wall: bool, most: int) -> str:
    """Every trial, the best so far and random search, against trials or seconds (`at` has the place of each trial)."""
    title = "Best so far against wall time" if wall else "Best so far against trials"
    unit, size = ("trials", 1.0) if not wall else ("minutes", 60.0) if at[-1] > 300 else ("seconds", 1.0)
    at = [place / size for place in at]
    valid = [(place, trial.time) for place, trial in zip(at, trials, strict=True) if trial.time is not None]
    told = [_told(trial) for trial in trials if trial.time is not None]
    kinds = [SOURCES.get(trial.source, "other") for trial in trials if trial.time is not None]
    lost = [(place, 0.0, trial.why[:120]) for place, trial in zip(at, trials, strict=True) if trial.time is None]
    steps = [(at[count - 1], time) for count, time in improvements(trials)]
    chart = Chart(
        title, f"{plural(len(valid), 'valid trial')} of {len(trials):,}; the fastest took {duration(steps[-1][1])}.",
        Scale(0, max(at[-1], 1e-9) * 1.02) if wall else Scale(1 - 0.02 * len(at), max(len(at), 2) * 1.02),
        Scale.over([time for _, time in valid], log=True, spell=_short), margins=(24 if lost else 12, 14, 40, 66),
    )  # fmt: skip
    whole = sorted({1.0, *(tick for tick in chart.x.ticks() if tick >= 1 and tick == int(tick))})
    chart.axes(f"wall time of tuning ({unit})" if wall else unit, "time of one call", x_ticks=None if wall else whole)
    kept = thinned([(place, math.log(time)) for place, time in valid], most)
    for kind in dict.fromkeys(kinds):
        own = [index for index in kept if kinds[index] == kind]
        chart.dots([valid[index] for index in own], kind, [told[index] for index in own])
    for index in thinned([(place, level) for place, level, _ in lost], 200):
        chart.stroke(chart.place(lost[index][0], chart.y.low)[0], 12, 4, "fail", lost[index][2])
    base = default_of(trials)
    begin = next((place for place, trial in zip(at, trials, strict=True) if trial is base), 0.0)
    if chance is not None:
        _chance(chart, chance, begin, chance.wall_s / size if wall else 1.0)
    if base is not None and base.time is not None:
        chart.level(base.time, "base", f"default {duration(base.time)}")
    chart.line([*steps, (at[-1], steps[-1][1])], "best", step=True)
    chart.mark(*steps[-1], "winner mark", f"best trial: {duration(steps[-1][1])}")
    entries = [("line", "best", "best so far"), ("diamond", "winner", "fastest trial")]
    entries += [("line", "expected", "random search, expected"), ("band", "band", "80% of random searches")] if chance else []
    entries += [("dot", kind, name) for name, kind in {**SOURCES, "other": "other"}.items() if kind in kinds]
    entries += [("cross", "fail", "failed (at the top)")] if lost else []
    numbers = markup.table([unit, "best so far"], [(f"{place:.4g}", duration(time)) for place, time in steps], numbers=(0, 1))
    caption = f"{len(kept):,} of {plural(len(valid), 'valid trial')} drawn, extremes included." if len(kept) < len(valid) else ""
    return page.figure(title, chart.svg(), caption, key=page.key(entries), numbers=numbers)


def _chance(chart: Chart, chance: Baseline, begin: float, each: float) -> None:
    """Random search that begins with the default at `begin`, a draw taking `each`; as far as the chart goes."""
    first = [(begin, chance.begin)] if chance.begin else []
    inside = [(begin + count * each, place) for place, count in enumerate(chance.counts) if begin + count * each <= chart.x.high]
    low, high, mean = ([*first, *((x, own[place]) for x, place in inside)] for own in (chance.low, chance.high, chance.mean))
    chart.band(low, high, "band")
    chart.line(mean, "expected")


def knob(effect: Effect, scale: Scale, most: int) -> str:
    """The ratios to the best for each value of a knob, with their medians."""
    left = 14 + round(7.0 * min(max(len(level.label) for level in effect.levels), LONGEST_LABEL))
    rows = len(effect.levels)
    chart = Chart(
        effect.name, f"{effect}.", scale, Scale(0, rows), width=400, height=46 + ROW * rows, margins=(6, 14, 40, left),
    )  # fmt: skip
    chart.axes("time / best", y_ticks=[], x_ticks=scale.ticks(5))
    for place, level in enumerate(effect.levels):
        centre = rows - place - 0.5
        y = chart.place(scale.low, centre)[1]
        chart.text(left - 7, y + 4, _cut(level.label), "tick end mono", level.label)
        ratios = ranked(level.ratios, most)
        if level.middle is not None:
            told = f"{level.label}: median {level.middle:.3f}x of the best, {plural(len(level.ratios), 'valid trial')}"
            chart.stroke(chart.place(level.middle, centre)[0], y, ROW / 2 - 2, "middle", told)
        elif level.failed:
            chart.text(left + 6, y + 4, f"all {level.failed} failed", "note")
        chart.dots([(ratio, centre + 0.55 * off) for ratio, off in zip(ratios, spread(len(ratios)), strict=True)], "model", size=2.6)
    head = ["value", "valid", "failed", "least", "median", "greatest"]
    cells = [(level.label, len(level.ratios), level.failed, *_range(level)) for level in effect.levels]
    return page.figure(effect.name, chart.svg(), aside=effect.explains, numbers=markup.table(head, cells, numbers=(1, 2, 3, 4, 5)))


def _range(level: Level) -> tuple[str, str, str]:
    if not level.ratios:
        return "-", "-", "-"
    return f"{min(level.ratios):.3f}x", f"{median(level.ratios):.3f}x", f"{max(level.ratios):.3f}x"


def noise(trials: Sequence[Trial], most: int) -> str:
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
    return page.figure("Noise of each trial", chart.svg(), caption, numbers=markup.table(["share", "noise"], rows, numbers=(1,)))


def series(title: str, caption: str, points: Sequence[tuple[float, float]], label: str, most: int, *, level: float | None = None) -> str:
    """A quantity of the machine along the trials."""
    chart = Chart(title, caption, Scale(0, max(x for x, _ in points) + 1), Scale.over([0.0, *(y for _, y in points)], pad=0.1), height=230)
    chart.axes("trials", label)
    if level is not None:
        chart.level(level, "base")
    kept = [points[place] for place in thinned(points, most)]
    chart.line(kept, "best")
    return page.figure(title, chart.svg(), caption)


def finalists(final: Mapping[str, Any], trials: Sequence[Trial]) -> str:
    """The paired rounds: each finalist's time over the winner's in the same round. Empty where the log does not have them."""
    won, runs = samples_of(final, final.get("winner"))
    configs = {trial.id: trial.config for trial in trials}
    found = {key: samples_of(final, key)[0] for key in configs}
    ratios = {key: [a / b for a, b in zip(some, won, strict=True)] for key, some in found.items() if won and len(some) == len(won)}
    if not ratios:
        return ""
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
                   "default" if key == final.get("default") else "model", [f"{ratio:.4f}x" for ratio in some])  # fmt: skip
        chart.stroke(chart.place(median(some), centre)[0], y, 12, "middle", f"{names[key]}: median {median(some):.4f}x")
    cells = [(names[key], duration(min(found[key])), f"{median(some):.4f}x", spelling(configs[key])) for key, some in ratios.items()]
    numbers = markup.table(["finalist", "least time", "median ratio", "configuration"], cells, numbers=(1, 2))
    where = "a fresh process" if len(runs) == 1 else f"{len(runs)} fresh processes"
    caption = f"One dot for each round in {where}; bars are medians. The winner is 1 by definition."
    return page.figure("The finalists, side by side", chart.svg(), caption, numbers=numbers)


def _role(final: Mapping[str, Any], key: str) -> str:
    return (" default" if key == final.get("default") else "") + (" winner" if key == final.get("winner") else "")


def coverage(trials: Sequence[Trial], values: Mapping[str, Sequence[Any]], *, whole: bool) -> str:
    """For each knob how often each of its values was tried; `whole`: the values are all that the space has."""
    counts: Counter[tuple[str, str]] = Counter((name, spelling(value)) for trial in trials for name, value in trial.config.items())
    left = 14 + round(7.0 * min(max(map(len, values)), 22))
    chart = Chart(
        "Values tried", "A cell for each value of a knob; the stronger its colour, the more trials had the value; an outline: never tried.",
        Scale(0, 1), Scale(0, 1), width=560, height=10 + 20 * len(values), margins=(4, 76, 4, left),
    )  # fmt: skip
    span = chart.width - left - 76
    rows = []
    for row, (name, own) in enumerate(values.items()):
        top = 6 + 20 * row
        told = [counts[name, spelling(value)] for value in own]
        chart.text(left - 7, top + 12, _cut(name, 22), "tick end mono", name)
        step = min(span / len(own), 44)
        for place, (value, count) in enumerate(zip(own, told, strict=True)):
            text = f"{name} = {text_of(value)}: {plural(count, 'trial')}"
            strength = 0.25 + 0.75 * count / max(told) if count else 1.0
            chart.box(left + place * step, top, max(step - 2, 0.6), 15, "cell" if count else "untried", text, strength)
        tried = sum(count > 0 for count in told)
        chart.text(chart.width - 70, top + 12, f"{tried} of {len(own)}" if whole else f"{tried} seen", "tick")
        rows.append((name, tried, len(own) if whole else "not known here"))
    caption = "The stronger the colour, the more trials had the value; outlines were never tried."
    if not whole:
        caption = "Only the values in the log: this program's space cannot be rebuilt here."
    numbers = markup.table(["knob", "values tried", "values"], rows, numbers=(1, 2))
    return page.figure("Values tried", chart.svg(), caption, numbers=numbers, kind="narrow")


def failures(rows: Sequence[tuple[str, int, str]]) -> str:
    """How many trials failed for which reason: (status, count, an example)."""
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
    return page.figure("Failures by reason", chart.svg())


def roofline(points: Mapping[str, tuple[float, float]], peak: Peak, notes: str) -> str:
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
    entries = [("diamond", "winner" if name == "best" else "default", name) for name in points]
    rows = [(name, f"{x:.3g}", f"{y / 1e9:.4g}", f"{y / flops:.1%}") for name, (x, y) in points.items()]
    numbers = markup.table(["schedule", "FLOP/byte", "GFLOP/s", "share of peak"], rows, numbers=(1, 2, 3))
    return page.figure("Roofline", chart.svg(), notes, key=page.key(entries), numbers=numbers)


def _told(trial: Trial) -> str:
    return f"{trial.source}: {duration(trial.time)}, noise {trial.noise:.1%}. {spelling(trial.config)[:200]}"


def _short(seconds: float) -> str:
    return duration(float(f"{seconds:.3g}"))


def _cut(text: str, most: int = LONGEST_LABEL) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
