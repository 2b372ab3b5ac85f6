"""A schedule is data: it prints, replays, answers questions, and refuses with a reason that teaches."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import tensorlang as tl
from tests.schedules.programs import blur, check, matmul, scale


def test_the_unscheduled_nest_reads_like_the_definition() -> None:
    assert (
        str(tl.Schedule(matmul(37, 53, 29)))
        == """\
C(A: float32[37, 29], B: float32[29, 53]) -> C: float32[37, 53]
    for i in range(37):
        for j in range(53):
            C[i, j] = 0.0                                    # C.init
    for i in range(37):
        for j in range(53):
            for k in range(29):
                C[i, j] += A[i, k] * B[k, j]                 # C"""
    )


def test_a_blocked_packed_register_tiled_matmul_prints_its_derived_axes() -> None:
    s = tl.Schedule(matmul(37, 53, 29))
    i, j, k = s.loops("C")
    io, ii = s.split(i, 6)
    jo, ji = s.split(j, 32)
    ko, ki = s.split(k, 8)
    s.reorder(jo, ko, io, ki, ii, ji)
    s.pack("B", at=ko)
    s.accumulate("C", at=io)
    s.vectorize(ji)
    s.unroll(ii)
    assert (
        str(s)
        == """\
C(A: float32[37, 29], B: float32[29, 53]) -> C: float32[37, 53]
    for j_o in range(2):                                     # j = 32 j_o + j_i   guard
        for k_o in range(4):                                 # k = 8 k_o + k_i   guard
            B_pack: float32[8, 32]
            for k_i in range(8):
                for j_i in range(32):
                    B_pack[k_i, j_i] = B[k, j]               # B_pack
            for i_o in range(7):                             # i = 6 i_o + i_i   guard
                C_acc: float32[6, 32] in registers
                if k_o == 0:
                    unroll i_i in range(6):
                        vector j_i in range(32):
                            C_acc[i_i, j_i] = 0.0            # C_acc.init
                else:
                    unroll i_i in range(6):
                        vector j_i in range(32):
                            C_acc[i_i, j_i] = C[i, j]        # C_acc.load
                for k_i in range(8):
                    unroll i_i in range(6):
                        vector j_i in range(32):
                            C_acc[i_i, j_i] += A[i, k] * B_pack[k_i, j_i] # C
                unroll i_i in range(6):
                    vector j_i in range(32):
                        C[i, j] = C_acc[i_i, j_i]            # C_acc.store"""
    )
    check(s)


def test_repr_is_the_python_that_rebuilds_the_schedule() -> None:
    C = matmul()
    s = tl.Schedule(C)
    s.split("i", 4, tail="peel", names=("io", "ii"))
    s.fuse("io", "ii", "f")
    s.vectorize("j")
    assert (
        repr(s)
        == "s = tl.Schedule(C)\ns.split('C.i', 4, tail='peel', names=('io', 'ii'))\ns.fuse('C.io', 'C.ii', name='f')\ns.vectorize('C.j')"
    )
    space: dict[str, Any] = {"tl": tl, "C": C}
    exec(repr(s), space)
    assert str(space["s"]) == str(s)
    assert space["s"].directives == s.directives


def test_a_tuple_of_outputs_is_the_same_as_outputs_one_by_one() -> None:
    x = tl.placeholder((4,), name="X")
    a, b = tl.compute((4,), lambda i: x[i] + 1, name="a"), tl.compute((4,), lambda i: x[i] * 2, name="b")
    assert str(tl.Schedule(a, b)) == str(tl.Schedule((a, b)))


def test_can_asks_without_changing_anything() -> None:
    s = tl.Schedule(matmul())
    before = str(s)
    assert s.can("split", "i", 4)
    assert not s.can("split", "i", 0)
    verdict = s.can("parallel", "k")
    assert not verdict
    assert verdict.error is not None
    assert verdict.error.code == "TL-S101"
    assert str(s) == before
    assert s.directives == ()


def test_every_legal_move_is_accepted_on_a_copy() -> None:
    for program in (matmul(), blur(), scale()):
        s = tl.Schedule(program)
        for loop in s.loops(s.stages()[-1]):
            for move in s.legal_moves(loop):
                s.copy().apply(move)


def test_a_refused_tile_leaves_no_trace() -> None:
    s = tl.Schedule(matmul())
    before = str(s)
    with pytest.raises(tl.ScheduleError):
        s.tile("i", "j", 4, 0)
    assert str(s) == before
    assert s.directives == ()


def test_a_refusal_is_data() -> None:
    s = tl.Schedule(matmul())
    with pytest.raises(tl.ScheduleError) as refused:
        s.parallel("k")
    facts = json.loads(json.dumps(refused.value.to_json()))
    assert facts["code"] == "TL-S101"
    assert facts["loop"] == "k"
    assert facts["stage"] == "C"
    assert facts["counterexample"]["first"]["at"] != facts["counterexample"]["second"]["at"]
    assert "Parallel(loop='C.i')" in facts["alternatives"]
    assert "<-- here" in facts["nest"]


