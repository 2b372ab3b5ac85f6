"""States of a scan whose next one takes the place of the last: where nobody still wants that, and then every value is what it was."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.lowering import nests
from tests.draws import examples

N, STEPS = 23, 5
part = st.tuples(st.integers(0, 2), st.integers(-1, 1), st.booleans())
"""A state, how far from the element, and whether it is the one that the step has made already, where there is one."""


def scanned(parts: list[list[tuple[int, int, bool]]], *, together: bool = False) -> Any:
    """The next state of each component: a mean of others, one stage after the other, or all in one."""
    count = len(parts)
    starts = [tl.placeholder((N,), name=f"x{number}") for number in range(count)]

    def step(_: Any, state: Any) -> Any:
        last = state if count > 1 else (state,)
        made: list[Any] = []

        def element(own: list[tuple[int, int, bool]], i: Any) -> Any:
            found: Any = 0.125
            for drawn, apart, new in own:
                number = drawn % count
                tensor = made[number] if new and number < len(made) else last[number]
                at = i if apart == 0 else tl.clamp(i + apart, 0, N - 1)
                found = found + 0.25 * tensor[at]
            return found

        if together:
            return tl.compute((N,), lambda i: tuple(element(own, i) for own in parts) if count > 1 else element(parts[0], i), name="next")
        for number, own in enumerate(parts):
            made.append(tl.compute((N,), lambda i, own=own: element(own, i), name=f"next{number}"))
        return tuple(made) if count > 1 else made[0]

    return tl.scan(step, tuple(starts) if count > 1 else starts[0], STEPS, keep="last", name="S")


def expected(parts: list[list[tuple[int, int, bool]]], *, together: bool = False) -> list[Any]:
    last = [np.random.default_rng(number).random(N, dtype=np.float32) for number in range(len(parts))]
    places = np.arange(N)
    for _ in range(STEPS):
        made: list[Any] = []
        for own in parts:
            found = np.full(N, 0.125, np.float32)
            for drawn, apart, new in own:
                number = drawn % len(parts)
                source = made[number] if new and number < len(made) and not together else last[number]
                found = found + np.float32(0.25) * source[np.clip(places + apart, 0, N - 1)]
            made.append(found)
        last = made
    return last


@examples(60)
@given(st.lists(st.lists(part, min_size=1, max_size=3), min_size=1, max_size=3), st.booleans())
def test_every_state_is_what_it_was(parts: list[list[tuple[int, int, bool]]], together: bool) -> None:
    outputs = scanned(parts, together=together)
    given_ = [np.random.default_rng(number).random(N, dtype=np.float32) for number in range(len(parts))]
    for kernel in (tl.build(outputs), tl.build(tl.Schedule(outputs))):
        found = kernel(*given_)
        for one, wanted in zip(found if isinstance(found, tuple) else (found,), expected(parts, together=together), strict=True):
            np.testing.assert_allclose(one, wanted, rtol=1e-5)


def places(outputs: Any) -> list[int]:
    text = str(tl.Schedule(outputs))
    return [int(line.split("[")[1].split(",")[0]) for line in text.splitlines() if ".ring: " in line]


@pytest.mark.parametrize(
    ("parts", "together", "wanted"),
    [
        ([[(0, 0, False)]], False, [1]),  # its own element
        ([[(0, 1, False)]], False, [2]),  # another one
        ([[(0, 0, False), (1, 1, False)], [(1, 0, False), (0, 1, True)]], False, [1, 1]),  # the new one of the other, wherever
        ([[(0, 0, False)], [(1, 0, False), (0, 0, False)]], False, [2, 1]),  # the last one of the other, which is replaced by then
        ([[(0, 0, False)], [(1, 0, False), (0, 0, False)]], True, [1, 1]),  # at the same time
        ([[(0, 0, False), (1, 1, False)], [(1, 0, False)]], True, [2, 2]),  # one of them is wanted, and both have one index
    ],
)
def test_where_the_last_state_is_wanted_it_stays(parts: list[list[tuple[int, int, bool]]], together: bool, wanted: list[int]) -> None:
    assert places(scanned(parts, together=together)) == wanted


def test_states_that_change_places_keep_theirs() -> None:
    X, Y = tl.placeholder((N,), name="X"), tl.placeholder((N,), name="Y")

    def step(_: Any, state: Any) -> Any:
        x, y = state
        return y, tl.compute((N,), lambda i: 0.5 * x[i] + y[i], name="sum")

    outputs = tl.scan(step, (X, Y), 4, keep="last", name="F")
    x, y = (np.random.default_rng(seed).random(N, dtype=np.float32) for seed in (0, 1))
    found = tl.build(outputs)(x, y)
    for _ in range(4):
        x, y = y, np.float32(0.5) * x + y
    np.testing.assert_allclose(found[0], x, rtol=1e-5)
    np.testing.assert_allclose(found[1], y, rtol=1e-5)


def test_a_sum_over_the_state_keeps_it() -> None:
    A, X, k = tl.placeholder((N, N), name="A"), tl.placeholder((N,), name="X"), tl.reduce_axis(N, name="k")
    whole = tl.scan(lambda _, x: tl.compute((N,), lambda i: tl.sum(A[i, k] * x[k], axis=k), name="p"), X, 3, keep="last", name="P")
    own = tl.scan(lambda _, x: tl.compute((N,), lambda i: tl.sum(A[i, k] * x[i], axis=k), name="q"), X, 3, keep="last", name="Q")
    a, x = np.random.default_rng(0).random((N, N), dtype=np.float32) / N, np.random.default_rng(1).random(N, dtype=np.float32)
    assert places(whole) == places(own) == [2]
    np.testing.assert_allclose(tl.build(whole)(a, x), np.linalg.matrix_power(a.astype(np.float64), 3) @ x, rtol=1e-4)
    np.testing.assert_allclose(tl.build(own)(a, x), a.sum(axis=1) ** 3 * x, rtol=1e-4)


def test_a_stage_between_counts_for_what_it_reads() -> None:
    """A difference of neighbours is written into its reader, which then reads neighbours; one of an element's own values is not."""
    X = tl.placeholder((N,), name="X")

    def spread(_: Any, x: Any) -> Any:
        apart = tl.compute((N,), lambda i: x[tl.minimum(i + 1, N - 1)] - x[i], name="apart")
        return tl.compute((N,), lambda i: x[i] + 0.25 * apart[i], name="next")

    def moved(_: Any, x: Any) -> Any:
        half = tl.compute((N,), lambda i: 0.5 * x[i], name="half")
        return tl.compute((N,), lambda i: x[i] + half[tl.minimum(i + 1, N - 1)], name="next")

    def grown(_: Any, x: Any) -> Any:
        half = tl.compute((N,), lambda i: 0.5 * x[i] + 0.125, name="half")
        return tl.compute((N,), lambda i: x[i] * half[i], name="next")

    x = np.random.default_rng(0).random(N, dtype=np.float32)
    after = np.minimum(np.arange(N) + 1, N - 1)
    steps = (
        (spread, 2, lambda v: v + np.float32(0.25) * (v[after] - v)),
        (moved, 2, lambda v: v + np.float32(0.5) * v[after]),
        (grown, 1, lambda v: v * (np.float32(0.5) * v + np.float32(0.125))),
    )
    for step, wanted, reference in steps:
        outputs = tl.scan(step, X, 4, keep="last", name="S")
        assert places(outputs) == [wanted]
        found = x
        for _ in range(4):
            found = reference(found)
        np.testing.assert_allclose(tl.build(outputs)(x), found, rtol=1e-5)


