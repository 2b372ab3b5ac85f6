"""Packed operands: one for all who need the same, in a file that maps, swapped without a build, whatever became of the file."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import kernels
from tensorlang.codegen.cache import object_files
from tensorlang.codegen.kernel import weights

N, K = 160, 300


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files are kept, whoever edits the sources meanwhile."""
    monkeypatch.setenv("TENSORLANG_CACHE", str(tmp_path))
    monkeypatch.setattr(object_files, "generator", lambda: "this version")
    monkeypatch.setattr(weights, "_shared", type(weights._shared)())  # what other tests hold
    return tmp_path / "weights"


def spec(m: int) -> kernels.Spec:
    return kernels.Spec("matmul", ((m, K), (K, N)))


def operands(seed: int = 0, m: int = 96) -> Any:
    rng = np.random.default_rng(seed)
    return rng.random((m, K), np.float32), rng.random((K, N), np.float32)


def held(kernel: Any) -> Any:
    """The operand that a packed kernel holds."""
    (array,) = kernel.program.bound.values()
    return array


def test_kernels_of_several_batch_sizes_share_one_packed_operand() -> None:
    (_, b), sizes = operands(), (64, 128, 256)
    packed = [kernels.compile(spec(m), constants=("B",), threads=1).prepack(B=b) for m in sizes]
    assert len({held(kernel).__array_interface__["data"] for kernel in packed}) == 1
    for m, kernel in zip(sizes, packed, strict=True):
        np.testing.assert_allclose(kernel(operands(1, m)[0]), operands(1, m)[0] @ b, rtol=1e-4)
    assert held(kernels.compile(spec(64), constants=("B",), threads=1).prepack(B=b + 1)) is not held(packed[0])


def test_an_operand_that_nobody_holds_is_let_go() -> None:
    kernel = kernels.compile(spec(96), threads=1).prepack(B=operands(7)[1])
    before = len(weights._shared)
    del kernel
    assert len(weights._shared) == before - 1


def test_repack_swaps_weights_without_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    (a, b), (_, c) = operands(), operands(1)
    first = kernels.compile(spec(96), constants=("B",), threads=1).prepack(B=b)
    monkeypatch.setattr("tensorlang.codegen.compilation.compile_nest", None)
    second = first.repack(B=c)
    assert type(second) is type(first) and second.address == first.address
    np.testing.assert_allclose(second(a), a @ c, rtol=1e-4)
    np.testing.assert_allclose(first(a), a @ b, rtol=1e-4)
    assert held(second.repack(B=b)) is held(first)


def test_repack_of_what_is_not_fixed_or_does_not_fit_is_a_call_error(tmp_path: Path) -> None:
    a, b = operands()
    plain = kernels.compile(spec(96), threads=1)
    packed = plain.prepack(B=b)
    for kernel, constants, message in (
        (plain, {"B": b}, "repack\\(\\) takes operands that prepack\\(\\) fixed in this process"),
        (packed, {}, "they are \\['B'\\]"),
        (packed, {"A": a}, "repack\\(\\) got 'A', which is not fixed.*fixed are \\['B'\\]"),
        (packed, {"B": b[:3]}, "'B'.*expected shape \\(300, 160\\), got \\(3, 160\\)"),
    ):
        with pytest.raises(tl.CallError, match=message):
            kernel.repack(**constants)


def test_a_loaded_kernel_can_be_packed(tmp_path: Path) -> None:
    a, b = operands()
    plain = kernels.compile(spec(96), threads=1)
    plain.save(tmp_path / "plain.tlk")
    loaded = tl.load(tmp_path / "plain.tlk")
    packed = loaded.prepack(B=b)
    assert held(packed) is held(plain.prepack(B=b))  # in the same panels
    assert packed(a).tobytes() == plain.prepack(B=b)(a).tobytes()
    np.testing.assert_allclose(packed.repack(B=b * 2)(a), 2 * a @ b, rtol=1e-4)


