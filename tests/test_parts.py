"""Expressions that double with each step of a Python loop are computed in parts, and mean what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.definition.expr import MAX_DEPTH, MAX_SIZE
from tensorlang.errors import DefinitionError
from tensorlang.ir import Store
from tensorlang.ir.traverse import depth, nodes, sizes_and_depths, statements
from tensorlang.language.parts import STAGES
from tensorlang.serialization import canonical

N = 77


def shifted(v: Any, rounds: int) -> Any:
    for _ in range(rounds):
        v = v ^ (v << 13)
        v = v ^ (v >> 17)
        v = v ^ (v << 5)
    return v


def _shifted(v: Any, rounds: int) -> Any:
    for _ in range(rounds):
        v = v ^ (v << np.uint32(13))
        v = v ^ (v >> np.uint32(17))
        v = v ^ (v << np.uint32(5))
    return v


def cube_root(x: Any, steps: int) -> Any:
    v = x * 0.5 + 0.5
    for _ in range(steps):
        v = v - (v * v * v - x) / (3 * v * v)
    return v


def bounded(x: Any, steps: int, select: Callable[..., Any], magnitude: Callable[..., Any]) -> Any:
    for _ in range(steps):
        x = select(magnitude(x) < 2, x * x - np.float32(0.7), x)
    return x


@pytest.mark.parametrize("rounds", [4, 5, 9])
def test_numbers_by_shifts_are_numpys(rounds: int) -> None:
    x = tl.placeholder((N,), "uint32", name="x")
    values = np.arange(N, dtype=np.uint32) * np.uint32(2654435761)
    y = tl.compute((N,), lambda i: shifted(x[i], rounds), name="y")
    np.testing.assert_array_equal(tl.build(y)(values), _shifted(values, rounds))
    assert (len(tl.Schedule(y).stages()) > 1) == (rounds > 4)


@pytest.mark.parametrize("width", [5, 17, 25])
def test_a_network_that_sorts_finds_medians_in_stages_of_many_values(width: int) -> None:
    """After some steps all values of the network are made of the same: each by itself would be computed from all that they share."""
    x = tl.placeholder((N + width - 1,), name="x")

    def median(i: Any) -> Any:
        v = [x[i + at] for at in range(width)]
        for step in range(width):
            for at in range(step % 2, width - 1, 2):
                v[at], v[at + 1] = tl.minimum(v[at], v[at + 1]), tl.maximum(v[at], v[at + 1])
        return v[width // 2]

    values = np.random.default_rng(2).random(N + width - 1, dtype=np.float32)
    y = tl.compute((N,), median, name="y")
    windows = np.lib.stride_tricks.sliding_window_view(values, width)
    np.testing.assert_array_equal(tl.build(y)(values), np.median(windows, axis=1))
    nest = tl.Schedule(y).nest
    stored = [len(part.buffers) for part in statements(nest.body) if isinstance(part, Store)]
    assert max(stored) >= (8 if width > 5 else 1)
    assert len(stored) <= width


def test_newtons_steps_and_choices_are_numpys() -> None:
    x = tl.placeholder((N,), name="x")
    values = np.random.default_rng(0).random(N, dtype=np.float32) + np.float32(0.5)
    root = tl.compute((N,), lambda i: cube_root(x[i], 9), name="root")
    np.testing.assert_allclose(tl.build(root)(values), np.cbrt(values), rtol=1e-6)
    chosen = tl.compute((N,), lambda i: bounded(x[i], 13, tl.select, tl.abs), name="chosen")
    np.testing.assert_allclose(tl.build(chosen)(values), bounded(values, 13, np.where, np.abs), rtol=1e-5)


def test_a_long_chain_is_taken_apart_in_the_middle() -> None:
    x = tl.placeholder((N,), name="x")

    def chain(i: Any) -> Any:
        v = x[i]
        for k in range(MAX_DEPTH + 100):
            v = v * 0.5 + k % 3
        return v

    values = np.random.default_rng(1).random(N, dtype=np.float32)
    want = values
    for k in range(MAX_DEPTH + 100):
        want = want * np.float32(0.5) + np.float32(k % 3)
    np.testing.assert_allclose(tl.build(tl.compute((N,), chain, name="y"))(values), want, rtol=1e-5)


def test_parts_have_the_axes_that_they_follow_alone() -> None:
    x = tl.placeholder((N,), "uint32", name="x")
    y = tl.compute((3, N, 2), lambda a, i, b: shifted(x[i], 5) + tl.cast(a, "uint32"), name="y")
    nest = tl.Schedule(y).nest
    shapes = {buffer.name: len(buffer.shape) for buffer in nest.outputs}
    assert shapes == {"y": 3} and "uint32[77]\n" in str(tl.Schedule(y))
    values = np.arange(N, dtype=np.uint32)
    want = _shifted(values, 5)[None, :, None] + np.arange(3, dtype=np.uint32)[:, None, None]
    np.testing.assert_array_equal(tl.build(y)(values), np.broadcast_to(want, (3, N, 2)))


def test_parts_of_a_step_and_beside_a_recurrence_are_tensors_too() -> None:
    x = tl.placeholder((N,), "uint32", name="x")
    step = lambda t, s: tl.compute((N,), lambda i: shifted(s[i] + tl.cast(t, "uint32"), 5), name="next")  # noqa: E731
    values = np.arange(N, dtype=np.uint32) + np.uint32(1)
    want = values
    for t in range(3):
        want = _shifted(want + np.uint32(t), 5)
    np.testing.assert_array_equal(tl.build(tl.scan(step, x, 3, keep="last", name="s"))(values), want)
    sums = tl.recurrence((N,), lambda i, s: s[i - 1] + shifted(x[i], 5), name="sums", dtype="uint32")
    np.testing.assert_array_equal(tl.build(sums)(values), np.cumsum(_shifted(values, 5), dtype=np.uint32))


def test_what_exists_under_a_condition_alone_is_no_part() -> None:
    """`x[i - 1]` is read where i > 0: what holds it cannot be computed for every i."""
    x = tl.placeholder((N,), "uint32", name="x")
    y = tl.compute((N,), lambda i: tl.select(i > 0, shifted(x[i - 1] + shifted(x[i], 4), 1), 0), name="y")
    values = np.arange(N, dtype=np.uint32)
    want = np.concatenate(([0], _shifted(values[:-1] + _shifted(values[1:], 4), 1)))
    np.testing.assert_array_equal(tl.build(y)(values), want)


def test_what_reads_itself_and_what_needs_too_many_parts_is_refused_with_a_way_out() -> None:
    x = tl.placeholder((N,), "uint32", name="x")
    with pytest.raises(
        DefinitionError, match=rf"nodes, .* is too large \(at most {MAX_SIZE} and {MAX_DEPTH}\).*a further axis of a recurrence"
    ):
        tl.recurrence((N,), lambda i, s: shifted(s[i - 1] ^ x[i], 5), name="mixed", dtype="uint32")
    with pytest.raises(DefinitionError, match="make a part of it a tensor"):
        tl.compute((N,), lambda i: shifted(x[i], 8 * STAGES), name="y")
    with pytest.raises(DefinitionError, match="is too large"):  # beside no body
        shifted(x[0], 5)


def test_the_same_body_is_the_same_program() -> None:
    x = tl.placeholder((N,), "uint32", name="x")
    one, other = (tl.compute((N,), lambda i: shifted(x[i], 6), name="y") for _ in range(2))
    assert canonical.fingerprint((one,)) == canonical.fingerprint((other,))


def test_what_several_share_is_one_part_of_the_nest() -> None:
    """A nest has no more nodes than its definition, but for the axes: passes would go through copies of what doubles."""
    x = tl.placeholder((N,), "uint32", name="x")
    y = tl.compute((N,), lambda i: (value := shifted(x[i], 3), value + 1), name="y")
    values = next(part for part in statements(tl.Schedule(y).nest.body) if isinstance(part, Store)).values
    assert len(list(nodes(*values))) == len(list(nodes(*y[0].definition.values))) < 2 * depth(values[1])
    assert sizes_and_depths(values[0])[id(values[0])][0] > 1000
