"""Programs some of whose operands stay fixed are tuned with these packed, and known by it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import tensorlang as tl
from tensorlang import kernels
from tensorlang.autotune import Database, Log, tune
from tensorlang.autotune.jobs import session as jobs
from tensorlang.autotune.jobs.tune import session
from tensorlang.autotune.log.anchors import anchors
from tensorlang.autotune.log.fixed_operands import with_fixed
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.task import Task
from tensorlang.autotune.verification.reference import worker_task
from tensorlang.autotune.workers.candidate import build, load, save
from tensorlang.autotune.workers.local import LocalEvaluator
from tensorlang.autotune.workers.packed import Packed
from tensorlang.autotune.workers.protocol import Candidate, Outcome
from tensorlang.codegen.target import target
from tensorlang.errors import TuningError
from tensorlang.serialization import canonical

M, N, K = 48, 96, 160


def product(*, weight_first: bool = False, left: str = "A", right: str = "B", m: int = M) -> Any:
    made: dict[str, Any] = {}
    for name in (right, left) if weight_first else (left, right):
        made[name] = tl.placeholder((m, K) if name == left else (K, N), name=name)
    return tl.ops.matmul(made[left], made[right])


class Decided(LocalEvaluator):
    """Finals that the first candidate wins by far: points of one product are too near each other for a test to wait for a verdict."""

    def paired(self, candidates: Sequence[Candidate], until: float | None = None) -> Outcome:
        found = super().paired(candidates, until)
        rows = [replace(row, samples=tuple(time * (1 + place) for time in row.samples)) for place, row in enumerate(found.rows)]
        return replace(found, rows=tuple(rows))


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, brief: Policy) -> Any:
    """A log of the product with its weight packed, and of the product alone."""
    path = tmp_path_factory.mktemp("constants") / "log.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "LocalEvaluator", Decided)
        packed = session(product(), path, trials=3, constants=("B",), threads=1, policy=brief).run()
        session(product(), path, trials=1, threads=1, policy=brief).run()
    return path, packed


def test_records_say_which_operands_were_fixed_and_are_another_study(tuned: Any) -> None:
    path, packed = tuned
    trials = [trial for trial in Log(path).records("trial") if isinstance(trial, Trial)]
    fixed = [trial for trial in trials if trial.task.get("constants")]
    assert [trial.task["constants"] for trial in fixed] == [[1]] * 3  # A is used first
    assert len(trials) == 4 and len(Database(path)) == 2
    assert {trial.task["fingerprint"] for trial in trials} == {Task.of(product()).fingerprint}
    assert packed.best.record.id in {trial.id for trial in fixed}


@pytest.mark.parametrize("spelling", [{}, {"weight_first": True}, {"left": "data", "right": "weight"}])
def test_a_program_with_the_same_constants_finds_the_record_however_it_is_spelled(tuned: Any, spelling: dict[str, Any]) -> None:
    path, _ = tuned
    outputs, weight = product(**spelling), spelling.get("right", "B")
    matches = list(Database(path).matches((outputs,), target(), 1, constants=(weight,)))
    first = matches[0]
    assert first.record is not None and first.record.task["constants"] == [1]
    assert all(match.record is None or match.record.task["constants"] == [1] for match in matches)
    assert first.config is not None and first.replayed()[0] is not None


def test_one_without_constants_finds_only_what_was_tuned_without(tuned: Any) -> None:
    path, _ = tuned
    for match in Database(path).matches((product(),), target(), 1):
        assert match.record is None or "constants" not in match.record.task


def test_what_was_tuned_without_serves_where_nothing_was_tuned_with_these(tuned: Any) -> None:
    path, _ = tuned
    asked = list(Database(path).matches((product(),), target(), 1, constants=("A",)))
    assert all(match.record is None or "constants" not in match.record.task for match in asked)
    assert asked[0].reason == next(Database(path).matches((product(),), target(), 1)).reason


def test_a_fused_program_is_told_of_its_anchor_and_which_of_its_operands_stay_fixed() -> None:
    C = product(weight_first=True)
    fused = (tl.compute(C.shape, lambda i, j: tl.maximum(C[i, j], 0.0), name="relu"),)
    (anchor,) = anchors(fused, canonical.fingerprint(fused), frozenset({"B"}))
    assert (anchor.fingerprint, anchor.places) == (canonical.fingerprint(product()), (1,))
    assert [one.places for one in anchors(fused, canonical.fingerprint(fused))] == [()]


def test_the_kernel_library_serves_the_record_and_packs_by_its_schedule(tuned: Any) -> None:
    path, _ = tuned
    database = Database(path)
    kernel = kernels.compile(product(weight_first=True), database=database, constants=("B",), threads=1)
    wanted = next(database.matches((product(),), target(), 1, constants=("B",)))
    assert kernel.provenance == (wanted.kind or "default") and wanted.reason in kernel.provenance_reason
    a, b = (np.random.default_rng(0).standard_normal(shape, np.float32) for shape in ((M, K), (K, N)))
    np.testing.assert_allclose(kernel.prepack(B=b)(a), a @ b, rtol=1e-4, atol=1e-4)


def test_a_resumed_job_measures_nothing_again(tuned: Any) -> None:
    path, packed = tuned
    again = tune(product(left="x", right="w"), trials=3, log=path, constants=("w",), threads=1)
    assert again.best.record.id == packed.best.record.id and len(list(Log(path).records("trial"))) == 4


def test_a_candidate_travels_with_its_packing_and_computes_the_same() -> None:
    convolution = tl.ops.conv2d(tl.placeholder((1, 16, 14, 14), name="x"), tl.placeholder((32, 16, 3, 3), name="w"), padding=1)
    task = worker_task(Task.of(convolution, constants=("w",)), target(), 1, Policy(), sampling_s=0)
    assert task.constants == (1,)
    made = build(task, Candidate(config={}), lambda _: None)
    x, w = (np.random.default_rng(1).standard_normal(spec.shape, np.float32) for spec in task.inputs)
    want = tl.build(convolution)(x, w)
    for one in (made, load(task, save(made))):
        assert isinstance(one, Packed)
        assert one.packers[1], "the default packs its weight"
        out = np.empty_like(want)
        one.bind(x, w, out=out)()
        np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
        assert one.cost()["flops"] == tl.build(convolution).cost()["flops"]


def test_the_places_of_constants_decide_what_a_program_is_called() -> None:
    plain, packed = Task.of(product()), Task.of(product(weight_first=True), constants=("B",))
    assert plain.program == plain.fingerprint == packed.fingerprint != packed.program
    assert packed.program == with_fixed(plain.fingerprint, (1,)) == Task.of(product(), constants=(1,)).program
    assert "constants" not in plain.to_json() and packed.constant_names == {"B"}
    assert packed.fixed_inputs == (0,) and Task.of(product(), constants={"B"}).fixed_inputs == (1,)


@pytest.mark.parametrize(
    ("constants", "message"), [(("C",), "names 'C', which is no operand"), ("B", "takes names of operands"), ((2,), "names 2")]
)
def test_what_is_no_operand_is_refused_by_name(constants: Any, message: str) -> None:
    with pytest.raises(TuningError, match=message):
        tune(product(), trials=1, constants=constants)
