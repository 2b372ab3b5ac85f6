"""Definitions as JSON: the round trip keeps the meaning and every name, digests ignore names, and nothing hostile gets through."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.definition.tensor import Placeholder, Tensor, definitions
from tensorlang.serialization.canonical import describe, extents, family, fingerprint
from tensorlang.serialization.rebuild import rebuild
from tests.draws import examples
from tests.strategies import Program, programs


def matmul(M: Any, N: Any, K: Any, names: str = "ABC", dtype: str = "float32", axis: str = "k") -> Tensor:
    A, B = tl.placeholder((M, K), dtype, name=names[0]), tl.placeholder((K, N), dtype, name=names[1])
    k = tl.reduce_axis(K, name=axis)
    result: Tensor = tl.compute((M, N), lambda i, j: tl.sum(A[i, k] * B[k, j], axis=k), name=names[2])
    return result


def test_a_description_is_plain_json_without_serials() -> None:
    assert describe(matmul(5, 7, 3)) == {
        "schema": 1,
        "definitions": [
            {"kind": "placeholder", "name": "A", "shape": [5, 3], "dtype": "float32"},
            {"kind": "placeholder", "name": "B", "shape": [3, 7], "dtype": "float32"},
            {
                "kind": "stage",
                "name": "C",
                "rank": 2,
                "axes": ["i", "j", "k"],
                "shape": [5, 7],
                "values": [
                    [
                        "reduce",
                        0,
                        [["mul", ["load", 0, ["axis", 0], ["axis", 2]], ["load", 1, ["axis", 2], ["axis", 1]]]],
                        [[2, 0, 3]],
                        None,
                        0,
                    ]
                ],
            },
        ],
        "reducers": [
            {
                "name": "sum",
                "identities": [["const", "float32", "0x0.0p+0"]],
                "results": [["add", ["param", "a0", "float32"], ["param", "b0", "float32"]]],
            }
        ],
        "outputs": [2],
    }


@examples(60)
@given(programs())
def test_a_rebuilt_definition_is_described_alike_and_means_the_same(program: Program) -> None:
    document = json.loads(json.dumps(describe(program.outputs)))
    again = rebuild(document)
    assert describe(again) == document
    assert fingerprint(again) == fingerprint(program.outputs)
    assert family(again) == family(program.outputs)
    assert extents(again) == extents(program.outputs)
    operands = [Tensor(definition) for definition in definitions(again) if isinstance(definition, Placeholder)]
    order = sorted(program.feeds, key=lambda tensor: tensor.definition.order)
    feeds = {operand: program.feeds[tensor] for operand, tensor in zip(operands, order, strict=True)}
    for got, want in zip(tl.evaluate(again, feeds), tl.evaluate(program.outputs, program.feeds), strict=True):
        np.testing.assert_array_equal(got, want)


def test_special_literals_survive() -> None:
    X = tl.placeholder((3,), name="X")
    values = (float("nan"), float("inf"), -0.0, 1e-45, 0.1)
    outputs = tl.compute((3,), lambda i: tuple(X[i] + value for value in values), name="Y")
    again = rebuild(json.loads(json.dumps(describe(outputs), allow_nan=False)))
    x = np.array([0.0, -0.0, 1.0], "f4")
    feeds = {Tensor(definition): x for definition in definitions(again) if isinstance(definition, Placeholder)}
    for got, value in zip(tl.evaluate(again, feeds), values, strict=True):
        want = x + np.float32(value)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_a_fingerprint_ignores_names_and_nothing_else() -> None:
    base = fingerprint(matmul(5, 7, 3))
    assert fingerprint(matmul(5, 7, 3, names="XYZ", axis="depth")) == base
    assert fingerprint(matmul(5, 8, 3)) != base
    assert fingerprint(matmul(5, 7, 3, dtype="float64")) != base
    assert fingerprint(matmul(tl.dim("n"), 7, 3)) == fingerprint(matmul(tl.dim("m"), 7, 3)) != base
    assert fingerprint(matmul(tl.dim("n"), 7, tl.dim("n"))) != fingerprint(matmul(tl.dim("n"), 7, tl.dim("m")))


def test_a_fingerprint_does_not_ask_when_an_operand_was_made() -> None:
    def made(late: bool) -> Tensor:
        X = tl.placeholder((4,), name="X")
        W = None if late else tl.placeholder((4,), name="W")
        Y = tl.compute((4,), lambda i: X[i] * 2.0, name="Y")
        W = W or tl.placeholder((4,), name="W")
        result: Tensor = tl.compute((4,), lambda i: Y[i] + W[i], name="Z")
        return result

    assert fingerprint(made(late=True)) == fingerprint(made(late=False))


def test_a_family_is_one_operator_at_every_size() -> None:
    assert family(matmul(5, 7, 3)) == family(matmul(64, 32, 16))
    assert family(matmul(5, 7, 3)) != family(matmul(5, 7, 3, dtype="int32"))
    assert extents(matmul(5, 7, 3)) == (5, 3, 3, 7, 5, 7, 3)


def test_the_family_of_a_library_operator_does_not_depend_on_its_size() -> None:
    def norm(m: int, n: int) -> Tensor:
        return tl.ops.layer_norm(tl.placeholder((m, n), name="X"), n)

    def conv(size: int, channels: int, stride: int = 1) -> Tensor:
        X, W = tl.placeholder((1, channels, size, size), name="X"), tl.placeholder((8, channels, 3, 3), name="W")
        return tl.ops.conv2d(X, W, padding=1, stride=stride)

    assert family(norm(8, 512)) == family(norm(64, 96))
    assert family(conv(28, 64)) == family(conv(14, 32)) != family(conv(28, 64, stride=2))


def test_digests_are_the_same_in_every_process() -> None:
    code = textwrap.dedent("""
        import tensorlang as tl
        from tensorlang.serialization.canonical import family, fingerprint
        n = tl.dim("n")
        X = tl.placeholder((n, 9), name="X")
        Y = tl.ops.softmax(X)
        print(fingerprint(Y), family(Y))
    """)
    root = str(Path(__file__).parent.parent)
    environments = [{**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root} for seed in ("1", "2")]
    printed = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout for env in environments
    }
    assert len(printed) == 1


def test_names_survive_also_where_there_are_none() -> None:
    n = tl.dim("n")
    X = tl.placeholder((n,))
    k = tl.reduce_axis(n)
    Y = tl.compute((), lambda: tl.sum(X[k], axis=k))
    (again,) = rebuild(describe(Y))
    assert again.name is None
    assert describe(again) == describe(Y)
    assert repr(rebuild(describe(matmul(2, 3, 4)))[0]) == "C: float32[2, 3]"


@pytest.mark.parametrize("keep", [("all", "last"), ("last", "last"), ("all", "all")])
def test_what_a_scan_keeps_of_each_state_survives(keep: Any) -> None:
    A = tl.placeholder((3,), name="A")
    step = lambda t, s: (s[1], tl.compute((3,), lambda i: s[0][i] + s[1][i], name="sum"))  # noqa: E731
    outputs = tl.scan(step, (A, A), 4, keep=keep, name="F")
    again = rebuild(describe(outputs))
    assert describe(again) == describe(outputs)
    assert [tensor.shape for tensor in again] == [tensor.shape for tensor in outputs]
    assert (describe(tl.scan(step, (A, A), 4, keep="all", name="F")) == describe(outputs)) == (keep == ("all", "all"))


def test_one_definition_with_two_outputs_stays_one() -> None:
    X = tl.placeholder((3,), name="X")
    two = tl.compute((3,), lambda i: (X[i] + 1.0, X[i] * 2.0), name="Y")
    a, b = rebuild(describe(two))
    assert a.definition is b.definition
    assert (a.component, b.component) == (0, 1)


GOOD = describe((tl.ops.softmax(tl.placeholder((4, 6), name="X")), matmul(5, 7, 3)))


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(path for key, part in inner for path in paths(part, (*here, key)))]


WRONG: list[Any] = [
    None,
    True,
    -1,
    3,
    10**30,
    1.5,
    "x",
    "",
    "add",
    "C" * 1000,
    [],
    {},
    [[]],
    ["axis"],
    ["axis", 9],
    ["load", 0],
    ["reduce", 0, [], [], None, 0],
]


@examples(400)
@given(st.sampled_from(paths(GOOD)[1:]), st.sampled_from(WRONG))
def test_a_damaged_description_is_rebuilt_or_refused(path: tuple[Any, ...], wrong: Any) -> None:
    document = copy.deepcopy(GOOD)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = wrong
    try:
        again = rebuild(document)
    except tl.DefinitionError:
        return
    describe(again)


def stage(value: Any, **changes: Any) -> dict[str, Any]:
    """A description of one stage over X: float32[4]."""
    entry = {"kind": "stage", "name": "Y", "rank": 1, "axes": ["i", "k"], "shape": [4], "values": [value]} | changes
    operand = {"kind": "placeholder", "name": "X", "shape": [4], "dtype": "float32"}
    zero, total = ["const", "float32", "0x0.0p+0"], ["add", ["param", "a0", "float32"], ["param", "b0", "float32"]]
    reducer = {"name": "sum", "identities": [zero], "results": [total]}
    return {"schema": 1, "definitions": [operand, entry], "reducers": [reducer], "outputs": [1]}


def nested(depth: int) -> Any:
    value: Any = ["load", 0, ["axis", 0]]
    for _ in range(depth):
        value = ["neg", value]
    return value


X_I = ["load", 0, ["axis", 0]]
REFUSED = {
    "expected an object with the keys schema, definitions, reducers, outputs": [],
    "schema: expected 1, found a int (2)": {**GOOD, "schema": 2},
    r"outputs: expected a number from 0 to 1, found a int (2)": {**stage(X_I), "outputs": [2]},
    "definition 1, value 0: too large (at most 131072 nodes in all, 250 deep)": stage(nested(300)),
    "definition 1, value 0: 'gamma' is no expression here": stage(["gamma", X_I]),
    "definition 1, value 0: 'gamma' is no function": stage(["call", "gamma", "float32", X_I]),
    "definition 1, value 0: operands of different types, float32 and int64": stage(["add", X_I, 1]),
    "Y reads X[i + 1] outside X: float32[4]": stage(["load", 0, ["add", ["axis", 0], 1]]),
    "expected a number from 0 to 1, found a int (2)": stage(["load", 0, ["axis", 2]]),
    "expected a number from 0 to 0, found a int (1)": stage(["load", 1, ["axis", 0]]),
    "expected a literal of int64, found a int (of 101 bits)": stage(["load", 0, 1 << 100]),
    "expected a bound of at most 2**48": stage(X_I, shape=[1 << 50]),
    "expected an extent of at least 0": stage(X_I, shape=[-1]),
    "expected an extent made of literals and dims": stage(X_I, shape=[["load", 0, 0]]),
    "expected different axes that are not the output's": stage(["reduce", 0, [X_I], [[0, 0, 4]], None, 0]),
    "Y uses the axis 'k', which it does not own": stage(["load", 0, ["axis", 1]]),
    "sum takes float32, not int64": stage(["reduce", 0, [["axis", 1]], [[1, 0, 4]], None, 0]),
    "'two words' cannot name a tensor": stage(X_I, name="two words"),
    "'float31' is not a tensorlang type": stage(["cast", "float31", X_I]),
    "there is no arithmetic on bool": stage(["add", ["const", "bool", True], ["const", "bool", True]]),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_describe_does_not_write_is_refused(message: str) -> None:
    with pytest.raises(tl.DefinitionError) as refusal:
        rebuild(REFUSED[message])
    assert message in str(refusal.value)


def test_a_description_that_contains_itself_is_refused() -> None:
    loop: list[Any] = ["neg"]
    loop.append(loop)
    with pytest.raises(tl.DefinitionError, match="too large"):
        rebuild(stage(loop))


def test_the_deepest_expression_of_the_surface_survives() -> None:
    X = tl.placeholder((4,), name="X")

    def body(i: Any) -> Any:
        value = X[i]
        for _ in range(240):
            value = tl.sqrt(value)
        return value

    Y = tl.compute((4,), body, name="Y")
    assert fingerprint(rebuild(json.loads(json.dumps(describe(Y))))) == fingerprint(Y)
