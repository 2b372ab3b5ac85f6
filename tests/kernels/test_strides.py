"""Operands and results that lie in memory otherwise than in C order: the same values, no copies, nothing touched between the rows."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import kernels
from tensorlang.codegen.calling.checked_call import Caller
from tensorlang.codegen.runtime import arrays
from tensorlang.errors import CallError, DefinitionError
from tensorlang.serialization import canonical
from tensorlang.serialization.rebuild import rebuild
from tests.codegen import tables
from tests.codegen.tables import Tensor
from tests.fuzz.memory import Memory
from tests.thinned import few

F4 = np.dtype("f4")

SPECS = {
    "matmul": kernels.Spec("matmul", ((13, 21), (21, 18))),
    "conv2d": kernels.Spec("conv2d", ((1, 3, 9, 10), (5, 3, 3, 3)), attributes={"padding": 1}),
    "softmax": kernels.Spec("softmax", ((7, 19),)),
    "relu": kernels.Spec("relu", ((6, 5, 20),)),
    "gelu": kernels.Spec("gelu", ((3, 33),)),
}


def lying(rng: np.random.Generator, shape: tuple[int, ...], *, repeats: bool) -> tuple[int, ...]:
    """Strides of an array: its axes in some order, rows apart, elements apart, now and then repeated."""
    strides = [0] * len(shape)
    apart = int(rng.choice([1, 1, 1, 2, 3]))
    for axis in rng.permutation(len(shape)):
        if repeats and rng.random() < 0.15:
            continue
        strides[axis] = apart
        apart *= shape[axis] + int(rng.choice([0, 0, 1, 5]))
    return tuple(strides)


def guarded(memory: Memory, shape: tuple[int, ...], strides: tuple[int, ...], *, at_end: bool) -> tuple[Any, Any, Any]:
    """An array with these strides between pages that must not be touched; all bytes around it, and which of them are its own."""
    size = 1 + sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True))
    whole = memory.array((size,), F4, at_end=at_end)
    steps = tuple(4 * step for step in strides)
    own = np.zeros(size, bool)
    np.lib.stride_tricks.as_strided(own, shape, strides)[...] = True
    return np.lib.stride_tricks.as_strided(whole.array, shape, steps), whole, own


def repeated(values: np.ndarray[Any, Any], strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The values with the first one along each axis of stride 0."""
    first = values[tuple(slice(None) if step else slice(0, 1) for step in strides)]
    return np.array(np.broadcast_to(first, values.shape))


@pytest.mark.parametrize("seed", few(range(12), 5))
@pytest.mark.parametrize("name", SPECS)
def test_any_order_in_memory_gives_the_values_of_c_order(name: str, seed: int) -> None:
    """Exactly between pages that must not be touched: what lies between rows is neither written nor, past the end, read."""
    rng = np.random.default_rng([seed, *name.encode()])
    plain = kernels.compile(SPECS[name], level="O0")
    arguments = {part.name: tuple(int(getattr(e, "value", 0)) for e in part.shape) for part in plain.program.signature.passed}
    (output,) = plain.program.signature.outputs
    shapes = {**arguments, output.name: tuple(int(getattr(e, "value", 0)) for e in output.shape)}
    strides = {part: lying(rng, shape, repeats=part in arguments) for part, shape in shapes.items() if rng.random() < 0.8}
    kernel = kernels.compile(SPECS[name], strides=strides)
    memory = Memory()
    values = {part: rng.standard_normal(shape).astype("f4") for part, shape in arguments.items()}
    given = {}
    for part, shape in arguments.items():
        steps = strides.get(part, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))))
        values[part] = repeated(values[part], steps)
        given[part], *_ = guarded(memory, shape, steps, at_end=bool(seed % 2))
        given[part][...] = values[part]
    steps = strides.get(output.name, tuple(math.prod(shapes[output.name][axis + 1 :]) for axis in range(len(shapes[output.name]))))
    result, whole, own = guarded(memory, shapes[output.name], steps, at_end=bool(seed % 2))
    before = whole.array.copy()
    expected = plain(*values.values())
    for _ in range(2):  # the first call is a careful one
        assert kernel(*given.values(), out=result) is result
        np.testing.assert_allclose(result, expected, rtol=2e-4, atol=2e-5)
        np.testing.assert_array_equal(whole.array.view("u4")[~own], before.view("u4")[~own])
        assert not whole.spoilt()
        np.testing.assert_allclose(kernel(*values.values()) if not any(0 in s for s in strides.values()) else result, expected, 2e-4, 2e-5)


