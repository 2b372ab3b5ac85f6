"""A kernel as an operator of torch gives what the kernel gives, eagerly, compiled without a break, and where it is traced."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import kernels
from tensorlang.bridges import torch as bridge

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.extras("torch"), pytest.mark.filterwarnings("ignore")]  # torch's own

_numbers = itertools.count()


def named() -> str:
    """Operators are registered for good, so each test has its own."""
    return f"tensorlang_tests::op{next(_numbers)}"


def product(m: Any = 8, n: int = 7, k: int = 5) -> Any:
    return tl.ops.matmul(tl.placeholder((m, k), name="A"), tl.placeholder((k, n), name="B"))


def test_an_operator_gives_what_the_kernel_gives() -> None:
    op = bridge.op(kernels.compile(product()), named())
    a, b = torch.rand(8, 5), torch.rand(5, 7)
    torch.testing.assert_close(op(a, b), a @ b)
    torch.testing.assert_close(op(a.t().contiguous().t(), b[:, :7]), a @ b)


def test_torch_itself_finds_nothing_wrong_with_an_operator() -> None:
    op = bridge.op(kernels.compile(product()), named())
    found = torch.library.opcheck(op, (torch.rand(8, 5), torch.rand(5, 7)))
    assert found and set(found.values()) == {"SUCCESS"}


def test_several_outputs_dims_and_types_pass() -> None:
    n = tl.dim("n", 1, 100)
    X, i = tl.placeholder((n, 3), "float64", name="x"), tl.placeholder((n,), "int32", name="while")
    both = tl.compute((n, 3), lambda a, b: (X[a, b] * 2.0, tl.cast(X[a, b], "int32") + i[a]), name="both")
    op = bridge.op(kernels.compile(both), named())
    x, numbers = torch.rand(6, 3, dtype=torch.float64) * 10, torch.arange(6, dtype=torch.int32)
    doubled, shifted = op(x, numbers)
    torch.testing.assert_close(doubled, x * 2)
    torch.testing.assert_close(shifted, x.int() + numbers[:, None])
    assert set(torch.library.opcheck(op, (x, numbers)).values()) == {"SUCCESS"}


def test_a_compiled_function_has_no_break_and_one_graph_for_all_sizes() -> None:
    n = tl.dim("n", 1, 64)
    op = bridge.op(kernels.compile(product(n)), named())
    graphs = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph

    compiled = torch.compile(lambda a, b: torch.relu(op(a - 0.5, b)) + 1, backend=backend, fullgraph=True, dynamic=True)
    b = torch.rand(5, 7)
    for size in (8, 3, 64, 17):
        a = torch.rand(size, 5)
        torch.testing.assert_close(compiled(a, b), torch.relu((a - 0.5) @ b) + 1)
    assert len(graphs) == 1


def test_a_program_is_exported_with_the_operator_in_it() -> None:
    name = named()
    op = bridge.op(kernels.compile(product()), name)

    model = type("Model", (torch.nn.Module,), {"forward": lambda self, a, b: op(a, b) * 2})
    a, b = torch.rand(8, 5), torch.rand(5, 7)
    exported = torch.export.export(model(), (a, b))
    assert any(name.replace("::", ".") in str(node.target) for node in exported.graph.nodes)
    torch.testing.assert_close(exported.module()(a, b), (a @ b) * 2)


def test_what_a_kernel_does_not_take_is_a_call_error_eagerly_and_when_traced() -> None:
    op = bridge.op(kernels.compile(product()), named())
    with pytest.raises(tl.CallError, match=r"argument 'B': expected float32\[5, 7\], got float32\[5, 6\]"):
        op(torch.rand(8, 5), torch.rand(5, 6))
    with pytest.raises(tl.CallError, match=r"argument 'A': expected float32\[8, 5\], got float64\[8, 5\]"):
        op(torch.rand(8, 5, dtype=torch.float64), torch.rand(5, 7))
    with torch._subclasses.FakeTensorMode(), pytest.raises(tl.CallError, match="argument 'B'"):
        op(torch.rand(8, 5), torch.rand(5, 6))


def test_names_that_are_none_or_taken_and_what_is_no_kernel_are_refused() -> None:
    kernel, name = kernels.compile(product()), named()
    bridge.op(kernel, name)
    with pytest.raises(tl.BuildError, match="there is an operator"):
        bridge.op(kernel, name)
    for bad in ("matmul", "a::b::c", "a::b c", 3):
        with pytest.raises(tl.BuildError, match="named as 'ns::name'"):
            bridge.op(kernel, bad)
    with pytest.raises(tl.BuildError, match="takes a kernel"):
        bridge.op(np.add, named())


def test_gradients_are_a_matter_of_torch() -> None:
    name = named()
    op = bridge.op(kernels.compile(product()), name)
    torch.library.register_autograd(
        name,
        lambda ctx, grad: (grad @ ctx.saved_tensors[1].t(), ctx.saved_tensors[0].t() @ grad),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    a, b = torch.rand(8, 5, requires_grad=True), torch.rand(5, 7, requires_grad=True)
    op(a, b).sum().backward()
    torch.testing.assert_close(a.grad, torch.ones(8, 7) @ b.detach().t())
