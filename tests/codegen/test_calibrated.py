"""Which description is in force: the file that `TENSORLANG_MACHINE` names, that of the cache folder, what ships; and what depends on it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tensorlang as tl
from tensorlang.codegen import compilation
from tensorlang.codegen.target import calibrated, described, target
from tensorlang.codegen.target.caches import Caches
from tensorlang.codegen.target.cores import digest, machine_of, shipped
from tensorlang.codegen.target.described import Described
from tensorlang.system import cache_folder

HERE = target("native")
FAST = replace(shipped(HERE), hertz=9e9, source="measured")


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No variable, and a cache folder with nothing in it."""
    monkeypatch.delenv(calibrated.VARIABLE, raising=False)
    monkeypatch.delenv(cache_folder.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    calibrated.forget()
    yield
    calibrated.forget()


def stored(path: Path, machine: Any = FAST, **changes: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    described.write(Described(**{"arch": HERE.arch, "cpu": HERE.cpu, "machine": machine, **changes}), path)
    return path


def in_cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "tensorlang" / "machines" / f"{HERE.cpu}.json"


def test_without_a_file_the_table_is_in_force() -> None:
    assert tl.machine() == tl.machine("native") == machine_of(HERE) == shipped(HERE)
    assert calibrated.in_force() is None


def test_the_file_in_the_cache_folder_stands_before_the_table(tmp_path: Path) -> None:
    assert calibrated.place() == in_cache(tmp_path)
    stored(in_cache(tmp_path))
    assert tl.machine() == FAST


def test_the_cache_folder_is_where_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache_folder.VARIABLE, str(tmp_path / "mine"))
    assert calibrated.place() == tmp_path / "mine" / "machines" / f"{HERE.cpu}.json"
    stored(calibrated.place())
    assert tl.machine() == FAST


def test_the_file_that_is_named_stands_before_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(in_cache(tmp_path), replace(FAST, hertz=8e9))
    monkeypatch.setenv(calibrated.VARIABLE, str(stored(tmp_path / "named.json")))
    assert calibrated.place() == tmp_path / "named.json"
    assert tl.machine() == FAST


@pytest.mark.parametrize("value", ["off", "OFF", " no "])
def test_off_is_the_table_whatever_is_stored(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(in_cache(tmp_path))
    monkeypatch.setenv(calibrated.VARIABLE, value)
    assert tl.machine() == shipped(HERE)
    assert calibrated.place() == in_cache(tmp_path)


CHANGES: list[dict[str, Any]] = [
    {"cpu": "another"},
    {"arch": "riscv64"},
    {"machine": replace(FAST, caches=(replace(FAST.caches[0], size=FAST.caches[0].size // 2), *FAST.caches[1:]))},
    {"machine": replace(FAST, caches=FAST.caches[:1])},
]


@pytest.mark.parametrize("changes", CHANGES)
def test_a_named_file_of_another_cpu_is_an_error_and_one_in_the_cache_folder_is_passed_over(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stored(in_cache(tmp_path), **changes)
    with caplog.at_level(logging.WARNING, logger="tensorlang"):
        assert tl.machine() == shipped(HERE)
    assert "is not used" in caplog.text
    monkeypatch.setenv(calibrated.VARIABLE, str(in_cache(tmp_path)))
    with pytest.raises(tl.BuildError, match=r"describes .* this machine .*; run `autotune calibrate` here, or unset TENSORLANG_MACHINE"):
        tl.machine()
    assert tl.machine(in_cache(tmp_path)).hertz == 9e9


def test_a_named_file_that_is_missing_or_broken_is_an_error_and_a_broken_one_in_the_cache_folder_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_cache(tmp_path).parent.mkdir(parents=True)
    in_cache(tmp_path).write_text("{")
    assert tl.machine() == shipped(HERE)
    for path, says in ((in_cache(tmp_path), "is not JSON"), (tmp_path / "none.json", "No such file")):
        monkeypatch.setenv(calibrated.VARIABLE, str(path))
        with pytest.raises(tl.BuildError, match=says):
            tl.machine()
        tl.machine("znver3")


def test_a_description_is_read_once_in_a_process(tmp_path: Path) -> None:
    stored(in_cache(tmp_path))
    assert tl.machine() == FAST
    stored(in_cache(tmp_path), replace(FAST, hertz=8e9))
    assert tl.machine() == FAST
    calibrated.forget()
    assert tl.machine().hertz == 8e9


def test_threads_that_come_at_once_get_one_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(in_cache(tmp_path))
    barrier, found = threading.Barrier(4), list[Any]()
    real = described.read

    def read(path: Any) -> Described:
        barrier.wait(10)  # all have found nothing held
        return real(path)

    monkeypatch.setattr(described, "read", read)
    threads = [threading.Thread(target=lambda: found.append(calibrated.in_force())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(one is found[0] for one in found)


@pytest.mark.parametrize("name", ["haswell", "znver3", "znver5", "neoverse-v1", "x86-64-v3", f"{HERE.cpu}"])
def test_named_targets_do_not_depend_on_what_was_measured_here(name: str, tmp_path: Path) -> None:
    before = tl.machine(name)
    stored(in_cache(tmp_path))
    calibrated.forget()
    assert tl.machine() == FAST
    assert tl.machine(name) == tl.target(name).core == before
    assert tl.machine(f"{HERE.triple}:{HERE.cpu}").hertz != FAST.hertz


def test_caches_that_are_not_here_have_no_measured_description(tmp_path: Path) -> None:
    stored(in_cache(tmp_path))
    elsewhere = HERE.with_caches(Caches(32 << 10, 1 << 20, 99 << 20, 4))
    assert elsewhere.core.source != "measured"
    assert elsewhere.core.caches[2].size == 99 << 20


@pytest.mark.skipif(not {"avx", "avx2"} <= HERE.isa, reason="takes wide vectors away")
def test_with_features_taken_away_ports_are_those_of_the_table_and_memory_is_measured(tmp_path: Path) -> None:
    stored(in_cache(tmp_path), replace(FAST, memory=replace(FAST.memory, latency=777)))
    narrow = tl.machine("native,-avx,-avx2,-fma,-avx512f,-f16c,-vaes,-vpclmulqdq")
    assert (narrow.vector_bits, narrow.memory.latency, narrow.hertz) == (128, 777, 9e9)
    assert narrow.ports == shipped(tl.target("native,-avx,-avx2,-fma,-avx512f,-f16c,-vaes,-vpclmulqdq")).ports


# Keys ------------------------------------------------------------------------------------------------------------------------------


def outputs() -> Any:
    A, B = tl.placeholder((24, 32), name="A"), tl.placeholder((32, 16), name="B")
    return tl.ops.matmul(A, B)


def test_a_default_schedule_is_of_one_description_and_a_given_one_of_any(tmp_path: Path) -> None:
    def names(of: Any) -> tuple[str, str]:
        return compilation.of_default(outputs(), of).name, compilation.of_schedule(tl.Schedule(outputs()), of).name

    default, given = names(HERE)
    named = names(tl.target("haswell"))
    assert names(HERE) == (default, given)
    stored(in_cache(tmp_path))
    calibrated.forget()
    assert digest(HERE.core) != digest(shipped(HERE))
    assert names(HERE)[0] != default
    assert names(HERE)[1] == given
    assert names(tl.target("haswell")) == named


def test_what_is_built_by_default_is_built_again_under_another_description(tmp_path: Path) -> None:
    first = tl.compile(outputs())
    assert tl.compile(outputs()) is first
    stored(in_cache(tmp_path))
    calibrated.forget()
    assert tl.compile(outputs()) is not first
