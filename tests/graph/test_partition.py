"""Parts of a graph by targets: nothing is lost, none waits for itself, matches stay together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tensorlang as tl
from tensorlang.graph import Builder, Graph, passes, pattern as pm
from tests.graph.graphs import arguments, array, layered_graphs, random_graphs


def checked(g: Graph, found: passes.Partition) -> None:
    """Every node is in one part; a part reads what parts before it, or the caller, made."""
    live = passes.dead_code(g)
    assert found.stitched() == live
    assert sorted(node.results[0].name for part in found.parts for node in part.graph.nodes) == sorted(
        node.results[0].name for node in live.nodes
    )
    there = {value.name for value in g.inputs}
    for part in found.parts:
        part.graph.verify()
        assert {value.name for value in part.graph.inputs} <= there
        there |= {value.name for value in part.graph.outputs}
    x = arguments(g)
    for made, wanted in zip(found.run(*x), g.run(*x), strict=True):
        np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("graphs", [random_graphs, layered_graphs], ids=lambda one: one.__name__)
@given(data=st.data())
@settings(max_examples=40)
def test_parts_put_together_are_the_graph_and_none_waits_for_itself(graphs, data: st.DataObject) -> None:
    g = data.draw(graphs())
    names = {node.results[0].name: data.draw(st.sampled_from(["a", "b", None])) for node in g.nodes}
    targets = {target: lambda node, target=target: names[node.results[0].name] == target for target in ("a", "b")}
    found = passes.partition(g, targets)
    checked(g, found)
    for part in found.parts:
        assert all(names[node.results[0].name] == part.target for node in part.graph.nodes)


@given(g=layered_graphs())
@settings(max_examples=40)
def test_the_nodes_of_a_match_are_in_one_part(g: Graph) -> None:
    pattern = pm.Op(("add", "mul", "sub", "maximum"), args=(pm.Op(("relu", "tanh", "neg", "sigmoid")).shared(), ...)).bind("root")
    found = passes.partition(g, {"npu": pattern, "dsp": lambda node: node.operator in ("linear", "softmax")})
    checked(g, found)
    for part in found.of("npu"):
        for node in part.graph.nodes:
            inside = node.operator in ("add", "mul", "sub", "maximum")
            assert inside or any(part.graph.users(value) for value in node.results)


def test_neighbours_of_one_target_are_one_call_also_side_by_side() -> None:
    b = Builder()
    x = b.input((2, 3), name="x")
    left, right = b("tanh", b("relu", x)), b("exp", b("neg", x))
    found = passes.partition(b.finish(b("add", left, right)), {"npu": lambda node: node.operator != "add"})
    assert [part.target for part in found.parts] == ["npu", None]


def test_what_goes_around_a_part_does_not_come_back_into_it() -> None:
    b = Builder()
    h = b("relu", b.input((2, 3), name="x"))
    g = b.finish(b("add", h, b("tanh", h)))
    found = passes.partition(g, {"npu": lambda node: node.operator in ("relu", "add")})
    assert [(part.target, [node.operator for node in part.graph.nodes]) for part in found.parts] == [
        ("npu", ["relu"]),
        (None, ["tanh"]),
        ("npu", ["add"]),
    ]
    around = pm.Op("add", args=(pm.Op("relu").shared(), pm.Op("tanh", args=(pm.Wildcard(),)).shared() & ~pm.Op("exp")))
    assert [part.target for part in passes.partition(g, {"npu": around}).parts] == ["npu"]
    gap = pm.Op("add", args=(pm.Op("relu").shared(), pm.Tensor()))
    assert [part.target for part in passes.partition(g, {"npu": gap}).parts] == [None]


def test_the_first_target_that_takes_a_node_has_it() -> None:
    b = Builder()
    g = b.finish(b("relu", b.input((3,))))
    assert [part.target for part in passes.partition(g, {"a": lambda _: True, "b": lambda _: True}).parts] == ["a"]


def test_a_target_computes_its_parts_by_kernels_of_its_own() -> None:
    b = Builder("model")
    h = b("linear", b.input((3, 4), name="x"), array(4, 4))
    g = b.finish(b("softmax", h, dim=-1))
    found = passes.partition(g, {"npu": lambda node: node.operator == "linear"})
    called: list[str] = []

    def by(part: passes.Part):
        called.append(part.name)
        return part.graph.compile() if part.target == "npu" else part.graph.run

    np.testing.assert_allclose(found.run(array(3, 4), by=by)[0], g.run(array(3, 4))[0], rtol=1e-5)
    assert called == ["model_0_npu", "model_1_host"]


def test_what_is_no_target_and_a_call_that_does_not_fit_are_refused() -> None:
    b = Builder("model")
    g = b.finish(b("relu", b.input((3,))))
    with pytest.raises(tl.GraphError, match="the target 'npu' takes what a pattern or a function of a node says, not 3"):
        passes.partition(g, {"npu": 3})  # type: ignore[dict-item]
    found = passes.partition(g, {})
    with pytest.raises(tl.CallError, match="model takes 1 inputs, and 0 were passed"):
        found.run()
    with pytest.raises(tl.CallError, match="the part model_0_host has 1 results, as a tuple, not None"):
        found.run(array(3), by=lambda part: lambda x: None)  # type: ignore[arg-type,return-value]
