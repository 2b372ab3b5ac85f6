"""What an earlier process built is not built again; a cache that cannot be used changes nothing but the time."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.cache import object_files, program_key
from tensorlang.codegen.kernel.kernel import forget
from tensorlang.codegen.target import calibrated
from tensorlang.schedules.directives.instructions import Instruction
from tests.codegen.cached import edited, entry, product, scaled

pytestmark = pytest.mark.usefixtures("forgetful")

X = np.arange(20, dtype="f4").reshape(4, 5)


def test_a_file_of_an_earlier_build_is_used(cache_folder: Any, compilations: Any) -> None:
    first = tl.build(scaled())
    assert entry(cache_folder).stat().st_mode & 0o077 == 0
    forget()
    again = tl.build(scaled())
    assert compilations == ["y"]
    assert again is not first
    np.testing.assert_array_equal(again(X), 2 * X)
    assert [again.inspect(form) for form in ("nest", "llvm", "asm")] == [first.inspect(form) for form in ("nest", "llvm", "asm")]
    assert (again.cost(), again.signature, again.target, again.workspace_bytes) == (
        first.cost(),
        first.signature,
        first.target,
        first.workspace_bytes,
    )
    assert tl.load(entry(cache_folder)).signature == first.signature


def test_another_process_compiles_nothing_not_even_for_its_first_call(cache_folder: Any) -> None:
    code = """
