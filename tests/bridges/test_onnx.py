"""Models of ONNX: its own node tests are the oracle, shape plumbing vanishes, what has no translation is named."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import graph
from tests.bridges.onnx_models import helper, model, onnx

conformance: Any = pytest.importorskip("tensorlang.bridges.onnx.conformance")
pytestmark = pytest.mark.extras("onnx")


PARTS = 4
"""Tests that workers share: a fifth takes more than two minutes of a processor."""


@pytest.mark.timeout(900)  # on a machine that does other work as well
@pytest.mark.parametrize("part", range(PARTS))
def test_a_fifth_of_the_node_tests_of_onnx_is_as_listed(part: int) -> None:
    """Run as kernels: what is not on the list passes, and what is on it does not."""
    fifth, listed = conformance.chosen(conformance.cases(), Fraction(1, 5)), conformance.expected()
    assert len(fifth) == 377 and len(listed) <= 130
    found = list(conformance.run(fifth[part::PARTS], jobs=1))
    assert len(found) == len(fifth[part::PARTS])
    assert not conformance.unexpected(found, listed), conformance.table(found, listed)


def test_a_list_that_is_wrong_is_told() -> None:
    """In both directions; what is written is what happened, with the reasons that stood there."""
    found = [conformance.Outcome("good", None, 0.0), conformance.Outcome("bad", "Foo: no", 0.0), conformance.Outcome("worse", "x", 0.0)]
    assert not conformance.unexpected(found, {"bad": "Foo: no", "worse": "said"})
    wrong = conformance.unexpected(found, {"good": "said", "worse": "said"})
    assert wrong == ["good passes, and is listed: said", "bad should pass: Foo: no"]
    assert json.loads(conformance.written(found, {"worse": "said"}))["reasons"] == {"Foo: no": ["bad"], "said": ["worse"]}
    assert "    2  not passed" in conformance.table(found, {})


def test_a_test_that_ends_its_process_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    class Case:
        def __init__(self, name: str) -> None:
            self.name = name

    monkeypatch.setattr(conformance, "checked", lambda case: os._exit(3) if case.name == "b" else None)
    found = {one.name: one.reason for one in conformance.run([Case(name) for name in "abcd"], jobs=1)}
    assert found == {"a": None, "b": "ended its process with code 3", "c": None, "d": None}


def test_a_backend_prepares_and_runs_models_and_nodes() -> None:
    from tensorlang.bridges.onnx import Backend

    w, b, x = (np.random.default_rng(seed).standard_normal(shape).astype("f4") for seed, shape in enumerate([(5, 4), (5,), (3, 4)]))
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1), helper.make_node("Relu", ["h"], ["y"])]
    made = model(nodes, {"x": (3, 4)}, ["y"], {"w": w, "b": b})
    wanted = np.maximum(x @ w.T + b, 0)
    for (found,) in (Backend.prepare(made).run([x]), Backend.run_model(made, [x])):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(Backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [x])[0], np.maximum(x, 0))
    assert Backend.is_compatible(made) and Backend.supports_device("CPU") and not Backend.supports_device("CUDA")
    assert not Backend.is_compatible(model([helper.make_node("NonZero", ["x"], ["y"])], {"x": (3, 4)}, ["y"], {}))
    with pytest.raises(tl.BuildError, match="kernels run on the device 'CPU', not on 'CUDA'"):
        Backend.prepare(made, "CUDA")


def untyped() -> Any:
    made = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (3,)}, ["y"], {})
    made.graph.input[0].type.tensor_type.ClearField("shape")
    return made


def of_words() -> Any:
    made = model([helper.make_node("Identity", ["x"], ["y"])], {"x": (3,)}, ["y"], {})
    made.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.STRING
    return made


def beside_the_model() -> Any:
    """A path that leads out of the folder of the model is not even looked at."""
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (3,)}, ["y"], {"w": np.ones(3, "f4")})
    made.graph.initializer[0].ClearField("raw_data")
    made.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    made.graph.initializer[0].external_data.add(key="location", value="../../etc/passwd")
    return made


def cut_short() -> Any:
    """Nothing is allocated for the extents that a tensor claims."""
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (3,)}, ["y"], {"w": np.ones(3, "f4")})
    made.graph.initializer[0].dims[0] = 1 << 40
    return made


def without_opset() -> Any:
    made = model([], {"x": (3,)}, ["x"], {})
    del made.opset_import[:]
    return made


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: model([helper.make_node("Reluu", ["x"], ["y"])], {"x": (3,)}, ["y"], {}),
            "Reluu y: Reluu has no translation; did you mean 'Relu'",
        ),
        (lambda: model([helper.make_node("Foo", ["x"], ["y"], domain="acme")], {"x": (3,)}, ["y"], {}), "acme.Foo has no translation"),
        (
            lambda: model([helper.make_node("Relu", ["z"], ["y"], name="n")], {"x": (3,)}, ["y"], {}),
            "Relu n: the operand 'z' is made by no node",
        ),
        (
            lambda: model([helper.make_node("Relu", ["b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])], {"x": (3,)}, ["b"], {}),
            "Relu a: the operand 'b' is made by no node before; a later node makes it: .* in no cycle",
        ),
        (untyped, "the input 'x' is no tensor of a known number of axes"),
        (of_words, "the input 'x' is of words, and tensors hold numbers and truth values"),
        (beside_the_model, "the elements of 'w' stand in a file of their own, which onnx.load"),
        (cut_short, "the initializer 'w': .*reshape"),
        (
            lambda: model([helper.make_node("DequantizeLinear", ["", "w"], ["y"])], {}, ["y"], {"w": np.ones((), "f4")}),
            "operand 0 is missing",
        ),
        (lambda: model([helper.make_node("LSTM", ["x", "", ""], ["y"])], {"x": (3, 2, 5)}, ["y"], {}), "the weights of the input and"),
        (without_opset, "the model does not say of which opset it is"),
        (lambda: model([], {"x": (3,)}, ["y"], {}), "the output 'y' of the model is made by no node"),
        (
            lambda: model([helper.make_node("Add", ["x", "x"], ["y"])], {"x": (3,)}, ["y"], {}, opset=6),
            "Add y: Add of opset 6 has no translation: at least 7 is needed; onnx.version_converter converts the model",
        ),
        (lambda: model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (3,)}, ["y"], {"w": np.ones(2, "f4")}), "Add y: .*do not fit"),
        (lambda: model([helper.make_node("Reshape", ["x", "x"], ["y"])], {"x": (3,)}, ["y"], {}), "has to be constant"),
        (lambda: "model.onnx", "takes an onnx.ModelProto, as onnx.load gives it, not a str"),
    ],
)
def test_what_has_no_translation_is_refused_with_its_node(made: Any, message: str) -> None:
    with pytest.raises(tl.GraphError, match=message):
        graph.from_onnx(made())


# The page ---------------------------------------------------------------------------------------------------------------


def test_the_page_gives_the_list_as_it_is() -> None:
    page = (Path(__file__).parents[2] / "docs" / "graph.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", page.partition("## From ONNX")[2], flags=re.MULTILINE)
    listed = Counter(conformance.expected().values())
    assert {reason: int(number) for number, reason in rows} == dict(listed)
    assert f"{1884 - sum(listed.values()):,} pass" in page