def product(**options: Any) -> Any:
    """A product whose second operand is transposed, with rows of 32."""
    return kernels.compile(kernels.Spec("matmul", ((8, 16), (16, 24))), strides={"B": (1, 32)}, **options)


def operands() -> tuple[Any, Any, Any]:
    """Two factors for it, the second as it should lie, and their product."""
    rng = np.random.default_rng(1)
    a, b = rng.random((8, 16), "f4"), arrays.strided_empty((16, 24), (1, 32), F4)
    b[...] = rng.random((16, 24), "f4")
    return a, b, a @ b


def test_arrays_that_lie_as_said_are_taken_in_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, (a, b, c) = product(), operands()
    out = np.empty((8, 24), "f4")
    kernel(Tensor(a), b)
    with monkeypatch.context() as patched:
        patched.setattr(Caller, "__call__", lambda *_, **__: pytest.fail("a careful call"))
        for second in (b, Tensor(b)):
            out[:] = 0
            kernel(a, second, out=out)
            np.testing.assert_allclose(out, c, rtol=1e-5)
            np.testing.assert_allclose(kernel(a, B=second), c, rtol=1e-5)
    assert tables.alive() == 0


def test_another_order_is_copied_and_an_output_refused() -> None:
    kernel, (a, b, c) = product(), operands()
    for other in (np.ascontiguousarray(b), np.asfortranarray(b), b[::-1][::-1], b[::-1].copy()[::-1]):
        np.testing.assert_allclose(kernel(a, other), c, rtol=1e-5)
    into = kernels.compile(kernels.Spec("matmul", ((8, 16), (16, 24))), strides={"matmul": (48, 1)})
    plain = np.full((8, 24), 5, "f4")
    with pytest.raises(CallError, match=r"\[8, 24\] with strides \(48, 1\)\): expected that order in memory, got strides \(24, 1\)"):
        into(a, np.ascontiguousarray(b), out=plain)
    assert (plain == 5).all()
    fresh = into(a, np.ascontiguousarray(b))
    assert fresh.strides == (192, 4)
    np.testing.assert_allclose(fresh, c, rtol=1e-5)


def test_two_kernels_write_the_halves_of_a_concatenation() -> None:
    """One reads the half that the other wrote: byte ranges meet, elements do not."""
    whole = np.zeros((8, 48), "f4")
    a, b, c = operands()
    left = kernels.compile(kernels.Spec("matmul", ((8, 16), (16, 24))), strides={"matmul": (48, 1)})
    right = kernels.compile(kernels.Spec("relu", ((8, 24),)), strides={"x": (48, 1), "relu": (48, 1)})
    left(a, b, out=whole[:, :24])
    for _ in range(2):
        right(whole[:, :24], out=whole[:, 24:])
        np.testing.assert_allclose(whole, np.hstack([c, np.maximum(c, 0)]), rtol=1e-5)
        with pytest.raises(CallError, match="overlaps"):
            right(whole[:, :24], out=whole[:, 12:36])
        np.testing.assert_allclose(whole, np.hstack([c, np.maximum(c, 0)]), rtol=1e-5)


def test_a_batch_known_at_run_time_may_have_rows_apart() -> None:
    n = tl.dim("n", 1, 64)
    X = tl.placeholder((n, 16), name="X")
    kernel = kernels.compile(tl.ops.relu(X), strides={"X": (40, 1)})
    for size in (1, 5, 64):
        x = np.random.default_rng(size).standard_normal((size, 40)).astype("f4")[:, 3:19]
        np.testing.assert_array_equal(kernel(x), np.maximum(x, 0))


