"""`autotune report LOG --html FILE`: one page that says what a log holds, opens offline and needs no script.

For each study: the result and how sure it is, how it came about and what random search would have done, what each knob did, failures,
noise, how much of the space was seen, and the winning loop nest with its roofline. What a log does not say is not made up: the page then
gives the reason. Text from the log is escaped; a log can be anyone's.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from statistics import median
from typing import Any, Final

from tensorlang.autotune.jobs.peak import Peak
from tensorlang.autotune.jobs.result import failures
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.reporting import figures, page, replay
from tensorlang.autotune.reporting.analysis import Gain, baseline, default_of, elapsed, gain, knob_effects, number, overhead, slow, text_of
from tensorlang.autotune.reporting.charts import Scale
from tensorlang.autotune.reporting.display import clock, duration, plural, shape_of
from tensorlang.autotune.reporting.replay import mapping
from tensorlang.autotune.reporting.report import Tuned, studies
from tensorlang.errors import LogError, did_you_mean
from tensorlang.schedules.spaces.space import spelling
from tensorlang.system import markup
from tensorlang.system.files import replacing

MARKS: Final = 12_000
"""Dots in all charts of one kind on a page."""

KNOBS: Final = 16
NOISY: Final = 0.1
TOP: Final = 10


def write(log: Log, path: str | os.PathLike[str], task: str | None = None, *, measure: bool = True) -> Path:
    """Write the page on a log to `path`, and return that path.

    `task` chooses studies by operator or by the start of their fingerprint. The roofline measures this machine for a few seconds where it
    is the CPU of the log; `measure=False` leaves it out. Raises `LogError` for a log without trials, a task that it does not hold, or a
    path that cannot be written.
    """
    held = studies(log)
    chosen = [tuned for tuned in held if task is None or task in (_op(tuned), _fingerprint(tuned)[: len(task)])]
    if not chosen:
        known = sorted({_op(tuned) for tuned in held})
        raise LogError(f"{log.path} holds no task {task!r}{did_you_mean(str(task), known)}")
    most = max(150, min(2_500, MARKS // len(chosen)))
    sections = "".join(_study(tuned, f"study{place}", most, measure=measure) for place, tuned in enumerate(chosen, 1))
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    head = f"<h1>autotune report</h1><p class='soft'>{escape(str(log.path))}, read {when}</p>"
    body = head + (_contents(chosen) if len(chosen) > 1 else "") + sections + _skipped(log)
    where = Path(path)
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        with replacing(where) as file:
            file.write(page.document(f"autotune: {', '.join(dict.fromkeys(map(_op, chosen)))[:80]}", body).encode())
    except OSError as error:
        raise LogError(f"cannot write {where}: {error.strerror}") from None
    return where


# One study ---------------------------------------------------------------------------------------------------------------------------


def _study(tuned: Tuned, anchor: str, most: int, *, measure: bool) -> str:
    trials = tuned.trials
    first = trials[0]
    won = gain(tuned.final, trials, tuned.best)
    peak, why = replay.peak(first, measure=measure)
    where = [replay.model(first), f"CPU {first.target.get('cpu')}", plural(first.threads, "thread"), f"{first.cache} cache"]
    parts = [
        f"<h2>{escape(_name(first))}</h2>",
        markup.paragraph(", ".join(where), "soft"),
        markup.paragraph(_verdict(tuned, won)),
        _unquiet(trials),
        page.tiles(_headline(tuned, won, peak)),
        _came_about(tuned, most),
        _knobs(trials, most),
        _trouble(trials, most),
        _seen(tuned),
        _winner(tuned, peak, why),
        _fastest(trials),
        _provenance(tuned),
    ]
    return f'<section class="study" id="{anchor}">{"".join(parts)}</section>'


def _verdict(tuned: Tuned, won: Gain | None) -> str:
    if tuned.best is None:
        return f"No schedule is valid after {plural(len(tuned.trials), 'trial')}."
    if tuned.final is None:
        return "The search has not reached its final measurement: what follows is from single trials and may flatter the luckiest."
    if _stands(tuned):
        return "The default schedule stands: nothing that was tried beat it beyond the noise when measured side by side."
    if won is None:
        return "The winner was measured again in a fresh process; there is no valid default to compare it with."
    if won.low is not None and won.low <= 1:
        return f"{won}: the interval reaches 1, so the gain is not beyond the noise."
    return f"The tuned schedule is {won.ratio:.3g} times as fast as the default ({won.how})."


def _unquiet(trials: Sequence[Trial]) -> str:
    """A word of warning where samples scatter so much that small differences mean nothing."""
    levels = [trial.noise for trial in trials if trial.time is not None]
    if not levels or median(levels) < NOISY:
        return ""
    about = f"The machine was not quiet: the samples of the median trial scatter by {median(levels):.0%}; small differences mean nothing."
    return markup.paragraph(about, "warn")


def _headline(tuned: Tuned, won: Gain | None, peak: Peak | None) -> list[tuple[str, str, str]]:
    trials, failed = tuned.trials, sum(trial.time is None for trial in tuned.trials)
    again = "measured again, side by side" if tuned.final is not None else "fastest single trial"
    entries = [("best time", duration(tuned.time), again)]
    if won is None:
        entries.append(("over the default", "-", "no valid trial of the default"))
    else:
        interval = "no interval yet" if won.low is None else f"95%: {won.low:.3f} to {won.high:.3f}"
        interval = "the default won" if _stands(tuned) else interval
        entries.append(("over the default", f"{won.ratio:.2f}x", interval))
    flops, moved = _cost(tuned.best)
    if tuned.time and flops:
        rate = flops / tuned.time
        share = f"{rate / peak.flops:.0%} of the measured peak" if peak and peak.flops else "peak not measured, see the roofline"
        entries.append(("arithmetic", f"{rate / 1e9:.3g} GFLOP/s", share))
    if tuned.time and moved:
        entries.append(("arguments and results", f"{moved / tuned.time / 1e9:.3g} GB/s", f"{moved / 1e6:.3g} MB a call, each byte once"))
    entries.append(("trials", f"{len(trials):,}", f"{failed:,} failed" if failed else "none failed"))
    wall = max(elapsed(trials, tuned.starts))
    pace = f"{len(trials) / wall:.2g} trials/s" if wall > 0 else ""
    spent = overhead(trials)
    about = pace if spent is None else f"{pace}, {spent:.0%} overhead"
    entries.append(("wall time of tuning", clock(wall) if wall >= 10 else f"{wall:.2g} s", about))
    return entries


def _came_about(tuned: Tuned, most: int) -> str:
    trials = tuned.trials
    if not any(trial.time is not None for trial in trials):
        return ""
    chance = baseline(trials, _points(tuned))
    counts = [float(count) for count in range(1, len(trials) + 1)]
    pair = figures.progress(trials, counts, chance, wall=False, most=most)
    pair += figures.progress(trials, elapsed(trials, tuned.starts), chance, wall=True, most=most)
    drawn = "" if _search(tuned) == "random" else " (the other strategies draw their first points to fill the space, not independently)"
    about = (
        f"Random search: {chance.about}{drawn}. Each draw costs {duration(chance.wall_s)}, the mean wall time of one."
        if chance
        else "No line for random search: this log has fewer than three random trials, or none that is valid."
    )
    final = figures.finalists(tuned.final, trials) if tuned.final is not None else ""
    return f'<h3>How the best came about</h3>{markup.paragraph(about, "soft small")}<div class="row">{pair}{final}{_sources(trials)}</div>'


def _sources(trials: Sequence[Trial]) -> str:
    rows = []
    for source, count in Counter(trial.source for trial in trials).most_common():
        times = [trial.time for trial in trials if trial.source == source and trial.time is not None]
        rows.append((source, count, count - len(times), duration(min(times, default=None)), duration(median(times) if times else None)))
    head = ("source", "trials", "failed", "best", "median")
    return f"<figure><h4><span>Where the points came from</span></h4>{markup.table(head, rows, numbers=(1, 2, 3, 4))}</figure>"


def _knobs(trials: Sequence[Trial], most: int) -> str:
    effects = knob_effects(trials)
    if not effects:
        return ""
    greatest = max((ratio for effect in effects for level in effect.levels for ratio in level.ratios), default=1.0)
    scale = Scale(0.985, max(greatest * 1.03, 1.05), log=True, spell=lambda value: f"{value:.4g}x")
    about = (
        "Each dot is a valid trial: its time over the best time of the log; bars are medians. A knob explains the share of the order of "
        "the trials by time that its value alone accounts for (epsilon squared of ranks, adjusted for chance). It describes these "
        "trials: a search looks closer where it is fast, and knobs that act together share their effect."
    )
    charts = "".join(figures.knob(effect, scale, max(40, most // 20)) for effect in effects[:KNOBS])
    rest = markup.folded(
        f"{len(effects) - KNOBS} knobs that explain less", markup.table(["knob"], [(str(effect),) for effect in effects[KNOBS:]])
    ) if len(effects) > KNOBS else ""  # fmt: skip
    return f'<h3>What each knob did</h3>{markup.paragraph(about, "soft small")}<div class="row knobs">{charts}</div>{rest}'


def _trouble(trials: Sequence[Trial], most: int) -> str:
    lost = failures(trials)
    rows = [(status, count, next(trial.why for trial in trials if trial.status == status)) for status, count in lost.items()]
    parts = []
    if rows:
        reasons = Counter((trial.status, trial.why[:200]) for trial in trials if trial.time is None).most_common(12)
        cells = [(status, count, why) for (status, why), count in reasons]
        chart = figures.failures(rows)
        parts.append(chart.replace("</figure>", markup.table(["status", "trials", "reason"], cells, numbers=(1,)) + "</figure>"))
    else:
        parts.append("<figure><h4><span>Failures by reason</span></h4><p>No trial failed.</p></figure>")
    if any(trial.time is not None for trial in trials):
        parts.append(figures.noise(trials, most))
    load = _series(trials, "load")
    if load:
        cores = number(mapping(trials[0], "machine").get("cores"))
        about = "Running processes, mean of the last minute" + (f"; the machine has {cores:.0f} usable cores." if cores else ".")
        parts.append(figures.series("Load of the machine", about, load, "load", most))
    drift = [(count, 100 * value) for count, value in _series(trials, "drift")]
    if drift:
        stretches = "; ".join(map(str, slow(trials))) or "no stretch of trials was slow"
        about = f"A fixed piece of work, timed beside every candidate: how much slower than at its best in the run; {stretches}."
        parts.append(figures.series("Drift of the machine", about, drift, "slower by (%)", most))
    else:
        parts.append("<figure><h4><span>Drift of the machine</span></h4><p class='small soft'>This log records no drift.</p></figure>")
    return f'<h3>Failures and noise</h3><div class="row">{"".join(parts)}</div>'


def _series(trials: Sequence[Trial], name: str) -> list[tuple[float, float]]:
    told = ((float(count), number(trial.fields.get(name))) for count, trial in enumerate(trials, 1))
    return [(count, value) for count, value in told if value is not None]


def _seen(tuned: Tuned) -> str:
    trials = tuned.trials
    space, points = replay.space(trials[0]), _points(tuned)
    tried = len({spelling(trial.config) for trial in trials})
    lines = []
    if points:
        share = min(tried / points, 1.0)
        text = f"{tried:,} of {points:,} feasible points tried ({_share(share)})"
        bar = f'<div class="meter" role="img" aria-label="{escape(text)}"><i style="width:{max(100 * share, 0.4):.2f}%"></i></div>'
        total = "" if space is None or space.total == points else f"; {space.total:,} before constraints"
        lines += [markup.paragraph(f"{text}, as the job counted them{total}."), bar]
    else:
        lines.append(markup.paragraph(f"{plural(tried, 'distinct point')} tried; the log does not say how many there are.", "soft"))
    if (repeats := len(trials) - tried) > 0:
        lines.append(
            markup.paragraph(f"{plural(repeats, 'trial')} repeated a point, in another run or after a failure of the machine.", "soft")
        )
    values = replay.values(space, trials)
    chart = figures.coverage(trials, values, whole=space is not None) if values else ""
    return f"<h3>Coverage of the space</h3>{''.join(lines)}<br>{chart}"


def _winner(tuned: Tuned, peak: Peak | None, why: str) -> str:
    best = tuned.best
    if best is None:
        return ""
    parts = [markup.table(["knob", "value"], [(name, text_of(value)) for name, value in best.config.items()])]
    flops, moved = _cost(best)
    if flops and moved and tuned.time and peak is not None and peak.flops:
        points = {"best": (flops / moved, flops / tuned.time)}
        base = default_of(tuned.trials)
        again = number((tuned.final or {}).get("default_time")) or (base.time if base is not None else None)
        if again and not _stands(tuned):
            points["default"] = (flops / moved, flops / again)
        parts.append(figures.roofline(points, peak, f"{why} {replay.fits(moved)}"))
    else:
        missing = why if flops and moved else "The log does not say how many operations and bytes a call takes."
        parts.append(f"<figure><h4><span>Roofline</span></h4>{markup.paragraph(missing, 'soft')}</figure>")
    nest, python = replay.texts(best)
    return f'<h3>The winning schedule</h3><div class="row">{"".join(parts)}</div><pre>{escape(nest)}</pre>' + markup.folded(
        "as Python", f"<pre>{escape(python)}</pre>"
    )


def _fastest(trials: Sequence[Trial]) -> str:
    valid = sorted(((trial.time, count, trial) for count, trial in enumerate(trials, 1) if trial.time is not None), key=lambda row: row[:2])
    rows = [
        (count, trial.source, duration(trial.time), f"{trial.noise:.1%}", duration(trial.compile_s), spelling(trial.config))
        for _, count, trial in valid[:TOP]
    ]
    head = ("trial", "source", "time", "noise", "compile", "configuration")
    return "<h3>Fastest trials</h3>" + markup.table(head, rows, numbers=(0, 2, 3, 4)) if rows else ""


def _provenance(tuned: Tuned) -> str:
    first, last = tuned.trials[0], tuned.trials[-1]
    versions = _distinct(tuned.trials, "software")
    begun = number(first.fields.get("time_unix"))
    entries = [
        ("machine", "; ".join(_spelled(machine) for machine in _distinct(tuned.trials, "machine"))),
        ("software", "; ".join(_spelled(version) for version in versions)),
        ("search", ", ".join(dict.fromkeys(f"{start.get('search')}, seed {start.get('seed')}" for start in tuned.starts))),
        ("last run ended", tuned.ended or "it did not: running, or killed"),
        ("measured", "" if begun is None else time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(begun))),
        ("policy", _spelled(mapping(last, "policy"))),
        ("strategy", _spelled(mapping(last, "strategy"))),
        ("program", str(first.task.get("fingerprint"))),
        ("target", f"{first.target.get('triple')}, {first.target.get('cpu')}, fingerprint {first.target.get('fingerprint')}"),
    ]
    mixed = markup.paragraph("The trials of this study come from several machines or versions.", "warn") if len(versions) > 1 else ""
    return f"<h3>Where this was measured</h3>{mixed}{markup.facts(entries)}"


# Small readings of records -----------------------------------------------------------------------------------------------------------


def _distinct(trials: Sequence[Trial], name: str) -> list[Mapping[str, Any]]:
    return list({spelling(dict(mapping(trial, name))): mapping(trial, name) for trial in trials}.values())


def _spelled(fields: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields.items())


def _op(tuned: Tuned) -> str:
    return str(tuned.trials[0].task.get("op"))


def _fingerprint(tuned: Tuned) -> str:
    return str(tuned.trials[0].task.get("fingerprint"))


def _name(trial: Trial) -> str:
    return f"{trial.task.get('op')} {shape_of(trial.task)} {trial.task.get('dtype')}"


def _stands(tuned: Tuned) -> bool:
    """Did the default win the final measurement?"""
    return tuned.final is not None and tuned.final.get("winner") == tuned.final.get("default")


def _search(tuned: Tuned) -> str:
    return str(tuned.starts[-1].get("search")) if tuned.starts else ""


def _points(tuned: Tuned) -> int | None:
    points = number(tuned.starts[-1].get("points")) if tuned.starts else None
    return None if points is None else int(points)


def _cost(trial: Trial | None) -> tuple[float, float]:
    if trial is None:
        return 0.0, 0.0
    return number(trial.fields.get("flops")) or 0.0, number(trial.fields.get("bytes")) or 0.0


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{100 * share:.2g}%"


def _contents(chosen: Sequence[Tuned]) -> str:
    lines = []
    for place, tuned in enumerate(chosen, 1):
        gained = "-" if tuned.speedup is None else f"{tuned.speedup:.2f}x"
        failed = sum(trial.time is None for trial in tuned.trials)
        cells = "".join(f'<td class="n">{cell}</td>' for cell in (f"{len(tuned.trials):,}", duration(tuned.time), gained, f"{failed:,}"))
        lines.append(f'<tr><td><a href="#study{place}">{escape(tuned.title)}</a></td>{cells}</tr>')
    head = "<th>task</th>" + "".join(f'<th class="n">{name}</th>' for name in ("trials", "best", "speed-up", "failed"))
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def _skipped(log: Log) -> str:
    if not log.problems:
        return ""
    lines = markup.table(["skipped"], [(str(problem),) for problem in log.problems[:200]])
    return f'<section class="study"><h3>Lines of the log that were skipped: {len(log.problems):,}</h3>{lines}</section>'