REFUSALS: list[tuple[str, str, Callable[[tl.Schedule], object]]] = [
    ("TL-S001", "there is no loop 'ii'; did you mean 'i'?", lambda s: s.split("ii", 4)),
    ("TL-S001", "there is no loop 'nope'; known: 'i', 'j', 'k'", lambda s: s.unroll("nope")),
    ("TL-S003", "there is no stage 'D'; known: 'C.init', 'C'", lambda s: s.loops("D")),
    ("TL-S003", "no tensor 'Z' is read in this nest; known: 'A', 'B'", lambda s: s.pack("Z", at="i")),
    (
        "TL-S004",
        "the loop 'i' is gone: step 0 (s.split('C.i', 4)) made i_o, i_i of it",
        lambda s: [s.split("i", 4), s.split("i", 4)],
    ),
    ("TL-S005", "the factor of split of 7 iterations must be in 1..65536, not 0", lambda s: s.split("i", 0)),
    ("TL-S005", "the factor of split of 7 iterations must be in 1..65536, not 1099511627776", lambda s: s.split("i", 1 << 40)),
    ("TL-S005", "the factor of split of 7 iterations must be an int, not 2.5", lambda s: s.split("i", 2.5)),  # type: ignore[arg-type]
    ("TL-S005", "tail 'none' is not one of guard, mask, peel, shift", lambda s: s.split("i", 4, "none")),  # type: ignore[arg-type]
    ("TL-S005", "a loop is named by a string or a handle, not 3", lambda s: s.split(3, 4)),  # type: ignore[arg-type]
    ("TL-S005", "reorder names 'i' twice", lambda s: s.reorder("i", "i")),
    ("TL-S005", "reorder needs at least one loop", lambda s: s.reorder()),
    ("TL-S005", "'i o' cannot name a loop; use letters, digits and _", lambda s: s.split("i", 4, names=("i o", "x"))),
    ("TL-S006", "the name 'j' is taken in stage 'C'; give names=", lambda s: s.split("i", 4, names=("j", "x"))),
    (
        "TL-S101",
        (
            "two iterations of 'k' would race: one writes C[0, 0], another writes it; "
            "a reduction runs in parallel through rfactor over a split-off part of it"
        ),
        lambda s: s.parallel("k"),
    ),
    ("TL-S105", "'C.init.i' and 'C.j' are not in one nest of loops", lambda s: s.reorder("C.init.i", "C.j")),
    ("TL-S105", "'k' is not directly inside 'i'; reorder them first", lambda s: s.fuse("i", "k")),
    (
        "TL-S106",
        "tail 'shift' computes some iterations twice, and 'C' adds to its tensor each time; use guard, mask or peel",
        lambda s: s.split("k", 3, "shift"),
    ),
    ("TL-S107", "the loop is already vector", lambda s: [s.vectorize("j"), s.vectorize("j")]),
    ("TL-S107", "the loop is already parallel; split it before", lambda s: [s.parallel("i"), s.split("i", 2)]),
    (
        "TL-S201",
        "65536 lanes are too many (at most 128); split the loop and vectorise the inner part",
        lambda s: s.vectorize(s.split("j", 65536)[1]),
    ),
    ("TL-S301", "'C' is a result of the kernel, so it is computed whole", lambda s: s.compute_at("C", "i")),
    ("TL-S302", "'A' is not read inside 'i'", lambda s: s.cache_read("A", at="C.init.i")),
    ("TL-S302", "'A' is not computed inside 'i'", lambda s: s.accumulate("A", at="i")),
]


@pytest.mark.parametrize(("code", "reason", "misuse"), REFUSALS, ids=[f"{code}-{at}" for at, (code, _, _) in enumerate(REFUSALS)])
def test_each_refusal_names_the_subject_and_says_what_to_do(code: str, reason: str, misuse: Callable[[tl.Schedule], object]) -> None:
    s = tl.Schedule(matmul())
    with pytest.raises(tl.ScheduleError) as refused:
        misuse(s)
    assert (refused.value.code, refused.value.reason) == (code, reason)
    assert refused.value.nest


def test_unrolling_beyond_the_budget_is_refused_before_any_code_is_made() -> None:
    s = tl.Schedule(matmul(300, 300, 300))
    s.unroll("k")
    with pytest.raises(
        tl.ScheduleError,
        match=r"about \d+ instructions \(at most 40000\), most of them for 'C': copies 300 by 'j' x 300 by 'k', of \d+ each",
    ):
        s.unroll("j")


def test_vectorising_an_unknown_number_of_iterations_suggests_the_split() -> None:
    s = tl.Schedule(scale(tl.dim("m"), tl.dim("n")))
    with pytest.raises(tl.ScheduleError, match="split off an inner loop first") as refused:
        s.vectorize("j")
    assert [repr(step) for step in refused.value.alternatives] == ["Split(loop='Y.j', factor=16, tail='guard', names=None)"]


