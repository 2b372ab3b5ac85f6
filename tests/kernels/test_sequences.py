"""Sequences: many kernels as one function compute what they do one by one, and what does not fit is refused before it runs."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tensorlang as tl
from tensorlang import kernels
from tensorlang.kernels import Call, Copy, Port, Slot, Together

F32 = tl.dtype("float32")
SHAPE = (4, 6)
BYTES = 96


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def kernel(function=tl.ops.relu, operands: int = 1, **options) -> kernels.ServedKernel:
    tensors = [tl.placeholder(SHAPE, name=f"x{number}") for number in range(operands)]
    return kernels.compile(function(*tensors), inputs=tuple(tensors), **options)


def add(x: tl.Tensor, y: tl.Tensor) -> object:
    return tl.compute(SHAPE, lambda i, j: x[i, j] + y[i, j], name="add")


X, Y = Port("x", SHAPE, F32), Port("y", SHAPE, F32)
OUT = Port("out", SHAPE, F32)


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_a_sequence_is_its_steps_one_by_one(data: st.DataObject) -> None:
    """Random programs on six places of an arena, of which the first holds what came in, against the same on arrays."""
    relu, both = kernel(), kernel(add, 2)
    held = array(*SHAPE, seed=9)
    x = array(*SHAPE)
    places = {0: np.maximum(x, 0)}
    steps: list[Call | Copy | Together] = [Call(relu, (Slot.input(0),), (Slot.arena(0),))]
    for _ in range(data.draw(st.integers(1, 12))):
        source, other = (data.draw(st.sampled_from(sorted(places))) for _ in range(2))
        target = data.draw(st.sampled_from([place for place in range(6) if place not in (source, other)]))
        kind = data.draw(st.sampled_from(["relu", "add", "held", "copy"]))
        at, to = Slot.arena(128 * source), Slot.arena(128 * target)
        if kind == "relu":
            steps.append(Call(relu, (at,), (to,)))
            places[target] = np.maximum(places[source], 0)
        elif kind == "copy":
            steps.append(Copy(at, to, (6, 4), (1, 6), (4, 1), 4))
            places[target] = places[source].reshape(4, 6).T.copy().reshape(SHAPE)
        else:
            second = Slot.constant(held) if kind == "held" else Slot.arena(128 * other)
            steps.append(Call(both, (at, second), (to,)))
            places[target] = places[source] + (held if kind == "held" else places[other])
    last = data.draw(st.sampled_from(sorted(places)))
    steps.append(Copy(Slot.arena(128 * last), Slot.output(0), SHAPE, (6, 1), (6, 1), 4))
    made = kernels.sequence("random", [X], [OUT], steps, arena=6 * 128)
    for _ in range(2):  # the careful way, then in machine code
        np.testing.assert_array_equal(made(x), places[last])


@given(st.permutations(range(3)), st.sampled_from(["int8", "float16", "float32", "float64"]), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_a_copy_puts_each_element_where_strides_say(dims: list[int], dtype: str, step: int) -> None:
    source = np.arange(2 * 3 * 4 * step).astype(dtype).reshape(2, 3, 4 * step)
    wanted = source[..., ::step].transpose(dims)
    size = source.itemsize
    strides = tuple(part // size for part in wanted.strides)
    plain = tuple(part // size for part in np.empty(wanted.shape, dtype).strides)
    ports = [Port("x", source.shape, tl.dtype(dtype))], [Port("out", wanted.shape, tl.dtype(dtype))]
    made = kernels.sequence("copy", *ports, [Copy(Slot.input(0), Slot.output(0), wanted.shape, strides, plain, size)])
    np.testing.assert_array_equal(made(source), wanted)


def test_a_sequence_takes_what_a_kernel_takes() -> None:
    made = kernels.sequence("two", [X, Y], [OUT, Port("sum", SHAPE, F32)], [
        Call(kernel(), (Slot.input(0),), (Slot.output(0),)),
        Call(kernel(add, 2), (Slot.input(1), Slot.output(0)), (Slot.output(1),)),
    ])  # fmt: skip
    x, y = array(*SHAPE), array(*SHAPE, seed=1)
    out = (np.empty_like(x), np.empty_like(x))
    for passed in ((x, y), (x, y), (np.asfortranarray(x), memoryview(y))):
        one, both = made(*passed)
        np.testing.assert_array_equal(one, np.maximum(x, 0))
        np.testing.assert_array_equal(both, np.maximum(x, 0) + y)
    assert made(y=y, x=x, out=out)[0] is out[0]
    np.testing.assert_array_equal(out[1], np.maximum(x, 0) + y)


def test_lanes_side_by_side_give_the_same_bits() -> None:
    left, right = tl.placeholder(SHAPE, name="left"), tl.placeholder((6, 6), name="right")
    product = kernels.compile(tl.ops.matmul(left, right), inputs=(left, right))
    w = array(6, 6, seed=2)
    calls = [Call(product, (Slot.input(0), Slot.constant(w)), (Slot.output(number),)) for number in range(3)]
    outputs = [Port(f"out{number}", SHAPE, F32) for number in range(3)]
    alone = kernels.sequence("lanes", [X], outputs, calls)
    x = array(*SHAPE)
    for threads in (1, 2, None):
        beside = kernels.sequence("lanes", [X], outputs, [Together(tuple((call,) for call in calls))], threads=threads)
        for _ in range(3):
            for found, wanted in zip(beside(x), alone(x), strict=True):
                np.testing.assert_array_equal(found, wanted)


def test_calls_at_one_time_have_an_arena_each() -> None:
    relu = kernel()
    steps = [
        Call(relu, (Slot.input(0),), (Slot.arena(0),)),
        *[Call(relu, (Slot.arena(128 * n),), (Slot.arena(128 * (n + 1)),)) for n in range(30)],
    ]
    made = kernels.sequence(
        "long", [X], [OUT], [*steps, Call(relu, (Slot.arena(30 * 128),), (Slot.output(0),))], arena=31 * 128 + (1 << 16)
    )
    assert made.arena_bytes > 1 << 16
    wrong: list[int] = []

    def call(seed: int) -> None:
        x = array(*SHAPE, seed=seed)
        wrong.extend(seed for _ in range(300) if not np.array_equal(made(x), np.maximum(x, 0)))

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    tl.release_workspaces()
    x = array(*SHAPE)
    np.testing.assert_array_equal(made(x), np.maximum(x, 0))


@pytest.mark.parametrize("count", [3, 7, 13, 20, 40, 100])
def test_any_number_of_inputs_and_operands(count: int) -> None:
    tensors = [tl.placeholder((5,), name=f"x{number}") for number in range(count)]
    total = tl.compute((5,), lambda i: sum((tensor[i] for tensor in tensors[1:]), tensors[0][i]), name="total")
    summed = kernels.compile(total, inputs=tuple(tensors))
    ports = [Port(f"x{number}", (5,), F32) for number in range(count)]
    made = kernels.sequence(
        "many", ports, [Port("out", (5,), F32)], [Call(summed, tuple(map(Slot.input, range(count))), (Slot.output(0),))]
    )
    given = [array(5, seed=seed) for seed in range(count)]
    for _ in range(2):
        np.testing.assert_array_equal(made(*given), summed(*given))


def test_a_workspace_lies_in_the_arena() -> None:
    soft = kernels.compile(WIDE)
    assert soft.workspace_bytes
    place = 128
    port = Port("x", (64, 5000), F32)
    call = Call(soft, (Slot.input(0),), (Slot.output(0),), workspace=Slot.arena(place))
    x = array(64, 5000)
    made = kernels.sequence("wide", [port], [Port("out", (64, 5000), F32)], [call], arena=place + soft.workspace_bytes)
    tl.release_workspaces()
    np.testing.assert_array_equal(made(x), soft(x))
    with pytest.raises(tl.BuildError, match="the workspace takes"):
        kernels.sequence("wide", [port], [Port("out", (64, 5000), F32)], [call], arena=place + soft.workspace_bytes - 1)
    aside = Call(soft, (Slot.input(0),), (Slot.output(0),), workspace=Slot.arena(8))
    with pytest.raises(tl.BuildError, match="a workspace lies in the arena, at a multiple of 64"):
        kernels.sequence("wide", [port], [Port("out", (64, 5000), F32)], [aside], arena=place + soft.workspace_bytes)


WIDE_X = tl.placeholder((64, 5000), name="x")
_twice = tl.compute((64, 5000), lambda i, j: WIDE_X[i, j] * 2.0, name="twice")
WIDE = tl.compute((64, 5000), lambda i, j: _twice[i, j] + _twice[i, 4999 - j], name="ends")
N = tl.dim("n", 1, 8)


def ranged() -> kernels.ServedKernel:
    return kernels.compile(tl.ops.relu(tl.placeholder((N, 6), name="rows")))


def of_rows(dims: Any) -> Call:
    return Call(ranged(), (Slot.input(0),), (Slot.output(0),), dims)


def relu_of(slot: Slot, result: Slot = Slot.output(0)) -> Call:  # noqa: B008 - a value
    return Call(kernel(), (slot,), (result,))


ODD = np.frombuffer(bytes(97), np.uint8)[1:].view(np.float32).reshape(SHAPE)
REFUSED: dict[str, tuple[Callable[[], Call | Copy | Together], str]] = {
    "beyond an input": (lambda: relu_of(Slot.input(0, 4)), "operand 'x0' takes 96 bytes from 4 on, and its input has 96"),
    "before an input": (lambda: relu_of(Slot.input(0, -4)), "operand 'x0' takes 96 bytes from -4 on"),
    "no such input": (lambda: relu_of(Slot.input(1)), "operand 'x0' takes 96 bytes from 0 on, and its input has 0"),
    "beyond the arena": (lambda: relu_of(Slot.input(0), Slot.arena(64)), "result 'relu' takes 96 bytes from 64 on, and its arena has 128"),
    "another memory": (lambda: relu_of(Slot.input(0), Slot("Output", 0)), "'input', 'output', 'arena', 'array', not in 'Output'"),
    "a list": (lambda: relu_of(Slot.constant([1.0])), "a constant is a NumPy array, not [1.0]; pass np.asarray of it"),
    "objects": (lambda: relu_of(Slot.constant(np.array([None] * 24))), "a constant of object holds references, and not numbers"),
    "another type": (
        lambda: relu_of(Slot.constant(np.ones(SHAPE))), "operand 'x0' is float32, and the constant given for it float64"
    ),
    "between bytes": (lambda: relu_of(Slot.constant(ODD)), "operand 'x0' is at byte 0 of an array that may not be aligned"),
    "a number in words": (lambda: relu_of(Slot.input("a")), "a slot has a whole number and an offset in bytes, below 2**62, not 'a'"),
    "a number with a fraction": (lambda: relu_of(Slot.input(0.0)), "below 2**62, not 0.0"),
    "no offset": (lambda: relu_of(Slot.input(0, None)), "below 2**62, not None"),
    "no operands": (lambda: Call(kernel(), None, None), "operands are slots in a tuple, not None"),
    "no slots": (lambda: Call(kernel(), (0,), (1,)), "a place is a slot, as Slot.input(0), not 0"),
    "no kernel": (lambda: Call(3, (Slot.input(0),), (Slot.output(0),)), "step 0: a call is of a kernel as kernels.compile"),
    "a size in words": (lambda: of_rows({"n": "3"}), "the dim n is a whole number, not '3'"),
    "no size": (lambda: of_rows({"n": None}), "the dim n is a whole number, not None"),
    "no dims": (lambda: of_rows(None), "the kernel, which are n, to sizes, not None"),
    "other dims": (lambda: Call(kernel(), (Slot.input(0),), (Slot.output(0),), {"q": 1}), "which are none, to sizes, not {'q': 1}"),
    "a copy of nothing": (lambda: Copy(Slot.input(0), Slot.output(0), None, None, None, 4), "whole numbers in a tuple, not None"),
    "a copy of text": (lambda: Copy(Slot.input(0), Slot.output(0), "ab", (1, 1), (1, 1), 4), "in a tuple, not 'ab'"),
    "an endless copy": (lambda: Copy(Slot.input(0), Slot.output(0), (1 << 70,), (0,), (0,), 4), "a copy has at most 2**48 elements"),
    "no lanes": (lambda: Together(None), "lanes are tuples of calls and copies in a tuple, not None"),
    "a lane that is none": (lambda: Together((3,)), "lanes are tuples of calls and copies in a tuple, not (3,)"),
    "a step that is none": (lambda: Together(((3,),)), "a lane holds calls and copies, not 3"),
    "an array that is too short": (lambda: relu_of(Slot.constant(array(23))), "and its array has 92"),
    "into an input": (lambda: relu_of(Slot.input(0), Slot.input(1)), "its input has 0"),
    "over an input": (lambda: relu_of(Slot.arena(0), Slot.input(0)), "result 'relu' would be written into an input, which is read alone"),
    "over itself": (lambda: relu_of(Slot.arena(0), Slot.arena(32)), "result 'relu' overlaps operand 'x0'"),
    "from nowhere": (lambda: relu_of(Slot.arena(0)), "'x0' would be read from bytes of the arena that no step before has"),
    "from a result": (
        lambda: Copy(Slot.output(0), Slot.arena(0), (6,), (1,), (1,), 4), "the source would be read from bytes of the output"
    ),
    "between elements": (lambda: relu_of(Slot.arena(2)), "operand 'x0' is at byte 2, which is no place of float32"),
    "too many": (lambda: Call(kernel(), (Slot.input(0), Slot.input(0)), (Slot.output(0),)), "gives 1 results, not 2 and 1"),
    "a dim": (lambda: Call(ranged(), (Slot.input(0),), (Slot.output(0),)), "the dim 'n' of relu(rows: float32[n, 6]"),
    "a size": (lambda: Call(ranged(), (Slot.input(0),), (Slot.output(0),), {"n": 9}), "the dim n is from 1 to 8, and not 9"),
    "too many rows": (lambda: Call(ranged(), (Slot.input(0),), (Slot.output(0),), {"n": 5}), "takes 120 bytes from 0 on"),
    "backwards": (lambda: Copy(Slot.input(0), Slot.output(0), (24,), (-1,), (1,), 4), "a copy has a stride from 0 on for each axis"),
    "a long copy": (lambda: Copy(Slot.input(0), Slot.output(0), (25,), (1,), (1,), 4), "the source takes 100 bytes"),
    "lanes": (
        lambda: Together(((relu_of(Slot.input(0), Slot.arena(0)),), (relu_of(Slot.arena(0)),))),
        "operand 'x0' overlaps result 'relu' of a lane beside it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_step_that_does_not_fit_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(tl.BuildError, match=re.escape(message)):
        kernels.sequence("wrong", [X], [OUT], [make()], arena=128)


@pytest.mark.parametrize("parts", [(0, 12), (0, 13), (12, 0)])
def test_what_is_read_was_written_piece_by_piece(parts: tuple[int, int]) -> None:
    """24 numbers of an arena, of which each of two copies writes 12 from some place on."""
    steps = [Copy(Slot.input(0), Slot.arena(4 * first), (12,), (1,), (1,), 4) for first in parts]
    steps.append(relu_of(Slot.arena(0)))
    if 13 in parts:
        with pytest.raises(tl.BuildError, match="step 2, relu: operand 'x0' would be read from bytes of the arena that no step before"):
            kernels.sequence("pieces", [X], [OUT], steps, arena=128)
    else:
        x = np.arange(24, dtype="f4").reshape(SHAPE)
        assert np.array_equal(kernels.sequence("pieces", [X], [OUT], steps, arena=128)(x).ravel(), [*range(12)] * 2)


def test_a_result_that_no_step_writes_and_a_port_of_another_type_are_refused() -> None:
    for steps in ([], [relu_of(Slot.input(0), Slot.arena(0))]):
        with pytest.raises(tl.BuildError, match="wrong: no step writes the output 'out'"):
            kernels.sequence("wrong", [X], [OUT], steps, arena=128)
    with pytest.raises(tl.BuildError, match="operand 'x0' is float32, and the input 'x' int32"):
        kernels.sequence("wrong", [Port("x", SHAPE, tl.dtype("int32"))], [OUT], [relu_of(Slot.input(0))])
    assert kernels.sequence("empty", [X], [Port("out", (0, 3), tl.dtype("float32"))], [])(np.zeros(SHAPE, "f4")).shape == (0, 3)


@pytest.mark.parametrize(
    ("ports", "message"),
    [
        ([Port(3, SHAPE, F32)], "the name of a port is a string, not 3"),
        ([Port("x", SHAPE, "float99")], "the port 'x': 'float99' is not a tensorlang type"),
        ([Port("x", (4.0, 6), F32)], "the port 'x': its shape is made of whole numbers in a tuple, not (4.0, 6)"),
        ([Port("x", (-4, 6), F32)], "the port 'x': an extent is from 0 to 2**48, not -4"),
        ([Port("x", (1 << 40, 1 << 40), F32)], "is larger than any memory"),
        ([X, X], "inputs of a sequence have names of their own, and two are called 'x'"),
        ([X, 3], "inputs of a sequence are ports in a list or a tuple, not [Port("),
    ],
)
def test_a_port_that_is_no_array_is_refused(ports: list[Port], message: str) -> None:
    with pytest.raises(tl.BuildError, match=re.escape(message)):
        kernels.sequence("wrong", ports, [OUT], [])


def test_a_port_takes_the_name_of_a_type_and_any_whole_numbers() -> None:
    made = kernels.sequence("one", [Port("x", [np.int64(4), 6], "float32")], [OUT], [relu_of(Slot.input(np.int64(0), np.int64(0)))])
    x = array(*SHAPE)
    np.testing.assert_array_equal(made(x), np.maximum(x, 0))


@pytest.mark.parametrize("arena", [-1, 1 << 70, 1.0, True, None])
def test_an_arena_is_a_number_of_bytes(arena: object) -> None:
    with pytest.raises(tl.BuildError, match=r"arena= is a number of bytes, at most 2\*\*62, not"):
        kernels.sequence("wrong", [X], [OUT], [relu_of(Slot.input(0))], arena=arena)


def test_a_result_over_a_constant_is_refused_and_the_constant_stays() -> None:
    held = np.empty((3, *SHAPE), np.float32)
    held[:] = array(*SHAPE)
    before = held.copy()
    fixed = kernel(add, 2, constants={"x1": before[0]})
    steps = [
        Call(kernel(add, 2), (Slot.constant(held[0]), Slot.constant(held[2])), (Slot.output(0),)),
        Call(fixed, (Slot.input(0),), (Slot.output(1),)),
    ]
    made = kernels.sequence("two", [X], [OUT, Port("sum", SHAPE, F32)], steps)
    x, out = array(*SHAPE, seed=1), np.empty(SHAPE, np.float32)
    for _ in range(2):  # the careful way, then in machine code
        for over in (held[0], held[2]):
            with pytest.raises(tl.CallError, match="two: output 'sum' overlaps a constant of the sequence in memory; pass another array"):
                made(x, out=(out, over))
        np.testing.assert_array_equal(held, before)
        np.testing.assert_array_equal(made(x, out=(out, np.empty_like(out)))[0], 2 * before[0])
    made(x, out=(out, held[1]))  # between the two, which nothing reads
    np.testing.assert_array_equal(held[1], x + before[0])


def test_what_a_call_does_not_take_is_refused_by_name() -> None:
    made = kernels.sequence("one", [X], [OUT], [relu_of(Slot.input(0))])
    for _ in range(2):
        with pytest.raises(tl.CallError) as refused:
            made(array(*SHAPE), threads=2)
        assert str(refused.value) == (
            "one(x: float32[4, 6]) -> out: float32[4, 6]: there is no argument 'threads'; "
            "threads are said where it is made: kernels.sequence(..., threads=2)"
        )
        with pytest.raises(tl.CallError, match=re.escape("one(x: float32[4, 6]) -> out: float32[4, 6]: there is no argument 'y'; known:")):
            made(array(*SHAPE), y=3)
        with pytest.raises(tl.CallError, match=re.escape("one: argument 'x' (float32[4, 6]): expected shape (4, 6), got (6, 4)")):
            made(array(6, 4))
        x = array(*SHAPE)
        with pytest.raises(tl.CallError, match="overlaps 'x' in memory"):
            made(x, out=x)
    with pytest.raises(tl.CallError, match="expected a number of threads"):
        kernels.sequence("one", [X], [OUT], [relu_of(Slot.input(0))], threads=0)


def test_an_arena_that_is_nowhere_is_a_call_error() -> None:
    made = kernels.sequence("huge", [X], [OUT], [relu_of(Slot.input(0))], arena=1 << 46)
    x = array(*SHAPE)
    for _ in range(3):
        with pytest.raises(tl.CallError, match="huge: the arena of 70368744177664 bytes could not be allocated"):
            made(x)
