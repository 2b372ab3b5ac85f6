"""Weights are swapped without a build: the graph with other constants is what is computed from then on, and nobody else notices."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.graph import Builder, CompiledGraph, Graph
from tensorlang.graph.execution.weights import with_weights
from tests.graph.graphs import array


def layers() -> Graph:
    b = Builder("layers")
    value = b.input((tl.dim("n", 1, 8), 6), name="x")
    for number in range(2):
        weight, bias = b.constant(array(6, 6, seed=number), f"weight{number}"), b.constant(array(6, seed=number + 5), f"bias{number}")
        value = b("relu", b("linear", value, weight, bias))
    return b.finish(b("mul", value, b.constant(np.float32(2), "two")))


def meant(compiled: CompiledGraph, x: np.ndarray) -> np.ndarray:
    return compiled.graph.run(x)[0]


def test_other_weights_are_used_from_then_on() -> None:
    compiled, other = layers().compile(), layers().compile()
    x = array(3, 6)
    before = compiled(x)[0]
    addresses = [kernel.address for kernel in compiled.kernels]
    changed = {"weight1": array(6, 6, seed=20), "bias0": array(6, seed=21)}
    compiled.load_weights(changed)
    assert [kernel.address for kernel in compiled.kernels] == addresses, "nothing is built"
    np.testing.assert_array_equal(compiled.graph.constant(compiled.graph.values["weight1"]), changed["weight1"])
    np.testing.assert_allclose(compiled(x)[0], meant(compiled, x), rtol=1e-4, atol=1e-5)
    assert not np.array_equal(compiled(x)[0], before)
    np.testing.assert_array_equal(other(x)[0], before)
    compiled.load_weights({name: other.graph.constant(other.graph.values[name]) for name in changed})
    np.testing.assert_array_equal(compiled(x)[0], before)


def test_an_array_that_is_changed_afterwards_changes_nothing() -> None:
    compiled = layers().compile()
    weight = array(6, 6, seed=20)
    compiled.load_weights({"weight0": weight, "bias1": (bias := array(6))})
    x = array(3, 6)
    before = compiled(x)[0]
    weight += 1
    bias += 1
    np.testing.assert_array_equal(compiled(x)[0], before)


def test_calls_meanwhile_see_the_weights_of_one_time() -> None:
    compiled = layers().compile(threads=1)
    x = array(3, 6)
    sets = [
        {f"{kind}{n}": array(*shape, seed=seed) for kind, shape in (("weight", (6, 6)), ("bias", (6,))) for n in range(2)}
        for seed in (30, 40)
    ]
    allowed = []
    for weights in sets:
        compiled.load_weights(weights)
        allowed.append(compiled(x)[0])
    wrong, stop = [], threading.Event()

    def call() -> None:
        while not stop.is_set():
            found = compiled(x)[0]
            if not any(np.array_equal(found, one) for one in allowed):
                wrong.append(found)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for turn in range(40):
        compiled.load_weights(sets[turn % 2])
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_weights_that_two_threads_load_at_once_are_both_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(graph: Graph, weights: Mapping[str, object]) -> Graph:
        found = with_weights(graph, weights)
        time.sleep(0.05)  # the other thread begins meanwhile
        return found

    compiled = layers().compile()
    monkeypatch.setattr("tensorlang.graph.execution.compiled.with_weights", slowly)
    loaded = {"weight0": array(6, 6, seed=30), "weight1": array(6, 6, seed=31)}
    threads = [threading.Thread(target=compiled.load_weights, args=({name: weight},)) for name, weight in loaded.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, weight in loaded.items():
        np.testing.assert_array_equal(compiled.graph.constant(compiled.graph.values[name]), weight)
    x = array(3, 6)
    np.testing.assert_allclose(compiled(x)[0], meant(compiled, x), rtol=1e-4, atol=1e-5)


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "a name": ({"weigth0": array(6, 6)}, "layers has no constant 'weigth0'; did you mean 'weight0' or 'weight1'?"),
    "a shape": ({"weight0": array(6, 5)}, "layers: constant weight0: float32[6, 6]: got float32[6, 5]"),
    "a type": ({"bias0": np.zeros(6)}, "layers: constant bias0: float32[6]: got float64[6]"),
    "no array": ({"bias0": "text"}, "layers: constant bias0: float32[6]: got <U4[]"),
    "a number": ({"two": np.float32(3)}, "layers: constant two: float32[()] is a number, which stands in the code of kernels"),
}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "weights of layers are a dict from names of constants to arrays, not None"),
        ([1], "weights of layers are a dict from names of constants to arrays, not [1]"),
        ({3: 1}, "weights of layers have the names of its constants, which are strings, not 3"),
    ],
)
def test_weights_that_are_no_dict_by_name_are_refused(given: object, message: str) -> None:
    with pytest.raises(tl.CallError, match=re.escape(message)):
        layers().compile().load_weights(given)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_such_weight_is_refused_and_changes_nothing(name: str) -> None:
    compiled = layers().compile()
    x = array(3, 6)
    before = compiled(x)[0]
    given, message = REFUSED[name]
    with pytest.raises(tl.CallError, match=re.escape(message)):
        compiled.load_weights({"weight1": array(6, 6, seed=50), **given})
    np.testing.assert_array_equal(compiled(x)[0], before)
