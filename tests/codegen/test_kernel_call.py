"""A kernel takes any array that fits, refuses every other one by name, and leaves outputs alone when it refuses."""

import ctypes
import sys
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ir
from tensorlang.codegen.cache.signature import Signature
from tensorlang.codegen.calling.checked_call import Caller
from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.codegen.runtime import arrays
from tensorlang.errors import CallError
from tensorlang.ir.dtype import DTYPES
from tests.codegen import handmade
from tests.codegen.handmade import Bfloat16Tensor, Exporter, argument, build

a, b = np.arange(16, dtype="f4"), np.linspace(0, 1, 16, dtype="f4")
N, M = ir.Dim("n"), ir.Dim("m")


@pytest.fixture(scope="module", params=["careful", "native"])
def add(request: Any) -> Any:
    """The same kernel before and after its call became machine code."""
    kernel = handmade.add()
    if request.param == "careful":
        return kernel._linked
    kernel(a, b)
    assert kernel._fast
    return kernel


def test_it_adds(add: Any) -> None:
    c = np.empty(16, "f4")
    assert add(a, b, out=c) is c
    np.testing.assert_array_equal(c, a + b)
    np.testing.assert_array_equal(add(a, b), a + b)
    np.testing.assert_array_equal(add(A=a, B=b), a + b)
    np.testing.assert_array_equal(add(a, B=b), a + b)
    np.testing.assert_array_equal(add(*(a, b), **{str(b"out", "ascii"): c}), a + b)


@pytest.mark.parametrize(
    ("args", "match"),
    [
        ((), "expected 2 inputs, got 0; missing 'A', 'B'"),
        ((a,), "missing 'B'"),
        ((a, b, a), "expected 2 inputs, got 3"),
        ((a.astype("f8"), b), r"argument 'A' \(float32\[16\]\): expected dtype float32, got float64"),
        ((a.astype(">f4"), b), "byte order"),
        ((a.astype("i4"), b), "got int32"),
        ((a.astype("c8"), b), "got complex64"),
        ((a, b[:-1]), r"argument 'B' .*expected shape \(16,\), got \(15,\)"),
        ((a, b[None]), "expected 1 dimensions, got 2"),
        ((a, np.float32(3)), "expected 1 dimensions, got 0"),
        ((None, b), "got None"),
        ((a.tolist(), b), "got list"),
        ((3.0, b), "got float '3.0'"),
        (("text", b), "got str 'text'"),
        ((a.astype(object), b), "expected dtype float32, got object"),
        ((a.astype("datetime64[s]"), b), "datetime64"),
        ((np.ma.masked_array(a), b), "masked"),
    ],
)
def test_a_wrong_input_is_named_and_the_output_untouched(add: Any, args: Any, match: Any) -> None:
    c = np.full(16, 5, "f4")
    with pytest.raises(CallError, match=match):
        add(*args, out=c)
    assert (c == 5).all()


@pytest.mark.parametrize(
    ("keywords", "match"),
    [
        ({"D": a}, "there is no argument 'D'"),
        ({"outt": a}, "did you mean 'out'"),
        ({"A": a}, "given twice"),
        ({"n": 3}, "there is no argument 'n'"),
    ],
)
def test_a_wrong_keyword_is_named(add: Any, keywords: Any, match: Any) -> None:
    with pytest.raises(CallError, match=match):
        add(a, b, **keywords)


@pytest.fixture(scope="module")
def turned() -> Any:
    """A kernel of `site`, `lat` and `n`, of which one would begin with `lat`."""
    size = tl.dim("size")
    site, lat, n = tl.placeholder((3,), name="site"), tl.placeholder((size,), name="lat"), tl.placeholder((size, 2), "int32", name="n")
    return tl.build(tl.compute((size,), lambda i: lat[i] - site[0] + tl.cast(n[i, 1], "float32"), name="east"))


SITE, LAT, MANY = np.zeros(3, "f4"), np.zeros(5, "f4"), np.zeros((5, 2), "i4")
ORDER = r"arguments are site, lat, n, in the order in which their placeholders were made \(or that of inputs=\)$"