def apart(reads: str, x: Any) -> Any:
    """What a stage between two states makes of the last one."""
    after = np.arange(N)
    match reads:
        case "own":
            return x
        case "right":
            return x[:, np.minimum(after + 1, N - 1)]
        case "left":
            return x[:, np.maximum(after - 1, 0)]
        case "sum":
            return 1 + (x @ x).T
        case _:
            return np.repeat(np.argmax(x, axis=0)[:, None], N, axis=1)


@pytest.mark.parametrize(("reads", "legal"), [("own", "ij"), ("right", "ij"), ("left", "i"), ("sum", ""), ("argmax", "")])
def test_what_a_stage_between_reads_is_not_replaced_before_it_runs(monkeypatch: pytest.MonkeyPatch, reads: str, legal: str) -> None:
    """Where the stage between is whole, the next state may take the place of the last one; then it cannot move everywhere."""
    monkeypatch.setattr(nests, "replaced", lambda scan: frozenset(range(len(scan.states))))
    X, k = tl.placeholder((N, N), name="X"), tl.reduce_axis(N, name="k")
    values = {
        "own": lambda x, i, j: x[i, j],
        "right": lambda x, i, j: x[i, tl.minimum(j + 1, N - 1)],
        "left": lambda x, i, j: x[i, tl.maximum(j - 1, 0)],
        "sum": lambda x, i, j: 1.0 + tl.sum(x[k, i] * x[j, k], axis=k),
        "argmax": lambda x, i, j: tl.cast(tl.argmax(x[k, i] + x[i, j], axis=k), "float32"),
    }

    def step(_: Any, x: Any) -> Any:
        between = tl.compute((N, N), lambda i, j: values[reads](x, i, j), name="apart")
        return tl.compute((N, N), lambda i, j: 0.5 * x[i, j] + 0.01 * between[i, j], name="next")

    outputs = tl.scan(step, X, 3, keep="last", name="S")
    assert places(outputs) == [1]
    given_ = np.random.default_rng(0).random((N, N), dtype=np.float32)
    wanted = given_.astype(np.float64)
    for _ in range(3):
        wanted = 0.5 * wanted + 0.01 * apart(reads, wanted)
    moves = [("compute_at", "apart", "next.j"), ("compute_at", "apart", "next.i"), ("compute_inline", "apart")]
    moves += [("reverse_compute_at", "next", "apart.i"), ("fuse_loops", "apart.i", "next.i")]
    for name, *arguments in moves:
        s = tl.Schedule(outputs)
        with contextlib.suppress(tl.ScheduleError):
            getattr(s, name)(*arguments)
        np.testing.assert_allclose(tl.build(s)(given_), wanted, rtol=1e-4, err_msg=name)
    for loop in "ij":
        assert bool(tl.Schedule(outputs).can("compute_at", "apart", f"next.{loop}")) == (loop in legal)
