"""`kernel.export`: which files there are, what they say, who is refused, and nothing half written."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.cache.identifiers import KEYWORDS, why_reserved
from tensorlang.codegen.export.export import FORMATS
from tensorlang.codegen.runtime.symbols import defined_symbols, undefined_symbols
from tests.codegen.exported import called, longs, needs_cc, needs_cxx, run, tensor

n = tl.dim("n", 1, 100)
TEXT = ("o", "h", "a", "c", "ll", "s", "json")
"""The formats that need no linker."""


def increment(name: str = "inc", argument: str = "X") -> tl.Kernel:
    X = tl.placeholder((16,), name=argument)
    return tl.build(tl.compute((16,), lambda i: X[i] + 1.0, name="Y"), name=name)


def test_every_format_is_a_file_of_the_kernel_s_name(tmp_path: Any) -> None:
    made = increment().export(tmp_path, formats=TEXT)
    assert made == {form: tmp_path / f"inc.{form}" for form in TEXT}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"inc.{form}" for form in TEXT)
    assert all(path.stat().st_size for path in made.values())


def test_the_same_kernel_gives_the_same_bytes(tmp_path: Any) -> None:
    first = {form: path.read_bytes() for form, path in increment().export(tmp_path, formats=TEXT).items()}
    tl.load(saved(tmp_path / "inc.tlk"))
    assert {form: path.read_bytes() for form, path in increment().export(tmp_path, formats=TEXT).items()} == first


def saved(path: Path) -> Path:
    increment().save(path)
    return path


def test_a_loaded_kernel_is_exported_as_it_was(tmp_path: Any) -> None:
    formats = ("o", "h", "a", "ll", "s", "json")
    first = {form: path.read_bytes() for form, path in increment().export(tmp_path, formats=formats).items()}
    again = {form: path.read_bytes() for form, path in tl.load(saved(tmp_path / "inc.tlk")).export(tmp_path, formats=formats).items()}
    assert {form for form in formats if first[form] != again[form]} <= {"json"}  # a file does not say whose schedule it was
    with pytest.raises(tl.BuildError, match="without its definition"):
        tl.load(tmp_path / "inc.tlk").export(tmp_path, formats=("c",))


def test_an_object_asks_for_nothing_that_it_does_not_need(tmp_path: Any) -> None:
    made = increment().export(tmp_path, formats=("o",))
    code = made["o"].read_bytes()
    assert undefined_symbols(code) == ()
    assert {"inc", "inc_dltensor", "inc_metadata", "tensorlang_error"} <= defined_symbols(code)
    assert "tensorlang_allocate" not in defined_symbols(code)


def test_the_json_says_what_the_kernel_is_and_what_it_is_made_from(tmp_path: Any) -> None:
    A = tl.placeholder((n, 8), "int8", name="A")
    s = tl.Schedule(tl.compute((n, 8), lambda i, j: tl.cast(A[i, j], "int32") * 2, name="B"))
    s.unroll("j")
    kernel = tl.build(s, name="twice")
    told = json.loads(kernel.export(tmp_path, formats=("json",))["json"].read_text())
    assert told["inputs"] == [{"name": "A", "dtype": "int8", "shape": ["n", 8], "align": 1}]
    assert told["outputs"] == [{"name": "B", "dtype": "int32", "shape": ["n", 8], "align": 4}]
    assert told["dims"] == [{"name": "n", "least": 1, "most": 100}]
    assert [step[0] for step in told["schedule"]["steps"]] == ["unroll"]
    assert (told["workspace_bytes"], told["parallel"], told["version"]) == (0, False, tl.__version__)
    assert told["targets"][0]["cpu"] == kernel.target.cpu
    assert len(told["fingerprint"]) == 64
    assert told["definition"]["definitions"][0]["name"] == "A"


def test_the_json_of_a_default_schedule_says_which_it_is(tmp_path: Any) -> None:
    told = json.loads(increment().export(tmp_path, formats=("json",))["json"].read_text())
    assert "vectorize" in [step[0] for step in told["schedule"]["steps"]]


def test_the_metadata_entry_gives_json(tmp_path: Any) -> None:
    library = shared(increment(), tmp_path)
    library.inc_metadata.restype = ctypes.c_char_p
    told = json.loads(library.inc_metadata())
    assert (told["name"], told["abi"], told["outputs"][0]["shape"]) == ("inc", 1, [16])


def shared(kernel: tl.Kernel, folder: Path) -> ctypes.CDLL:
    if not any(map(os.access, ("/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang"), [os.X_OK] * 3)):
        pytest.skip("needs a linker")
    return ctypes.CDLL(str(kernel.export(folder, formats=("so",))["so"]))


@needs_cc
@needs_cxx
@pytest.mark.parametrize("name", ["inc", "Y"])
def test_headers_are_c99_and_cxx_without_a_warning_together_too(tmp_path: Any, name: str) -> None:
    increment(name).export(tmp_path, formats=("h",))
    increment("other", "other").export(tmp_path, formats=("h",))
    text = f'#include "{name}.h"\n#include "other.h"\n#include "{name}.h"\nint main(void) {{ return TENSORLANG_NO_MEMORY - 1; }}\n'
    (tmp_path / "both.c").write_text(text)
    (tmp_path / "both.cpp").write_text(text)
    for command, standard, source in (("cc", "-std=c99", "both.c"), ("c++", "-std=c++11", "both.cpp")):
        run(command, standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-ffreestanding", "-c", source, folder=tmp_path)


def test_every_type_is_passed_as_numpy_has_it(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    types = ("bool", "int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64")
    operands = [tl.placeholder((3, 5), dtype, name=f"x_{dtype}") for dtype in types]
    feeds = {str(p.name): rng.integers(0, 2 if p.dtype == "bool" else 100, (3, 5)).astype(p.dtype.numpy) for p in operands}

    def changed(p: tl.Tensor) -> tl.Tensor:
        made: tl.Tensor = tl.compute((3, 5), lambda i, j: ~p[i, j] if p.dtype == "bool" else p[i, j] + p[2 - i, j], name=f"y_{p.dtype}")
        return made

    made = tuple(map(changed, operands))
    kernel = tl.build(made, name="types", inputs=operands)
    results = called(shared(kernel, tmp_path), kernel, feeds, {})
    for got, want in zip(results, tl.evaluate(made, {p: feeds[str(p.name)] for p in operands}), strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_tensor_entry_reads_extents_from_shapes_and_takes_what_is_contiguous(tmp_path: Any) -> None:
    A, B = tl.placeholder((n, 3), name="A"), tl.placeholder((n,), name="B")
    library = shared(tl.build(tl.compute((n, 3), lambda i, j: A[i, j] + B[i], name="C"), name="rows"), tmp_path)
    a, b, c = np.arange(12, dtype="f4").reshape(4, 3), np.arange(4, dtype="f4"), np.zeros((4, 3), "f4")
    one = np.zeros((1, 3), "f4")
    good = {"A": tensor(a), "B": tensor(b), "C": tensor(c)}

    def status(**changed: Any) -> int:
        c[:] = -1
        passed = (None if part is None else ctypes.byref(part) for part in {**good, **changed}.values())
        return int(library.rows_dltensor(*passed))

    for accepted in (
        {},
        {"A": tensor(a, strides=longs(3, 1))},
        {"A": tensor(a, data=a.ctypes.data - 8, byte_offset=8)},
        {"B": tensor(b, strides=longs(1))},
    ):
        assert status(**accepted) == 0
        np.testing.assert_array_equal(c, a + b[:, None])
    assert library.rows_dltensor(*map(ctypes.byref, (tensor(a[:1], strides=longs(77, 1)), tensor(b[:1]), tensor(one)))) == 0
    for number, refused in (
        (4, {"A": None}),
        (4, {"A": tensor(a, device_type=2)}),
        (4, {"A": tensor(a, bits=64)}),
        (4, {"A": tensor(a, code=0)}),
        (4, {"A": tensor(a, lanes=4)}),
        (4, {"A": tensor(a, ndim=1)}),
        (4, {"C": tensor(c, shape=None)}),
        (5, {"B": tensor(b[:3])}),
        (5, {"A": tensor(a, strides=longs(1, 4))}),
        (5, {"C": tensor(c, shape=longs(4, 4))}),
        (3, {"A": tensor(a, data=None)}),
        (3, {"A": tensor(a, byte_offset=2)}),
        (2, {"A": tensor(a, shape=longs(0, 3))}),
        (2, {"A": tensor(a, shape=longs(101, 3))}),
        (2, {"A": tensor(a, shape=longs(-1, 3))}),
    ):
        assert status(**refused) == number, refused
        assert (c == -1).all()


def test_the_plain_entry_refuses_pointers_and_extents_that_cannot_be(tmp_path: Any) -> None:
    m = tl.dim("m")
    A = tl.placeholder((m, n), name="A")
    library = shared(tl.build(tl.compute((m * n,), lambda i: A[i // n, i % n], name="B"), name="flat"), tmp_path)
    a, b = np.arange(6, dtype="f4").reshape(2, 3), np.zeros(6, "f4")

    def status(first: int, second: int, rows: int, columns: int) -> int:
        found: int = library.flat(*map(ctypes.c_void_p, (first, second)), *map(ctypes.c_int64, (rows, columns)))
        return found

    good = a.ctypes.data, b.ctypes.data
    assert status(*good, 2, 3) == 0
    np.testing.assert_array_equal(b, a.ravel())
    assert status(0, 0, 0, 3) == 0  # no elements, nothing to point to
    assert [status(0, good[1], 2, 3), status(good[0], good[1] + 1, 2, 3)] == [3, 3]
    assert [status(*good, *sizes) for sizes in ((-1, 3), (2, 0), (2, 101), (1 << 62, 3), (1 << 47, 64))] == [2] * 5


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("int", "it is a keyword of C"),
        ("restrict", "it is a keyword of C"),
        ("class", r"it is a keyword of C\+\+"),
        ("template", r"it is a keyword of C\+\+"),
        ("co_await", r"it is a keyword of C\+\+"),
        ("main", "every program has its own"),
        ("free", "compiled code calls a function of this name"),
        ("1st", "use letters, digits and _, at most 200, no digit first"),
        ("a b", "use letters"),
        ("", "use letters"),
        ("x" * 201, "use letters"),
        ("name\n", "use letters"),
        (3, "a name is a string"),
    ],
)
def test_no_kernel_is_built_under_a_name_that_no_function_can_have(name: Any, reason: str) -> None:
    with pytest.raises(tl.BuildError, match=f"cannot name a kernel: {reason}(;|,|$)"):
        increment(name)


def test_a_tensor_may_be_called_as_no_kernel_can() -> None:
    X = tl.placeholder((16,), name="X")
    new = tl.compute((16,), lambda i: X[i] + 1.0, name="new")
    assert [tl.build(made).name for made in (new, tl.Schedule(new))] == ["new_", "new_"]
    np.testing.assert_array_equal(tl.build(new)(np.zeros(16, np.float32)), np.ones(16, np.float32))
    assert tl.build(new, name="newer").name == "newer"
    for program in (new, tl.Schedule(new)):
        with pytest.raises(tl.BuildError, match=r"'new' cannot name a kernel: it is a keyword of C\+\+; give it another one with name=$"):
            tl.build(program, name="new")
    with pytest.raises(tl.BuildError, match="'int' cannot name a kernel"):
        tl.build(tl.Schedule(new, name="int"))
    long = tl.compute((16,), lambda i: (X[i], X[i] + 1), name="x" * 200)
    assert tl.build(long).name == "x" * 199 + "_"
    assert tl.build(tl.compute((16,), lambda i: new[i] * 2, name="twice")).name == "twice"


@pytest.mark.parametrize("name", ["printf", "sinf", "read", "y0", "linux", "_start", "a__b", "TENSORLANG_x", "DLTensor", "uint8_t"])
def test_no_kernel_is_exported_under_a_name_that_c_reserves(tmp_path: Any, name: str) -> None:
    with pytest.raises(tl.BuildError, match="cannot be exported under this name"):
        increment(name).export(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "argument", ["while", "new", "_x", "main", "int32_t", "a__b", "tensorlang_x", "INT32_MAX", "UINT_FAST8_MAX", "SIZE_MAX", "unix"]
)
def test_no_argument_is_exported_under_a_name_that_c_reserves(tmp_path: Any, argument: str) -> None:
    with pytest.raises(tl.BuildError, match=f"its argument '{argument}' needs another name"):
        increment(argument=argument).export(tmp_path)
    assert list(tmp_path.iterdir()) == []


@needs_cc
@needs_cxx
def test_what_compilers_reserve_is_what_is_refused(tmp_path: Any) -> None:
    """A sample of keywords is refused by C or C++, and what is accepted here by neither."""
    commands = (("cc", "-std=c99", "a.c"), ("c++", "-std=c++20", "a.cpp"))
    for name in ("while", "restrict", "new", "and", "co_await", "char8_t", "inc", "matmul", "x", "kernel"):
        taken = []
        for command, standard, source in commands:
            (tmp_path / source).write_text(f"int {name} = 1;\n")
            words = [command, standard, "-fsyntax-only", "-w", source]
            taken.append(subprocess.run(words, cwd=tmp_path, capture_output=True, check=False).returncode != 0)
        assert any(taken) == (name in KEYWORDS) == (why_reserved(name) is not None), name


@pytest.mark.parametrize(
    ("formats", "match"),
    [
        (("o", "exe"), "'exe' is no format"),
        ("o", "sequence of names"),
        ((), "names no format"),
        ((3,), "3 is no format"),
        (None, "sequence"),
    ],
)
def test_an_unknown_format_is_a_build_error(tmp_path: Any, formats: Any, match: str) -> None:
    with pytest.raises(tl.BuildError, match=match):
        increment().export(tmp_path, formats=formats)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["/proc/nowhere", "/dev/null", "/dev/null/below", "\0", None, 3.5])
def test_a_folder_that_cannot_be_written_is_a_build_error(folder: Any) -> None:
    with pytest.raises(tl.BuildError, match="cannot be exported to"):
        increment().export(folder, formats=("h",))


def test_nothing_is_written_where_one_file_cannot_be(tmp_path: Any) -> None:
    (tmp_path / "inc.json").mkdir()
    (tmp_path / "inc.h").write_text("before")
    with pytest.raises(tl.BuildError, match="it is a folder"):
        increment().export(tmp_path, formats=TEXT)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inc.h", "inc.json"]
    assert (tmp_path / "inc.h").read_text() == "before"
    (tmp_path / "inc.json").rmdir()
    os.mkfifo(tmp_path / "inc.json")
    with pytest.raises(tl.BuildError, match="a FIFO"):
        increment().export(tmp_path, formats=TEXT)


def test_without_a_linker_the_error_says_what_to_install(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(tl.BuildError, match="install a C compiler"):
        increment().export(tmp_path, formats=("o", "so"))
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("CC", "/bin/false")
    with pytest.raises(tl.BuildError, match="cannot become a shared library"):
        increment().export(tmp_path, formats=("so",))


def test_fixed_operands_stand_in_the_code_up_to_a_limit(tmp_path: Any) -> None:
    w = np.arange(12, dtype="f4").reshape(4, 3)
    x, W = tl.placeholder((4,), name="x"), tl.buffer(w, name="W")
    k = tl.reduce_axis(4, name="k")
    kernel = tl.build(tl.compute((3,), lambda j: tl.sum(x[k] * W[k, j], axis=k), name="y"), name="fixed")
    np.testing.assert_array_equal(called(shared(kernel, tmp_path), kernel, {"x": w[:, 0].copy()}, {})[0], w[:, 0] @ w)
    large = tl.buffer(np.zeros(1 << 20, "f4"), name="L")
    with pytest.raises(tl.BuildError, match="fixed operands have 4,194,304 bytes"):
        tl.build(tl.compute((1 << 20,), lambda i: large[i] + 1.0, name="y"), name="heavy").export(tmp_path, formats=("o",))


def test_the_formats_are_those_of_the_contract() -> None:
    assert FORMATS == ("o", "h", "so", "a", "c", "ll", "s", "json")
