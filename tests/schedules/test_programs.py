"""The programs of `bench.programs`, as anybody may write them: each has a default schedule, on any machine."""

from __future__ import annotations

import pytest

from bench.programs import arrays, attention, counts, fields, fronts, images, recurrences
from bench.programs.program import Program
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tests.thinned import few

MODULES = (images, recurrences, fronts, arrays, attention, counts, fields)
PROGRAMS = tuple(program for module in MODULES for program in module.PROGRAMS)


@pytest.mark.parametrize("cpu", few(["haswell", "cascadelake", "znver3", "znver5"], 1))
@pytest.mark.parametrize("program", PROGRAMS, ids=[program.name for program in PROGRAMS])
def test_a_default_schedule_is_found_and_nothing_of_it_refused(program: Program, cpu: str) -> None:
    outputs, _ = program.define()
    for threads in (1, 4):
        strategy = choose(outputs, target(cpu), threads)
        assert strategy.schedule(strategy.default).faults == ()