DAMAGED = [
    ("{", "not JSON"),
    ("[]", "not an object with a list of steps"),
    ('{"schema": 99, "steps": []}', "schema 99; this version reads 1"),
    ('{"schema": 1, "steps": [["levitate", {}]]}', "step 0 is 'levitate', which is no directive"),
    ('{"schema": 1, "steps": [["split", {"loop": "C.i"}]]}', r"step 0 \(split\) lacks 'factor'"),
    ('{"schema": 1, "steps": [["split", {"loop": "C.i", "factor": 4, "speed": 9}]]}', "unknown field 'speed'"),
    ('{"schema": 1, "steps": [["split", {"loop": 7, "factor": 4}]]}', "loop"),
    ('{"schema": 1, "steps": [["split", {"loop": "C.i", "factor": "4"}]]}', "factor"),
    ('{"schema": 1, "steps": [["reorder", {"loops": "C.i"}]]}', "loops"),
    ('{"schema": 1, "steps": [["split", {"loop": "C.i", "factor": 1e999}]]}', "factor"),
    ('{"schema": 1, "steps": [["unroll", {"loop": "C.nope"}]]}', "there is no loop 'C.nope'"),
    ('{"schema": 1, "definition": "0000", "steps": []}', "made for another definition"),
]


@pytest.mark.parametrize(("text", "why"), DAMAGED)
def test_a_damaged_schedule_is_refused_with_the_step(text: str, why: str) -> None:
    with pytest.raises(tl.ScheduleError, match=why):
        tl.Schedule.from_json(matmul(), text)


def test_a_difference_names_the_steps_and_the_lines() -> None:
    C = matmul()
    one, two = tl.Schedule(C), tl.Schedule(C)
    one.unroll("k")
    two.unroll("k")
    assert not one.diff(two)
    two.vectorize("j")
    found = one.diff(two)
    assert [repr(step) for step in found.added] == ["Vectorize(loop='C.j')"]
    assert found.removed == ()
    assert "+ s.vectorize('C.j')" in str(found)
    assert "+        vector j in range(11):" in str(found)


def test_the_page_of_refusals_is_the_table_in_the_code() -> None:
    from docs import make_errors

    assert make_errors.PAGE.read_text() == make_errors.page()


def test_whether_a_tile_would_be_accepted_is_what_its_method_says() -> None:
    x = tl.placeholder((8, 8), name="X")
    s = tl.Schedule(tl.compute((8, 8), lambda i, j: x[i, j] + 1, name="Y"))
    before = s.nest
    assert s.can("tile", "Y.i", "Y.j", 2, 4)
    codes = {
        ("Y.i", "Y.i", 2, 4): "TL-S301", ("Y.i", "Y.q", 2, 4): "TL-S301", ("Y.i", "Y.j", 0, 4): "TL-S202", ("Y.i",): "TL-S005",
    }  # fmt: skip
    found = {given: s.can("tile", *given).error.code for given in codes}
    assert s.nest is before and not s.directives
    for given, code in found.items():
        with pytest.raises((tl.ScheduleError, TypeError)) as refused:
            s.tile(*given)
        assert getattr(refused.value, "code", "TL-S005") == code


def test_directives_together_are_all_applied_or_none() -> None:
    s = tl.Schedule(matmul(37, 53, 29))
    s.split("i", 6)
    kept, nest = s.directives, str(s)

    def refused() -> None:
        with s.together():
            s.split("k", 4)
            s.vectorize("j")
            s.split("i_i", 16, "exact")

    with pytest.raises(tl.ScheduleError, match="16"):
        refused()
    assert (s.directives, str(s)) == (kept, nest)
    with s.together():
        s.split("k", 4)
        s.vectorize("j")
    assert len(s.directives) == len(kept) + 2


def test_whatever_is_raised_takes_back_directives_together() -> None:
    s = tl.Schedule(matmul(37, 53, 29))

    def interrupted() -> None:
        with s.together():
            s.split("i", 6)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not s.directives


def test_messages_show_statements_of_pages_in_a_line() -> None:
    """A cloth of springs has statements of 9,000 characters; the refusal of one step was 40,000."""
    x = tl.placeholder((40, 40), name="X")
    value = x
    for stage in range(5):
        value = tl.compute((40 - stage, 40), lambda i, j, of=value: of[i, j] * of[i, j] + of[i, j], name=f"s{stage}")
    s = tl.Schedule(value)
    for stage in range(4):
        s.compute_inline(f"s{stage}")
    with pytest.raises(tl.ScheduleError) as caught:
        s.vectorize("s4.k")
    assert max(map(len, caught.value.nest.splitlines())) > 500
    shown = str(caught.value).splitlines()
    assert max(map(len, shown)) < 200
    assert any(line.endswith("... # s4") for line in shown)