@pytest.mark.parametrize(
    ("args", "match"),
    [
        ((LAT, SITE, MANY), rf"'site' \(float32\[3\]\): expected shape \(3,\), got \(5,\); 'lat' would take it: {ORDER}"),
        ((LAT, MANY, SITE), rf"'lat' .*expected dtype float32, got int32; 'n' would take it: {ORDER}"),
        ((MANY, SITE, LAT), rf"'site' .*expected dtype float32, got int32; 'n' would take it: {ORDER}"),
        ((SITE, LAT, MANY[:2]), r"'n' .*expected shape \(5, 2\) with size = 5, got \(2, 2\)$"),
        ((SITE, LAT.astype("f8"), MANY), "expected dtype float32, got float64$"),
    ],
)
def test_an_array_that_another_argument_would_take_is_refused_with_their_order(turned: Any, args: Any, match: str) -> None:
    with pytest.raises(CallError, match=match):
        turned(*args)


def test_arguments_that_are_named_have_no_order(turned: Any) -> None:
    with pytest.raises(CallError, match=r"got \(5,\)$"):
        turned(n=MANY, site=LAT, lat=LAT)


def test_of_many_arguments_the_first_are_listed() -> None:
    several = [tl.placeholder((size + 1,), name=f"x{size}") for size in range(20)]
    kernel = tl.build(tl.compute((1,), lambda i: sum(x[i] for x in several), name="y"))
    arrays = [np.zeros(size + 1, "f4") for size in range(20)]
    with pytest.raises(CallError, match=r"'x1' would take it: arguments are x0, x1, .*x10, x11, \.\.\., in the order"):
        kernel(arrays[1], arrays[0], *arrays[2:])


def overlapping() -> Any:
    block = np.zeros(40, "f4")
    return block[:16], block[8:24]


def readonly() -> Any:
    array = np.full(16, 5, "f4")
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "match"),
    [
        (readonly(), "read-only"),
        (np.full(15, 5, "f4"), r"output 'C' .*expected shape \(16,\), got \(15,\)"),
        (np.full(16, 5, "f8"), "expected dtype float32, got float64"),
        (np.full(32, 5, "f4")[::2], "contiguous"),
        (np.full(16, 5, "f4")[::-1], "contiguous"),
        (np.lib.stride_tricks.as_strided(np.full(1, 5, "f4"), (16,), (0,)), "contiguous"),
        (np.zeros(65, "u1")[1:].view("f4"), "aligned to 4 bytes"),
        ([0.0] * 16, "expected one array, got 16"),
        ("text", "got str"),
        ((np.zeros(16, "f4"), np.zeros(16, "f4")), "expected one array, got 2"),
        (bytes(64), "expected dtype float32, got uint8"),
    ],
)
def test_a_wrong_output_is_refused(add: Any, out: Any, match: Any) -> None:
    before = np.array(out, copy=True)
    with pytest.raises(CallError, match=match):
        add(a, b, out=out)
    np.testing.assert_array_equal(before, out)


@pytest.mark.parametrize("shift", range(-17, 18))
def test_an_output_may_not_share_a_byte_with_an_input(add: Any, shift: Any) -> None:
    """Every offset of one buffer against the other: refused exactly where byte ranges meet."""
    block = np.zeros(64, "f4")
    first, out = block[20:36], block[20 + shift : 36 + shift]
    first[:] = a
    if abs(shift) < 16:
        before = block.copy()
        with pytest.raises(CallError, match="output 'C' overlaps 'A'"):
            add(first, b, out=out)
        np.testing.assert_array_equal(block, before)
    else:
        np.testing.assert_array_equal(add(first, b, out=out), a + b)


@pytest.mark.parametrize(
    "view",
    [
        lambda m: np.repeat(m, 2)[::2],
        lambda m: m[::-1].copy()[::-1],
        lambda m: np.frombuffer(b"x" + m.tobytes(), "u1")[1:].view("f4"),
        memoryview,
        lambda m: m.view(np.recarray),
        lambda m: (ctypes.c_float * 16)(*m),
        lambda m: Exporter(m.copy()),
        lambda m: m.astype(np.dtype("f4", metadata={"unit": "m"})),
    ],
)
def test_other_layouts_and_exporters_give_the_right_answer(add: Any, view: Any) -> None:
    first = view(a)
    np.testing.assert_array_equal(add(first, b), a + b)
    np.testing.assert_array_equal(add(b, first, out=np.empty(16, "f4")), a + b)


def test_a_tensor_of_another_device_is_refused(add: Any) -> None:
    with pytest.raises(CallError, match=r"'A' .*CPU memory, got .*Exporter on DLPack device 2"):
        add(Exporter(a, (2, 0)), b)


def test_an_exporter_can_be_written_and_is_returned(add: Any) -> None:
    out = Exporter(np.zeros(16, "f4"))
    assert add(a, b, out=out) is out
    np.testing.assert_array_equal(out.array, a + b)
    raw = memoryview(bytearray(64)).cast("f")
    assert add(a, b, out=raw) is raw
    np.testing.assert_array_equal(raw, a + b)


