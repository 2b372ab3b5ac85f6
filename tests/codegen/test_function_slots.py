"""The cost model's table of functions is what is emitted for them, counted."""

import pytest

from tensorlang.codegen.emission.math import FUNCTIONS as EMITTED
from tensorlang.schedules.model.functions import FUNCTIONS
from tests.codegen.counted_lanes import counted


def test_every_function_has_a_row():
    assert FUNCTIONS.keys() == EMITTED.keys()


@pytest.mark.parametrize("function", sorted(EMITTED))
def test_rows_are_what_is_emitted(function):
    for bits, row in zip((32, 64), FUNCTIONS[function], strict=True):
        counts, latency = counted(function, bits)
        assert row._asdict() == {**counts, "latency": pytest.approx(latency)}
