"""Beside others a time still holds, or says that it does not; and nothing wins that may be no faster."""

import math
from collections.abc import Callable, Iterator
from itertools import chain, count, repeat
from typing import Any

import numpy as np
import pytest

from tensorlang.autotune.jobs.finalists import Contest, Finalist, contest, decision, nominate
from tensorlang.autotune.log.record import Trial, from_line, to_line
from tensorlang.autotune.log.study_records import FinalRecord
from tensorlang.autotune.measurement.measure import Measurement, Policy, interleave, measure
from tensorlang.autotune.measurement.quality import MEANING, Quality, doubtful, worst
from tensorlang.autotune.measurement.steady import AGAIN, Steady
from tensorlang.autotune.measurement.timer import Elapsed, TeamTimer, ThreadTimer, timer_of
from tensorlang.autotune.workers.protocol import Facts, Outcome
from tests.autotune.test_log import fields


class Shared:
    """A core that `others` share: after each `slice_s` of ours they have theirs, and leave the caches cold for a while."""

    def __init__(self, others: int, slice_s: float = 3e-3, seed: int = 0, refill: float = 2e-4) -> None:
        self.wall = self.own = 0.0
        self.others, self.slice, self.refill = others, slice_s, refill
        self.rng = np.random.default_rng(seed)
        self.left = self.rng.uniform(0, slice_s)

    def work(self, seconds: float) -> None:
        seconds *= 1 + 0.005 * abs(self.rng.standard_normal())
        while self.others and seconds > self.left:
            seconds += self.refill - self.left
            self.pass_on()
        self.spend(seconds)

    def spend(self, seconds: float) -> None:
        self.wall += seconds
        self.own += seconds
        self.left -= seconds

    def pass_on(self) -> None:
        self.spend(self.left)
        self.wall += self.others * self.slice
        self.left = self.slice

    def timer(self) -> ThreadTimer:
        return ThreadTimer(lambda: int(self.wall * 1e9), lambda: int(self.own * 1e9))


@pytest.mark.parametrize("others", [0, 1, 2, 4])
@pytest.mark.parametrize("call_s", [2e-5, 1e-3, 2e-2])
def test_a_time_beside_busy_processes_is_that_of_a_quiet_machine(others: int, call_s: float) -> None:
    machine = Shared(others)
    found = measure(lambda: machine.work(call_s), Policy(), timer=machine.timer())
    slack = 0.02 if call_s < machine.slice else 0.1  # caches are refilled within a long call
    assert call_s <= min(found.samples) < (1 + slack) * call_s
    assert found.quality is (Quality.SHARED if others and call_s > machine.slice else Quality.CLEAN)


def test_measuring_beside_others_ends() -> None:
    policy, machine = Policy(total_s=0.5), Shared(8)
    measure(lambda: machine.work(5e-2), policy, timer=machine.timer())
    assert machine.wall < 12
    began = machine.wall
    interleave([lambda: machine.work(5e-2)] * 3, policy, timer=machine.timer())
    assert machine.wall - began < 25


def final_of(ratio: float, others: int, seed: int, processes: int = 3, spread: float = 0.01) -> Contest:
    """A final measurement of the default and of a candidate that takes `ratio` of its time."""
    rng, rows = np.random.default_rng(seed), ([], [])  # type: tuple[Any, tuple[list[float], list[float]]]
    runs, quality = list[int](), list[Quality]()
    for process in range(processes):
        machine = Shared(others, seed=1000 * seed + process)
        base, other = (5e-4 * factor * math.exp(spread * rng.standard_normal()) for factor in (1.0, ratio))
        calls: list[Callable[[], None]] = [lambda each=each: machine.work(each) for each in (base, other)]  # type: ignore[misc] # noqa: B023
        found = interleave(calls, Policy(), timer=machine.timer())
        for row, one in zip(rows, found, strict=True):
            row.extend(one.samples)
        runs.append(len(found[0].samples))
        quality += [one.quality for one in found]
    trials = [Trial.of(fields(seq, samples=[1e-4])) for seq in range(2)]
    made = (Finalist(trial, tuple(row), "{}", tuple(runs), worst(quality)) for trial, row in zip(trials, rows, strict=True))
    return Contest(tuple(made), ())


@pytest.mark.parametrize("others", [0, 1, 4])
def test_a_known_gain_wins_and_none_does_not_beside_busy_processes(others: int) -> None:
    for seed in range(5):
        gain, none = final_of(1 / 1.2, others, seed), final_of(1.0, others, seed)
        won = decision(gain, 2, gain.finalists[0].trial, None)
        assert won.winner == gain.finalists[1].trial.id and not doubtful(won.quality)
        stands = decision(none, 2, none.finalists[0].trial, None)
        assert stands.default_stands


