"""A speed-up comes with an interval that holds what it says, and a machine that slows down is named."""

import os
from statistics import median

import numpy as np
import pytest

from tensorlang.autotune.jobs.ledger import seconds_covered
from tensorlang.autotune.measurement.cold_caches import Flush
from tensorlang.autotune.measurement.interval import paired_ratio
from tensorlang.autotune.measurement.measure import Policy, interleave, measure
from tensorlang.autotune.measurement.sentinel import Sentinel
from tensorlang.autotune.measurement.slowness import slow_stretches
from tensorlang.autotune.measurement.timer import ThreadTimer
from tensorlang.codegen.target.caches import Caches
from tests.autotune.test_measure import Machine


def test_the_ratio_is_that_of_the_processes_medians_and_lies_in_its_interval() -> None:
    rng = np.random.default_rng(1)
    above, below = 2 + rng.random(30), 1 + rng.random(30)
    found = paired_ratio(above, below, (10, 10, 10))
    medians = [median(above[at : at + 10] / below[at : at + 10]) for at in (0, 10, 20)]
    assert found.middle == pytest.approx(np.prod(medians) ** (1 / 3)) and found.medians == pytest.approx(medians)
    assert found.low < found.middle < found.high
    few = paired_ratio(above[:20], below[:20], (10, 10))
    assert few.middle == pytest.approx(median(above[:20] / below[:20])) and few.low < few.middle < few.high
    assert paired_ratio([3.0], [2.0])[:3] == (1.5, 1.5, 1.5)


@pytest.mark.parametrize("count", [1, 5, 6, 15, 30, 64])
def test_the_interval_of_few_processes_is_scipys_of_the_median(count: int) -> None:
    from scipy import stats

    ratios = list(1 + np.random.default_rng(count).random(count))
    want = stats.quantile_test(ratios, p=0.5).confidence_interval(0.95)
    found = paired_ratio(ratios, [1.0] * count)
    assert (found.low, found.high) == ((min(ratios), max(ratios)) if np.isnan(want.low) else (want.low, want.high))


@pytest.mark.parametrize("count", [3, 4, 9])
def test_the_interval_of_several_processes_is_students(count: int) -> None:
    from scipy import stats

    ratios = 1 + np.random.default_rng(count).random(count)
    found = paired_ratio(ratios, np.ones(count), (1,) * count)
    want = stats.t.interval(0.95, count - 1, np.log(ratios).mean(), stats.sem(np.log(ratios)))
    assert (found.low, found.high) == pytest.approx(np.exp(want))


@pytest.mark.parametrize("runs", [(30,), (15, 15), (10, 10, 10)])
def test_drift_that_both_sides_meet_does_not_widen_the_interval(runs: tuple[int, ...]) -> None:
    drift = np.linspace(1, 3, 30)
    assert paired_ratio(2 * drift, drift, runs)[:3] == pytest.approx((2, 2, 2))


@pytest.mark.parametrize(
    ("between", "runs"), [(0.0, (12, 12, 12)), (0.05, (12, 12, 12)), (0.05, (5, 5, 5, 5, 5)), (0.0, (20,)), (0.0, (9, 9))]
)
def test_the_interval_holds_the_true_ratio_as_often_as_it_says(between: float, runs: tuple[int, ...]) -> None:
    rng, count = np.random.default_rng(2), sum(runs)
    held = 0
    for _ in range(500):
        lucks = np.repeat(np.exp(between * rng.standard_normal(len(runs))), runs)
        found = paired_ratio(1.5 * lucks * np.exp(0.02 * rng.standard_normal(count)), np.ones(count), runs)
        held += found.low <= 1.5 <= found.high
    assert held >= 0.93 * 500


def test_one_stretch_of_a_slow_machine_is_named_with_its_trials() -> None:
    rng = np.random.default_rng(3)
    times = [(n, 1e-4 * (1.18 if 12 <= n <= 20 else 1.0) * (1 + 0.01 * rng.random())) for n in range(40)]
    (found,) = slow_stretches(times)
    assert str(found) == "the machine slowed by 18% during trials 12 to 20"
    assert (found.first, found.last) == (12, 20) and found.by == pytest.approx(0.18, abs=0.01)


def test_a_single_hiccup_and_a_quiet_machine_are_no_stretch() -> None:
    assert slow_stretches([(n, 2.0 if n == 5 else 1.0) for n in range(20)]) == ()
    assert slow_stretches([(0, 1.0), (1, 5.0)]) == ()


def test_the_sentinel_tells_the_least_time_of_a_few() -> None:
    moments = iter([0, 9_000, 10_000, 14_000, 20_000, 27_000])
    assert Sentinel()(ThreadTimer(lambda: next(moments), iter([0, 9_000, 9_000, 13_000, 13_000, 20_000]).__next__)) == pytest.approx(4e-6)
    assert Sentinel()(ThreadTimer(lambda: 0, lambda: 0)) > 0


def test_the_sentinel_does_the_same_work_each_time() -> None:
    """Its numbers stay ordinary ones: no zeros that vanish, no infinities, which processors add at another pace."""
    sentinel = Sentinel()
    for _ in range(20):
        sentinel()
    for values in (sentinel._near, sentinel._far):
        assert np.isfinite(values).all() and np.abs(values).min() >= 0.5


def test_seconds_in_spans_that_overlap_count_once() -> None:
    assert seconds_covered([(0, 2), (1, 3), (5, 6), (5.5, 5.7)]) == 4
    assert seconds_covered([]) == 0


def test_with_cold_caches_a_sample_is_one_call_after_a_flush() -> None:
    machine, seen = Machine(), list[str]()

    def tick(name: str, seconds: float) -> None:
        seen.append(name)
        machine.now += int(seconds * 1e9)

    policy = Policy(rounds=4)
    result = measure(lambda: tick("call", 1e-6), policy, timer=machine.timer, flush=lambda: tick("flush", 1e-3))
    assert result.number == 1 and result.samples == pytest.approx([1e-6] * 5) and len(result.samples) == policy.least
    assert seen == ["flush", "call"] * policy.least
    rows = interleave([lambda: tick("a", 1e-6), lambda: tick("b", 2e-6)], policy, machine.timer, lambda: tick("flush", 1e-3))
    assert [row.samples for row in rows] == [pytest.approx([1e-6] * 4), pytest.approx([2e-6] * 4)]


def test_rounds_stop_when_their_seconds_are_used_up_but_not_before_the_third() -> None:
    machine = Machine()
    policy = Policy(rounds=50, total_s=1e9)
    results = interleave([machine.call(iter([0.5] * 200))], policy, machine.timer, seconds=1.0)
    assert len(results[0].samples) == 3


def test_a_flush_rewrites_more_than_the_last_level_holds_and_on_each_core_more_than_its_second(monkeypatch: pytest.MonkeyPatch) -> None:
    caches = Caches(l1=32 << 10, l2=1 << 20, l3=32 << 20, cores=2)
    usable, seen = frozenset(os.sched_getaffinity(0)), list[tuple[frozenset[int], int]]()
    rewrite = Flush._rewrite

    def watched(buffer: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> None:
        before = buffer.copy()
        rewrite(buffer)
        assert (buffer != before).all()
        seen.append((frozenset(os.sched_getaffinity(0)), buffer.nbytes))

    monkeypatch.setattr(Flush, "_rewrite", staticmethod(watched))
    Flush(caches, [])()
    *private, shared = seen
    assert shared == (usable, 2 * caches.l3) and os.sched_getaffinity(0) == usable
    assert private == [(frozenset({core}), 2 * caches.l2) for core in sorted(usable) if len(usable) > 1]
