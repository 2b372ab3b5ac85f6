"""What the page says of one study, section by section, as values; `templates/study.html` says it in words.

The result and how sure it is, how it came about and what random search would have done, what each knob did, failures, noise, how much of
the space was seen, and the winning loop nest with its roofline. What a log does not say is not made up: the page then gives the reason.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from tensorlang.autotune.jobs.peak import Peak
from tensorlang.autotune.jobs.result import failures
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.measurement.quality import Quality, shown
from tensorlang.autotune.reporting import measurement_figures, replay, search_figures
from tensorlang.autotune.reporting.analysis import default_of, elapsed, number, slow
from tensorlang.autotune.reporting.charts import Scale
from tensorlang.autotune.reporting.display import duration, plural
from tensorlang.autotune.reporting.headline import Headline, cost
from tensorlang.autotune.reporting.knob_effects import knob_effects, text_of
from tensorlang.autotune.reporting.parts import Figure, Table
from tensorlang.autotune.reporting.random_search import Baseline, baseline
from tensorlang.autotune.reporting.replay import mapping
from tensorlang.autotune.reporting.report import Tuned
from tensorlang.schedules.spaces.space import spelling

KNOBS: Final = 16
"""Knobs with a chart of their own."""
TOP: Final = 10
REASONS: Final = 12


@dataclass(frozen=True, slots=True)
class Convergence:
    """How the best came about; `baseline` is random search, a draw of which takes the time `draw`, None where too little is known."""

    baseline: Baseline | None
    draw: str
    strategy: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Knobs:
    """A chart for each knob, and a line for each of the `rest`, which explain less."""

    figures: tuple[Figure, ...]
    rest: Table | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the space was tried; `total` is the number of points before constraints where it is another."""

    text: str
    share: float | None
    total: int | None
    repeats: str
    figure: Figure | None


@dataclass(frozen=True, slots=True)
class Winner:
    """The winning schedule: its knobs, its loop nest, the Python that makes it."""

    knobs: Table
    roofline: Figure
    nest: str
    python: str


@dataclass(frozen=True, slots=True)
class Study:
    """All that the page says of a study; `overview` is its line in the table of several, `mixed`: of several machines or versions."""

    title: str
    name: str
    where: str
    overview: tuple[str, ...]
    headline: Headline
    progress: Convergence | None
    knobs: Knobs | None
    trouble: tuple[Figure, ...]
    coverage: Coverage
    winner: Winner | None
    fastest: Table
    definition: str
    notes: tuple[str, ...]
    mixed: bool
    facts: tuple[tuple[str, str], ...]


def study(tuned: Tuned, most: int, *, measure: bool) -> Study:
    """Everything of one study, with about `most` marks in a chart; `measure`: this machine's peak, where it is the CPU of the log."""
    trials = tuned.trials
    first = trials[0]
    peak, why = replay.peak(first, measure=measure)
    where = [replay.model(first), f"CPU {first.target.get('cpu')}", plural(first.threads, "thread"), f"{first.cache} cache"]
    gained, failed = "-" if tuned.speedup is None else f"{tuned.speedup:.2f}x", sum(trial.time is None for trial in trials)
    return Study(
        title=tuned.title,
        name=tuned.name,
        where=", ".join(where),
        overview=(f"{len(trials):,}", duration(tuned.time), gained, shown(tuned.quality), f"{failed:,}"),
        headline=Headline.of(tuned, peak),
        progress=_progress(tuned, most),
        knobs=_knobs(trials, most),
        trouble=_trouble(trials, most),
        coverage=_coverage(tuned),
        winner=_winner(tuned, peak, why),
        fastest=_fastest(trials),
        definition=replay.definition(first),
        notes=_notes(tuned),
        mixed=len(_distinct(trials, "software")) > 1,
        facts=_facts(tuned),
    )


def _notes(tuned: Tuned) -> tuple[str, ...]:
    """What to know before all else: that there was nothing left to try, that the machine did other work."""
    space = (
        f"Space exhausted: all {tuned.points:,} feasible points were tried." if tuned.points else "Space exhausted: every point was tried."
    )
    busy = f"Busy machine: {tuned.busy}." if tuned.busy else ""
    return tuple(filter(None, (space if tuned.exhausted else "", busy)))


def _progress(tuned: Tuned, most: int) -> Convergence | None:
    trials = tuned.trials
    if not any(trial.time is not None for trial in trials):
        return None
    chance = baseline(trials, tuned.points)
    counts = [float(count) for count in range(1, len(trials) + 1)]
    figures = [
        search_figures.progress(trials, counts, chance, wall=False, most=most),
        search_figures.progress(trials, elapsed(trials, tuned.starts), chance, wall=True, most=most),
        None if tuned.final is None else measurement_figures.finalists(tuned.final, trials),
        Figure("Where the points came from", table=_sources(trials)),
    ]
    return Convergence(chance, "" if chance is None else duration(chance.wall_s), tuned.strategy, tuple(filter(None, figures)))


def _sources(trials: Sequence[Trial]) -> Table:
    rows = []
    for source, count in Counter(trial.source for trial in trials).most_common():
        times = [trial.time for trial in trials if trial.source == source and trial.time is not None]
        rows.append((source, count, count - len(times), duration(min(times, default=None)), duration(median(times) if times else None)))
    return Table(("source", "trials", "failed", "best", "median"), rows, numbers=(1, 2, 3, 4))


