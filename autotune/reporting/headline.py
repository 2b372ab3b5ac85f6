"""What the page says of a study first: the verdict, how far to trust it, and the numbers that matter."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from tensorlang.autotune.jobs.peak import Peak
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.measurement.quality import MEANING, Quality, doubtful, shown
from tensorlang.autotune.reporting.analysis import Gain, contender, elapsed, gain, number, overhead
from tensorlang.autotune.reporting.display import clock, duration, plural
from tensorlang.autotune.reporting.report import Tuned

NOISY: Final = 0.1


@dataclass(frozen=True, slots=True)
class Tile:
    """A number with its name and what to know of it."""

    name: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class Headline:
    """The verdict in a sentence, a warning where samples scatter too much, and tiles; the first stands out."""

    verdict: str
    warning: str
    tiles: tuple[Tile, ...]

    @classmethod
    def of(cls, tuned: Tuned, peak: Peak | None) -> Headline:
        """What there is to say of a study; `peak` is None where this machine is not that of the log."""
        won = gain(tuned.final, tuned.trials, tuned.best)
        return cls(_verdict(tuned, won), _warning(tuned), tuple(_tiles(tuned, won, peak)))


def cost(trial: Trial | None) -> tuple[float, float]:
    """Operations and bytes of a call; 0 where the log does not say."""
    if trial is None:
        return 0.0, 0.0
    return number(trial.fields.get("flops")) or 0.0, number(trial.fields.get("bytes")) or 0.0


def predicted(trial: Trial | None) -> float | None:
    """The seconds that the cost model gave a trial before it was measured, where the search asked it."""
    prediction = None if trial is None else trial.fields.get("prediction")
    seconds = prediction.get("seconds") if isinstance(prediction, dict) else None
    return float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < math.inf else None


def _verdict(tuned: Tuned, won: Gain | None) -> str:
    if tuned.best is None:
        return f"No schedule is valid after {plural(len(tuned.trials), 'trial')}."
    if tuned.final is None:
        return "The search has not reached its final measurement: what follows is from single trials and may flatter the luckiest."
    if tuned.default_stands:
        led = contender(tuned.final)
        if tuned.quality is Quality.UNDECIDED and led is not None:
            told = f"{led.middle:.3g}x (95%: {led.low:.3g} to {led.high:.3g})"
            return (
                f"Undecided: a candidate led the default by {told}, but not surely, so the default stands; measure again when it is quiet."
            )
        return "The default schedule stands: nothing that was tried beat it beyond the noise when measured side by side."
    if won is None:
        return "The winner was measured again in a fresh process; there is no valid default to compare it with."
    if (won.low is not None and won.low <= 1) or doubtful(tuned.quality):
        why = "the interval reaches 1" if won.low is not None and won.low <= 1 else f"the measurement is {tuned.quality}"
        return f"{won}: {why}, so the gain is not beyond the noise, and a database serves the default."
    return f"The tuned schedule is {won.ratio:.3g} times as fast as the default ({won.how})."


def _warning(tuned: Tuned) -> str:
    """A word where the times are not to be trusted, or samples scatter so much that small differences mean nothing; else empty."""
    if tuned.quality in (Quality.SHARED, Quality.DRIFTED, Quality.NOISY):
        return f"The machine was busy ({tuned.quality}): {MEANING[tuned.quality]}."
    trials = tuned.trials
    levels = [trial.noise for trial in trials if trial.time is not None]
    if not levels or median(levels) < NOISY:
        return ""
    return f"The machine was not quiet: the samples of the median trial scatter by {median(levels):.0%}; small differences mean nothing."


def _tiles(tuned: Tuned, won: Gain | None, peak: Peak | None) -> Iterator[Tile]:
    trials, failed = tuned.trials, sum(trial.time is None for trial in tuned.trials)
    again = "measured again, side by side" if tuned.final is not None else "fastest single trial"
    yield Tile("best time", duration(tuned.time), again)
    if won is None:
        yield Tile("over the default", "-", "no valid trial of the default")
    else:
        interval = "no interval yet" if won.low is None else f"95%: {won.low:.3f} to {won.high:.3f}"
        yield Tile("over the default", f"{won.ratio:.2f}x", "the default won" if tuned.default_stands else interval)
    of = "of the final measurement" if tuned.final is not None else "of the fastest trial"
    yield Tile("quality", shown(tuned.quality), of if tuned.quality is not None else "the log does not say")
    if tuned.time and (seconds := predicted(tuned.best)):
        yield Tile("predicted for the winner", duration(seconds), f"{seconds / tuned.time:.2f} of its time, by the cost model")
    flops, moved = cost(tuned.best)
    if tuned.time and flops:
        rate = flops / tuned.time
        share = f"{rate / peak.flops:.0%} of the measured peak" if peak and peak.flops else "peak not measured, see the roofline"
        yield Tile("arithmetic", f"{rate / 1e9:.3g} GFLOP/s", share)
    if tuned.time and moved:
        yield Tile("arguments and results", f"{moved / tuned.time / 1e9:.3g} GB/s", f"{moved / 1e6:.3g} MB a call, each byte once")
    yield Tile("trials", f"{len(trials):,}", f"{failed:,} failed" if failed else "none failed")
    wall, spent = max(elapsed(trials, tuned.starts)), overhead(trials)
    pace = f"{len(trials) / wall:.2g} trials/s" if wall > 0 else ""
    about = pace if spent is None else f"{pace}, {spent:.0%} overhead"
    yield Tile("wall time of tuning", clock(wall) if wall >= 10 else f"{wall:.2g} s", about)
