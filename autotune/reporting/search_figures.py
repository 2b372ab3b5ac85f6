"""The charts of a search: how the best came about, what each knob did, which values were tried.

Each function takes trials (or what `analysis` made of them) and gives a figure: the chart, what it says in words, its numbers folded below.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.reporting.analysis import default_of, improvements
from tensorlang.autotune.reporting.charts import Chart, Scale, ranked, spread, thinned
from tensorlang.autotune.reporting.display import duration, plural
from tensorlang.autotune.reporting.knob_effects import Effect, KnobLevel, text_of
from tensorlang.autotune.reporting.parts import Figure, Mark, Table
from tensorlang.autotune.reporting.random_search import Baseline
from tensorlang.schedules.spaces.space import spelling

SOURCES: Final = {"default": "default", "seed": "seed", "random": "random", "model": "model", "neighbour": "neighbour", "grid": "grid-walk"}
ROW: Final = 22
LONGEST_LABEL: Final = 17


def progress(trials: Sequence[Trial], at: Sequence[float], chance: Baseline | None, *, wall: bool, most: int) -> Figure:
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
    key = [Mark("line", "best", "best so far"), Mark("diamond", "winner", "fastest trial")]
    key += [Mark("line", "expected", "random search, expected"), Mark("band", "band", "80% of random searches")] if chance else []
    key += [Mark("dot", kind, name) for name, kind in {**SOURCES, "other": "other"}.items() if kind in kinds]
    key += [Mark("cross", "fail", "failed (at the top)")] if lost else []
    numbers = Table([unit, "best so far"], [(f"{place:.4g}", duration(time)) for place, time in steps], numbers=(0, 1))
    caption = f"{len(kept):,} of {plural(len(valid), 'valid trial')} drawn, extremes included." if len(kept) < len(valid) else ""
    return Figure(title, chart.svg(), caption, key=key, numbers=numbers)


def _chance(chart: Chart, chance: Baseline, begin: float, each: float) -> None:
    """Random search that begins with the default at `begin`, a draw taking `each`; as far as the chart goes."""
    first = [(begin, chance.begin)] if chance.begin else []
    inside = [(begin + count * each, place) for place, count in enumerate(chance.counts) if begin + count * each <= chart.x.high]
    low, high, mean = ([*first, *((x, own[place]) for x, place in inside)] for own in (chance.low, chance.high, chance.mean))
    chart.band(low, high, "band")
    chart.line(mean, "expected")


def _told(trial: Trial) -> str:
    return f"{trial.source}: {duration(trial.time)}, noise {trial.noise:.1%}. {spelling(trial.config)[:200]}"


def _short(seconds: float) -> str:
    return duration(float(f"{seconds:.3g}"))


def knob(effect: Effect, scale: Scale, most: int) -> Figure:
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
    return Figure(effect.name, chart.svg(), aside=effect.explains, numbers=Table(head, cells, numbers=(1, 2, 3, 4, 5)))


def _range(level: KnobLevel) -> tuple[str, str, str]:
    if not level.ratios:
        return "-", "-", "-"
    return f"{min(level.ratios):.3f}x", f"{median(level.ratios):.3f}x", f"{max(level.ratios):.3f}x"


def coverage(trials: Sequence[Trial], values: Mapping[str, Sequence[Any]], *, whole: bool) -> Figure:
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
    numbers = Table(["knob", "values tried", "values"], rows, numbers=(1, 2))
    return Figure("Values tried", chart.svg(), caption, numbers=numbers, kind="narrow")


def _cut(text: str, most: int = LONGEST_LABEL) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
