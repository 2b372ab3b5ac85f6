"""Only regular files are read, and only regular files or nothing are replaced; nothing waits for what is at a path."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from bench import simulate
from tensorlang.autotune.jobs import jobfile
from tensorlang.autotune.log import export
from tensorlang.autotune.log.database import Database
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.merge import merge
from tensorlang.autotune.reporting import html
from tensorlang.codegen.kernel.kernel import Kernel, forget
from tensorlang.codegen.kernel.loading import load
from tensorlang.system import files

FIXTURE = Path(__file__).parent / "autotune" / "fixtures" / "v1.jsonl"


def kernel(factor: float = 2.0) -> Kernel:
    x = tl.placeholder((4,), name="x")
    return tl.build(tl.compute((4,), lambda i: x[i] * factor, name="y"))


def fifo(path: Path) -> str:
    os.mkfifo(path)
    return "a FIFO"


def bound_socket(path: Path) -> str:
    here = Path.cwd()
    os.chdir(path.parent)  # the names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)
    return "a socket"


def device(path: Path) -> str:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")
    return "a device"


def folder(path: Path) -> str:
    path.mkdir()
    return "a folder"


def linked_fifo(path: Path) -> str:
    os.mkfifo(path.parent / "there")
    path.symlink_to("there")
    return "a FIFO"


MADE = [fifo, bound_socket, device, folder, linked_fifo]


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize(
    "write",
    [
        lambda path: kernel().save(path),
        lambda path: export.write(Log(FIXTURE), "csv", path),
        lambda path: html.write(Log(FIXTURE), path, measure=False),
        lambda path: merge([FIXTURE], path),
    ],
    ids=["save", "export", "html", "merge"],
)
def test_what_is_no_regular_file_is_not_replaced(make: Callable[[Path], str], write: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "goal"
    what = make(path)
    before = path.lstat()
    with pytest.raises(tl.TensorlangError, match=what):
        write(path)
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert len(list(tmp_path.iterdir())) == 1 + path.is_symlink()


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize(("read", "error"), [(load, tl.BuildError), (jobfile.read, tl.LogError)], ids=["kernel", "job"])
def test_what_is_no_regular_file_is_not_opened(make: Callable[[Path], str], read: Any, error: Any, tmp_path: Path) -> None:
    what = make(tmp_path / "goal")
    with pytest.raises(error, match=what):
        read(tmp_path / "goal")


@pytest.mark.parametrize("make", [fifo, bound_socket, linked_fifo])
def test_a_log_is_not_written_to_a_pipe_or_a_socket(make: Callable[[Path], str], tmp_path: Path) -> None:
    """What was written there could not be read again; a device that only takes, as /dev/null, is as good as no log."""
    what = make(tmp_path / "a.jsonl")
    with pytest.raises(tl.LogError, match=what):
        Log(tmp_path / "a.jsonl").append({"kind": "run_start"})
    with pytest.raises(tl.LogError, match=what):
        Log(tmp_path / "a.jsonl").of_task("matmul", "0" * 64)
    assert list(Log(tmp_path / "a.jsonl")) == []
    assert len(Database(tmp_path)) == 0
    Log(os.devnull).append({"kind": "run_start"})


def test_a_recording_is_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl.gz")
    with pytest.raises(tl.LogError, match="a FIFO"):
        list(simulate.read(tmp_path / "a.jsonl.gz"))


@pytest.mark.parametrize("make", MADE)
def test_a_cache_passes_over_what_is_no_file(make: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "cache"
    monkeypatch.setenv("TENSORLANG_CACHE", str(home))
    forget()
    x = np.ones(4, "f4")
    kernel(41.0)(x)
    entries = sorted(home.iterdir())
    for entry in entries:
        entry.unlink()
        if not (home / "there").exists():
            make(entry)
    forget()
    np.testing.assert_array_equal(kernel(41.0)(x), 41 * x)
    assert stat.S_ISREG(entries[0].lstat().st_mode) == (make is linked_fifo)  # a link is an entry's own place, and no way to another one
    forget()


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    there, link = tmp_path / "far" / "k.tlk", tmp_path / "k.tlk"
    link.symlink_to(there)
    kernel(3.0).save(link)
    assert link.is_symlink()
    assert not there.is_symlink()
    there.chmod(0o640)
    kernel(4.0).save(link)
    assert load(link)(np.ones(4, "f4"))[0] == 4
    assert stat.S_IMODE(there.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["far", "k.tlk", "k.tlk"]


def test_a_link_in_the_place_of_a_cached_kernel_is_replaced_and_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever put it there, what it leads to is nothing of ours."""
    home, victim = tmp_path / "cache", tmp_path / "victim"
    monkeypatch.setenv("TENSORLANG_CACHE", str(home))
    victim.write_bytes(b"precious")
    forget()
    kernel(43.0)
    entries = list(home.glob("*.tlk"))
    for entry in entries:
        entry.unlink()
        entry.symlink_to(victim)
    forget()
    assert kernel(43.0)(np.ones(4, "f4"))[0] == 43
    forget()
    assert victim.read_bytes() == b"precious"
    assert entries
    assert all(stat.S_ISREG(entry.lstat().st_mode) for entry in entries)


def test_a_link_that_leads_to_itself_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "k.tlk").symlink_to("k.tlk")
    with pytest.raises(tl.BuildError):
        kernel().save(tmp_path / "k.tlk")
    with pytest.raises(tl.BuildError):
        load(tmp_path / "k.tlk")


@pytest.mark.parametrize("path", ["\0", "a\0b", None, 3.5, "x" * 5000])
def test_what_is_no_path_is_an_os_error(path: Any) -> None:
    with pytest.raises(OSError, match=r"."):
        files.contents(path)
    with pytest.raises(OSError, match=r"."), files.replacing(path):
        raise AssertionError


SOURCE = "def f():\n    return 1\n"


def test_records_are_not_written_over_or_behind_another_kind_of_file(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    for write in (
        lambda: merge([FIXTURE], path),
        lambda: Log(path).append({"kind": "run_start"}),
        lambda: Log(path).of_task("matmul", "0" * 64),
    ):
        with pytest.raises(tl.LogError, match="no tuning log"):
            write()
    assert path.read_text() == SOURCE


@pytest.mark.parametrize("before", ["", "\n\n", '{"v', '{"v":1,"id":"torn', "\0" * 50, "lines of an editor\n" + FIXTURE.read_text()])
def test_a_log_that_is_new_torn_or_damaged_is_still_one(before: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(before)
    Log(path).append({"kind": "run_start"})
    merge([FIXTURE], path)
    assert len(list(Log(path))) == len(list(Log(FIXTURE)))
