"""A kernel as an object: shared by threads, freed with its last reference, bound, timed, looked into, copied and sent elsewhere."""

import copy
import ctypes
import gc
import pickle
import sys
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.errors import CallError
from tests.codegen import handmade
from tests.codegen.handmade import Exporter, build
from tests.work import work

a, b = np.arange(16, dtype="f4"), np.linspace(0, 1, 16, dtype="f4")


def test_the_interpreter_runs_while_the_kernel_does() -> None:
    kernel = handmade.vector("wait", handmade.WAIT)
    kernel(a + 1)
    for call in (kernel, kernel._linked):
        flag = np.zeros(16, "f4")
        waiting = threading.Thread(target=call, args=(flag,), daemon=True)
        waiting.start()
        time.sleep(0.01)
        assert waiting.is_alive()
        flag[:] = 1
        waiting.join(30)
        assert not waiting.is_alive()


def test_many_threads_share_a_kernel_that_no_one_has_called_yet() -> None:
    wrong: list[int] = []
    kernel = Kernel(handmade.add().program)

    def work() -> None:
        wrong.extend(1 for _ in range(500) if not np.array_equal(kernel(a, b), a + b))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_calls_do_not_leak_references() -> None:
    kernel = handmade.add()
    c, frozen = np.empty(16, "f4"), a.copy()
    frozen.flags.writeable = False
    objects = [a, b, c, frozen, a.dtype, kernel]
    kernel(a, b)

    def counts() -> Any:
        gc.collect()
        return [sys.getrefcount(item) for item in objects]

    before = counts()
    for _ in range(1000):
        kernel(a, b)
        kernel(a, b, out=c)
        for bad in ((a,), (a, None), (a, b[:3])):
            with pytest.raises(CallError):
                kernel(*bad, out=c)
        with pytest.raises(CallError):
            kernel(a, b, out=frozen)
    assert all(abs(now - then) < 20 for now, then in zip(counts(), before, strict=True))


def test_a_kernel_is_freed_with_its_last_reference() -> None:
    kernel = Kernel(handmade.add().program)
    kernel(a, b)
    watch = weakref.ref(kernel), weakref.ref(kernel._linked.library)
    bound = kernel.bind(a, b)
    del kernel
    np.testing.assert_array_equal(bound(), a + b)
    del bound
    assert [item() for item in watch] == [None, None]


def test_bind_sees_later_contents() -> None:
    kernel, c = handmade.add(), np.empty(16, "f4")
    x: Any = a.copy()
    for view in (x, memoryview(x), Exporter(x), np.repeat(x, 2)[::2]):
        call = kernel.bind(view, b, out=c)
        assert call() is c
        np.asarray(view.array if isinstance(view, Exporter) else view)[:] += 1
        want = np.asarray(view.array if isinstance(view, Exporter) else view) + b
        np.testing.assert_array_equal(call(), want)
    assert kernel.bind(a, b)() is not None
    with pytest.raises(CallError):
        kernel.bind(a)


def test_time_gives_samples_in_seconds() -> None:
    timing = handmade.add().time(a, b, repeats=5)
    assert len(timing.samples) == 5
    assert 0 < timing.min <= timing.median < 1e-3
    assert timing.mad >= 0
    assert timing.inner * timing.median > 5e-4
    assert "us" in str(timing)
    wrong: list[Any] = [0, -1, 2.5, True, None]
    for repeats in wrong:
        with pytest.raises(CallError, match="repeats"):
            handmade.add().time(a, b, repeats=repeats)


def test_it_can_be_looked_into() -> None:
    kernel = handmade.add()
    assert kernel.inspect().startswith("for")
    assert "fadd <16 x float>" in kernel.inspect("llvm")
    assert "ret" in kernel.inspect("asm")
    with pytest.raises(CallError, match="no form 'ast'"):
        kernel.inspect("ast")
    assert kernel.signature == "int32_t add(const float *A, const float *B, float *C)"
    assert kernel.cost() == {"flops": 16, "bytes": 192}
    with pytest.raises(CallError, match="cost"):
        kernel.cost(n=3)
    assert kernel.workspace_bytes == 0
    assert kernel.provenance is None
    assert repr(kernel) == f"<Kernel add(A: float32[16], B: float32[16]) -> C: float32[16] for {kernel.target}>"
    assert type(kernel).__name__ == "Kernel"
    assert isinstance(kernel, Kernel)


def test_the_address_is_a_c_function() -> None:
    kernel = handmade.add()
    c = np.empty(16, "f4")
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)
    assert prototype(kernel.address)(a.ctypes.data, b.ctypes.data, c.ctypes.data) == 0
    np.testing.assert_array_equal(c, a + b)


def test_a_foreign_kernel_can_be_read_not_run() -> None:
    kernel = build(handmade.ADD_16, handmade.add().program.signature, on="aarch64-linux-gnu:cortex-a72")
    assert "fadd" in kernel.inspect("asm")
    for use in (lambda: kernel(a, b), lambda: kernel.address, lambda: kernel.bind(a, b), lambda: kernel.time(a, b)):
        with pytest.raises(CallError, match=r"built for aarch64-linux-gnu:cortex-a72 .*this machine is"):
            use()


def test_a_call_runs_no_python() -> None:
    """What it costs beside NumPy's is a figure of `bench.call`."""
    kernel, c = handmade.add(), np.empty(16, "f4")
    kernel(a, b)
    for call in (lambda: kernel(a, b, out=c), lambda: kernel(a, b)):
        assert work(call) == 1, "something besides the function that calls it"


def test_a_kernel_can_be_copied_and_sent_to_another_process() -> None:
    for again in (copy.copy(handmade.add()), copy.deepcopy(handmade.add()), pickle.loads(pickle.dumps(handmade.add()))):  # noqa: S301
        np.testing.assert_array_equal(again(a, b), a + b)


def test_a_kernel_is_made_by_its_own_class_too() -> None:
    again = type(handmade.add())(handmade.add().program)
    for _ in range(2):
        np.testing.assert_array_equal(again(a, b), a + b)
    assert again._fast


def test_a_subclass_is_called_alike() -> None:
    class Named(Kernel):
        """A kernel with a field of its own."""

        label: str

    again = Named(handmade.add().program)
    again.label = "mine"
    for _ in range(2):
        np.testing.assert_array_equal(again(a, b), a + b)
    assert again._fast
    assert again.label == "mine"
