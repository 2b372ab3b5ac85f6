"""One code for each key, under everybody's own names; what is fused is what it would be apart; bad input is one typed error."""

import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang import kernels
from tensorlang.codegen.kernel.loading import load
from tensorlang.kernels import compilation
from tensorlang.system.object_cache import ObjectCache
from tests.draws import examples
from tests.kernels.programs import CONV, arrays, product

ROOT = str(Path(__file__).parents[2])

OTHER = tl.placeholder((12,), name="OTHER")


def test_a_cached_kernel_answers_with_its_callers_names_and_order() -> None:
    f, g = kernels.compile(product()), kernels.compile(product(names="XWY", weight_first=True))
    a, b = arrays((12, 8), (8, 20))
    assert f.address == g.address
    assert str(g.program.signature) == "Y(W: float32[8, 20], X: float32[12, 8]) -> Y: float32[12, 20]"
    for result in (g(b, a), g(b, a), g(b, X=a), g(X=a, W=b), g.bind(b, a)(), g(b, a, out=np.empty((12, 20), "f4"))):
        np.testing.assert_array_equal(result, f(a, b))
    with pytest.raises(tl.CallError, match=r"Y.*'X'.*expected shape \(12, 8\), got \(12, 7\)"):
        g(b, a[:, :7])
    with pytest.raises(tl.CallError, match="no argument 'A'"):
        g(b, A=a)
    with pytest.raises(tl.CallError, match=r"prepack\(\) got 'B'"):
        g.prepack(B=b)


