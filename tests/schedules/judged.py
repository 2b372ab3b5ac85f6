"""The law of schedules, and what the two oracles of the fuzzer say of one: terms of the results, and dependences that point forward."""

from __future__ import annotations

import tensorlang as tl
from tests.fuzz.arrays import blank
from tests.fuzz.forward import Forward
from tests.fuzz.tags import Terms, trace
from tests.schedules.programs import check, feeds


def judge(s: tl.Schedule, dims: dict[str, int] | None = None, *, rtol: float = 1e-5) -> None:
    """The law, terms and dependences of a schedule at these extents."""
    dims = dims or {}
    check(s, dims=dims, rtol=rtol)
    plain = tl.Schedule(s.outputs).nest
    given = {buffer.name: array for buffer, array in zip(plain.inputs, feeds(s.outputs, dims).values(), strict=True)}
    terms = Terms(given)
    wanted, _ = trace(plain, terms, dims)
    found, races = trace(s.nest, terms, dims)
    assert not races
    assert found == wanted
    forward = Forward(plain)
    forward.follow(s.directives, s.nest)
    assert forward.shadow is not None
    assert forward.wrong(forward.shadow, {**given, **blank(plain, dims)}, dims) is None