def test_a_huge_result_begins_half_a_page_behind_numpys() -> None:
    """Where both are 48 bytes apart in a page, loads of the one wait for stores to the other, and streams take twice as long."""
    for size, begin, room in ((1 << 12, 0, 64), (1 << 18, 2048, 4096), (1 << 20, 2048, 4096)):
        assert arrays.address(arrays.empty_aligned((size,), np.dtype("float32"))) % room == begin


def test_a_vector_misaligned_array_is_fine(add: Any) -> None:
    base = np.zeros(33, "f4")
    base[1:17] = a
    np.testing.assert_array_equal(add(base[1:17], b, out=base[17:]), a + b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_passes_the_native_entry(dtype: Any) -> None:
    kernel = handmade.copy(16, dtype=str(dtype))
    values = (np.arange(16) % 2 if dtype == "bool" else np.arange(16)).astype(dtype.numpy)
    kernel(values)
    assert kernel._fast
    out = np.zeros(16, dtype.numpy)
    assert kernel(values, out=out) is out
    np.testing.assert_array_equal(out, values)
    assert kernel(values).dtype == values.dtype


def test_bfloat16_is_the_type_of_ml_dtypes() -> None:
    with pytest.raises(CallError, match="expected dtype bfloat16, got float16"):
        handmade.copy(16, dtype="bfloat16")(np.zeros(16, "f2"))
    assert handmade.copy(16, dtype="bfloat16")(np.zeros(16, ml_dtypes.bfloat16)).dtype == ml_dtypes.bfloat16


def test_an_output_too_large_to_allocate_is_a_call_error() -> None:
    text = "define i32 @huge(ptr %a, ptr %c, i64 %n) {\n  ret i32 0\n}"
    kernel = build(text, Signature("huge", (argument("A", N),), (argument("C", N, N, N, N),), ("n",)))
    for _ in range(2):
        with pytest.raises(CallError, match="cannot be allocated"):
            kernel(np.zeros(60000, "f4"))


def test_scalars_have_no_dimensions() -> None:
    kernel = handmade.copy()
    assert kernel(np.float32(3)) == 3
    assert kernel(np.array(4, "f4")).shape == ()
    assert kernel(np.array(4, "f4")) == 4


def test_a_scalar_of_numpy_is_no_output() -> None:
    """NumPy makes an array of it, which would be written and lost."""
    X = tl.placeholder((), name="X")
    double = tl.build(tl.compute((), lambda: X[()] * 2, name="Y"))
    with pytest.raises(tl.CallError, match=r"expected a writable array, got a NumPy scalar; np.empty\(\(\), 'float32'\) is one"):
        double(np.float32(5), out=np.float32(7))
    assert double(np.float32(5), out=np.empty((), "float32")) == 10


def test_several_outputs_come_as_a_tuple() -> None:
    signature = Signature("two", (argument("A", 2),), (argument("S"), argument("D")))
    kernel = build(handmade.TWO, signature)
    x, out = np.array([5, 3], "f4"), (np.empty((), "f4"), np.empty((), "f4"))
    assert [float(part) for part in kernel(x)] == [8, 2]
    assert kernel(x, out=out) == out
    assert kernel(x, out=list(out))[1] is out[1]
    with pytest.raises(CallError, match="a tuple of 2 arrays, got 1"):
        kernel(x, out=out[0])
    with pytest.raises(CallError, match="output 'D' overlaps 'S'"):
        kernel(x, out=(out[0], out[0]))


def test_plain_calls_never_come_to_the_careful_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """By position, by name, mixed; one output or several, given or not: all of it runs in machine code."""
    sum_of, two = handmade.add(), build(handmade.TWO, Signature("two", (argument("A", 2),), (argument("S"), argument("D"))))
    packed = Kernel(replace(sum_of.program, bound={"B": b}))
    x, c, out = np.array([5, 3], "f4"), np.empty(16, "f4"), (np.empty((), "f4"), np.empty((), "f4"))
    sum_of(a, b), two(x), packed(a)
    with monkeypatch.context() as patched:
        patched.setattr(Caller, "__call__", lambda *_, **__: pytest.fail("a careful call"))
        for answer in (sum_of(a, b), sum_of(B=b, A=a), sum_of(a, B=b, out=None), sum_of(out=c, A=a, B=b), packed(A=a), packed(a, out=c)):
            np.testing.assert_array_equal(answer, a + b)
        assert [float(part) for part in two(A=x)] == [8, 2]
        assert two(x, out=out) is out
        assert [float(part) for part in out] == [8, 2]
        fresh = two(x)
        assert type(fresh) is tuple
        assert [sys.getrefcount(part) for part in fresh] == [sys.getrefcount(part) for part in (np.empty(()), np.empty(()))]


def test_an_output_of_several_that_does_not_fit_leaves_all_of_them() -> None:
    kernel = build(handmade.TWO, Signature("two", (argument("A", 2),), (argument("S"), argument("D"))))
    x, first = np.array([5, 3], "f4"), np.full((), 7, "f4")
    kernel(x)
    for wrong, match in (
        (np.empty((), "f8"), "output 'D' .*float64"),
        (first, "'D' overlaps 'S'"),
        (x[1:].reshape(()), "'D' overlaps 'A'"),
    ):
        with pytest.raises(CallError, match=match):
            kernel(x, out=(first, wrong))
        assert first == 7
    with pytest.raises(CallError, match="a tuple of 2 arrays, got 3"):
        kernel(x, out=(first, first, first))


def test_bound_inputs_are_not_passed() -> None:
    kernel = Kernel(replace(handmade.add().program, bound={"B": b}))
    for _ in range(2):
        np.testing.assert_array_equal(kernel(a), a + b)
    assert kernel._fast
    with pytest.raises(CallError, match="expected 1 inputs, got 2"):
        kernel(a, b)
    with pytest.raises(CallError, match="no argument 'B'"):
        kernel(a, B=b)


def test_a_failed_allocation_inside_is_a_call_error() -> None:
    kernel = handmade.vector("fails", handmade.FAILS)
    for _ in range(3):
        with pytest.raises(CallError, match="workspace could not be allocated"):
            kernel(a)
        with pytest.raises(CallError, match="workspace could not be allocated"):
            kernel(a, out=np.empty(16, "f4"))


def test_inputs_are_not_written() -> None:
    first, second = a.copy(), b.copy()
    first.flags.writeable = False
    handmade.add()(first, second)
    np.testing.assert_array_equal(first, a)
    np.testing.assert_array_equal(second, b)


def test_random_calls_mean_the_same_natively_and_carefully() -> None:
    """The two paths agree on what is taken and on what comes out."""
    kernel = handmade.copy("n", 3, dims=("n",))
    kernel(np.zeros((1, 3), "f4"))
    assert kernel._fast
    taken = 0
    for natively, carefully in handmade.random_calls(kernel, ["f8", ">f4", "i4"], lambda call, x, out: call(x, out=out)):
        assert natively == carefully
        taken += isinstance(natively, bytes)
    assert taken > 200


def test_a_bfloat16_tensor_of_another_library_is_taken_without_a_copy() -> None:
    kernel = handmade.copy(2, 3, dtype="bfloat16")
    values = np.arange(6).astype(ml_dtypes.bfloat16)
    bits = values.view("u2")
    np.testing.assert_array_equal(kernel(Bfloat16Tensor(bits, (2, 3))), values.reshape(2, 3))
    np.testing.assert_array_equal(kernel(Bfloat16Tensor(bits, (2, 3), (1, 2))), values.reshape(3, 2).T)
    out = np.zeros(6, "u2")
    kernel(values.reshape(2, 3), out=Bfloat16Tensor(out, (2, 3)))
    np.testing.assert_array_equal(out, bits)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"])
def test_a_number_of_the_type_of_the_argument_needs_no_careful_call(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    x, a = tl.placeholder((8,), dtype, name="x"), tl.placeholder((), dtype, name="a")
    kernel = tl.build(tl.compute((8,), lambda i: tl.select(i < 4, x[i], a[()]), name="y"))
    given, number = np.zeros(8, x.dtype.numpy), x.dtype.numpy.type(1)
    kernel(given, np.array(number))  # from now on its call is machine code
    careful: list[object] = []
    prepared = Caller.prepared
    monkeypatch.setattr(Caller, "prepared", lambda *args: careful.append(args) or prepared(*args))
    np.testing.assert_array_equal(kernel(given, number).astype("f4"), [0, 0, 0, 0, 1, 1, 1, 1])
    np.testing.assert_array_equal(kernel(given, a=number).astype("f4"), [0, 0, 0, 0, 1, 1, 1, 1])
    assert not careful
    for other in (np.float64(1) if dtype != "float64" else np.float32(1), 1.0):
        with pytest.raises(tl.CallError, match="argument 'a'"):
            kernel(given, other)
    assert len(careful) == 2
