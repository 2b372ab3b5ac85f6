"""Threads belong to a kernel, and change no bit of what it computes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import tensorlang as tl
from tensorlang import kernels
from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.ops.table import OPERATORS
from tests.codegen import handmade
from tests.draws import examples
from tests.kernels.programs import arrays, product
from tests.strategies import Program, programs

LAW = settings(examples(5), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = tl.get_threads()
    yield
    tl.set_threads(before)


def team(threads: int | None) -> Any:
    """A kernel that writes how many threads took part into as many elements."""
    return Kernel(replace(handmade.vector("team", handmade.TEAM, dtype="int32").program, threads=threads))


def counted(kernel: Any) -> int:
    out = np.zeros(16, "i4")
    kernel(np.zeros(16, "i4"), out=out)
    assert (out[: out[0]] == out[0]).all() and not out[out[0] :].any()
    return int(out[0])


def test_a_kernel_uses_its_own_number_whatever_that_of_the_process_is(tmp_path: Path) -> None:
    two, five, plain = team(2), team(5), team(None)
    two.save(tmp_path / "two.tlk")
    for count in (1, 4):
        tl.set_threads(count)
        found = [counted(kernel) for kernel in (two, five, plain, tl.load(tmp_path / "two.tlk"), pickle.loads(pickle.dumps(five)))]  # noqa: S301
        assert found == [2, 5, count, 2, 5]
        assert [kernel.threads for kernel in (two, five, plain)] == [2, 5, count]


def test_a_compiled_kernel_has_the_number_that_it_was_compiled_with() -> None:
    tl.set_threads(2)
    own, other, default = (kernels.compile(product(70, 60, 50), threads=count) for count in (3, 2, None))
    assert [kernel.threads for kernel in (own, other, default, own.prepack(B=np.ones((50, 60), "f4")))] == [3, 2, 2, 3]
    assert own.address != other.address != default.address
    tl.set_threads(1)
    assert [kernel.threads for kernel in (own, other, default)] == [3, 2, 1]
    assert kernels.compile(product(70, 60, 50), threads=3).address == own.address


@st.composite
def specs(draw: st.DrawFn) -> kernels.Spec:
    """An operator at extents that are drawn: most of them no multiple of anything, some large enough to be shared out."""
    row = OPERATORS[draw(st.sampled_from(sorted(OPERATORS)))]
    extents = dict(row.defaults)
    for name in {"M", "N", "K", "C", "O", "S", "T", "D", "L"} & set(extents):
        if not (name == "S" and "R" in extents) and name != "G":
            extents[name] = draw(st.integers(1, 80 if len(extents) < 6 else 24))
    if "H" in extents:
        extents.update(H=draw(st.integers(4, 20)), W=draw(st.integers(4, 20)))
    if "V" in extents:
        extents["V"] = 50
    if "G" in extents:
        extents["C"] = 8 * draw(st.integers(1, 4))
    return kernels.Spec.at(row, extents)


def operands(kernel: Any, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    made = []
    for argument in kernel.program.signature.passed:
        shape = tuple(extent.value for extent in argument.shape)
        made.append(rng.integers(0, 50, shape) if str(argument.dtype) == "int64" else rng.random(shape, np.float32) + np.float32(0.1))
    return made


@LAW
@given(specs(), st.integers(2, 9), st.integers(0, 99))
def test_results_of_operators_have_the_same_bits_for_any_number_of_threads(spec: kernels.Spec, count: int, seed: int) -> None:
    one, many = (kernels.compile(spec, threads=number) for number in (1, count))
    given_ = operands(one, seed)
    assert one(*given_).tobytes() == many(*given_).tobytes()


@LAW
@given(programs(), st.integers(2, 9))
def test_results_of_programs_have_the_same_bits_for_any_number_of_threads(program: Program, count: int) -> None:
    found = []
    for number in (1, count):
        result = kernels.compile(program.outputs, inputs=tuple(program.feeds), threads=number)(*program.feeds.values())
        found.append([one.tobytes() for one in (result if isinstance(result, tuple) else (result,))])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("ij->", [(200, 300)]), ("ij->j", [(900, 70)]), ("ik,kj->ij", [(4, 20000), (20000, 5)]), ("ik,k->i", [(300, 900), (900,)])],
)
def test_long_sums_have_the_same_bits_for_any_number_of_threads(equation: str, shapes: list[tuple[int, ...]]) -> None:
    tensors = [tl.placeholder(shape) for shape in shapes]
    found = {kernels.compile(tl.einsum(equation, *tensors), threads=count)(*arrays(*shapes)).tobytes() for count in (1, 2, 7)}
    assert len(found) == 1


def test_the_same_bits_come_from_a_kernel_whose_process_changes_its_number() -> None:
    f = kernels.compile(product(150, 170, 90))
    a, b = arrays((150, 90), (90, 170))
    found = set()
    for count in (1, 2, 3, 8):
        tl.set_threads(count)
        found |= {f(a, b).tobytes()}
    assert len(found) == 1
