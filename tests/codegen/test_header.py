"""A saved kernel whose digest is right but whose header is odd is refused by one typed error, before anything is made of it."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.cache import archive
from tensorlang.codegen.cache.interface_symbol import matches
from tensorlang.codegen.kernel.loading import load
from tensorlang.codegen.llvm import features
from tests.codegen.cached import edited

DEEP: Any = 0
for _ in range(400):
    DEEP = ["add", DEEP, 1]


@pytest.fixture(scope="module")
def data() -> bytes:
    x, v = tl.placeholder((12, 5), name="x"), tl.buffer(np.arange(5, dtype="f4"), name="v")
    return archive.encode(tl.build(tl.compute((12, 5), lambda i, j: x[i, j] * v[j], name="y")).program)


@pytest.fixture
def saved(data: bytes, tmp_path: Path) -> Path:
    (tmp_path / "y.tlk").write_bytes(data)
    return tmp_path / "y.tlk"


def inside(*path: Any, value: Any) -> Callable[[Any], None]:
    """Put a value at a path of the header."""

    def change(header: Any) -> None:
        for step in path[:-1]:
            header = header[step]
        header[path[-1]] = value

    return change


NAMES = ["", "\0", "a\0b", "1y", "y.z", "a b", "ü", "\ud800", 3, None, [], "y" * 5000]
SHAPES: list[Any] = [
    None,
    {},
    [-1, 5],
    [2**49, 5],
    [1e3, 5],
    [True, 5],
    ["n", 5],
    [["add", "n", 1], 5],
    [["pow", 2, 3], 5],
    [1] * 40,
    [DEEP, 5],
    [10**40],
]
ODD_DIMS: list[Any] = [None, "n", [""], ["n", "n"], [1], ["n"] * 2000]
ODD_LISTS: list[Any] = [None, [], {}, [[]], [["x"]], "xy"]
ODD_PASSES: list[Any] = [None, [], [2, 0, 0], [9, False, False], [-1, False, False], ["2", False, False]]
ODD_TARGETS: list[Any] = ["", "\0", None, "a b", "x" * 10_000_000, "+avx,\n"]
ODD_BOUND: list[Any] = [None, [], {}, [[]], [["x", "float32", [5]]], [["v", "float32", [-5]]]]
ODD_COUNTS: list[Any] = [None, "n", [], ["add"], DEEP, 10**40, 1.5]
ODD_ORIGINS: list[Any] = ["", "mine", 1, [], {}]
NUMBERS = [-1, 2**70, 1.5, True, "3", None, [3]]


@pytest.mark.parametrize(
    "change",
    [
        *(inside("signature", "name", value=name) for name in NAMES),
        *(inside("signature", side, 0, 0, value=name) for side in ("inputs", "outputs") for name in NAMES),
        *(inside("signature", "inputs", 0, 1, value=shape) for shape in SHAPES),
        *(inside("signature", "dims", value=dims) for dims in ODD_DIMS),
        *(inside("signature", "inputs", 0, 2, value=kind) for kind in ("float99", "", None, 4, ">f4", "float32\0")),
        *(inside("signature", side, value=value) for side in ("inputs", "outputs") for value in ODD_LISTS),
        *(inside(key, value=number) for key in ("workspace_bytes", "thread_workspace_bytes") for number in NUMBERS),
        *(inside("object", value=number) for number in [*NUMBERS, 0, 10**6]),
        *(inside("flops", value=value) for value in ODD_COUNTS),
        *(inside("passes", value=value) for value in ODD_PASSES),
        *(inside("target", at, value=value) for at in range(3) for value in ODD_TARGETS),
        *(inside("provenance", value=value) for value in ODD_ORIGINS),
        *(inside("bound", value=value) for value in ODD_BOUND),
        inside("bound", 0, 2, value=[2**40, 2**40]),
        inside("bound", 0, 1, value="float16"),
        *(inside(key, value=3) for key in ("source", "nest", "more")),
        lambda header: header["bound"].append(header["bound"][0]),
        lambda header: header["signature"].pop("dims"),
        lambda header: header.pop("nest"),
        lambda header: header.clear(),
    ],
)
def test_what_the_header_says_is_checked(saved: Path, change: Callable[[Any], None]) -> None:
    edited(saved, change)
    with pytest.raises(tl.BuildError, match="no kernel can be loaded"):
        load(saved)


@pytest.mark.parametrize(
    "text", [b"[]", b"3", b"null", b"", b"{", b"[" * 200_000, b'{"schema": ' + b"9" * 5000 + b"}", b"\xff", b'"\\ud800"', b"{}"]
)
def test_what_is_no_header_is_refused(text: bytes, data: bytes) -> None:
    with pytest.raises(tl.BuildError):
        archive.decode(packed(text, data[-100:]))


@pytest.mark.parametrize("size", [2**64 - 1, 2**63, 10**9, 0])
def test_a_wrong_length_of_the_header_is_refused(size: int, data: bytes) -> None:
    body = size.to_bytes(8, "little") + data[48:]
    with pytest.raises(tl.BuildError):
        archive.decode(sealed(body))


def packed(text: bytes, behind: bytes) -> bytes:
    return sealed(len(text).to_bytes(8, "little") + text + behind)


def sealed(body: bytes) -> bytes:
    return archive.MAGIC + hashlib.sha256(body).digest() + body


@pytest.mark.parametrize(
    "change",
    [
        inside("signature", "inputs", 0, 1, value=[12, 4]),
        inside("signature", "inputs", 0, 1, value=[24, 5]),
        inside("signature", "outputs", 0, 2, value="float16"),
        inside("signature", "inputs", 0, 0, value="z"),
        inside("signature", "dims", value=["n"]),
        inside("signature", "name", value="malloc"),
        lambda header: header["signature"]["inputs"].reverse(),
        lambda header: header["signature"]["outputs"].append(["more", [1], "float32"]),
        lambda header: header["target"].__setitem__(2, header["target"][2].replace("+sse2,", "")),
    ],
    ids=["smaller", "larger", "type", "name", "dims", "function", "order", "count", "instructions"],
)
def test_a_header_that_says_something_else_than_its_code_is_refused(saved: Path, change: Callable[[Any], None]) -> None:
    """Machine code reads what it was compiled to read: a sound header with a right digest is not enough."""
    edited(saved, change)
    with pytest.raises(tl.BuildError, match="does not belong to its code"):
        load(saved)


def test_the_code_of_another_kernel_is_refused(saved: Path, data: bytes) -> None:
    x = tl.placeholder((3,), name="x")
    other = tl.build(tl.compute((3,), lambda i: x[i] + 1.0, name="y")).program
    size = int.from_bytes(data[40:48], "little")
    header = json.loads(data[48 : 48 + size])
    behind = data[48 + size + header["object"] :]
    header["object"] = len(other.compiled.object)
    with pytest.raises(tl.BuildError, match="does not belong to its code"):
        archive.decode(packed(json.dumps(header).encode(), other.compiled.object + behind))
    assert matches(other.compiled.object, other.signature, other.target)


def test_a_source_that_llvm_cannot_read_is_a_call_error(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edited(saved, inside("source", value=base64.b64encode(zlib.compress(b"define void @f() { ret i32 }")).decode()))
    kernel = load(saved)
    np.testing.assert_array_equal(kernel(np.ones((12, 5), "f4"))[0], np.arange(5))
    with pytest.raises(tl.CallError, match="LLVM cannot read the source"):
        kernel.inspect("llvm")
    monkeypatch.setattr(features, "compiles_apart", lambda *_: "it died of signal 6")
    with pytest.raises(tl.CallError, match="signal 6"):
        kernel.inspect("asm")


def test_a_source_that_is_no_text_is_a_build_error(saved: Path) -> None:
    good = zlib.compress(b"define void @f() { ret i32 }")
    for wrong in (good[:-3], b"define", zlib.compress(b"\xff")):
        edited(saved, inside("source", value=base64.b64encode(wrong).decode()))
        with pytest.raises(tl.BuildError, match="what the code was compiled from"):
            load(saved).inspect("llvm")
    edited(saved, inside("source", value="define void @f() { ret i32 }"))
    with pytest.raises(tl.BuildError, match="header makes no sense"):
        load(saved)


def test_what_could_not_be_read_is_not_saved(data: bytes, tmp_path: Path) -> None:
    program = archive.decode(data)
    for odd in ({"workspace_bytes": -1}, {"nest": "\ud800"}, {"signature": replace(program.signature, name="y" * 5000)}):
        with pytest.raises(tl.BuildError, match="header makes no sense"):
            archive.write(replace(program, **odd), tmp_path / "y.tlk")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["y" * 201, "y" * 5000])
def test_a_name_that_llvm_would_cut_is_refused(name: str) -> None:
    x = tl.placeholder((1,), name="x")
    with pytest.raises(tl.DefinitionError, match="cannot name"):
        tl.compute((1,), lambda i: x[i] + 1.0, name=name)
    with pytest.raises(tl.BuildError, match="cannot name"):
        tl.build(tl.compute((1,), lambda i: x[i] + 1.0), name=name)