def test_a_packed_kernel_keeps_its_callers_names_and_order() -> None:
    g, h = kernels.compile(product(70, 90, 40, "XWY", weight_first=True)), kernels.compile(product(70, 90, 40, "ADE"))
    a, b = arrays((70, 40), (40, 90))
    packed, again = g.prepack(W=b), h.prepack(D=b)
    assert packed.address == again.address  # found out how once, whoever asks
    np.testing.assert_array_equal(packed(a), again(a))
    np.testing.assert_allclose(packed(X=a), a @ b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(g.prepack(X=a)(b), a @ b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(g.prepack(W=b).prepack(X=a)(), a @ b, rtol=1e-4, atol=1e-5)
    with pytest.raises(tl.CallError, match="no argument 'W'"):
        packed(W=b)


def test_what_packing_calls_an_operand_is_free() -> None:
    W, taken = tl.placeholder((40, 90), name="W"), tl.placeholder((90,), name="W_packed")
    C = tl.ops.matmul(tl.placeholder((70, 40), name="X"), W)
    f = kernels.compile(C, epilogue=lambda c, i, j: c + taken[j])
    w, t, x = arrays((40, 90), (90,), (70, 40))
    packed = f.prepack(W=w)
    assert len({argument.name for argument in packed.program.signature.inputs}) == 3
    np.testing.assert_allclose(packed(x, W_packed=t), x @ w + t, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_kernel_under_other_names_is_saved_pickled_and_loaded(tmp_path: Path, outputs: int) -> None:
    def epilogue(c: Any, i: Any, j: Any) -> Any:
        return (c, c * 2.0)[:outputs] if outputs > 1 else c

    first = kernels.compile(product(names="PQR"), epilogue=epilogue)
    g = kernels.compile(product(names="XWY", weight_first=True), epilogue=epilogue)
    a, b = arrays((12, 8), (8, 20))
    g.save(tmp_path / "g.tlk")
    for other in (load(tmp_path / "g.tlk"), pickle.loads(pickle.dumps(g))):  # noqa: S301 - ours
        assert str(other.program.signature) == str(g.program.signature)
        np.testing.assert_array_equal(other(W=b, X=a), first(a, b))
        np.testing.assert_array_equal(other(b, a), first(a, b))


def test_operands_that_are_bound_and_operands_that_nothing_reads_are_no_part_of_shared_code() -> None:
    X, unread = tl.placeholder((6,), name="X"), tl.placeholder((3,), name="unread")
    (first, second, x) = arrays((6,), (6,), (6,))
    W, V = tl.buffer(first, name="W"), tl.buffer(second, name="V")
    f, g = (kernels.compile(tl.compute((6,), lambda i, w=w: X[i] * w[i])) for w in (W, V))
    assert f.address == g.address
    np.testing.assert_array_equal(f(x), x * first)
    np.testing.assert_array_equal(g(x), x * second)
    h = kernels.compile(tl.compute((6,), lambda i: X[i] + 1.0), inputs=(unread, X))
    np.testing.assert_array_equal(h(np.zeros(3, "f4"), x), x + np.float32(1))
    assert kernels.compile(tl.compute((6,), lambda i: X[i] + 1.0))(x).shape == (6,)


def test_dims_have_their_callers_names() -> None:
    def made(name: str) -> Any:
        return tl.compute((tl.dim(name), 4), lambda i, j: A[j] * 2.0)

    A = tl.placeholder((4,), name="A")
    for name in ("n", "m"):
        assert kernels.compile(made(name))(np.ones(4, "f4"), **{name: 3}).shape == (3, 4)


def test_eight_threads_that_ask_for_one_kernel_build_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    real, built = compilation.Request.code, []
    monkeypatch.setattr(compilation.Request, "code", lambda request: (built.append(1), real(request))[1])
    got: list[Any] = []
    barrier = threading.Barrier(8)

    def ask(number: int) -> None:
        barrier.wait()
        got.append(kernels.compile(product(17, 23, 9, names=f"A{'BCDEFGHI'[number]}Z", weight_first=number % 2 == 0)))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8 and len({kernel.address for kernel in got}) == 1 and len(built) == 1


def test_many_are_compiled_in_order() -> None:
    specs = [kernels.Spec("relu", ((size,),)) for size in (3, 4, 3, 5)]
    found = kernels.compile_many(specs, workers=3)
    assert [kernel.program.signature.inputs[0].shape[0].value for kernel in found] == [3, 4, 3, 5]  # type: ignore[attr-defined]
    assert found[0] is found[2]
    with pytest.raises(tl.BuildError, match="conv9d"):
        kernels.compile_many([*specs, kernels.Spec("conv9d", ((1,),))])
    with pytest.raises(tl.BuildError, match="workers="):
        kernels.compile_many(specs, workers=0)
    with pytest.raises(tl.BuildError, match="several specs"):
        kernels.compile_many(5)
    for wrong in ({"thread": 1}, {}):
        with pytest.raises(tl.BuildError, match="'thread' is no option of compile; did you mean 'threads'"):
            kernels.compile_many([*specs, (specs[0], {"thread": 1})], **wrong)


# Fusion ------------------------------------------------------------------------------------------------------------------


def gelu(value: Any, *axes: Any) -> Any:
    return 0.5 * value * (1.0 + tl.erf(value * 0.7071067811865476))


@examples(6)
@given(data=st.data())
def test_what_is_fused_is_what_it_would_be_apart(data: st.DataObject) -> None:
    m, n, k = (data.draw(st.integers(1, 40), name) for name in "mnk")
    a, b, bias, rest = arrays((m, k), (k, n), (n,), (m, n), seed=m * 41 + n)
    first, before = data.draw(st.booleans(), "weight first"), data.draw(st.sampled_from([None, "A", "B"]), "prologue")
    C = product(m, n, k, weight_first=first)
    B2, R = tl.placeholder((n,), name="bias"), tl.placeholder((m, n), name="rest")
    prologue = None if before is None else {before: lambda value, i, j: value * 2.0 + tl.cast(i, "float32")}
    f = kernels.compile(C, epilogue=lambda c, i, j: (tl.maximum(c + B2[j], 0.0), gelu(c - R[i, j])), prologue=prologue)
    left, right = (
        array * 2 + np.arange(len(array), dtype="f4")[:, None] if name == before else array for name, array in (("A", a), ("B", b))
    )
    total = left.astype("f8") @ right
    x, y = f(*((b, a) if first else (a, b)), bias, rest)
    np.testing.assert_allclose(x, np.maximum(total + bias, 0), rtol=1e-3, atol=1e-3)
    operand = tl.placeholder((m, n), name="V")
    np.testing.assert_allclose(
        y, tl.evaluate(tl.compute((m, n), lambda i, j: gelu(operand[i, j])), {operand: (total - rest).astype("f4")}), rtol=1e-3, atol=1e-3
    )


def test_an_epilogue_of_a_spec_may_change_the_type_and_have_several_results() -> None:
    x, w = arrays((1, 6, 9, 9), (8, 6, 3, 3))
    scale = tl.placeholder((8,), name="scale")
    f = kernels.compile(CONV, epilogue=lambda v, n, o, y, u: (tl.cast(v * scale[o], "float64"), v > 0.0))
    value = kernels.compile(CONV)(x, w)
    s = np.arange(8, dtype="f4")
    scaled, positive = f(x, w, scale=s)
    assert scaled.dtype == np.float64 and positive.dtype == bool
    np.testing.assert_allclose(scaled, value * s[:, None, None], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(positive, value > 0)


def test_a_prologue_of_a_spec_may_change_the_type() -> None:
    (a, b) = arrays((12, 8), (8, 20))
    spec = kernels.Spec("matmul", ((12, 8), (8, 20)), dtypes=("int8", "float32"))
    f = kernels.compile(spec, prologue={"A": lambda v, i, k: tl.cast(v, "float32") * 0.5})
    codes = (a * 100).astype("i1")
    np.testing.assert_allclose(f(codes, b), codes.astype("f4") * 0.5 @ b, rtol=1e-4, atol=1e-4)


def test_arguments_are_the_operators_then_the_others_in_order_of_creation() -> None:
    late, A, early = tl.placeholder((20,), name="late"), product(), tl.placeholder((20,), name="early")
    f = kernels.compile(A, epilogue=lambda c, i, j: c + early[j] * late[j])
    assert [argument.name for argument in f.program.signature.passed] == ["A", "B", "late", "early"]
    named = kernels.compile(A, epilogue=lambda c, i, j: c + early[j] * late[j], inputs=("late", "B", "A", "early"))
    assert [argument.name for argument in named.program.signature.passed] == ["late", "B", "A", "early"]
    a, b, x, y = arrays((12, 8), (8, 20), (20,), (20,))
    np.testing.assert_array_equal(f(a, b, x, y), named(x, b, a, y))


def test_a_prologue_reaches_into_the_step_of_a_scan() -> None:
    X, H = tl.placeholder((3,), name="X"), tl.placeholder((3,), name="H")
    S = tl.scan(lambda t, s: tl.compute((3,), lambda i: s[i] + H[i]), X, 4)
    f = kernels.compile(S, prologue={"H": lambda h, i: h * 2.0})
    np.testing.assert_array_equal(f(np.zeros(3, "f4"), np.ones(3, "f4"))[-1], np.full(3, 8, "f4"))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"epilogue": 3}, tl.DefinitionError, "epilogue= is a function"),
        ({"epilogue": lambda c, i: c}, tl.DefinitionError, "an element and its 2 axes"),
        ({"epilogue": lambda c, i, j: ()}, tl.DefinitionError, "empty tuple"),
        ({"epilogue": lambda c, i, j: "x"}, tl.DefinitionError, "x"),
        ({"epilogue": lambda c, i, j: OTHER[i + 1]}, tl.DefinitionError, "OTHER"),
        ({"prologue": {"Z": lambda v, i, j: v}}, tl.DefinitionError, "no operand 'Z'"),
        ({"prologue": [1]}, tl.DefinitionError, "prologue= is a dict"),
        ({"prologue": {"A": lambda v, i, j: (v, v)}}, tl.DefinitionError, "one expression, not 2"),
        ({"prologue": {"A": lambda v, i, j: tl.cast(v, "float64")}}, tl.DefinitionError, "convert it with tl.cast"),
        ({"level": "O3"}, tl.BuildError, "level= is one of"),
        ({"level": None}, tl.BuildError, "level= is one of"),
        ({"threads": -1}, tl.BuildError, "threads= is a number"),
        ({"constants": ("Z",)}, tl.BuildError, "no operand"),
        ({"target": "znver99"}, tl.BuildError, "znver99"),
        ({"database": 5}, tl.BuildError, "database= is the path"),
        ({"database": "/nowhere/at/all.jsonl"}, tl.LogError, "nowhere"),
        ({"inputs": ("A",)}, tl.DefinitionError, "inputs= leaves out 'B'"),
        ({"inputs": ("A", "A", "B")}, tl.DefinitionError, "twice"),
    ],
)
def test_what_cannot_be_compiled_is_refused_by_name(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        kernels.compile(product(), **options)


def test_a_program_of_several_results_has_no_epilogue() -> None:
    C = product()
    with pytest.raises(tl.DefinitionError, match="there are 2"):
        kernels.compile((C, tl.compute((3,), lambda i: 1.0 + tl.cast(i, "float32"))), epilogue=lambda c, i, j: c)


@pytest.mark.parametrize("asked", [None, 3, "matmul", [], (product(), 3), tl.placeholder((3,))])
def test_what_is_no_program_is_refused(asked: Any) -> None:
    with pytest.raises(tl.DefinitionError):
        kernels.compile(asked)


# How it is built ---------------------------------------------------------------------------------------------------------


def test_constants_are_packed_by_the_schedule_that_was_chosen_for_them() -> None:
    a, b = arrays((72, 40), (40, 90))
    f = kernels.compile(product(72, 90, 40), constants=("B",))
    np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-4, atol=1e-5)
    packed = f.prepack(B=b)
    np.testing.assert_allclose(packed(a), a @ b, rtol=1e-4, atol=1e-5)
    plain = kernels.compile(product(72, 90, 40)).prepack(B=b)
    texts = {kernel.program.nest.replace(kernel.program.compiled_as.name, "f") for kernel in (packed, plain)}
    assert len(texts) == 1