def test_code_is_shared_and_keys_tell_orders_apart() -> None:
    """A transposed operand is the operand of the transposed program; another distance of rows is another program."""
    spec = kernels.Spec("matmul", ((8, 16), (16, 24)))
    A, B = tl.placeholder((8, 16)), tl.placeholder((24, 16))
    k = tl.reduce_axis(16)
    transposed = tl.compute((8, 24), lambda i, j: tl.sum(A[i, k] * B[j, k], axis=k))
    keyed = [kernels.key(spec, strides=strides) for strides in (None, {"B": (1, 16)}, {"B": (1, 32)}, {"matmul": (48, 1)})]
    assert keyed[1] == kernels.key(transposed)
    assert len(set(keyed)) == 4
    assert kernels.key(spec, strides={"B": (24, 1)}) == keyed[0]
    assert kernels.estimate(spec, strides={"B": (1, 16)}).flops == kernels.estimate(spec).flops


def test_a_saved_kernel_knows_how_its_operands_lie(tmp_path: Path) -> None:
    kernel, (a, b, c) = product(), operands()
    kernel.save(tmp_path / "k.tlk")
    loaded = tl.load(tmp_path / "k.tlk")
    assert str(loaded.program.signature) == str(kernel.program.signature)
    np.testing.assert_allclose(loaded(a, b), c, rtol=1e-5)
    np.testing.assert_allclose(loaded(a, np.ascontiguousarray(b)), c, rtol=1e-5)


def test_a_strided_program_is_rebuilt_from_its_description() -> None:
    for strides in ({"B": (1, 32)}, {"A": (40, 2), "matmul": (1, 9)}, {"A": (0, 1)}):
        kernel = kernels.compile(kernels.Spec("matmul", ((8, 16), (16, 24))), strides=strides)
        assert kernel.program.origin is not None
        described = canonical.describe(kernel.program.origin.program.outputs)
        again = rebuild(json.loads(json.dumps(described)))
        assert canonical.describe(again) == described
        assert canonical.fingerprint(again) == canonical.fingerprint(kernel.program.origin.program.outputs)


@pytest.mark.parametrize("allocated", [[8], [8, 15], [8, "n"], 3, [8, -1], [9.5, 16]])
def test_a_description_with_odd_extents_in_memory_is_refused(allocated: Any) -> None:
    X = tl.placeholder((8, 16), name="X")
    described = canonical.describe([tl.ops.relu(X)])
    described["definitions"][0]["allocated"] = allocated
    with pytest.raises(DefinitionError):
        rebuild(described)


def test_a_report_makes_operands_that_lie_as_said() -> None:
    report = product().report(repeats=1)
    assert report.flops.value == 2 * 8 * 16 * 24


def test_other_operands_of_a_strided_kernel_can_be_packed() -> None:
    kernel, (a, b, c) = product(), operands()
    packed = kernel.prepack(A=a)
    np.testing.assert_allclose(packed(b), c, rtol=1e-5)
    np.testing.assert_allclose(packed(np.ascontiguousarray(b)), c, rtol=1e-5)
    with pytest.raises(CallError, match="leave it out of strides="):
        kernel.prepack(B=b)


@pytest.mark.parametrize(
    ("strides", "match"),
    [
        (3, "strides= is a dict"),
        ({"C": (1, 2)}, "no operand or result 'C'"),
        ({"B": (1,)}, "2 numbers of elements from 0 on"),
        ({"B": (1, -16)}, "2 numbers"),
        ({"B": (1.0, 16)}, "2 numbers"),
        ({"B": (True, 16)}, "2 numbers"),
        ({"B": (1, 15)}, "do not overlap"),
        ({"B": (3, 50)}, "do not overlap"),
        ({"matmul": (0, 1)}, "places of their own|do not overlap"),
        ({"matmul": (1, 0)}, "places of their own|do not overlap"),
        ({"matmul": (1, 1)}, "do not overlap"),
    ],
)
def test_strides_that_no_array_has_are_refused(strides: Any, match: str) -> None:
    with pytest.raises(DefinitionError, match=match):
        kernels.compile(kernels.Spec("matmul", ((8, 16), (16, 24))), strides=strides)


