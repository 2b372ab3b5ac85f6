"""Memory plans: nothing that is wanted at one moment lies in one place, and the arena is hardly larger than the most that is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tensorlang as tl
from tensorlang import kernels
from tensorlang.graph import Builder, CompiledGraph, Graph, Node, Value
from tensorlang.graph.definition import of_node
from tensorlang.graph.execution.plan import LINE, Lifetime, plan
from tensorlang.graph.execution.steps import KernelStep
from tests.graph.graphs import arguments, array, positive
from tests.thinned import few

GOAL = 1.15


@st.composite
def lifetimes(draw: st.DrawFn) -> list[Lifetime]:
    """Any, or, as in a graph, of values that are read soon after they are made, but for a few."""
    count = draw(st.integers(0, 40))
    made = []
    for number in range(count):
        first = draw(st.integers(0, count))
        last = first + draw(st.sampled_from([0, 1, 1, 2, 3, count]))
        made.append(Lifetime(f"v{number}", draw(st.sampled_from([0, 4, 64, 100, 1000, 4096, 100_000])), first, last))
    return made


@given(lifetimes())
@settings(max_examples=200)
def test_what_is_wanted_at_one_moment_lies_apart(wanted: list[Lifetime]) -> None:
    made = plan(wanted)
    assert sorted(block.lifetime.name for block in made.blocks) == sorted(life.name for life in wanted)
    for place, block in enumerate(made.blocks):
        assert block.offset % LINE == 0 and block.offset + block.lifetime.size <= made.bytes
        for other in made.blocks[:place]:
            apart = block.end <= other.offset or other.end <= block.offset
            assert apart or not block.lifetime.meets(other.lifetime) or 0 in (block.lifetime.size, other.lifetime.size)


@given(lifetimes())
@settings(max_examples=100)
def test_no_plan_is_below_its_lower_bound(wanted: list[Lifetime]) -> None:
    made = plan(wanted)
    moments = range(max((life.last for life in wanted), default=0) + 1)
    assert made.lower_bound == max(sum(life.size for life in wanted if life.first <= at <= life.last) for at in moments)
    assert made.lower_bound <= made.bytes <= sum(life.room for life in wanted)


def test_a_gap_is_filled_by_what_fits_it() -> None:
    """Three values of one size each are read by the next step: two places are enough for any number of them."""
    made = plan([Lifetime(f"v{n}", 640, n, n + 1) for n in range(9)])
    assert made.bytes == made.lower_bound == 2 * 640


def residual(b: Builder, value, channels: int, stride: int, seed: int):
    def conv(operand, out: int, kernel: int, step: int, number: int):
        made = b("conv2d", operand, array(out, operand.shape[1], kernel, kernel, seed=number), None, stride=step, padding=kernel // 2)
        return b("batch_norm", made, array(out), positive(out), positive(out), array(out))

    inner = b("relu", conv(value, channels, 1, 1, seed))
    inner = b("relu", conv(inner, channels, 3, stride, seed + 1))
    inner = conv(inner, 4 * channels, 1, 1, seed + 2)
    same = value.shape == inner.shape
    return b("relu", b("add", inner, value if same else conv(value, 4 * channels, 1, stride, seed + 3)))


def residual_network() -> Graph:
    """The shape of a residual network: bottlenecks, some of which halve the image."""
    b = Builder("residual")
    value = b("relu", b("conv2d", b.input((1, 3, 32, 32)), array(8, 3, 3, 3), padding=1))
    for seed, (channels, stride) in enumerate(((4, 1), (4, 1), (8, 2), (8, 1))):
        value = residual(b, value, channels, stride, 10 * seed)
    return b.finish(b("linear", b("mean", value, dim=(2, 3)), array(10, 32)))


def weight(outputs: int, inputs: int, seed: int) -> np.ndarray:
    return array(outputs, inputs, seed=seed) / np.float32(np.sqrt(inputs))


def encoder() -> Graph:
    """Two layers of a transformer, whose heads are views."""
    b = Builder("encoder")
    value = b.input((1, 12, 32))
    for layer in range(2):
        q, k, v = (
            b("permute", b("reshape", b("linear", value, weight(32, 32, layer + n)), shape=(1, 12, 4, 8)), dims=(0, 2, 1, 3))
            for n in range(3)
        )
        scores = b("softmax", b("matmul", q, b("permute", k, dims=(0, 1, 3, 2))), dim=-1)
        mixed = b("reshape", b("permute", b("matmul", scores, v), dims=(0, 2, 1, 3)), shape=(1, 12, 32))
        value = b("layer_norm", b("add", value, b("linear", mixed, weight(32, 32, 4))), normalized_shape=(32,))
        inner = b("gelu", b("linear", value, weight(96, 32, 5)))
        value = b("layer_norm", b("add", value, b("linear", inner, weight(32, 96, 6))), normalized_shape=(32,))
    return b.finish(value)


def hourglass() -> Graph:
    """Values that wait for long: each halving of an image is joined again on the way back."""
    b = Builder("hourglass")
    value = b.input((1, 4, 32, 32))
    waiting = []
    for level in range(3):
        value = b("relu", b("conv2d", value, array(8, value.shape[1], 3, 3, seed=level), padding=1))
        waiting.append(value)
        value = b("conv2d", value, array(8, 8, 2, 2, seed=level), stride=2)
    for other in reversed(waiting):
        size = other.shape[-1] // 2
        wide = b("expand", b("reshape", value, shape=(1, 8, size, 1, size, 1)), shape=(1, 8, size, 2, size, 2))
        value = b("relu", b("conv2d", b("add", other, b("reshape", wide, shape=other.shape)), array(8, 8, 3, 3), padding=1))
    return b.finish(value)


@pytest.mark.usefixtures("node_by_node")
@pytest.mark.parametrize("make", few([encoder, hourglass, residual_network], 1))
def test_the_arena_of_a_model_is_near_the_most_that_lives_at_once(make) -> None:
    g = make()
    compiled = g.compile(threads=1)
    given = arguments(g)
    np.testing.assert_allclose(compiled(*given)[0], g.run(*given)[0], rtol=1e-3, atol=1e-4)
    assert 0 < compiled.plan.bytes <= GOAL * compiled.plan.lower_bound
    assert compiled.plan.bytes < compiled.plan.wanted / 2


def chain() -> tuple[Graph, CompiledGraph]:
    b = Builder("chain")
    value = b.input((tl.dim("n", 1, 64), 16), name="x")
    for seed in range(4):
        value = b("linear", value, array(16, 16, seed=seed))
    g = b.finish(value)
    return g, g.compile(threads=1)


@pytest.mark.usefixtures("node_by_node")
def test_a_plan_is_made_for_each_size_of_a_dim_once() -> None:
    g, compiled = chain()
    sizes = {n: compiled.assembly(n=n).plan.bytes for n in (1, 4, 64)}
    assert sizes == {n: 2 * max(LINE, n * 64) for n in sizes}
    x = array(4, 16)
    before = compiled.assembly(n=4)
    np.testing.assert_allclose(compiled(x)[0], g.run(x)[0], rtol=1e-3, atol=1e-4)
    assert compiled.assembly(n=4) is before
    with pytest.raises(tl.CallError, match=r"chain: expected the dims \['n'\] by keyword, got \[\]"):
        _ = compiled.plan
    with pytest.raises(tl.CallError, match="chain: the dim n is from 1 to 64, and not 65"):
        compiled.assembly(n=65)
    for odd in ("4", None, 4.0):
        with pytest.raises(tl.CallError, match="chain: the dim n is a whole number, and not "):
            compiled.assembly(n=odd)


@pytest.mark.usefixtures("node_by_node")
def test_a_plan_prints_as_a_table() -> None:
    b = Builder("few")
    h = b("softmax", b("linear", b.input((2, 4)), array(4, 4)), dim=-1)
    text = str(b.finish(b("linear", h, array(4, 4))).compile(threads=1).plan)
    assert text.splitlines() == [
        "arena of 128 bytes; live at most 64, 2.000 of it; without sharing 64",
        "value    bytes  offset  moments",
        "linear      32       0      0-1",
        "softmax     32      64      1-2",
    ]


def test_intermediates_of_kernels_have_their_places_in_the_arena() -> None:
    b = Builder("wide")
    h = b("softmax", b("relu", b.input((64, 5000))), dim=-1)
    compiled = b.finish(b("softmax", h, dim=0)).compile(threads=1)
    rooms = [kernel.workspace_bytes for kernel in compiled.kernels]
    assert any(rooms)
    names = {block.lifetime.name: block.lifetime.size for block in compiled.plan.blocks if block.lifetime.name.startswith("workspace of ")}
    assert sorted(names.values()) == sorted(filter(None, rooms))
    tl.release_workspaces()
    x = array(64, 5000)
    np.testing.assert_allclose(compiled(x)[0], compiled.graph.run(x)[0], rtol=1e-4, atol=1e-7)


@dataclass(frozen=True)
class One:
    """A node that is a kernel by itself."""

    node: Node

    @property
    def results(self) -> tuple[Value, ...]:
        """What it gives."""
        return self.node.results


def kernel_each(g: Graph, *in_place: str) -> CompiledGraph:
    """A kernel for each node, in which those of these operators may write over their first operand."""
    steps = []
    for node in g.nodes:
        definition = of_node(node)
        operands = [operand for operand in definition.operands if operand is not None]
        kernel = kernels.compile(definition.results, inputs=operands, threads=1)
        if node.operator in in_place:
            signature = kernel.program.signature
            over = {signature.outputs[0].name: signature.passed[0].name}
            kernel = kernels.compile(definition.results, inputs=operands, threads=1, over=over)
        group: Any = One(node)
        steps.append(KernelStep(group, kernel, node.read))
    return CompiledGraph(g, steps, 1)


def test_a_result_lies_over_an_operand_where_its_kernel_may_write_there() -> None:
    """A chain of rows, each written over the one before; the first reads the caller's array, the last writes another one of theirs."""
    b = Builder("rows")
    value = b.input((8, 32))
    for _ in range(4):
        value = b("softmax", value, dim=-1)
    g = b.finish(value)
    apart, within = kernel_each(g), kernel_each(g, "softmax")
    assert (apart.plan.bytes, within.plan.bytes) == (2 * 1024, 1024)
    x = array(8, 32)
    kept = x.copy()
    np.testing.assert_array_equal(within(x)[0], apart(x)[0])
    np.testing.assert_array_equal(x, kept)


def test_what_is_read_later_is_not_written_over() -> None:
    b = Builder("later")
    h = b("softmax", b.input((8, 32)), dim=-1)
    g = b.finish(b("softmax", b("add", b("softmax", h, dim=-1), b("softmax", h, dim=0)), dim=0))
    x = array(8, 32)
    np.testing.assert_array_equal(kernel_each(g, "softmax", "add")(x)[0], kernel_each(g)(x)[0])
