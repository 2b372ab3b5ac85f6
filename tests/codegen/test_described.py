"""Descriptions of machines: every one of the table is a file and back, and a file is a valid machine or a typed error."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import tensorlang as tl
from tensorlang.codegen.target import described
from tensorlang.codegen.target.cores import GENERIC, TABLE, digest, shipped
from tensorlang.codegen.target.described import Described, decode, encode, faults, leaves
from tensorlang.schedules.model.machine import Machine
from tests.fuzz.machines import machines, mutated_machine, read_machine
from tests.thinned import few

NAMES = [f"{arch}-unknown-linux-gnu:{name}" for arch, cores in TABLE.items() for core in cores for name in core.names.split()]
UNNAMED = ["x86_64-unknown-linux-gnu:x86-64", "aarch64-unknown-linux-gnu:generic"]


def about(name: str) -> Described:
    target = tl.target(name)
    return Described(arch=target.arch, cpu=target.cpu, machine=shipped(target))


@pytest.mark.parametrize("name", few([*NAMES, *UNNAMED], 13))
def test_every_machine_of_the_table_is_valid_and_comes_back_from_its_file(name: str, tmp_path: Path) -> None:
    said = about(name)
    assert not list(faults(said.machine))
    described.write(said, tmp_path / "machine.json")
    found = described.read(tmp_path / "machine.json")
    assert found == said
    assert digest(found.machine) == digest(said.machine) == digest(tl.machine(tmp_path / "machine.json"))
    assert encode(found) == encode(decode(encode(found)))


def test_every_architecture_has_a_machine_of_unknown_name() -> None:
    assert {name.split("-", 1)[0] for name in UNNAMED} == set(GENERIC)


@pytest.mark.parametrize("name", NAMES)
def test_an_address_says_by_some_bits_which_set_of_a_core_s_cache_a_line_is_in(name: str) -> None:
    target = tl.target(name)
    for size in (target.caches, replace(target.caches, l2=2 << 20), replace(target.caches, l1=48 << 10, l2=1280 << 10)):
        machine = shipped(target.with_caches(size))
        sets = [cache.size // cache.ways // machine.line for cache in machine.caches[:2]]
        assert all(count & (count - 1) == 0 for count in sets)
        assert not list(faults(machine))


def test_a_core_is_known_by_its_instructions_where_a_hypervisor_tells_an_older_model() -> None:
    """A Granite Rapids behind one is told as a Rocket Lake: its caches are those of the system, its core is that of its instructions."""
    told = tl.target("rocketlake,+avx512fp16")
    same = replace(shipped(tl.target("sapphirerapids").with_caches(told.caches)), name="rocketlake")
    assert shipped(told) == same != shipped(tl.target("rocketlake"))
    assert shipped(tl.target("znver5,+avx512fp16")) == shipped(tl.target("znver5"))


def changed(value: Any) -> list[Any]:
    """A value with one leaf of it changed, for each."""
    if is_dataclass(value):
        return [replace(value, **{field.name: new}) for field in fields(value) for new in changed(getattr(value, field.name))]
    if isinstance(value, tuple):
        return [(*value[:place], new, *value[place + 1 :]) for place, part in enumerate(value) for new in changed(part)]
    return [value + "." if isinstance(value, str) else value * 2 or 1]


@pytest.mark.parametrize("name", ["haswell", "znver3", "neoverse-v1"])
def test_a_digest_changes_with_every_field(name: str) -> None:
    machine = tl.machine(name)
    others: list[Machine] = changed(machine)
    assert len(others) == len(list(leaves(machine)))
    assert len({digest(machine), *map(digest, others)}) == len(others) + 1


def test_a_digest_does_not_depend_on_how_a_number_is_written() -> None:
    machine = tl.machine("znver3")
    assert digest(machine) == digest(replace(machine, hertz=int(machine.hertz), outstanding=float(machine.outstanding)))


def test_a_digest_is_the_same_in_every_process() -> None:
    script = "import tensorlang as tl; from tensorlang.codegen.target.cores import digest; print(digest(tl.machine('znver3')))"
    found = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert found == {f"{digest(tl.machine('znver3'))}\n"}


@pytest.mark.parametrize("seed", few(range(400), 100))
def test_every_mutation_of_a_file_is_a_valid_machine_or_a_typed_error(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    try:
        data = mutated_machine(rng, [random.Random(f"{seed} {step}") for step in range(rng.choice([1, 1, 2, 3]))])
    except (ValueError, RecursionError, IndexError, KeyError, TypeError, UnicodeError, OverflowError, AttributeError):
        return  # the mutations do not go together
    says = ""
    try:
        read_machine(rng, data, tmp_path)
    except tl.BuildError as error:
        says = str(error)
    assert not says or ("machine.json" in says and "autotune calibrate" in says)


def plain() -> Any:
    return json.loads(machines()[0])


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("machine", "hertz"), "fast", "machine.hertz: expected `float`, got `str`"),
        (("machine", "hertz"), 0, r"machine.hertz: from 1e\+08 to 1e\+11, not 0"),
        (("machine", "registers"), 10**400, "machine.registers: from 1 to 1024, not a number beyond all bounds"),
        (("machine", "hertz"), True, "machine.hertz: expected `float`, got `bool`"),
        (("machine", "caches", 1, "bandwidth"), -3, r"machine.caches\[1\].bandwidth: from 0.001"),
        (("machine", "caches", 1, "bandwith"), 3, "there is no field 'bandwith'; did you mean 'bandwidth'"),
        (("machine", "caches", 0, "size"), 1 << 30, "each level at least as large as the one before"),
        (("machine", "caches", 0, "ways"), 1000, r"machine.caches\[0\].ways: no more than there are lines"),
        (("machine", "caches"), [], "from 1 to 4 levels, not 0"),
        (("machine", "line"), 48, "machine.line: a power of two, not 48"),
        (("machine", "pages", "size"), 5000, "machine.pages.size: a power of two, not 5000"),
        (("machine", "overlap"), 1e300, "machine.overlap: from 1 to 64"),
        (("machine", "name"), "", "machine.name: a text"),
        (("machine", "ports"), None, "machine.ports: expected `object`, got `null`"),
        (("machine",), 3, "machine: expected `object`, got `int`"),
        (("schema",), 2, "schema: invalid enum value 2"),
        (("hertz",), 3, "the file: object contains unknown field `hertz`"),
        (("cpu",), "", "cpu: expected `str` of length >= 1"),
    ],
)
def test_what_is_wrong_names_the_file_the_field_and_what_to_do(path: tuple[Any, ...], value: Any, says: str, tmp_path: Path) -> None:
    whole = plain()
    here = whole
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = value
    file = tmp_path / "some.json"
    file.write_text(json.dumps(whole))
    with pytest.raises(tl.BuildError, match=rf"some\.json' holds no description of a machine: .*{says}.*; `autotune calibrate --out FILE`"):
        tl.machine(file)


@pytest.mark.parametrize("field", ["machine", "arch", "cpu"])
def test_what_is_missing_is_named(field: str, tmp_path: Path) -> None:
    whole = plain()
    del whole[field]
    (tmp_path / "some.json").write_text(json.dumps(whole))
    with pytest.raises(tl.BuildError, match=f"missing required field `{field}`"):
        tl.machine(tmp_path / "some.json")


def test_fields_that_a_later_version_added_have_defaults() -> None:
    whole = plain()
    for name in ("registers", "latencies", "fork"):
        del whole["machine"][name]
    assert decode(json.dumps(whole).encode()).machine.registers == 16


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"null", b"[]", b"3", b'"a"', b'{"schema":1}', b"NaN"])
def test_what_is_no_description_is_refused(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "some.json").write_bytes(text)
    with pytest.raises(tl.BuildError, match="holds no description of a machine"):
        tl.machine(tmp_path / "some.json")


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "some.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(tl.BuildError, match="more than 65,536 bytes"):
        tl.machine(tmp_path / "some.json")


def test_fifos_devices_folders_and_missing_files_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.json")
    for path, says in (
        (tmp_path / "fifo.json", "FIFO"),
        ("/dev/zero", "device"),
        (tmp_path, "folder"),
        (tmp_path / "none.json", "No such file"),
    ):
        with pytest.raises(tl.BuildError, match=f"no description of a machine can be read from .*{says}"):
            tl.machine(path)
    with pytest.raises(tl.BuildError, match="no description of a machine can be read"):
        tl.machine("a\0.json")
    with pytest.raises(tl.BuildError, match="cannot be written"):
        described.write(about("haswell"), tmp_path / "none" / "machine.json")


def test_an_estimate_takes_a_file_a_machine_and_what_build_takes(tmp_path: Path) -> None:
    X = tl.placeholder((1 << 20,), name="X")
    s = tl.Schedule(tl.compute(X.shape, lambda i: X[i] * 2, name="Y"))
    path = tmp_path / "machine.json"
    described.write(about("znver4"), path)
    assert s.estimate(path) == s.estimate(str(path)) == s.estimate("znver4") == s.estimate(tl.machine("znver4"))
    assert s.estimate(tl.target("haswell")) == s.estimate("haswell")
    with pytest.raises(tl.BuildError, match="did you mean"):
        s.estimate("znver44")