def finalist(seq: int, samples: Any, runs: tuple[int, ...] = (), **changes: Any) -> Finalist:
    return Finalist(Trial.of(fields(seq, samples=[1.0])), tuple(samples), "{}", runs, **changes)


def test_what_leads_with_an_interval_that_holds_1_does_not_win_and_the_verdict_says_undecided() -> None:
    """Three processes say 1.3, 1.25 and 60 times: the mean is large, and the interval reaches from 0.02."""
    base = finalist(0, [1.0] * 6, (2, 2, 2), quality=Quality.CLEAN)
    lucky = finalist(1, [1 / 1.3] * 2 + [1 / 1.25] * 2 + [1 / 60] * 2, (2, 2, 2), quality=Quality.CLEAN)
    found = decision(Contest((base, lucky), ()), 2, base.trial, None)
    assert found.default_stands and found.quality is Quality.UNDECIDED and found.speedup == 1.0


def test_a_lead_in_every_process_that_is_sure_wins_even_of_shared_cores() -> None:
    base = finalist(0, [1.0] * 6, (2, 2, 2), quality=Quality.SHARED)
    sure = finalist(1, [1 / 1.29] * 2 + [1 / 1.26] * 4, (2, 2, 2), quality=Quality.CLEAN)
    found = decision(Contest((base, sure), ()), 2, base.trial, None)
    assert found.winner == sure.trial.id and found.quality is Quality.SHARED and not doubtful(found.quality)
    low, _ = found.speedup_interval or (0.0, 0.0)
    assert low > 1


def test_a_verdict_beside_a_slow_machine_says_so() -> None:
    base, same = (finalist(seq, [1.0] * 6, (2, 2, 2), quality=Quality.CLEAN, sentinel=1.3e-4) for seq in range(2))
    assert decision(Contest((base, same), ()), 2, base.trial, None, usual=1e-4).quality is Quality.DRIFTED
    assert decision(Contest((base, same), ()), 2, base.trial, None, usual=1.25e-4).quality is Quality.CLEAN


class Answers:
    """An evaluator that measures pairs as it is told."""

    def __init__(self, *ratios: tuple[float, float, float]) -> None:
        self.ratios = iter(ratios)
        self.asked = 0

    def paired(self, candidates: Any, until: float | None = None) -> Outcome:
        del candidates, until
        self.asked += 1
        times = [time for ratio in next(self.ratios) for time in repeat(1 / ratio, 4)]
        rows = (Facts(samples=(1.0,) * 12, runs=(4, 4, 4)), Facts(samples=tuple(times), runs=(4, 4, 4), quality=Quality.CLEAN))
        return Outcome("ok", rows=rows)


@pytest.mark.parametrize(
    ("ratios", "asked", "wins"),
    [
        ([(1.21, 1.2, 1.19)], 1, True),  # sure and clear
        ([(1.0, 1.005, 0.99)], 1, False),  # no lead
        ([(1.3, 1.2, 1.05), (1.25, 1.2, 1.15)], 2, True),  # a lead of which the second look is sure
        ([(1.03, 1.031, 1.032), (0.99, 1.0, 1.01)], 2, False),  # a small one that the second look does not find
        ([(1.3, 1.2, 1.05), (1.0, 0.9, 1.1)], 2, False),
    ],
)
def test_a_lead_that_is_small_or_not_sure_is_measured_again(ratios: Any, asked: int, wins: bool) -> None:
    evaluator, trials = Answers(*ratios), [Trial.of(fields(seq, samples=[1.0])) for seq in range(2)]
    found = contest(evaluator, trials)  # type: ignore[arg-type] # what it needs of one
    assert evaluator.asked == asked and {len(each.samples) for each in found.finalists} == {12 * asked}
    assert (decision(found, 2, trials[0], None).winner == trials[1].id) is wins


def test_trials_beside_a_slow_machine_are_finalists_if_that_may_explain_them() -> None:
    def slow(seq: int, time: float, **changes: Any) -> Trial:
        return Trial.of(fields(seq, samples=[time], **changes))

    quick = [slow(seq, 1.0 + seq / 100, sentinel=1e-4) for seq in range(5)]
    explained = slow(7, 1.2, sentinel=1.5e-4, quality="drifted")
    not_explained = slow(8, 2.0, sentinel=1.5e-4, quality="drifted")
    chosen = nominate([*quick, explained, not_explained], quick[0], None)
    assert [trial.id for trial in chosen] == ["id-0", "id-1", "id-2", "id-7"]


