"""What is cut from floats may differ by a step where rounding explains it, and only there: a kernel that is wrong is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.autotune import tune
from tensorlang.autotune.measurement.arrays import Array, inputs, mismatch
from tensorlang.autotune.measurement.unsteady import Unsteady
from tensorlang.autotune.task import Task
from tensorlang.autotune.verification import evaluated, reference
from tensorlang.autotune.verification.check import why_wrong
from tensorlang.autotune.verification.cuts import follow_a_cut
from tensorlang.autotune.verification.reference import make_reference
from tensorlang.semantics.evaluation import evaluate
from tensorlang.semantics.rounding import RoundedEvaluation

H, W = 120, 160


def real(value: Any) -> Any:
    return tl.cast(value, "float32")


def scaled(h: int = H, w: int = W) -> tl.Tensor:
    """A picture divided by its mean, in bytes: the mean is off by some roundings in any other order."""
    x, i, j = tl.placeholder((h, w), "uint8", name="x"), tl.reduce_axis(h, name="i"), tl.reduce_axis(w, name="j")
    mean = tl.compute((), lambda: tl.mean(tl.sqrt(real(x[i, j])), axis=(i, j)), name="mean")
    found: tl.Tensor = tl.compute((h, w), lambda y, z: tl.cast(tl.sqrt(real(x[y, z])) * (100 / mean[()]) + 0.5, "uint8"), name="scaled")
    return found


def held() -> tuple[Array, Array, Unsteady]:
    """The operand, the reference, and what of it hangs on rounding."""
    task = Task.of(scaled())
    found = make_reference(task, 0)
    assert found.at == (None,) and found.unsteady[0] is not None
    want = np.frombuffer(found.values[0].data, np.uint8).reshape(H, W)
    return inputs(task.inputs, 0, found.sample)[0].array, want, Unsteady.unpacked(found.unsteady[0].data)


def wrong(got: Array, want: Array, unsteady: Unsteady) -> str | None:
    return mismatch(got, want, scaled().dtype, 1, unsteady)


def test_bytes_on_the_edge_of_a_step_are_what_any_rounding_makes_of_them() -> None:
    given, want, unsteady = held()
    roots = np.sqrt(given.astype(np.float64))
    for error in (-3e-7, 0.0, 3e-7):
        got = (roots * (100 / roots.mean()) * (1 + error) + 0.5).astype(np.uint8)
        assert wrong(got, want, unsteady) is None
    assert len(unsteady.places) < want.size / 50


@pytest.mark.parametrize("fault", ["everywhere", "row", "swapped", "unwritten", "edges"])
def test_a_wrong_kernel_is_refused_beside_unsteady_elements(fault: str) -> None:
    _, want, unsteady = held()
    got = want.copy()
    match fault:
        case "everywhere":
            got += 1
        case "row":
            got[H // 2] += 1
        case "swapped":
            got[:, [3, 4]] = got[:, [4, 3]]
        case "unwritten":
            got[-1, -1] = 0xA5
        case "edges":  # far beyond a step, but only where it may be one step
            unsteady = Unsteady(np.arange(5), want.ravel()[:5] + 0.0, want.ravel()[:5] + 1.0, 0.0)
            got.ravel()[:5] += 3
    assert wrong(got, want, unsteady) is not None


def test_beyond_a_sample_few_elements_may_differ_from_the_default_schedule() -> None:
    want, kind = np.zeros(100_000, np.uint8), scaled().dtype
    none = Unsteady.of(np.zeros(2048), [], np.zeros(2048, bool))
    got = want.copy()
    got[:: len(want) // 100] = 1
    assert mismatch(got, want, kind, 1, beyond=none) is None and mismatch(got, want, kind, 1) is not None
    got[::100] = 1
    assert mismatch(got, want, kind, 1, beyond=none) is not None


def test_what_is_unsteady_travels_as_bytes() -> None:
    sent = Unsteady(np.array([3, 70]), np.array([1.0, -np.inf]), np.array([2.0, 5.0]), 0.25)
    back = Unsteady.unpacked(sent.packed())
    assert back.share == sent.share
    for name in ("places", "low", "high"):
        np.testing.assert_array_equal(getattr(back, name), getattr(sent, name))


def _table(cut: Callable[[Any], Any]) -> Callable[[tl.Tensor], tl.Tensor]:
    return lambda x: tl.compute((50,), lambda i: cut(x[i]), name="out")


def _places(x: tl.Tensor) -> tl.Tensor:
    k = tl.reduce_axis(50, name="k")
    found: tl.Tensor = tl.compute((), lambda: tl.argmax(x[k], axis=k), name="place")
    return found


def _counts(x: tl.Tensor) -> tl.Tensor:
    k, zero = tl.reduce_axis(50, name="k"), tl.compute((4,), lambda _: tl.cast(0, "int32"), name="zero")
    found: tl.Tensor = tl.scatter(zero, (k,), lambda i: tl.cast(tl.clamp(x[i], 0.0, 3.0), "int32"), lambda _: 1, name="counts")
    return found


def _steps(x: tl.Tensor) -> tl.Tensor:
    start = tl.compute((), lambda: 0.0, name="start")
    found: tl.Tensor = tl.scan(lambda t, s: tl.compute((), lambda: tl.floor(s[()] + x[t])), start, 50, keep="last", name="steps")
    return found


CUTS: dict[str, tuple[str, Callable[[tl.Tensor], tl.Tensor], bool]] = {
    "a cast": ("float32", _table(lambda v: tl.cast(v, "int32")), True),
    "a comparison": ("float64", _table(lambda v: v > 0.5), True),
    "a whole number": ("float32", _table(tl.floor), True),
    "a choice": ("float32", _table(lambda v: tl.select(v > 0.5, v, 0.0)), True),
    "the place of a greatest float": ("float32", _places, True),
    "counts": ("float32", _counts, True),
    "steps of a scan": ("float32", _steps, True),
    "a continuous function": ("float32", _table(lambda v: tl.maximum(tl.exp(v), 1.0)), False),
    "integers": ("int32", _table(lambda v: tl.select(v > 3, v % 5, v * 7)), False),
    "the place of a greatest integer": ("int32", _places, False),
    "a float of an integer": ("int32", _table(lambda v: real(v) * 0.1), False),
}


@pytest.mark.parametrize("name", CUTS)
def test_an_output_follows_from_a_cut_where_a_float_becomes_a_step(name: str) -> None:
    kind, program, follows = CUTS[name]
    assert follow_a_cut((program(tl.placeholder((50,), kind, name="x")),)) == (follows,)


def test_integers_are_held_to_the_reference_exactly() -> None:
    x = tl.placeholder((30, 40), "int32", name="x")
    assert make_reference(Task.of(tl.compute((30, 40), lambda i, j: x[i, j] * 7 % 5)), 0).unsteady == (None,)


def test_what_no_rounding_reaches_is_steady() -> None:
    """Whole numbers and halves are sums without rounding, and so are the steps that are cut from them."""
    x, k = tl.placeholder((60, 40), "uint8", name="x"), tl.reduce_axis(40, name="k")
    total = tl.compute((60,), lambda i: tl.sum(real(x[i, k]) * 0.5, axis=k), name="total")
    out = tl.compute((60,), lambda i: tl.cast(tl.floor(total[i] - 0.5), "int32"), name="out")
    (blob,) = make_reference(Task.of(out), 0).unsteady
    assert blob is not None and not len(Unsteady.unpacked(blob.data).places)


def test_ties_of_equal_computations_stay_ties() -> None:
    x, k = tl.placeholder((200, 32), "uint8", name="x"), tl.reduce_axis(32, name="k")
    parts = tl.compute((200, 32), lambda i, j: tl.exp(real(x[i, j] % 3) * 0.1), name="parts")
    (blob,) = make_reference(Task.of(tl.compute((200,), lambda i: tl.argmax(parts[i, k], axis=k), name="place")), 0).unsteady
    assert blob is not None and not len(Unsteady.unpacked(blob.data).places)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_another_rounding_is_near_and_its_opposite_on_the_other_side(kind: str) -> None:
    x = tl.placeholder((500,), kind, name="x")
    third = tl.compute((500,), lambda i: x[i] / 3, name="third")
    feeds = {x: np.arange(1, 501).astype(x.dtype.numpy)}
    want = evaluate(third, feeds).astype(np.float64)
    up, down = (RoundedEvaluation((third,), feeds, 0, sign).whole()[0].astype(np.float64) for sign in (1, -1))
    np.testing.assert_allclose(up, want, rtol=0.02 if kind in ("float16", "bfloat16") else 1e-6)
    moved = np.sign(up - want) * np.sign(down - want)
    assert (moved <= 0).all() and (moved < 0).mean() > 0.5


def test_an_index_that_is_cut_from_a_float_stays_inside_however_that_is_rounded() -> None:
    x, T = tl.placeholder((300,), name="x"), tl.placeholder((5,), "int32", name="T")
    at = tl.compute((300,), lambda i: T[tl.cast(tl.clamp(tl.abs(x[i]) * 6, 0.0, 4.0), "int32")], name="at")
    assert make_reference(Task.of(at), 0).unsteady != (None,)


def test_bytes_that_are_cut_from_floats_are_tuned() -> None:
    found = tune(scaled(), trials=3, threads=1)
    assert not [trial.why for trial in found.records if trial.status == "wrong_result"]
    assert why_wrong(found.kernel, (scaled(),)) is None


def test_a_kernel_of_another_program_is_refused_where_results_are_cut() -> None:
    x = tl.placeholder((H, W), "uint8", name="x")
    other = tl.compute((H, W), lambda y, z: tl.cast(tl.sqrt(real(x[y, z])) * 8.8 + 0.5, "uint8"), name="other")
    assert why_wrong(tl.build(other), (scaled(),)) is not None


@pytest.mark.parametrize("loops", [False, True])
def test_a_number_beside_a_sampled_output_is_tuned(loops: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was compared as an array of one element: every schedule was called wrong."""
    if loops:
        monkeypatch.setattr(reference, "EVALUATING", 1e-6)
    else:
        monkeypatch.setattr(evaluated, "WHOLE_S", 0.0)
        monkeypatch.setattr(reference, "_is_small", lambda _: True)  # here, where the least time holds
    x, i, j = tl.placeholder((300, 500), name="x"), tl.reduce_axis(300, name="i"), tl.reduce_axis(500, name="j")
    y = tl.compute((300, 500), lambda a, b: x[a, b] * 2, name="y")
    total = tl.compute((), lambda: tl.sum(y[i, j], axis=(i, j)), name="total")
    found = tune((y, total), trials=2, threads=1)
    assert not [trial.why for trial in found.records if trial.status == "wrong_result"]
