"""Samples are long enough, sampling stops when they agree, and drift meets all finalists alike."""

from collections.abc import Callable, Iterator
from itertools import chain, repeat

from tensorlang.autotune.jobs.finalists import Finalist, nominate, winner
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.measurement.measure import Policy, interleave, measure
from tensorlang.autotune.measurement.timer import ThreadTimer
from tests.autotune.test_log import fields

POLICY = Policy()


class Machine:
    """A clock that calls advance."""

    def __init__(self) -> None:
        self.now = 0

    def call(self, times: Iterator[float]) -> Callable[[], None]:
        def run() -> None:
            self.now += int(next(times) * 1e9)

        return run

    @property
    def timer(self) -> ThreadTimer:
        return ThreadTimer(lambda: self.now, lambda: self.now)


def test_a_quiet_machine_needs_the_least_number_of_samples() -> None:
    machine = Machine()
    result = measure(machine.call(repeat(1e-4)), POLICY, timer=machine.timer)
    assert len(result.samples) == POLICY.least
    assert result.number * 1e-4 >= POLICY.sample_s
    assert abs(min(result.samples) - 1e-4) < 1e-8


def test_a_hiccup_in_the_first_sample_does_not_shorten_the_others() -> None:
    machine = Machine()
    result = measure(machine.call(chain([5e-3], repeat(1e-5))), POLICY, timer=machine.timer)
    assert result.number >= 100


def test_a_noisy_machine_is_sampled_up_to_the_cap() -> None:
    machine = Machine()
    result = measure(machine.call(2e-3 * 1.1**n for n in range(1000)), POLICY, timer=machine.timer)
    assert len(result.samples) == POLICY.most


def test_a_clear_loser_is_censored_and_a_close_one_is_not() -> None:
    machine = Machine()
    assert measure(machine.call(repeat(3e-3)), POLICY, incumbent=1e-3, timer=machine.timer).censored
    assert not measure(machine.call(repeat(2e-3)), POLICY, incumbent=1e-3, timer=machine.timer).censored


def test_a_clock_that_stands_still_gives_positive_times() -> None:
    assert min(measure(lambda: None, Policy(sample_s=1e-9), timer=ThreadTimer(lambda: 0, lambda: 0)).samples) > 0


def test_finalists_take_turns() -> None:
    machine, seen = Machine(), list[int]()

    def finalist(place: int) -> Callable[[], None]:
        tick = machine.call(repeat(2e-3))

        def run() -> None:
            seen.append(place)
            tick()

        return run

    results = interleave([finalist(0), finalist(1)], POLICY, timer=machine.timer)
    assert [len(result.samples) for result in results] == [POLICY.rounds] * 2
    assert seen[-4:] in ([0, 1, 1, 0], [1, 0, 0, 1])


def trial(n: int, time: float, **changes: object) -> Trial:
    return Trial.of(fields(n, samples=[time], **changes))


def final(entry: Trial, *samples: float) -> Finalist:
    return Finalist(entry, samples, "{}")


def test_a_tie_goes_to_the_default_and_then_to_the_former_winner() -> None:
    base, former, new = trial(0, 1.0), trial(1, 1.0), trial(2, 1.0)
    level = [final(new, *[0.990, 0.999, 0.996] * 2), final(former, *[1.0, 0.998, 1.0] * 2), final(base, *[1.0, 1.001, 1.0] * 2)]
    assert winner(level, base, "id-1").trial is base
    assert winner(level[:2], None, "id-1").trial is former


def test_a_clear_winner_wins() -> None:
    base, new = trial(0, 1.0), trial(1, 0.8)
    assert winner([final(new, *[0.8, 0.81, 0.8] * 2), final(base, *[1.0, 1.01, 1.0] * 2)], base, None).trial is new


def test_the_default_is_always_nominated_and_failures_and_censored_trials_are_not() -> None:
    base = trial(0, 9.0)
    rest = [trial(n, n / 10) for n in range(1, 8)]
    poor = [trial(20, 1e-3, censored=True), Trial.of(fields(21, status="crash", samples=[]))]
    chosen = nominate([base, *rest, *poor], base, "id-7")
    assert [entry.id for entry in chosen] == ["id-0", "id-7", "id-1", "id-2", "id-3"]