def sentinel(times: Iterator[float]) -> Callable[[], float]:
    return lambda: next(times)


def test_what_was_measured_beside_a_slow_machine_is_measured_again_and_the_quiet_attempt_counts() -> None:
    waits = list[float]()
    steady = Steady(sentinel(chain([1e-4, 1.5e-4], repeat(1e-4))), wait=waits.append)
    steady.learn(1e-4)
    results = iter([Measurement((3.0,), 1), Measurement((2.0,), 1)])
    found, beside = steady(lambda: next(results), seconds=100)
    assert (found.samples, found.quality, beside, len(waits)) == ((2.0,), Quality.CLEAN, 1e-4, 1)


def test_a_machine_that_stays_slow_is_said_to_be_after_a_few_attempts() -> None:
    steady, attempts = Steady(sentinel(repeat(1.5e-4)), wait=lambda _: None), count()
    steady.learn(1e-4)
    found, _ = steady(lambda: Measurement((float(next(attempts) + 1),), 1), seconds=100)
    assert found.quality is Quality.DRIFTED and next(attempts) == 1 + AGAIN
    clock = iter([0.0, 10.0])
    hurried = Steady(sentinel(repeat(1.5e-4)), wait=lambda _: None, clock=lambda: next(clock), told=1e-4)
    assert hurried(lambda: Measurement((1.0,), 1), seconds=1)[0].quality is Quality.DRIFTED


def test_a_thread_that_waits_of_its_own_accord_was_not_interrupted() -> None:
    def timed(after: tuple[int, int]) -> Elapsed:
        wall, own, switches = iter([0, 1_000_000]), iter([0, 400_000]), iter([(3, 3), after])
        return ThreadTimer(lambda: next(wall), lambda: next(own), lambda: next(switches))(lambda: None, 1)

    assert timed((4, 3)).undisturbed and timed((4, 3)).seconds == 1e-3
    assert not timed((4, 4)).undisturbed and timed((4, 4)).own is None, "of a thread that slept, its own time is no measure"
    assert not timed((3, 4)).undisturbed and timed((3, 4)).seconds == 4e-4
    assert not timed((3, 3)).undisturbed, "stolen by what switches nothing"


def test_interrupted_times_of_several_threads_are_noisy() -> None:
    class Interrupted:
        at = 0.0

        def __call__(self, call: Callable[[], object], number: int) -> Elapsed:
            call()
            self.at += 1e-3 * number
            return Elapsed(1e-3 * number, None, False)

        def now(self) -> float:
            return self.at

        def rest(self) -> None:
            pass

    found = measure(lambda: None, Policy(), timer=Interrupted())
    assert found.quality is Quality.NOISY and doubtful(found.quality)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_timers_of_this_machine_tell_work(threads: int) -> None:
    timer = timer_of(threads)
    assert isinstance(timer, ThreadTimer if threads == 1 else TeamTimer)
    values = np.ones(10_000)
    span = timer(lambda: np.sqrt(values, out=values), 100)
    timer.rest()
    assert 0 < span.seconds <= span.wall < timer.now() + 1


def test_a_record_has_the_quality_an_older_one_has_none_and_another_word_is_refused() -> None:
    told = Trial.of(from_line(to_line(fields(0, quality=Quality.SHARED))))
    assert told.quality is Quality.SHARED
    assert Trial.of(fields(0)).quality is None
    with pytest.raises(ValueError, match="malformed trial: quality is 'fine'"):
        Trial.of(fields(0, quality="fine"))


def test_an_older_final_measurement_is_judged_by_its_interval() -> None:
    def old(**changes: Any) -> Quality | None:
        return FinalRecord.of({"kind": "final", "winner": "b", "default": "a", "time": 1.0, "speedup": 3.91, **changes}).verdict

    assert old() is None
    assert old(speedup_interval=[0.22, 68.0]) is Quality.UNDECIDED
    assert old(speedup_interval=[1.1, 1.3]) is None
    assert old(speedup_interval=[0.22, 68.0], default="b") is None
    rows = [{"id": name, "config": {}, "samples": samples} for name, samples in (("a", [1.0, 3.0]), ("b", [2.0, 1.0]))]
    assert old(finalists=rows) is Quality.UNDECIDED


def test_every_quality_is_explained_and_the_worst_is_known() -> None:
    assert set(MEANING) == set(Quality)
    assert worst([Quality.CLEAN, None, Quality.NOISY, Quality.SHARED]) is Quality.NOISY
    assert worst([None]) is None
