"""A target knows its instructions exactly, and no name can end the process."""

import subprocess
import sys
from typing import Any

import pytest

from tensorlang.codegen.llvm import features
from tensorlang.codegen.target import Target, target, why_foreign
from tensorlang.codegen.target.caches import TYPICAL, host_caches
from tensorlang.codegen.target.processors import TABLE, caches_of
from tensorlang.errors import BuildError
from tensorlang.ir.dtype import DType

LEVELS = {
    "x86-64": (128, 16, False, False),
    "x86-64-v2": (128, 16, False, True),
    "x86-64-v3": (256, 16, True, True),
    "x86-64-v4": (512, 32, True, True),
    "haswell": (256, 16, True, True),
    "skylake": (256, 16, True, True),
    "skylake-avx512": (512, 32, True, True),
    "cascadelake": (512, 32, True, True),
    "icelake-server": (512, 32, True, True),
    "sapphirerapids": (512, 32, True, True),
    "znver1": (256, 16, True, True),
    "znver2": (256, 16, True, True),
    "znver3": (256, 16, True, True),
    "znver4": (512, 32, True, True),
    "znver5": (512, 32, True, True),
    "aarch64-linux-gnu:generic": (128, 32, True, True),
    "aarch64-linux-gnu:cortex-a72": (128, 32, True, True),
    "aarch64-linux-gnu:neoverse-n1": (128, 32, True, True),
    "neoverse-v2": (128, 32, True, True),
}


@pytest.mark.parametrize("name", LEVELS)
def test_a_named_cpu_has_its_documented_instructions(name: Any) -> None:
    found = target(name)
    assert (found.vector_bits, found.registers, found.has_fma, found.has_round) == LEVELS[name]


def test_the_isa_of_a_level_is_the_published_one() -> None:
    """The x86-64 psABI lists what v3 adds to v2."""
    added = target("x86-64-v3").isa - target("x86-64-v2").isa
    assert added >= {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}


def test_lanes_fill_the_widest_register() -> None:
    assert [target("x86-64-v3").lanes(DType(name)) for name in ("float32", "float64", "int8", "float16")] == [8, 4, 32, 16]


def test_the_native_target_is_the_default_and_is_made_once() -> None:
    assert target() is target("native") is target(target())
    assert target().is_native
    assert why_foreign(target()) is None


def test_features_can_be_taken_away_and_added() -> None:
    assert not target("x86-64-v3,-fma").has_fma
    assert target("x86-64-v3:-avx").vector_bits == 128
    assert target("x86-64-v2,+avx2").vector_bits == 256


def test_taking_a_feature_from_this_machine_leaves_a_native_target() -> None:
    reduced = target("native,-avx512f") if target().is_x86 else target("native,-sve")
    assert reduced.is_native
    assert reduced.isa < target().isa or "avx512f" not in target().isa


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("nonsense-cpu", "nonsense-cpu"),
        ("x86-64-v9", "did you mean"),
        ("znver4,+fluxcapacitor", "fluxcapacitor"),
        ("x86-64,-sse2", "sse2"),
        ("x86-64,-64bit", "64-bit"),
        ("lakemont", "lakemont"),
        ("nope-linux-gnu:generic", "nope-linux-gnu"),
        ("aarch64-linux-gnu:znver4", "znver4"),
        ("s390x-linux-gnu:z13", "s390x"),
        ("aarch64-linux-gnu:native", "native"),
        ("", "not a target"),
        ("two words", "not a target"),
        ("x86-64-v3\0", "not a target"),
        ("help", "help"),
        ("x86-64,+help", "help"),
        (3, "not 3"),
    ],
)
def test_a_wrong_name_is_a_build_error_that_names_it(name: Any, match: Any) -> None:
    with pytest.raises(BuildError, match=match):
        target(name)


def test_an_unusual_cpu_is_asked_about_in_a_process_of_its_own() -> None:
    assert "bonnell" not in features.SAFE["x86_64"]
    assert target("x86_64-linux-gnu:bonnell").vector_bits == 128


@pytest.mark.parametrize("each", [6, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("arch", features.SAFE)
def test_every_name_in_the_short_list_is_one_that_llvm_knows_and_compiles(arch: Any, each: int) -> None:
    cpus, known = features.known_names(f"{arch}-unknown-linux-gnu")
    assert features.SAFE[arch] <= cpus
    assert features.ISA[arch] <= known
    for cpu in sorted(features.SAFE[arch])[::each]:
        assert features.features_of(f"{arch}-unknown-linux-gnu", arch, cpu)


def test_the_probe_agrees_with_what_llvm_detects_here() -> None:
    """For the host, LLVM tells its features; the probe of "this CPU and those features" finds the same."""
    here = target()
    arch = "x86_64" if here.is_x86 else "aarch64"
    found = features.probe(here.triple, arch, here.cpu, here.features)
    assert set(found) == here.isa & features.ISA[arch]


def test_foreign_targets_say_why() -> None:
    assert "aarch64" in (why_foreign(target("aarch64-linux-gnu:cortex-a72")) or "")
    wanted = Target(target().triple, target().cpu, target().features + ",+avx10.2", "future")
    if target().is_x86:
        assert "avx10.2" in (why_foreign(wanted) or "")
        assert not wanted.is_native


def test_what_the_user_wrote_does_not_count_in_equality() -> None:
    assert target("x86-64-v3") == target(" x86-64-v3 ")
    assert hash(target("x86-64-v3")) == hash(target(" x86-64-v3 "))


def test_caches_come_from_the_system_or_are_typical(tmp_path: Any) -> None:
    assert host_caches(tmp_path).l2 == TYPICAL.l2
    for index, (level, kind, size) in enumerate([("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M"), ("?", "", "")]):
        folder = tmp_path / "cpu" / f"index{index}"
        folder.mkdir(parents=True)
        for name, value in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(value)
    found = host_caches(tmp_path / "cpu")
    assert (found.l1, found.l2, found.l3) == (48 << 10, 2 << 20, 2 << 20)
    assert found.cores >= 1


def test_importing_targets_does_not_load_llvm() -> None:
    code = "import sys, tensorlang.codegen.target; assert not any(name.startswith('llvmlite') for name in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_named_cpu_has_its_own_caches() -> None:
    sizes = {
        name: (target(name).l1 >> 10, target(name).l2 >> 10) for name in ("haswell", "cascadelake", "icelake-server", "znver4", "znver5")
    }
    assert sizes == {
        "haswell": (32, 256),
        "cascadelake": (32, 1024),
        "icelake-server": (48, 1280),
        "znver4": (32, 1024),
        "znver5": (48, 1024),
    }
    assert target("neoverse-v1").l1 == 64 << 10 and target("cortex-a72").l3 == target("cortex-a72").l2


def test_the_table_of_caches_names_each_processor_once_and_levels_grow() -> None:
    for arch, rows in TABLE.items():
        names = [name for row in rows for name in row.names.split()]
        assert len(names) == len(set(names)) and set(names) <= features.SAFE[arch]
        assert all(0 < row.l1 < row.l2 <= row.l3 and row.cores > 0 and row.source for row in rows)
    assert caches_of("x86_64", "bonnell") == TYPICAL


def test_other_caches_beside_the_same_instructions() -> None:
    other = target("native").with_caches(target("cascadelake").caches)
    assert other.is_native and other.l2 == 1 << 20 and other.isa == target("native").isa
