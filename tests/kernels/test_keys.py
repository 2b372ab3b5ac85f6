"""A key says what a program is, where it runs and how it is called, and nothing of how anybody wrote it."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import tensorlang as tl
from tensorlang import kernels
from tensorlang.definition.first_use import by_first_use
from tensorlang.definition.tensor import Placeholder, Scan, Tensor, definitions, serial
from tensorlang.serialization.canonical import describe, extents, family, fingerprint
from tensorlang.serialization.rebuild import rebuild
from tests.draws import examples
from tests.kernels.programs import CONV, TARGET, product
from tests.strategies import Program, programs


def remade(document: dict[str, Any]) -> tuple[Tensor, ...]:
    """The program with its operands made in the opposite order: where one is read, its number is another one."""
    entries = document["definitions"]
    places = [place for place, entry in enumerate(entries) if entry["kind"] == "placeholder"]
    moved = dict(zip(places, reversed(places), strict=True))
    numbers: dict[int, int] = {}  # of tensors, which stages with several results have more of than definitions
    count = 0
    firsts = []
    for entry in entries:
        firsts.append(count)
        count += len(entry["values"]) if entry["kind"] in ("stage", "recurrence") else 1
    for old, new in moved.items():
        numbers[firsts[old]] = firsts[new]

    def renumbered(node: Any) -> Any:
        if isinstance(node, list) and node and node[0] == "load":
            return ["load", numbers.get(node[1], node[1]), *map(renumbered, node[2:])]
        return [renumbered(part) for part in node] if isinstance(node, list) else node

    changed = [
        entries[moved[place]] if place in moved else {**entry, "values": renumbered(entry["values"])} for place, entry in enumerate(entries)
    ]
    return rebuild({**document, "definitions": changed})


@examples(40)
@given(programs())
def test_the_order_in_which_operands_were_made_is_no_part_of_a_program(program: Program) -> None:
    document = describe(program.outputs)
    kinds = [entry["kind"] for entry in document["definitions"]]
    front = kinds.count("placeholder")
    if any(kind not in ("placeholder", "stage", "recurrence") for kind in kinds) or "placeholder" in kinds[front:]:
        return  # only operands that stand before all stages can change places by number alone
    other = remade(document)
    assert fingerprint(other) == fingerprint(program.outputs)
    assert (family(other), extents(other)) == (family(program.outputs), extents(program.outputs))


def test_independent_stages_count_in_the_order_in_which_they_are_needed() -> None:
    def made(*, swapped: bool) -> Tensor:
        X = tl.placeholder((4,), name="X")
        bodies = {"a": lambda i: X[i] * 2.0, "b": lambda i: tl.exp(X[i])}
        parts = {name: tl.compute((4,), bodies[name], name=name) for name in (("b", "a") if swapped else ("a", "b"))}
        result: Tensor = tl.compute((4,), lambda i: parts["a"][i] - parts["b"][i], name="Y")
        return result

    assert fingerprint(made(swapped=True)) == fingerprint(made(swapped=False))


def test_the_stages_of_a_scans_step_count_in_the_order_in_which_they_are_needed() -> None:
    def made(*, swapped: bool) -> Tensor:
        X, W = (tl.placeholder((5,), name=name) for name in "XW")

        def step(t: Any, s: Tensor) -> Any:
            def first() -> Any:
                return tl.compute((5,), lambda i: s[i] * X[i])

            def second() -> Any:
                return tl.compute((5,), lambda i: tl.tanh(s[i] + W[i]))

            if swapped:
                b, a = second(), first()
            else:
                a, b = first(), second()
            return tl.compute((5,), lambda i: a[i] - b[i])

        result: Tensor = tl.scan(step, X, 3)
        return result

    assert fingerprint(made(swapped=True)) == fingerprint(made(swapped=False))
    scan = next(part for part in definitions((made(swapped=True),)) if isinstance(part, Scan))
    assert len(scan.body) == 3


def test_a_chain_of_thousands_of_stages_has_an_order() -> None:
    X = tl.placeholder((2,), name="X")
    tensor: Any = X
    for _ in range(3000):
        before = tensor
        tensor = tl.compute((2,), lambda i, before=before: before[i] + 1.0)
    order = by_first_use((tensor,))
    assert isinstance(order[0], Placeholder) and len(order) == 3001 and order[-1] is tensor.definition
    assert serial() > order[-1].order


def by_hand(A: Tensor, B: Tensor) -> Tensor:
    r = tl.reduce_axis(8)
    result: Tensor = tl.compute((12, 20), lambda x, y: tl.sum(A[x, r] * B[r, y], axis=r))
    return result


@pytest.mark.parametrize(
    "spelled",
    [
        lambda A, B: tl.einsum("ik,kj->ij", A, B),
        tl.tc("def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"),
        by_hand,
    ],
)
def test_a_key_does_not_ask_how_a_program_was_spelled_named_or_ordered(spelled: Any) -> None:
    wanted = kernels.key(product(), TARGET)
    B, A = tl.placeholder((8, 20), name="weight"), tl.placeholder((12, 8))
    assert kernels.key(spelled(A, B), TARGET) == wanted
    assert kernels.key(product(weight_first=True), TARGET) == wanted
    assert kernels.key(kernels.Spec("matmul", ((12, 8), (8, 20))), TARGET) == wanted


def test_every_difference_makes_another_key() -> None:
    def bias(value: Any, i: Any, j: Any) -> Any:
        return value + 1.0

    C = product()
    found = [
        kernels.key(C, TARGET),
        kernels.key(product(13), TARGET),
        kernels.key(product(dtype="float64"), TARGET),
        kernels.key(C, "x86-64-v4"),
        kernels.key(C, f"{TARGET},-fma"),
        kernels.key(C, TARGET, threads=1),
        kernels.key(C, TARGET, threads=2),
        kernels.key(C, TARGET, constants=("A",)),
        kernels.key(C, TARGET, constants=("B",)),
        kernels.key(C, TARGET, constants=("A", "B")),
        kernels.key(C, TARGET, epilogue=bias),
        kernels.key(C, TARGET, epilogue=lambda value, i, j: value + 2.0),
        kernels.key(C, TARGET, prologue={"A": bias}),
        kernels.key(C, TARGET, prologue={"B": bias}),
        kernels.key(CONV, TARGET),
        kernels.key(kernels.Spec("conv2d", CONV.shapes, attributes={"stride": 1, "padding": 1}), TARGET),
    ]
    assert len(set(found)) == len(found)


def test_constants_are_counted_by_place_not_by_name() -> None:
    named = product(names="XWY", weight_first=True)
    assert kernels.key(named, TARGET, constants=("W",)) == kernels.key(product(), TARGET, constants=["B"])


def test_keys_are_the_same_in_every_process_for_a_named_target_on_any_number_of_cores() -> None:
    code = textwrap.dedent("""
        import os
        if {alone}:
            os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
        import tensorlang as tl
        from tensorlang import kernels
        {order}
        print(kernels.key(tl.ops.matmul(A, B), "x86-64-v3"), kernels.key(tl.ops.softmax(A), "znver4", constants=("A",)))
    """)
    a, b = 'A = tl.placeholder((12, 8), name="A")', 'B = tl.placeholder((8, 20), name="B")'
    root = str(Path(__file__).parents[2])
    printed = set()
    for seed, order, alone in (("1", f"{a}; {b}", False), ("2", f"{b}; {a}", True)):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root}
        script = code.format(order=order, alone=alone)
        printed.add(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env).stdout)
    assert len(printed) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constants": ("Z",)}, "which is no operand"),
        ({"constants": "B"}, "takes names of operands"),
        ({"threads": 0}, "threads= is a number"),
        ({"threads": True}, "threads= is a number"),
        ({"target": "znver99"}, "znver99"),
    ],
)
def test_what_no_key_can_be_of_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(tl.BuildError, match=message):
        kernels.key(product(), **{"target": TARGET, **options})
