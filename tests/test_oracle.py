"""The second oracle of schedules: dependences of the unscheduled program by isl, held against what a scheduled nest finds when it runs."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import islpy
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.ir import Axis, Binary, Buffer, Load, Nest, Stmt, Store, const
from tensorlang.ir.dtype import DType
from tensorlang.ir.traverse import map_statements
from tensorlang.schedules.directives.join_reductions import JoinReductions
from tests.fuzz.replay import unproved
from tests.oracle import dependences, flow, question
from tests.oracle.dependences import decided
from tests.oracle.marks import marked, statements_of, unmarked
from tests.oracle.run import CONSTANT, run

ORACLE = Path(__file__).resolve().parent / "oracle"
Arrays = dict[str, np.ndarray[Any, Any]]


def prefix_sums() -> tuple[Any, Arrays]:
    """Each element is the one before plus its own."""
    A = tl.placeholder((5,), "int32", name="A")
    return tl.recurrence((5,), lambda i, self: self[i - 1] + A[i], name="C"), {"A": np.arange(5, dtype="i4")}


def product() -> tuple[Any, Arrays]:
    """A product after a stage that prepares an operand."""
    A, B = tl.placeholder((3, 4), "int32", name="A"), tl.placeholder((4, 2), "int32", name="B")
    P = tl.compute((3, 4), lambda i, k: A[i, k] * 2 + 1, name="P")
    k = tl.reduce_axis(4, name="k")
    C = tl.compute((3, 2), lambda i, j: tl.sum(P[i, k] * B[k, j], axis=k), name="C")
    return C, {"A": np.ones((3, 4), "i4"), "B": np.ones((4, 2), "i4")}


def last_writer() -> tuple[Any, Arrays]:
    """Elements that are set again and again, where data says."""
    I, V = tl.placeholder((6,), "int64", name="I"), tl.placeholder((6,), "int32", name="V")
    p = tl.reduce_axis(6, name="p")
    Z = tl.compute((3,), lambda i: tl.cast(i, "int32"), name="Z")
    H = tl.scatter(Z, p, lambda p: I[p], lambda p: V[p], reduce="set", where=lambda p: (I[p] >= 0) & (I[p] < 3), name="H")
    return H, {"I": np.array([0, 2, -1, 2, 1 << 40, 0]), "V": np.arange(6, dtype="i4")}


def state_of_a_scan() -> tuple[Any, Arrays]:
    """The last state of a scan, which is kept in two slots."""
    A = tl.placeholder((4,), "int32", name="A")
    W = tl.scan(lambda t, s: tl.compute((4,), lambda i: s[i] + tl.cast(t, "int32"), name="N"), A, 3, keep="last", name="W")
    return W, {"A": np.arange(4, dtype="i4")}


PROGRAMS = [prefix_sums, product, last_writer, state_of_a_scan]


def wrong(made: tuple[Any, Arrays], schedule: Callable[[Any], None] | None = None, *, proved: bool = True) -> str | None:
    """What the oracle says of a program under some steps."""
    outputs, arrays = made
    plain = tl.Schedule(outputs).nest
    arrays = {**arrays, **{buffer.name: np.zeros([int(n.value) for n in buffer.shape], buffer.dtype.numpy) for buffer in plain.outputs}}  # type: ignore[union-attr]
    nest = marked(plain)
    s = tl.Schedule(outputs)
    if schedule is not None:
        if proved:
            schedule(s)
        else:
            with unproved():
                schedule(s)
        for directive in s.directives:
            with unproved():
                nest = directive.apply(nest)
    assert unmarked(nest) == s.nest
    return question.violation(question.dependences(plain, arrays, {}), nest, arrays, {})


def interchanged(nest: Nest) -> Nest:
    """The two halves of the outermost block of a nest, the second first."""
    from tensorlang.ir import Alloc, Block

    def turned(stmt: Any) -> Any:
        if isinstance(stmt, Alloc):
            return dataclasses.replace(stmt, body=turned(stmt.body))
        assert isinstance(stmt, Block)
        return Block(stmt.body[::-1])

    return dataclasses.replace(nest, body=turned(nest.body))


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_dependence_of_an_unscheduled_program_points_forward(program: Callable[[], Any]) -> None:
    assert wrong(program()) is None


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_the_plain_nest_finds_is_what_isl_says_it_needs(program: Callable[[], Any]) -> None:
    """The two ways to the dependences of a program share nothing but the nest."""
    outputs, arrays = program()
    plain = tl.Schedule(outputs).nest
    arrays |= {buffer.name: np.zeros([int(n.value) for n in buffer.shape], buffer.dtype.numpy) for buffer in plain.outputs}
    needs = question.dependences(plain, arrays, {})
    ran, _ = run(marked(plain), arrays, {}, needs=needs)
    assert {instance: step.value - CONSTANT for step in ran.executed for instance in step.instances} == {
        instance: need.value for instance, need in needs.items() if not instance[0].startswith("the output")
    }


def test_a_legal_schedule_that_moves_everything_points_forward() -> None:
    def steps(s: Any) -> None:
        s.split("C.k", 3)
        s.reorder("C.k_o", "C.j", "C.k_i")
        s.compute_at("P", "C.k_o")
        s.cache_read("B", at="C.k_o")
        s.accumulate("C", at="C.j")
        s.parallel("C.i")

    assert wrong(product(), steps) is None


def test_an_inlined_producer_is_executed_where_its_reader_is() -> None:
    assert wrong(product(), lambda s: s.compute_inline("P")) is None


def test_an_element_whose_place_an_inlined_producer_gives_is_made_by_the_reader() -> None:
    B = tl.placeholder((4,), "int32", name="B")
    P = tl.compute((5,), lambda i: i * 3 + 1, name="P")
    C = tl.compute((5,), lambda i: B[P[i] % 4] + 1, name="C")
    assert wrong((C, {"B": np.arange(4, dtype="i4")}), lambda s: s.compute_inline("P")) is None


def test_a_producer_that_runs_after_its_reader_is_seen() -> None:
    outputs, arrays = product()
    plain = tl.Schedule(outputs).nest
    arrays["C"] = np.zeros((3, 2), "i4")
    said = question.violation(question.dependences(plain, arrays, {}), interchanged(marked(plain)), arrays, {})
    assert said is not None and "does not point forward: the first runs at" in said


def test_a_recurrence_that_runs_backwards_is_seen() -> None:
    said = wrong(prefix_sums(), lambda s: (s.split("C.i", 2), s.reorder("C.i_i", "C.i_o")), proved=False)  # type: ignore[func-returns-value]
    assert said is not None and said.startswith("C[1] -> C[2] does not point forward")


def test_the_order_of_stores_counts_where_the_last_one_wins() -> None:
    said = wrong(last_writer(), lambda s: (s.split("H.p", 3), s.reorder("H.p_i", "H.p_o")), proved=False)  # type: ignore[func-returns-value]
    assert said is not None and "the output H[" in said


def test_a_sum_may_take_any_order_but_no_term_twice() -> None:
    assert wrong(product(), lambda s: s.reorder("C.k", "C.i", "C.j")) is None
    said = wrong(product(), lambda s: s.split("C.k", 3, tail="shift"), proved=False)
    assert said is not None and "is combined twice into C[" in said


def test_a_count_that_is_lost_is_seen() -> None:
    """What is combined is one constant; a tile that holds an element twice would lose one of two."""
    I, p = tl.placeholder((4,), "int64", name="I"), tl.reduce_axis(4, name="p")
    Z = tl.compute((3,), lambda i: tl.cast(i, "int32"), name="Z")
    H = tl.scatter(Z, p, lambda p: tl.clamp(I[p], 0, 2), lambda p: tl.cast(1, "int32"), name="H")

    def tiled(s: Any) -> None:
        s.accumulate("H", at=s.split("H.p", 2)[0])

    assert wrong((H, {"I": np.array([0, 1, 2, 0])}), tiled, proved=False) is None
    said = wrong((H, {"I": np.array([0, 1, 2, 2])}), tiled, proved=False)
    assert said is not None and "the output H[2]" in said


def two_reductions() -> tuple[Any, Arrays]:
    """The sums and the maxima of rows, and a stage that reads both."""
    A = tl.placeholder((3, 4), "int32", name="A")
    k, r = tl.reduce_axis(4, name="k"), tl.reduce_axis(4, name="r")
    S = tl.compute((3,), lambda i: tl.sum(A[i, k], axis=k), name="S")
    M = tl.compute((3,), lambda i: tl.max(A[i, r] - 1, axis=r), name="M")
    D = tl.compute((3,), lambda i: S[i] - M[i], name="D")
    return (D, S), {"A": np.arange(12, dtype="i4").reshape(3, 4)}


def test_a_joined_reduction_is_one_instance_of_each_and_further_steps_keep_them_apart() -> None:
    def steps(s: Any) -> None:
        s.join_reductions("S", "M")
        s.split("M.r", 3)
        s.accumulate("S", at="M.i")
        s.parallel("M.i")

    assert wrong(two_reductions(), steps) is None


def test_components_of_a_joined_reduction_that_change_places_are_seen() -> None:
    outputs, arrays = two_reductions()
    plain = tl.Schedule(outputs).nest
    arrays |= {buffer.name: np.zeros(3, "i4") for buffer in plain.outputs}
    joined = JoinReductions("S", "M").apply(marked(plain))

    def swapped(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store) and len(stmt.buffers) == 2:
            return dataclasses.replace(stmt, buffers=stmt.buffers[::-1])
        return map_statements(stmt, swapped)

    said = question.violation(question.dependences(plain, arrays, {}), dataclasses.replace(joined, body=swapped(joined.body)), arrays, {})
    assert said is not None and "S[" in said and "M[" in said


def test_iterations_on_threads_are_not_ordered() -> None:
    said = wrong(product(), lambda s: s.parallel("C.k"), proved=False)
    assert said is not None and "not ordered" in said


def test_lanes_may_share_the_element_of_all_of_them_and_no_other() -> None:
    assert wrong(product(), lambda s: s.vectorize("C.k")) is None
    V, p = tl.placeholder((6,), "int32", name="V"), tl.reduce_axis(6, name="p")
    Z = tl.compute((3,), lambda i: tl.cast(i, "int32"), name="Z")
    halves = tl.scatter(Z, p, lambda p: p // 2, lambda p: V[p], name="H")
    said = wrong((halves, {"V": np.arange(6, dtype="i4")}), lambda s: s.vectorize("H.p"), proved=False)
    assert said is not None and "lanes combine into" in said


def test_data_decide_only_where_they_are_read_in_an_index_or_a_condition() -> None:
    assert decided(tl.Schedule(last_writer()[0]).nest)
    assert not decided(tl.Schedule(product()[0]).nest)


def test_statements_that_only_copy_have_no_mark() -> None:
    labels = {statement.label: statement.computes for statement in statements_of(tl.Schedule(state_of_a_scan()[0]).nest)}
    assert labels == {"W.start": False, "N": True, "W": False}


def test_the_oracle_shares_no_code_with_the_proofs_of_schedules() -> None:
    nodes = [node for file in ORACLE.glob("*.py") for node in ast.walk(ast.parse(file.read_text()))]
    imported = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    assert not {name for name in imported if "schedules" in name or "polyhedra" in name or "relations" in name}


def set_again(value: Callable[[Any, Any], Any]) -> tuple[Any, Arrays]:
    """Each element is set three times, to what a value says of its place and of the turn."""
    V = tl.placeholder((4,), "int32", name="V")
    p, q = tl.reduce_axis(4, name="p"), tl.reduce_axis(3, name="q")
    Z = tl.compute((4,), lambda i: tl.cast(i, "int32"), name="Z")
    H = tl.scatter(Z, (p, q), lambda p, q: p, lambda p, q: value(V[p], tl.cast(q, "int32")), reduce="set", name="H")
    return H, {"V": np.arange(4, dtype="i4")}


def another_last_turn(s: Any) -> None:
    """The partial tile of the turns is not last."""
    s.split("H.q", 2)
    s.reorder("H.q_i", "H.q_o")


@pytest.mark.parametrize("value", [lambda v, q: tl.abs(tl.cast(-3, "int32")), lambda v, q: v * 2])
def test_writes_of_one_value_may_stand_in_any_order(value: Callable[[Any, Any], Any]) -> None:
    assert wrong(set_again(value), another_last_turn) is None


def test_another_write_is_last_where_values_tell_the_turns_apart() -> None:
    assert "does not point forward" in str(wrong(set_again(lambda v, q: v + q), another_last_turn, proved=False))


def test_relations_that_take_isl_too_many_operations_to_read_are_too_much_and_others_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Either way isl speaks of a syntax error."""
    outputs, arrays = last_writer()
    plain = tl.Schedule(outputs).nest
    arrays |= {buffer.name: np.zeros(3, "i4") for buffer in plain.outputs}
    monkeypatch.setattr(flow, "MAX_OPERATIONS", 60)
    with pytest.raises(flow.TooMuch):
        question.dependences(plain, arrays, {})
    monkeypatch.setattr(dependences, "listed", lambda *_: ["s0[0] => b0[0]"])
    with pytest.raises(islpy.Error, match="syntax error"):
        question.dependences(plain, arrays, {})


def test_reads_that_cancel_are_not_missed() -> None:
    """`x - x` is 0 in a copy that was simplified; `x - y` needs both."""
    x = Load(Buffer("X", (const(8),), DType("int64")), (Axis("i"),))
    y = dataclasses.replace(x, index=(const(3),))
    assert dependences.without_effect(Binary("add", Binary("sub", x, x), y)) == {x}
    assert dependences.without_effect(Binary("sub", x, y)) == frozenset()
