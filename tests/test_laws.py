"""Laws over random programs: the unscheduled kernel, the default schedule and the evaluator agree to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings

import tensorlang as tl
from tests.draws import examples
from tests.strategies import Program, programs

LAW = settings(examples(12), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def results(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@LAW
@given(programs())
def test_a_kernel_computes_what_the_definition_means(program: Program) -> None:
    want = results(tl.evaluate(program.outputs, program.feeds))
    inputs = tuple(program.feeds)
    for kernel in (tl.build(tl.Schedule(program.outputs), inputs=inputs), tl.build(program.outputs, inputs=inputs)):
        for got, expected in zip(results(kernel(*program.feeds.values())), want, strict=True):
            np.testing.assert_array_equal(got, expected)