import numpy as np, tensorlang as tl
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.cache import program_key
program_key._LOADED = 1 << 62  # whoever edits the sources now does not disturb
runs, real = [], binding.optimize
binding.optimize = lambda *args, **how: runs.append(1) or real(*args, **how)
x = tl.placeholder((4, 5), name="x")
y = tl.compute((4, 5), lambda i, j: x[i, j] * 2.0, name="y")
print(int(tl.build(y)(np.ones((4, 5), "f4")).sum()), len(runs))
"""
    told = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() for _ in range(2)]
    assert told == [["40", "2"], ["40", "0"]]


def test_a_kernel_from_a_file_can_be_packed(cache_folder: Any, compilations: Any) -> None:
    a, b = np.random.default_rng(0).random((2, 40, 40), np.float32)
    want = tl.build(product(40)).prepack(B=b)(a)
    compilations.clear()
    forget()
    kernel = tl.build(product(40)).prepack(B=b)
    assert not compilations
    np.testing.assert_array_equal(kernel(a), want)
    np.testing.assert_allclose(want, a @ b, rtol=1e-4)
    assert b.tobytes() not in b"".join(path.read_bytes() for path in cache_folder.iterdir())


def test_a_torn_or_damaged_entry_is_compiled_and_written_again(cache_folder: Any, compilations: Any) -> None:
    tl.build(scaled())
    path = entry(cache_folder)
    good = path.read_bytes()
    spoilt = [good[:n] for n in (0, 1, 20, 47, len(good) // 2, len(good) - 1)]
    spoilt += [good + b"\0", b"\0" * len(good), good[:-9] + bytes([good[-9] ^ 1]) + good[-8:], good[:60] + b"x" + good[61:]]
    for data in spoilt:
        path.write_bytes(data)
        forget()
        compilations.clear()
        np.testing.assert_array_equal(tl.build(scaled())(X), 2 * X)
        assert compilations == ["y"]
        assert path.read_bytes() == good


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["target"].__setitem__(2, header["target"][2] + ",+avx10.2"),
        lambda header: header["target"].__setitem__(0, "aarch64-unknown-linux-gnu"),
        lambda header: header.update(schema=99),
        lambda header: header.update(llvm="3.1"),
        lambda header: header.update(key="0" * 64),
        lambda header: header.pop("key"),
        lambda header: header.update(signature=[]),
    ],
    ids=["instructions", "machine", "schema", "llvm", "key", "no key", "nonsense"],
)
def test_an_entry_for_something_else_is_compiled_and_written_again(cache_folder: Any, compilations: Any, change: Any) -> None:
    tl.build(scaled())
    path = entry(cache_folder)
    good = path.read_bytes()
    edited(path, change)
    forget()
    np.testing.assert_array_equal(tl.build(scaled())(X), 2 * X)
    assert compilations == ["y", "y"]
    assert path.read_bytes() == good


def test_an_entry_under_the_name_of_another_is_not_taken_for_it(cache_folder: Any) -> None:
    tl.build(scaled(3.0))
    wrong = entry(cache_folder)
    data = wrong.read_bytes()
    wrong.unlink()
    tl.build(scaled())
    entry(cache_folder).write_bytes(data)
    forget()
    np.testing.assert_array_equal(tl.build(scaled())(X), 2 * X)


def test_another_compiler_uses_other_files(cache_folder: Any, compilations: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tl.build(scaled())
    forget()
    monkeypatch.setattr(object_files, "generator", lambda: "the next version")
    tl.build(scaled())
    assert len(list(cache_folder.iterdir())) == len(compilations) == 2


def test_the_compiler_is_named_by_versions_and_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    def name() -> str | None:
        program_key.generator.cache_clear()
        return program_key.generator()

    try:
        monkeypatch.setattr(program_key, "_LOADED", 1 << 62)
        assert len(name() or "") == 64
        known = name()
        for what, value in (("tensorlang.__version__", "9.9"), ("tensorlang.codegen.llvm.binding.versions", lambda: {"llvm": "99"})):
            with monkeypatch.context() as patch:
                patch.setattr(what, value)
                assert name() != known
        assert name() == known
        sources = dict(program_key._sources(next(iter(tl.__path__))))
        assert {"codegen/emission/emit.py", "schedules/directives/split.py", "ir/nodes.py"} <= set(sources)
        assert not any("autotune" in source for source in sources)
        monkeypatch.setattr(program_key, "_LOADED", 1)
        assert name() is None
    finally:
        program_key.generator.cache_clear()


def test_sources_newer_than_the_process_switch_files_off(cache_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_files, "generator", lambda: None)
    np.testing.assert_array_equal(tl.build(scaled())(X), 2 * X)
    assert not cache_folder.exists()


@pytest.mark.parametrize("value", ["", "off", "OFF", "0", " no "])
def test_files_are_written_only_where_the_user_says(value: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(object_files.VARIABLE, value)
    tl.build(scaled())
    assert not list(tmp_path.iterdir())


def test_on_is_the_cache_folder_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv(object_files.VARIABLE, "on")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tl.build(scaled())
    assert entry(tmp_path / "tensorlang").suffix == ".tlk"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert object_files.folder() == tmp_path / ".cache" / "tensorlang"


@pytest.mark.parametrize("place", ["/dev/null/kernels", "/proc/kernels", "~nobody-of-this-name/x\0y", "n" * 300])
def test_a_folder_that_cannot_be_made_is_said_once_and_costs_nothing(
    place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, caplog: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(object_files, "folder", lambda: Path(place))
    for factor in (2.0, 3.0):
        np.testing.assert_array_equal(tl.build(scaled(factor))(X), factor * X)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("call", ["fsync", "replace", "write"])
def test_a_full_disk_costs_nothing_and_leaves_nothing(cache_folder: Any, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    match call:
        case "replace":
            monkeypatch.setattr(Path, "replace", full)
        case "write":
            monkeypatch.setattr(tempfile, "mkstemp", full)
        case _:
            monkeypatch.setattr(os, "fsync", full)  # a cache does not wait for the disk
    np.testing.assert_array_equal(tl.build(scaled())(X), 2 * X)
    assert len(list(cache_folder.iterdir())) == (1 if call == "fsync" else 0)


def test_what_others_may_change_or_own_is_not_run(cache_folder: Any, compilations: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tl.build(scaled())
    entry(cache_folder).chmod(0o666)
    forget()
    tl.build(scaled())
    assert len(compilations) == 2
    assert entry(cache_folder).stat().st_mode & 0o077 == 0
    user = os.geteuid()
    os.chown(entry(cache_folder), 4242, -1) if user == 0 else monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    forget()
    tl.build(scaled())
    assert len(compilations) == 3
    cache_folder.chmod(0o777)
    tl.build(scaled(5.0))
    assert len(list(cache_folder.iterdir())) == 1


def test_a_full_folder_loses_what_was_not_used_for_longest(cache_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {}
    for age, factor in enumerate((1.5, 2.5, 3.5)):
        before = set(cache_folder.iterdir()) if cache_folder.exists() else set()
        tl.build(scaled(factor))
        (paths[factor],) = set(cache_folder.iterdir()) - before
        os.utime(paths[factor], (1000 + age, 1000 + age))
    forget()
    tl.build(scaled(1.5))  # read from its file: used now
    abandoned = cache_folder / f".{paths[1.5].name}.abc"
    abandoned.write_bytes(b"torn")
    os.utime(abandoned, (1000, 1000))
    monkeypatch.setattr(object_files, "LIMIT", 3 * paths[1.5].stat().st_size)
    object_files._written.clear()
    tl.build(scaled(4.5))
    left = set(cache_folder.iterdir())
    assert paths[1.5] in left
    assert not left & {paths[2.5], paths[3.5], abandoned}
    assert len(left) == 2


def test_kernels_for_other_machines_are_not_written(cache_folder: Any) -> None:
    tl.build(scaled(), target="aarch64-linux-gnu:cortex-a72")
    assert not cache_folder.exists()


def test_an_instruction_of_a_user_stays_in_its_process(cache_folder: Any) -> None:
    a, c = tl.placeholder((4,), name="a"), tl.placeholder((4,), name="c")
    tile = tl.compute((4,), lambda i: a[i] + c[i], name="o")
    add = Instruction("cached_add", tile, lambda builder, tiles: None, requires=frozenset({"avx10.2"}))  # the loops run
    x, y = tl.placeholder((4,), name="a"), tl.placeholder((4,), name="c")
    s = tl.Schedule(tl.compute((4,), lambda i: x[i] + y[i], name="o"))
    s.tensorize("i", add)
    np.testing.assert_array_equal(tl.build(s)(np.ones(4, "f4"), np.ones(4, "f4")), 2 * np.ones(4))
    assert not cache_folder.exists()


def test_a_folder_whose_name_no_file_can_have_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking there for the description of this machine was an `OSError`."""
    monkeypatch.setenv("TENSORLANG_CACHE", "/" + 300 * "x")
    monkeypatch.setattr(calibrated, "_held", {})
    np.testing.assert_array_equal(tl.build(scaled())(X), 2 * X)
