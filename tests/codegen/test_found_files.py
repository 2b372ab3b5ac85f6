"""What one process found out, another one reads; whatever became of its file, the answer is the same."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import kernels
from tensorlang.codegen import compilation
from tensorlang.codegen.cache import found_files, object_files
from tensorlang.codegen.kernel import packing
from tensorlang.codegen.kernel.kernel import forget
from tensorlang.kernels import estimates
from tensorlang.kernels.compilation import forget as forget_kernels
from tests.codegen.cached import product

pytestmark = pytest.mark.usefixtures("forgetful")


class Asked:
    """A question with its answer, and how often that was found out."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, question: str = "how many") -> list[int]:
        return found_files.found(question, list, self._make, list)

    def _make(self) -> list[int]:
        self.times += 1
        return [3, 4]


def test_an_answer_is_found_once_for_each_question_and_compiler(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    assert [asked(), asked()] == [[3, 4]] * 2 and asked.times == 1
    (path,) = cache_folder.iterdir()
    assert path.suffix == object_files.FOUND and path.stat().st_mode & 0o077 == 0
    asked("how few")
    monkeypatch.setattr(object_files, "generator", lambda: "another compiler")
    assert asked() == [3, 4] and asked.times == 3


@pytest.mark.parametrize("damage", ["cut", "flipped", "another's", "no text", "empty"])
def test_a_damaged_answer_is_found_again_with_one_line_in_the_log(
    damage: str, cache_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = Asked()
    asked()
    (path,) = cache_folder.iterdir()
    good = path.read_bytes()
    asked("how few")
    (other,) = set(cache_folder.iterdir()) - {path}
    spoilt = {"cut": good[:-1], "flipped": good[:-2] + b"9]", "another's": other.read_bytes(), "no text": b"\xff" * 99, "empty": b""}
    path.write_bytes(spoilt[damage])
    with caplog.at_level(logging.WARNING, "tensorlang"):
        assert [asked(), asked()] == [[3, 4]] * 2
    assert asked.times == 3 and len(caplog.records) == 1 and path.read_bytes() == good


def test_without_a_folder_that_can_be_written_it_is_found_each_time(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    cache_folder.parent.mkdir(parents=True)
    cache_folder.touch()
    assert [asked(), asked()] == [[3, 4]] * 2 and asked.times == 2
    monkeypatch.delenv(object_files.VARIABLE)
    assert asked() == [3, 4] and asked.times == 3


def refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("it was scheduled")


def test_a_kernel_that_was_packed_before_is_not_scheduled_again(
    cache_folder: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = np.random.default_rng(0).random((2, 40, 40), np.float32)
    want = tl.build(product(40)).prepack(B=b)(a)
    forget()
    compilations.clear()
    with monkeypatch.context() as patched:
        patched.setattr(packing, "default_schedule", refuse)
        patched.setattr(compilation, "default_schedule", refuse)
        np.testing.assert_array_equal(tl.build(product(40)).prepack(B=b)(a), want)
    assert not compilations
    for path in cache_folder.glob("*.tlk"):  # trimmed, say: what was found names codes that have to be made again
        path.unlink()
    forget()
    np.testing.assert_array_equal(tl.build(product(40)).prepack(B=b)(a), want)
    assert compilations


def test_codes_are_not_made_of_another_schedule_than_what_was_found_names(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.ones((40, 40), np.float32)
    tl.build(product(40)).prepack(B=a)
    for path in cache_folder.glob("*.tlk"):
        path.unlink()
    forget()
    monkeypatch.setattr(packing, "default_schedule", lambda outputs, *_: tl.Schedule(outputs))
    with pytest.raises(tl.InternalError, match="is not what it was before"):
        tl.build(product(40)).prepack(B=a)


def test_an_estimate_outlives_its_process_and_is_one_for_a_machine(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = kernels.Spec("softmax", ((7, 41),))
    first = kernels.estimate(spec, "znver3")
    estimates.forget()
    with monkeypatch.context() as patched:
        patched.setattr(estimates, "default_schedule", refuse)
        assert kernels.estimate(spec, "znver3") == first
        with pytest.raises(AssertionError, match="scheduled"):
            kernels.estimate(spec, "cascadelake")
    estimates.forget()


def test_constants_that_are_given_are_packed_and_nothing_else_is_built(compilations: list[str]) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((33, 50), np.float32), rng.random((50, 70), np.float32)
    spec = kernels.Spec("matmul", (a.shape, b.shape))
    forget_kernels()
    kernel = kernels.compile(spec, constants={"B": b}, threads=1)
    assert sum("matmul" in name for name in compilations) == 1
    again = kernels.compile(spec, constants={"B": b * 2}, threads=1)
    assert sum("matmul" in name for name in compilations) == 1 and again.address == kernel.address
    want = kernels.compile(spec, constants=("B",), threads=1).prepack(B=b)
    assert kernel(a).tobytes() == want(a).tobytes() and kernel.signature == want.signature
    np.testing.assert_allclose(again(a), 2 * a @ b, rtol=1e-4)
    np.testing.assert_allclose(kernels.compile(spec, level="O0", constants={"B": b})(a), a @ b, rtol=1e-4)
    with pytest.raises(tl.CallError, match="expected shape"):
        kernels.compile(spec, constants={"B": b[1:]})