def test_threads_are_those_of_the_schedule() -> None:
    one, two = (kernels.compile(product(300, 300, 300), threads=count) for count in (1, 2))
    assert "parallel" not in one.inspect("nest") and "parallel" in two.inspect("nest")
    a, b = arrays((300, 300), (300, 300))
    np.testing.assert_allclose(one(a, b), two(a, b), rtol=1e-4, atol=1e-4)


def test_a_kernel_for_another_machine_is_shared_and_not_called() -> None:
    f, g = (kernels.compile(product(names=names), target="aarch64-linux-gnu:cortex-a72") for names in ("ABC", "XYZ"))
    assert f.program.compiled is g.program.compiled
    with pytest.raises(tl.CallError, match="cannot run here"):
        g(*arrays((12, 8), (8, 20)))


def test_a_build_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "_codes", ObjectCache())
    monkeypatch.setattr(compilation.Request, "best", lambda request: (_ for _ in ()).throw(tl.BuildError("no luck")))
    C = product(5, 6, 7)
    with pytest.raises(tl.BuildError, match="no luck"):
        kernels.compile(C)
    monkeypatch.undo()
    a, b = arrays((5, 7), (7, 6))
    np.testing.assert_allclose(kernels.compile(C)(a, b), a @ b, rtol=1e-4)


def test_a_forked_child_goes_on_asking() -> None:
    code = """
import os, sys, threading
import numpy as np
import tensorlang as tl
from tensorlang import kernels
relu = kernels.Spec("relu", ((9,),))
f = kernels.compile(relu)
slow = kernels.compile(kernels.Spec("softmax", ((40, 50),)), level="tuned")
stop = threading.Event()
def ask():
    size = 10
    while not stop.is_set():
        kernels.compile(kernels.Spec("gelu", ((size,),)), level="O0"); size += 1
other = threading.Thread(target=ask, daemon=True); other.start()
for _ in range(3):
    child = os.fork()
    if not child:
        x = np.linspace(-1, 1, 9, dtype="f4")
        good = kernels.compile(relu) is f and (f(x) == np.maximum(x, 0)).all()
        good &= slow.settled(40) and slow.level == "default"
        good &= kernels.compile(kernels.Spec("tanh", ((11,),)))(np.zeros(11, "f4")).sum() == 0
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0, slow.settled(0)
stop.set(); other.join(); print("done")
"""
    env = {**os.environ, "PYTHONPATH": ROOT}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, env=env, timeout=120, check=False)
    assert done.stdout == "done\n", done.stderr
