"""What the model says of lanes that data gather: each of several reads counts, and where several operations gather them they are work."""

from __future__ import annotations

from typing import Any

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.model.estimate import estimate

N, TABLE = 1 << 16, 512


def looked_up(times: int, *, again: bool = False, work: int = 0) -> tl.Schedule:
    """The sum of so many elements of a table, at places that data tell, all at one where it is `again`; and so many products."""
    x, t = tl.placeholder((N + times,), "int32", name="X"), tl.placeholder((TABLE,), name="T")

    def element(i: Any) -> Any:
        parts = [t[tl.clamp(x[i + (0 if again else at)], 0, TABLE - 1)] for at in range(times)]
        total = sum(parts[1:], parts[0])
        for at in range(work):
            total = total * total + at
        return total

    s = tl.Schedule(tl.compute((N,), element, name="Y"))
    s.split("i", 32, tail="peel")
    s.vectorize("i_i")
    return s


def seconds(s: tl.Schedule, cpu: str) -> float:
    return estimate(s.nest, target(cpu).core).seconds


def arithmetic(s: tl.Schedule, cpu: str) -> float:
    return estimate(s.nest, target(cpu).core).shares["arithmetic"]


def test_reads_at_places_that_other_data_tell_are_several() -> None:
    one, four, same = (seconds(looked_up(times, again=again), "znver4") for times, again in ((1, False), (4, False), (4, True)))
    assert four > 2.5 * one
    assert same < 1.2 * one


def test_where_single_loads_gather_they_are_work_of_the_units_that_compute() -> None:
    """A Zen has no instruction for it that is worth using; a Cascade Lake gathers beside what it computes."""
    for cpu, lanes_a_cycle in (("znver4", 0.8), ("cascadelake", None)):
        machine, s = target(cpu).core, looked_up(1)
        bare = arithmetic(s, cpu) * machine.hertz / N
        assert (bare > 1 / lanes_a_cycle) if lanes_a_cycle else (bare < 0.5)
        assert arithmetic(looked_up(1, work=8), cpu) > arithmetic(s, cpu)
