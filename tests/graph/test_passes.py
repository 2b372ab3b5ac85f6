"""Passes are tested by what they remove and leave, and by values; what breaks a graph is refused by the name of the pass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import tensorlang as tl
from tensorlang.graph import Builder, Graph, Origin, Rewriter, passes, pattern as pm
from tests.graph.graphs import arguments, array, normalised, positive, random_graphs

EVERY = (passes.dead_code, passes.common_subexpressions, passes.fold_constants, passes.fold_batch_norm)


@pytest.mark.parametrize("run", EVERY, ids=lambda run: run.__name__)
@given(g=random_graphs())
def test_a_pass_keeps_what_a_graph_computes_and_run_again_changes_nothing(run, g: Graph) -> None:
    text, given = g.to_let(), arguments(g)
    made = passes.apply(g, run)
    assert g.to_let() == text
    assert passes.apply(made, run) == made
    for found, wanted in zip(made.run(*given), g.run(*given), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_dead_nodes_and_constants_go_and_inputs_stay() -> None:
    b = Builder()
    x, y = b.input((3,), name="x"), b.input((3,), name="y")
    b("add", y, array(3))
    made = pm.assert_pass(passes.dead_code, b.finish(b("relu", x)), before=pm.Op("add"), after=pm.Op("relu"))
    assert len(made.nodes) == 1 and not made.constants and [value.name for value in made.inputs] == ["x", "y"]


def test_ten_times_the_same_is_computed_once() -> None:
    b = Builder()
    x = b.input((3, 4))
    several = [b("relu", b("linear", x, array(4, 4), array(4))) for _ in range(10)]
    total = several[0]
    for one in several[1:]:
        total = b("add", total, one)
    g = b.finish(total)
    made = passes.common_subexpressions(g)
    assert {name: len(nodes) for name, nodes in made.by_operator.items()} == {"linear": 1, "relu": 1, "add": 9}
    assert len(made.constants) == 2
    np.testing.assert_array_equal(made.run(array(3, 4))[0], g.run(array(3, 4))[0])


def test_attributes_and_bits_of_constants_keep_nodes_apart() -> None:
    b = Builder()
    x = b.input((3, 4))
    g = b.finish(b("softmax", x, dim=0), b("softmax", x, dim=1), b("add", x, 0.0), b("add", x, -0.0))
    assert len(passes.common_subexpressions(g).nodes) == 4


def test_what_reads_constants_alone_is_folded_and_nothing_else() -> None:
    b = Builder()
    x = b.input((3, 4))
    weight = b("mul", b("permute", b.constant(array(4, 5), "w"), dims=(1, 0)), 2.0)
    g = b.finish(b("linear", x, weight))
    made = pm.assert_pass(
        passes.fold_constants,
        g,
        before=pm.Op("permute"),
        after=pm.Op("linear", args=(pm.Tensor(), pm.Tensor(constant=True))),
        inputs=(array(3, 4),),
    )
    assert len(made.nodes) == 1 and len(made.constants) == 1
    np.testing.assert_array_equal(made.constants[0].array, array(4, 5).T * 2)


def test_a_large_table_of_one_number_stays_a_node() -> None:
    b = Builder()
    g = b.finish(b("add", b.input((1000, 1000)), b("expand", b.scalar(1.0, "float32"), shape=(1000, 1000))))
    assert passes.fold_constants(g).nodes == g.nodes


def convolved(kind: str, bias: bool, groups: int) -> Graph:
    b = Builder()
    options = {"groups": groups, "stride": 2, "padding": 1}
    if kind == "linear":
        value = b("linear", b.input((3, 4)), array(8, 4), array(8) if bias else None)
    elif kind == "conv1d":
        value = b("conv1d", b.input((2, 4, 9)), array(8, 4 // groups, 3), array(8) if bias else None, **options)
    else:
        shape = (8, 4 // groups, 3, 3) if kind == "conv2d" else (4, 8 // groups, 3, 3)
        value = b(kind, b.input((2, 4, 6, 6)), array(*shape), array(8) if bias else None, **options)
    b.origins = (Origin("model.py", 5),)
    return b.finish(b("relu", b("batch_norm", value, array(8, seed=1), positive(8), positive(8, seed=2), array(8, seed=3), eps=1e-3)))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("kind", ["linear", "conv1d", "conv2d", "conv_transpose2d"])
def test_a_batch_norm_folds_into_the_layer_before_it(kind: str, bias: bool, groups: int) -> None:
    g = convolved(kind, bias, groups)
    made = pm.assert_pass(
        passes.fold_batch_norm, g, before=pm.Op("batch_norm"), after=lambda pm: pm.Op("relu", args=(pm.Op(kind, args=(...,
        pm.Tensor(constant=True))),)),
        count=1, inputs=arguments(g), rtol=1e-5,
    )  # fmt: skip
    assert [node.operator for node in made.nodes] == [kind, "relu"]
    assert Origin("model.py", 5) in made.nodes[0].origins


@pytest.mark.parametrize("has", [(True, False), (False, True), (False, False)], ids=str)
def test_a_batch_norm_without_factor_or_offset_folds_too(has: tuple[bool, bool]) -> None:
    b = Builder()
    parameters = [array(5, seed=seed) if there else None for seed, there in enumerate(has, 1)]
    g = b.finish(b("batch_norm", b("linear", b.input((3, 4)), array(5, 4)), array(5), positive(5), *parameters))
    pm.assert_pass(passes.fold_batch_norm, g, before=pm.Op("batch_norm"), inputs=(array(3, 4),), rtol=1e-5)


def test_a_layer_that_somebody_else_reads_keeps_its_batch_norm() -> None:
    b = Builder()
    h = b("linear", b.input((3, 4)), array(5, 4))
    g = b.finish(b("batch_norm", h, array(5), positive(5)), h)
    assert passes.fold_batch_norm(g) is g


def test_what_is_not_constant_or_has_channels_elsewhere_is_not_folded() -> None:
    b = Builder()
    weight = b.input((5, 4), name="weight")
    first = b("batch_norm", b("linear", b.input((3, 4)), weight), array(5), positive(5))
    second = b("batch_norm", b("linear", b.input((2, 5, 4), name="y"), array(5, 4)), array(5), positive(5))
    g = b.finish(first, second)
    assert passes.fold_batch_norm(g) is g


def test_what_else_could_be_folded_is_left_to_who_folds_constants() -> None:
    b = Builder()
    norm = b("batch_norm", b("linear", b.input((3, 5)), array(5, 5)), array(5), positive(5))
    g = b.finish(b("add", norm, b("neg", array(5))))
    assert "neg" in passes.fold_batch_norm(g).by_operator


# Whoever tests a pass ---------------------------------------------------------------------------------------------------


def test_a_pass_that_leaves_what_it_should_remove_fails_its_test() -> None:
    g = normalised()
    with pytest.raises(AssertionError, match="after the pass 1 of 1 matches are left"):
        pm.assert_pass(lambda g: g, g, before=pm.Op("batch_norm"))
    with pytest.raises(AssertionError, match="before the pass: 0 matches"):
        pm.assert_pass(passes.fold_batch_norm, normalised("relu"), before=lambda pm: pm.Op("batch_norm", args=(pm.Op("linear"), ...)))
    with pytest.raises(AssertionError, match="after the pass nothing matches"):
        pm.assert_pass(passes.fold_batch_norm, g, before=pm.Op("batch_norm"), after=pm.Op("tanh"))
    with pytest.raises(AssertionError, match="1 matches, and 2 are wanted"):
        pm.assert_pass(passes.fold_batch_norm, g, before=pm.Op("batch_norm"), count=2)


def forgetting(g: Graph) -> Graph:
    """A pass that computes something else."""
    made = Rewriter(g)
    for node in g.nodes:
        if node.operator == "batch_norm":
            made.replace(node, made[node.read[0]])
        else:
            made.copy(node)
    return made.finish()


def test_a_pass_that_computes_something_else_fails_its_test() -> None:
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        pm.assert_pass(forgetting, normalised(), before=pm.Op("batch_norm"), inputs=(array(3, 4),))


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda g: Graph(g.inputs, g.constants, g.nodes[1:], g.outputs), "the pass broken: .* which is not defined"),
        (lambda g: Graph(g.inputs, g.constants, g.nodes[:1], g.nodes[0].results * 2), "the pass broken: its outputs are"),
        (lambda g: None, "the pass broken: it gives None, and not a graph"),
    ],
)
def test_a_pass_that_breaks_a_graph_is_refused_by_name_and_the_graph_is_as_it_was(run, message: str) -> None:
    g = normalised()
    text = g.to_let()
    run.__name__ = "broken"
    with pytest.raises(tl.GraphError, match=message):
        passes.apply(g, passes.dead_code, run)
    assert g.to_let() == text


def test_a_value_of_another_type_cannot_stand_for_one() -> None:
    g = normalised()
    made = Rewriter(g)
    with pytest.raises(tl.GraphError, match="cannot stand for linear: .*, which has another type"):
        made.replace(g.nodes[0], made[g.inputs[0]])


def test_new_nodes_take_no_name_of_the_source() -> None:
    b = Builder()
    g = b.finish(b("relu", b("neg", b("relu", b.input((3,))))))
    made = Rewriter(g)
    first, second, third = g.nodes
    made.copy(first)
    made.replace(second, made("relu", made[second.read[0]]))
    made.copy(third)
    assert [node.results[0].name for node in made.finish().nodes] == ["relu", "relu_2", "relu_1"]
