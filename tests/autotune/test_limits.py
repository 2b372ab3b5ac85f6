"""What a user's file and the reference evaluator do stays in their process; what does not fit is refused before it is made."""

import time
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.autotune.measurement.arrays import Guarded, Spec, inputs, mismatch
from tensorlang.autotune.task import Task, placeholders
from tensorlang.autotune.verification import reference
from tensorlang.autotune.verification.points import boundaries, factors, sample_points
from tensorlang.autotune.verification.reference import make_reference
from tensorlang.autotune.workers.definitions import program
from tensorlang.autotune.workers.footprint import PROCESSES, Footprint, require_memory
from tensorlang.autotune.workers.limited import LimitedProcess, LimitError
from tensorlang.codegen.target import target
from tensorlang.errors import TuningError
from tensorlang.ir.dtype import dtype
from tensorlang.schedules.spaces.knobs import Knob, Sizes
from tensorlang.system.memory import MemoryBound

OWN = """
import ctypes, os, sys, time
import numpy as np
import tensorlang as tl
def loops(): time.sleep(1000)
def leaves(): sys.exit(3)
def ends(): os._exit(3)
def dies(): ctypes.string_at(0)
def eats(): return bytearray(1 << 50)
def raises(): raise ValueError("first\\nsecond")
def nothing(): return 3
def several(n=4):
    x, w = tl.placeholder((n,), name="x"), tl.buffer(np.arange(n, dtype="float32"), name="w")
    return {"scaled": tl.compute((n,), lambda i: x[i] * w[i], name="y"), "relu": tl.ops.relu(x)}
"""


@pytest.fixture(scope="module")
def process() -> Iterator[LimitedProcess]:
    with LimitedProcess() as process:
        yield process


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "own.py"
    path.write_text(OWN)
    return path


@pytest.mark.parametrize(
    ("function", "limited", "message"),
    [
        ("leaves", False, "SystemExit: 3"),
        ("raises", False, "ValueError: first$"),
        ("nothing", False, "tensor"),
        ("nowhere", False, "no function 'nowhere'"),
        ("eats", True, "out of memory"),
        ("ends", True, "ended itself with exit code 3"),
        ("dies", True, "died of SIGSEGV"),
        ("loops", True, "not there after 0.5 s"),
    ],
)
def test_whatever_a_users_function_does_is_one_error(
    process: LimitedProcess, own: Path, function: str, limited: bool, message: str
) -> None:
    with pytest.raises(TuningError, match=message) as told:
        program(f"{own}:{function}", {}, limit_s=0.5 if function == "loops" else 60, process=process)
    assert isinstance(told.value, LimitError) == limited and "\n" not in str(told.value)


def test_definitions_come_back_with_their_names_and_arrays_and_mean_the_same(process: LimitedProcess, own: Path) -> None:
    label, made = program(f"{own}:several", {"n": 3}, process=process)
    assert label == "several" and list(made) == ["scaled", "relu"]
    (output,) = made["scaled"]
    x, _ = placeholders(made["scaled"])
    np.testing.assert_array_equal(tl.evaluate(output, {x: np.ones(3, "f4")}), [0, 1, 2])


def test_a_reference_that_takes_longer_than_it_may_is_stopped_and_said_so() -> None:
    x = tl.placeholder((3000, 40), name="x")
    slow = tl.recurrence((3000, 40), lambda i, j, S: tl.select(i > 0, S[i - 1, j], 0.0) + x[i, j], name="slow")
    before = time.monotonic()
    with pytest.raises(LimitError, match="the reference results of slow, by its loops as they are written: not there after 0.005 s"):
        make_reference(Task.of(slow), 0, limit_s=0.01)
    assert time.monotonic() - before < 120


def test_a_reference_in_another_process_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task.of(tl.ops.softmax(tl.placeholder((5, 7), name="x")))
    here = make_reference(task, 0)
    monkeypatch.setattr(reference, "HERE", 0)
    assert make_reference(task, 0) == here


def test_a_task_is_refused_by_what_leaves_the_least_memory() -> None:
    task = Task.of(tl.ops.relu(tl.placeholder((1 << 28,), name="x")))
    need = Footprint.of(task, target(), 1)
    assert need.operands == 2 << 30 and need.results == 1 << 30 and need.peak < 3 * need.operands
    assert need.why_too_large(MemoryBound("the group", 1 << 40, need.peak)) is None
    why = need.why_too_large(MemoryBound("the group", 1 << 31, 1 << 30))
    assert why is not None and "operands of 2.15 GB" in why and "the group leaves 1.07 GB of 2.15 GB" in why
    with pytest.raises(LimitError, match=r"relu: it needs .* TB"):
        require_memory(Task.of(tl.ops.relu(tl.placeholder((1 << 42,), name="x"))), target(), 1)


