"""Compiled graphs are the graph: the evaluator and the kernels agree, fused or not, whatever lies where; a call is checked."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest
from hypothesis import given, settings

import tensorlang as tl
from tensorlang import kernels
from tensorlang.graph import Builder, Graph
from tensorlang.graph.execution.steps import KernelStep
from tests.graph.graphs import arguments, array, batched, normalised, positive, random_graphs


@given(random_graphs())
@settings(max_examples=5)
def test_kernels_compute_what_the_graph_means(g: Graph) -> None:
    given = arguments(g)
    for found, wanted in zip(g.compile(threads=1)(*given), g.run(*given), strict=True):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_every_value_of_a_run_can_be_looked_at() -> None:
    g = normalised("relu")
    x = array(3, 4)
    values = g.inspect(x)
    assert list(values) == list(g.values)
    np.testing.assert_allclose(values["linear"], x @ values["weight"].T + g.constant(g.nodes[0].inputs[2]), rtol=1e-5)
    np.testing.assert_array_equal(values["relu"], np.maximum(values["linear"], 0))
    assert g.run(x)[0] is not values["batch_norm"] and len(g.run(x)) == 1


def groups(g: Graph) -> list[str]:
    return [str(step.group) for step in g.compile(passes=()).steps if isinstance(step, KernelStep)]


def test_pointwise_nodes_are_computed_where_their_operand_is_made() -> None:
    b = Builder()
    x = b.input((1, 3, 8, 8), name="x")
    residual = b.input((1, 4, 8, 8), name="residual")
    conv = b("conv2d", x, array(4, 3, 3, 3), array(4), padding=1)
    norm = b("batch_norm", conv, array(4), positive(4), positive(4), array(4))
    g = b.finish(b("relu", b("add", norm, residual)))
    assert groups(g) == ["conv2d + batch_norm + add + relu"]
    given = arguments(g)
    np.testing.assert_allclose(g.compile()(*given)[0], g.run(*given)[0], rtol=1e-4, atol=1e-5)


def test_a_batch_of_one_is_fused_as_any_other() -> None:
    b = Builder()
    h = b("linear", b.input((1, 4)), array(6, 4))
    assert groups(b.finish(b("add", b("tanh", h), array(1, 6)))) == ["linear + tanh + add"]


def test_what_two_read_and_what_is_an_output_is_made_once() -> None:
    b = Builder()
    x = b.input((3, 4))
    h = b("linear", x, array(4, 4))
    g = b.finish(b("add", b("tanh", h), b("relu", h)))
    assert groups(g) == ["linear + tanh + relu + add"]
    b = Builder()
    h = b("linear", b.input((3, 4)), array(4, 4))
    g = b.finish(h, b("tanh", h))
    (step,) = g.compile().steps
    assert isinstance(step, KernelStep) and [value.name for value in step.group.results] == ["linear", "tanh"]


def test_two_products_that_are_large_are_two_kernels_though_one_node_adds_them() -> None:
    b = Builder()
    x = b.input((3, 512))
    g = b.finish(b("add", b("linear", x, array(128, 512)), b("relu", b("linear", x, array(128, 512, seed=1)))))
    assert groups(g) == ["linear + relu", "linear + add"]
    np.testing.assert_allclose(g.compile()(array(3, 512))[0], g.run(array(3, 512))[0], rtol=1e-4, atol=1e-4)


def test_a_small_operand_that_is_repeated_is_computed_in_the_kernel_that_reads_it() -> None:
    b = Builder()
    row = b("linear", b.input((1, 4)), array(5, 4))
    g = b.finish(b("add", b.input((3, 5), name="y"), row))
    assert groups(g) == ["linear + add"]
    given = arguments(g)
    np.testing.assert_allclose(g.compile()(*given)[0], g.run(*given)[0], rtol=1e-5, atol=1e-6)


def test_layers_of_one_shape_share_code_whatever_their_weights() -> None:
    b = Builder()
    value = b.input((3, 8))
    for seed in range(8):
        value = b("relu", b("linear", value, array(8, 8, seed=seed), array(8, seed=seed)))
    compiled = b.finish(value).compile()
    assert len(compiled.kernels) == 4 and len({kernel.address for kernel in compiled.kernels}) == 1


def test_views_copy_nothing_where_kernels_take_strides() -> None:
    b = Builder()
    x = b.input((2, 6, 8), name="x")
    heads = b("permute", b("reshape", x, shape=(2, 6, 2, 4)), dims=(0, 2, 1, 3))
    turned = b("permute", heads, dims=(0, 1, 3, 2))
    g = b.finish(b("matmul", heads, turned))
    (kernel,) = g.compile().kernels
    assert "with strides (48, 4, 8, 1)" in str(kernel.program.signature)
    np.testing.assert_allclose(g.compile()(array(2, 6, 8))[0], g.run(array(2, 6, 8))[0], rtol=1e-5, atol=1e-5)


def test_one_compiled_graph_serves_every_size_of_a_dim() -> None:
    g = batched()
    compiled = g.compile()
    for size in (1, 3, 8, 3):
        x = array(size, 4)
        for found, wanted in zip(compiled(x), g.run(x), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_results_are_new_arrays_that_nobody_shares() -> None:
    b = Builder()
    x = b.input((2, 3), name="x")
    held = b.constant(array(3), "held")
    h = b("relu", x)
    g = b.finish(x, held, b("reshape", x, shape=(6,)), h, h, b("permute", h, dims=(1, 0)))
    given = array(2, 3)
    results = g.compile()(given)
    everything = [given, g.constant(g.outputs[1]), *results]
    assert not any(np.shares_memory(one, other) for place, one in enumerate(everything) for other in everything[:place])
    for found, wanted in zip(results, g.run(given), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_operands_that_do_not_lie_in_order_give_the_right_answer() -> None:
    g = normalised()
    x = np.asfortranarray(array(3, 4))
    np.testing.assert_array_equal(g.compile()(x)[0], g.compile()(np.array(x, order="C"))[0])
    np.testing.assert_array_equal(g.compile()(array(3, 8)[:, ::2])[0], g.compile()(array(3, 8)[:, ::2].copy())[0])


def test_a_compiled_graph_is_called_from_many_threads() -> None:
    g = normalised("relu")
    compiled = g.compile(threads=1)
    given = [array(3, 4, seed=seed) for seed in range(8)]
    wanted, found = [compiled(x)[0] for x in given], {}

    def call(place: int) -> None:
        for _ in range(20):
            found[place] = compiled(given[place])[0]

    threads = [threading.Thread(target=call, args=(place,)) for place in range(len(given))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(found[place], wanted[place]) for place in range(len(given)))


X = "batched: input x: float32[n, 4]: "
CALLS = {
    "too few": ((), "batched takes 1 inputs (x: float32[n, 4]), and 0 were passed"),
    "a type": ((np.zeros((3, 4)),), f"{X}expected float32, got float64"),
    "axes": ((np.zeros((3, 4, 1), "float32"),), f"{X}expected 2 axes, got shape (3, 4, 1)"),
    "an extent": ((np.zeros((3, 5), "float32"),), f"{X}expected shape (3, 4), got (3, 5)"),
    "a size": ((np.zeros((9, 4), "float32"),), f"{X}the dim n is from 1 to 8, and not 9"),
    "no array": (("text",), f"{X}expected float32, got <U4"),
}


@pytest.mark.parametrize("given", CALLS)
@pytest.mark.parametrize("way", ["run", "compile"])
def test_a_wrong_call_is_refused_by_the_names_of_the_graph(given: str, way: str) -> None:
    g = batched()
    arrays, message = CALLS[given]
    call = g.run if way == "run" else g.compile()
    with pytest.raises(tl.CallError, match=re.escape(message)):
        call(*arrays)


def test_a_dim_is_one_extent_in_all_inputs() -> None:
    b = Builder("pair")
    n = tl.dim("n", 1, 8)
    g = b.finish(b("add", b.input((n,), name="x"), b.input((n,), name="y")))
    for call in (g.run, g.compile()):
        with pytest.raises(tl.CallError, match="the dim n is 3 here, and 2 elsewhere"):
            call(array(2), array(3))


def test_the_keys_of_groups_are_those_of_the_library() -> None:
    """A record of the tuner for the plain definition serves the node of a graph."""
    x, w = tl.placeholder((3, 4), name="x"), tl.placeholder((5, 4), name="w")
    wanted = kernels.key(tl.ops.relu(tl.ops.linear(x, w)), threads=1, constants=("w",))
    b = Builder()
    g = b.finish(b("relu", b("linear", b.input((3, 4)), array(5, 4))))
    (step,) = g.compile(threads=1).steps
    assert isinstance(step, KernelStep)
    operands, results = step.group.define()
    assert kernels.key(results, threads=1, constants=(operands[1].name,)) == wanted