def _knobs(trials: Sequence[Trial], most: int) -> Knobs | None:
    effects = knob_effects(trials)
    if not effects:
        return None
    greatest = max((ratio for effect in effects for level in effect.levels for ratio in level.ratios), default=1.0)
    scale = Scale(0.985, max(greatest * 1.03, 1.05), log=True, spell=lambda value: f"{value:.4g}x")
    figures = tuple(search_figures.knob(effect, scale, max(40, most // 20)) for effect in effects[:KNOBS])
    return Knobs(figures, Table(["knob"], [(str(effect),) for effect in effects[KNOBS:]]) if len(effects) > KNOBS else None)


def _trouble(trials: Sequence[Trial], most: int) -> tuple[Figure, ...]:
    """Failures, noise, load and drift."""
    figures = [_failed(trials)]
    if any(trial.time is not None for trial in trials):
        figures.append(measurement_figures.noise(trials, most))
    if load := _series(trials, "load"):
        cores = number(mapping(trials[0], "machine").get("cores"))
        about = "Running processes, mean of the last minute" + (f"; the machine has {cores:.0f} usable cores." if cores else ".")
        figures.append(measurement_figures.series("Load of the machine", about, load, "load", most))
    title = "Drift of the machine"
    if drift := [(count, 100 * value) for count, value in _series(trials, "drift")]:
        stretches = "; ".join(map(str, slow(trials))) or "no stretch of trials was slow"
        about = f"A fixed piece of work, timed beside every candidate: how much slower than at its best in the run; {stretches}."
        figures.append(measurement_figures.series(title, about, drift, "slower by (%)", most))
    else:
        figures.append(Figure(title, instead="This log records no drift."))
    return tuple(figures)


def _failed(trials: Sequence[Trial]) -> Figure:
    rows = [(status, count, next(trial.why for trial in trials if trial.status == status)) for status, count in failures(trials).items()]
    if not rows:
        return Figure("Failures by reason", instead="No trial failed.")
    reasons = Counter((trial.status, trial.why[:200]) for trial in trials if trial.time is None).most_common(REASONS)
    cells = [(status, count, why) for (status, why), count in reasons]
    return measurement_figures.failures(rows, Table(["status", "trials", "reason"], cells, numbers=(1,)))


def _series(trials: Sequence[Trial], name: str) -> list[tuple[float, float]]:
    told = ((float(count), number(trial.fields.get(name))) for count, trial in enumerate(trials, 1))
    return [(count, value) for count, value in told if value is not None]


def _coverage(tuned: Tuned) -> Coverage:
    trials, points = tuned.trials, tuned.points
    space = replay.space(trials[0])
    tried = len({spelling(trial.config) for trial in trials})
    repeats = plural(len(trials) - tried, "trial") if len(trials) > tried else ""
    values = replay.values(space, trials)
    figure = search_figures.coverage(trials, values, whole=space is not None) if values else None
    if not points:
        return Coverage(f"{plural(tried, 'distinct point')} tried", None, None, repeats, figure)
    share = min(tried / points, 1.0)
    percent = f"{share:.0%}" if share >= 0.1 else f"{100 * share:.2g}%"
    total = None if space is None or space.total == points else space.total
    return Coverage(f"{tried:,} of {points:,} feasible points tried ({percent})", share, total, repeats, figure)


def _winner(tuned: Tuned, peak: Peak | None, why: str) -> Winner | None:
    best = tuned.best
    if best is None:
        return None
    flops, moved = cost(best)
    if flops and moved and tuned.time and peak is not None and peak.flops:
        points = {"best": (flops / moved, flops / tuned.time)}
        base = default_of(tuned.trials)
        again = (tuned.final and tuned.final.default_time) or (base.time if base is not None else None)
        if again and not tuned.default_stands:
            points["default"] = (flops / moved, flops / again)
        roofline = measurement_figures.roofline(points, peak, f"{why} {replay.fits(moved)}")
    else:
        missing = why if flops and moved else "The log does not say how many operations and bytes a call takes."
        roofline = Figure("Roofline", instead=missing)
    return Winner(Table(["knob", "value"], [(name, text_of(value)) for name, value in best.config.items()]), roofline, *replay.texts(best))


def _fastest(trials: Sequence[Trial]) -> Table:
    valid = sorted(((trial.time, count, trial) for count, trial in enumerate(trials, 1) if trial.time is not None), key=lambda row: row[:2])
    rows = [
        (count, trial.source, duration(trial.time), _noise(trial), duration(trial.compile_s), spelling(trial.config))
        for _, count, trial in valid[:TOP]
    ]
    return Table(("trial", "source", "time", "noise", "compile", "configuration"), rows, numbers=(0, 2, 3, 4))


def _noise(trial: Trial) -> str:
    return f"{trial.noise:.1%}" + ("" if trial.quality in (None, Quality.CLEAN) else f" {trial.quality}")


def _facts(tuned: Tuned) -> tuple[tuple[str, str], ...]:
    """Where, when and with what this was measured."""
    first, last = tuned.trials[0], tuned.trials[-1]
    begun = number(first.fields.get("time_unix"))
    return (
        ("machine", "; ".join(map(_listed, _distinct(tuned.trials, "machine")))),
        ("software", "; ".join(map(_listed, _distinct(tuned.trials, "software")))),
        ("search", ", ".join(dict.fromkeys(f"{start.search}, seed {start.seed}" for start in tuned.starts))),
        ("last run ended", tuned.ended or "it did not: running, or killed"),
        ("measured", "" if begun is None else time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(begun))),
        ("policy", _listed(mapping(last, "policy"))),
        ("strategy", _listed(mapping(last, "strategy"))),
        ("program", tuned.fingerprint),
        ("target", f"{first.target.get('triple')}, {first.target.get('cpu')}, fingerprint {first.target.get('fingerprint')}"),
    )


def _distinct(trials: Sequence[Trial], name: str) -> list[Mapping[str, Any]]:
    """The different values of a field that is an object."""
    return list({spelling(dict(mapping(trial, name))): mapping(trial, name) for trial in trials}.values())


def _listed(fields: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields.items())