def test_an_output_that_other_stages_read_and_one_of_several_are_copied_out() -> None:
    X = tl.placeholder((6, 8), name="X")
    first = tl.compute((6, 8), lambda i, j: X[i, j] * 2.0, name="first")
    second = tl.compute((6, 8), lambda i, j: first[i, j] + 1.0, name="second")
    x = np.random.default_rng(0).random((6, 8), "f4")
    kernel = kernels.compile([first, second], strides={"first": (1, 6), "second": (20, 2)})
    one, two = kernel(x)
    assert [part.name for part in kernel.program.signature.outputs] == ["first", "second"]
    assert (one.strides, two.strides) == ((4, 24), (80, 8))
    np.testing.assert_array_equal(one, 2 * x)
    np.testing.assert_array_equal(two, 2 * x + 1)
    both = tl.compute((6, 8), lambda i, j: (X[i, j] + 1.0, X[i, j] - 1.0), name="both")
    up, down = kernels.compile(list(both), strides={"both_1": (1, 6)})(x)
    np.testing.assert_array_equal(up, x + 1)
    np.testing.assert_array_equal(down, x - 1)
    assert down.strides == (4, 24)


def ragged(kind: str) -> tl.Tensor:
    """Sums over ranges that P decides: of rows by a reduction, or all into one element by a scatter."""
    P, X = tl.placeholder((4,), "int32", name="P"), tl.placeholder((6,), "int32", name="X")
    if kind == "scatter":
        zero = tl.compute((2,), lambda i: tl.cast(0, "int32"), name="zero")
        return tl.scatter(zero, tl.reduce_axis((P[0], P[1]), name="r", within=6), lambda r: r % 2, lambda r: X[r], name="S")

    def total(i: tl.Expr) -> tl.Expr:
        r = tl.reduce_axis((P[i], P[i + 1]), name="r", within=6)
        return tl.sum(X[r], axis=r)

    made: tl.Tensor = tl.compute((3,), total, name="S")
    return made


@pytest.mark.parametrize("kind", ["scatter", "reduction"])
@pytest.mark.parametrize("change", [{"strides": {"P": (3,)}}, {"prologue": {"P": lambda value, i: value + 1}}])
def test_an_operand_that_decides_a_range_is_replaced_there_too(kind: str, change: dict[str, Any]) -> None:
    rows, x = np.zeros((4, 3), "int32"), np.arange(1, 7, dtype="int32")
    rows[:, 0] = (1, 4, 2, 5)
    at = rows[:, 0] + ("prologue" in change)
    found = kernels.compile(ragged(kind), **change)(P=rows[:, 0], X=x)
    if kind == "scatter":
        assert found.tolist() == [sum(x[r] for r in range(at[0], at[1]) if r % 2 == which) for which in (0, 1)]
    else:
        assert found.tolist() == [x[low:high].sum() for low, high in itertools.pairwise(at)]


def test_what_a_scan_starts_from_lies_in_c_order() -> None:
    X, S = tl.placeholder((5, 6), name="X"), tl.placeholder((6,), name="S")
    kernel = tl.scan(lambda t, state: tl.compute((6,), lambda i: state[i] + X[t, i]), S, 5, keep="last")
    with pytest.raises(DefinitionError, match="has to lie in C order"):
        kernels.compile(kernel, strides={"S": (2,)})
    x, s = np.random.default_rng(0).random((5, 6), "f4"), np.zeros(6, "f4")
    np.testing.assert_allclose(kernels.compile(kernel, strides={"X": (1, 5)})(x, s), x.sum(0), rtol=1e-5)