def test_another_process_maps_what_was_packed_before(kept: Path) -> None:
    code = f"""
import numpy as np
from tensorlang import kernels
from tensorlang.codegen.cache import object_files
from tensorlang.codegen.kernel import weights
object_files.generator = lambda: "this version"
made, real = [], weights.shared
weights.shared = lambda digest, shape, dtype, make: real(digest, shape, dtype, lambda: made.append(1) or make())
rng = np.random.default_rng(0)
a, b = rng.random((96, {K}), np.float32), rng.random(({K}, {N}), np.float32)
kernel = kernels.compile(kernels.Spec("matmul", ((96, {K}), ({K}, {N}))), constants=("B",), threads=1).prepack(B=b)
assert np.allclose(kernel(a), a @ b, rtol=1e-4)
print(len(made), any("{kept}" in line for line in open("/proc/self/maps")))
"""
    told = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False) for _ in range(2)]
    assert [(one.stdout, one.stderr) for one in told] == [("1 True\n", ""), ("0 True\n", "")]
    (path,) = kept.iterdir()
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["cut", "flipped", "another's", "open to all", "a folder", "empty"])
def test_a_file_that_cannot_be_trusted_is_packed_again_with_one_line_in_the_log(
    damage: str, kept: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (a, b), (_, c) = operands(), operands(1)
    kernel = kernels.compile(spec(96), constants=("B",), threads=1)
    want = held(kernel.prepack(B=b)).tobytes()
    (path,) = kept.iterdir()
    data = path.read_bytes()
    if damage == "another's":
        kernel.prepack(B=c)
        (other,) = set(kept.iterdir()) - {path}
        data = other.read_bytes()
    path.unlink()
    match damage:
        case "cut":
            path.write_bytes(data[:-1])
        case "flipped":
            path.write_bytes(data[:5000] + bytes([data[5000] ^ 1]) + data[5001:])
        case "another's" | "open to all":
            path.write_bytes(data)
            path.chmod(0o666 if damage == "open to all" else 0o600)
        case "a folder":
            path.mkdir()
        case "empty":
            path.touch()
    monkeypatch.setattr(weights, "_shared", type(weights._shared)())
    with caplog.at_level(logging.WARNING, "tensorlang"):
        again = kernel.prepack(B=b)
    assert held(again).tobytes() == want
    assert len(caplog.records) == 1
    np.testing.assert_allclose(again(a), a @ b, rtol=1e-4)


@pytest.mark.parametrize("key", ["another", "cut", "open to all", "a folder"])
def test_under_another_key_all_is_packed_again(
    key: str, kept: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A key that others may have changed is not used, and what it does not open is not kept."""
    a, b = operands()
    kernel = kernels.compile(spec(96), constants=("B",), threads=1)
    want, path = held(kernel.prepack(B=b)).tobytes(), kept.parent / weights._KEY
    assert path.stat().st_mode & 0o077 == 0
    if key == "a folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(bytes(128 if key == "another" else 127))
        path.chmod(0o666 if key == "open to all" else 0o600)
    monkeypatch.setattr(weights, "_shared", type(weights._shared)())
    weights._kept_key.cache_clear()
    with caplog.at_level(logging.WARNING, "tensorlang"):
        again = kernel.prepack(B=b)
    assert held(again).tobytes() == want
    np.testing.assert_allclose(again(a), a @ b, rtol=1e-4)
    trusted = key in ("another", "cut")
    assert len(caplog.records) == (not trusted)
    assert len(list(kept.iterdir())) == 1 + trusted


def test_what_is_held_cannot_be_written_to_and_small_operands_have_no_file(kept: Path) -> None:
    small = kernels.compile(kernels.Spec("matmul", ((8, 9), (9, 10)))).prepack(B=np.ones((9, 10), "f4"))
    assert not held(small).flags.writeable
    assert not kept.exists()