def test_what_the_default_schedule_computes_whole_counts() -> None:
    """A product that is read by rows and by columns is computed whole; a pointwise stage between two others is not."""
    n = 8192
    A, B = tl.placeholder((n, 4), name="A"), tl.placeholder((4, n), name="B")
    C, k = tl.ops.matmul(A, B, name="C"), tl.reduce_axis(n, name="k")
    task = Task.of(tl.compute((n,), lambda i: tl.sum(C[k, i] * C[i, k], axis=k), name="D"))
    need = Footprint.of(task, target("znver3"), 1)
    assert n * n * 4 <= need.intermediates <= 1.1 * n * n * 4
    assert need.peak == need.operands + need.results + need.intermediates + PROCESSES
    why = need.why_too_large(MemoryBound("the group", 1 << 28, 1 << 28))
    assert why is not None and "intermediate results of 26" in why
    assert Footprint.of(Task.of(tl.ops.relu(tl.ops.relu(tl.placeholder((n, n), name="x")))), target(), 1).intermediates == 0


def test_intermediates_of_run_time_extents_count_at_the_values_that_are_measured_at() -> None:
    n = tl.dim("n")
    A, k = tl.placeholder((n, 4), name="A"), tl.reduce_axis(n, name="k")
    C = tl.compute((n, n), lambda i, j: tl.exp(A[i, 0] + A[j, 1]), name="C")
    m = tl.reduce_axis(n, name="m")
    S = tl.compute((n, n), lambda i, j: tl.sum(C[i, m] * C[m, j], axis=m), name="S")
    task = Task.of(tl.compute((n,), lambda i: tl.sum(S[k, i], axis=k), name="D"), dims={"n": 4096})
    assert Footprint.of(task, target(), 1).intermediates >= 4096 * 4096 * 4


def test_making_and_comparing_operands_takes_parts_of_them_at_a_time() -> None:
    spec = Spec((1 << 23,), dtype("float32"))
    tracemalloc.start()
    try:
        (made,) = inputs([spec], 0)
        assert tracemalloc.get_traced_memory()[1] < 1.8 * made.array.nbytes
        tracemalloc.reset_peak()
        assert mismatch(made.array, made.array, spec.dtype, 1) is None
        assert tracemalloc.get_traced_memory()[1] < 3 * made.array.nbytes
    finally:
        tracemalloc.stop()


def test_a_change_anywhere_changes_the_digest() -> None:
    guarded = Guarded(Spec((50,), dtype("int32")))
    guarded.array[...] = 0
    before = guarded.digest()
    guarded.array[17] = 1
    assert guarded.digest() != before


@pytest.mark.parametrize("shape", [(100,), (1000, 37), (5, 640, 333)])
def test_every_end_of_a_likely_tile_is_among_the_points(shape: tuple[int, ...]) -> None:
    """Of every axis: its ends, the end of the first tile, the seams around it and around the last whole one, of knobs' factors too."""
    points = sample_points(shape, 2048, [23])
    for axis, size in enumerate(shape):
        seen = {point[axis] for point in points}
        for factor in (1, 2, 3, 4, 6, 8, 14, 16, 23, 32, 48, 64, 96, 128, 256):
            if factor <= size:
                last = size // factor * factor
                assert {0, size - 1, factor - 1, last - 1} <= seen and (last == size or last in seen)


def test_the_ends_of_tiles_of_fused_axes_are_among_the_points() -> None:
    shape = (40, 50)
    flat = {int(np.ravel_multi_index(point, shape)) for point in sample_points(shape, 2048)}
    assert {63, 64, 1983, 1984, 95, 96} <= flat


def test_more_points_begin_with_the_fewer() -> None:
    for fewer, more in pairwise([sample_points((300, 200), count) for count in (600, 1200, 2400)]):
        assert set(boundaries(300)) <= {i for i, _ in fewer} and len(set(more)) == len(more) > len(fewer)


def test_the_numbers_among_knobs_are_factors_those_that_they_open_too() -> None:
    knobs = (Sizes("rows", (6, 14)), Knob("how", ("packed", "plain"), {'"packed"': (Sizes("panel", (48, 96)),)}))
    assert factors(knobs) == {6, 14, 48, 96}
