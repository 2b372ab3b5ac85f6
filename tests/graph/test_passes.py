"""Passes are tested by what they remove and leave, and by values; what breaks a graph is refused by the name of the pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import tensorlang as tl
from tensorlang.graph import Builder, Graph, Origin, Rewriter, passes, pattern as pm
from tests.graph.graphs import arguments, array, normalised, positive, random_graphs

EVERY = (passes.dead_code, passes.common_subexpressions, passes.fold_constants, passes.fold_batch_norm, passes.simplify)


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


# Constants --------------------------------------------------------------------------------------------------------------------

PEAK = """
import resource, numpy as np
from tensorlang.graph import Builder, passes

def chain(elements):
    b = Builder()
    value = b.constant(np.ones((4, elements // 4), "float32"))
    for step in range(25):
        value = b("mul", b("add", b("tanh", value), 0.5), 0.25)
        value = b("permute", value, dims=(1, 0))
    return b.finish(value)

passes.fold_constants(chain(1 << 23))
g = chain(1 << 24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
(constant,) = passes.fold_constants(g).constants
assert constant.array.nbytes == 1 << 26
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 + (1 << 26))
"""


@pytest.mark.slow
def test_a_chain_on_a_large_constant_takes_less_than_three_times_its_memory() -> None:
    """A hundred nodes on 64 MB, with that constant itself counted; a process of its own, warmed up on a smaller one."""
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert int(done.stdout) < 3 * (1 << 26)


def test_large_constants_are_folded_by_kernels_to_what_the_evaluator_finds() -> None:
    b = Builder()
    held = b.constant(array(4096, 1040), "held")
    turned = b("permute", b("mul", held, 3.0), dims=(1, 0))
    g = b.finish(b("reshape", turned, shape=(2080, 2048)), b("softmax", b("tanh", held), dim=-1), b("sum", held, dim=0))
    made = passes.fold_constants(g)
    assert not made.nodes
    for found, wanted in zip(made.run(), g.run(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_a_folded_constant_has_the_origins_of_what_it_comes_from() -> None:
    b = Builder()
    b.origins = (Origin("model.py", 1),)
    first = b("neg", b.constant(array(3)))
    b.origins = (Origin("model.py", 2),)
    g = b.finish(b("add", b.input((3,)), b("abs", first)))
    (constant,) = passes.fold_constants(g).constants
    assert set(constant.origins) == {Origin("model.py", 1), Origin("model.py", 2)}


def test_a_node_that_stands_for_several_has_the_origins_of_all() -> None:
    b = Builder()
    x = b.input((3,))
    b.origins = (Origin("model.py", 1),)
    first = b("relu", x)
    b.origins = (Origin("model.py", 2),)
    made = passes.common_subexpressions(b.finish(b("add", first, b("relu", x))))
    assert made.nodes[0].origins == (Origin("model.py", 1), Origin("model.py", 2))


# Many passes ------------------------------------------------------------------------------------------------------------------


def three(g: Graph) -> Graph:
    return g


def test_a_trace_tells_what_each_pass_took_and_did() -> None:
    made = passes.trace(normalised("relu"), passes.dead_code, passes.Pipeline((passes.fold_constants, three), "two"))
    assert [(one.number, one.name) for one in made.applications] == [(1, "dead_code"), (2, "fold_constants"), (3, "three")]
    assert all(one.seconds >= 0 and not one.changed for one in made.applications)
    folded = passes.trace(normalised(), passes.fold_batch_norm)
    (one,) = folded.applications
    assert one.changed and (one.before, one.after) == (2, 1) and "2 -> 1" in str(folded)
    assert folded.graph == passes.fold_batch_norm(normalised())


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_every_graph_on_the_way_can_be_written_down(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    g, folder = normalised(), tmp_path / "texts"
    if by == "variable":
        monkeypatch.setenv("TL_PASS_DUMP", str(folder))
    made = passes.apply(g, passes.dead_code, passes.fold_batch_norm, **({"dump": folder} if by == "argument" else {}))
    texts = {path.name: path.read_text() for path in sorted(folder.iterdir())}
    assert list(texts) == ["000-given.txt", "001-dead_code.txt", "002-fold_batch_norm.txt"]
    assert texts["000-given.txt"] == f"{g.to_let()}\n" and texts["002-fold_batch_norm.txt"] == f"{made.to_let()}\n"


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(tl.GraphError, match=r"passes cannot be dumped to .*file"):
        passes.apply(normalised(), passes.dead_code, dump=tmp_path / "file")


def counting(done: list[int], number: int) -> passes.Pass:
    def run(g: Graph) -> Graph:
        done.append(number)
        return g

    run.__name__ = f"pass_{number}"
    return run


@pytest.mark.parametrize("most", [0, 1, 3, 5, 9])
def test_only_so_many_passes_run_and_the_last_one_is_named(most: int, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    done: list[int] = []
    monkeypatch.setenv("TL_PASS_BISECT", str(most))
    first, second = ([counting(done, number) for number in numbers] for numbers in ((1, 2), (3, 4, 5, 6)))
    passes.apply(normalised(), *first)
    passes.apply(normalised(), *second)
    assert done == list(range(1, min(most, 6) + 1))
    lines = [record.getMessage() for record in caplog.records]
    assert lines == (
        [f"TL_PASS_BISECT={most}: application {most}, the last one, is pass_{most} on graph normalised"] if 0 < most <= 6 else []
    )


def test_a_wrong_pass_is_found_by_bisecting(monkeypatch: pytest.MonkeyPatch) -> None:
    g, x = normalised(), array(3, 4)
    run = passes.Pipeline((passes.dead_code, passes.common_subexpressions, forgetting, passes.fold_constants))

    def right(most: int) -> bool:
        monkeypatch.setenv("TL_PASS_BISECT", str(most))
        return np.allclose(passes.apply(g, run).run(x)[0], g.run(x)[0], rtol=1e-5)

    assert [right(most) for most in range(5)] == [True, True, True, False, False]


def test_a_number_of_passes_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TL_PASS_BISECT", "few")
    with pytest.raises(tl.GraphError, match="TL_PASS_BISECT is the number of applications of passes that are run"):
        passes.apply(normalised(), passes.dead_code)


@pytest.mark.parametrize("pipeline", [passes.standard, passes.fast], ids=lambda one: one.name)
@given(g=random_graphs())
def test_pipelines_keep_what_a_graph_computes(pipeline: passes.Pipeline, g: Graph) -> None:
    given = arguments(g)
    for found, wanted in zip(pipeline(g).run(*given), g.run(*given), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_graph_is_compiled_after_the_standard_passes_or_those_that_are_named() -> None:
    g = normalised("neg", "neg")
    assert [node.operator for node in g.compile().graph.nodes] == ["linear"]
    assert [node.operator for node in g.compile(passes=()).graph.nodes] == ["linear", "neg", "neg", "batch_norm"]
    assert [node.operator for node in g.compile(passes=passes.simplify).graph.nodes] == ["linear", "batch_norm"]
    assert [node.operator for node in g.compile(passes=(passes.dead_code, passes.simplify)).graph.nodes] == ["linear", "batch_norm"]
