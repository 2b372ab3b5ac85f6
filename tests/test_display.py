"""What notebooks show is well formed and escaped, asks nothing of anybody, and holds what prints."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

import tensorlang as tl
from tensorlang.autotune.jobs.result import Result, VerifiedSchedule
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import Trial
from tensorlang.codegen.target import target
from tensorlang.definition.listing import MOST, formula, operands
from tensorlang.definition.tensor import Tensor
from tensorlang.system import markup
from tests.autotune.made_logs import Made, write
from tests.strategies import programs

HOSTILE = "</pre></style><script>alert(1)</script><img src=x onerror=alert(2)>\"' & <b>"


class Shown(HTMLParser):
    """The text of a display; raises where a tag is not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def shown(value: Any) -> str:
    """The text that a notebook shows of a value, whose display is checked."""
    page = value if isinstance(value, str) else value._repr_html_()
    parsed = Shown(page)
    assert not parsed.tags & {"script", "img", "iframe", "link", "object", "embed", "base", "form"}
    assert not {name for name in parsed.attributes if name.startswith("on")} | (parsed.attributes & {"src", "href", "srcset"})
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)
    return parsed.text


# Pieces --------------------------------------------------------------------------------------------------------------------------


@given(st.text(), st.text(), st.lists(st.tuples(st.text(), st.text()), max_size=3))
def test_every_piece_shows_its_text_and_nothing_else(one: str, other: str, rows: list[tuple[str, str]]) -> None:
    one, other = one + HOSTILE, other.replace("\r", "")
    pieces = (
        markup.title(one), markup.paragraph(one, "soft"), markup.code(other), markup.folded(one, markup.code(other)),
        markup.table((one, other), rows, numbers=(1,)), markup.facts([(one, HOSTILE), *rows]),
    )  # fmt: skip
    for piece in pieces:
        shown(piece)
    text = shown(markup.display(*pieces))
    assert one.replace("\r", "") in text.replace("\r", "") and other in text
    assert all(cell in text for row in rows for cell in row)


@given(st.text(st.sampled_from("ab <&#\n'\"vectorparallel")), st.sampled_from(["", "    vector i in range(4):", "x # note"]))
def test_a_nest_is_shown_as_it_prints(text: str, line: str) -> None:
    assert shown(markup.nest(f"{text}\n{line}")) == f"{text}\n{line}"


# Tensors -------------------------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(programs())
def test_a_tensor_shows_its_type_its_formula_and_what_it_rests_on(program: Any) -> None:
    for tensor in program.outputs:
        text = shown(tensor)
        assert repr(tensor) in text
        assert formula(tensor) in text
        assert all(definition in text for definition in operands(tensor))


def matmul() -> Tensor:
    A, B, k = tl.placeholder((8, 4), name="A"), tl.placeholder((4, 16), name="B"), tl.reduce_axis(4, name="k")
    result: Tensor = tl.compute((8, 16), lambda i, j: tl.sum(A[i, k] * B[k, j], axis=k), name="C")
    return result


def test_a_formula_reads_as_it_was_written() -> None:
    C = matmul()
    assert formula(C) == "C[i, j] = sum(A[i, k] * B[k, j] for k in range(4))"
    assert operands(C) == ["A: float32[8, 4]", "B: float32[4, 16]"]
    both = tl.compute((8,), lambda i: (C[i, 0], C[i, 1]), name="both")
    assert formula(both[1]) == "both_0[i], both_1[i] = C[i, 0], C[i, 1]"


def test_what_has_no_name_has_the_name_that_a_schedule_gives_it() -> None:
    X, r = tl.placeholder((3, 4)), tl.reduce_axis(4)
    row = tl.compute((3,), lambda i: tl.sum(X[i, r], axis=r))
    assert formula(row) == "t1[i] = sum(t0[i, r0] for r0 in range(4))"
    assert str(tl.Schedule(row)).startswith("t1(t0: float32[3, 4]) -> t1: float32[3]")
    assert formula(tl.compute((), lambda: row[0], name="first")) == "first[] = t1[0]"


def test_recurrences_scatters_and_scans_have_formulas() -> None:
    x = tl.placeholder((6,), name="x")
    assert formula(tl.recurrence((6,), lambda t, y: y[t - 1] + x[t], name="y")) == "y[t] = select(t - 1 >= 0, y[t - 1], 0.0) + x[t]"
    r = tl.reduce_axis(6, name="r")
    most = tl.scatter(x, r, lambda r: r // 2, lambda r: x[r], where=lambda r: r > 1, reduce="max", name="most")
    lines = ["most = x", "for r in range(6):", "    if r > 1:", "        most[r // 2] = max(most[r // 2], x[r])"]
    assert formula(most) == "\n".join(lines)
    last = tl.scatter(x, r, lambda r: r // 2, lambda r: x[r], reduce="set", name="last")
    assert formula(last).endswith("    last[r // 2] = x[r]")
    seen = []

    def step(t: Any, state: Tensor) -> Tensor:
        seen.append(shown(state))
        result: Tensor = tl.compute((6,), lambda i: state[i] * 2, name="twice")
        return result

    lines = ["state = x", "for t in range(3):", "    twice[i] = state[i] * 2.0", "    state = twice", "s = state   (after every step)"]
    assert formula(tl.scan(step, x, 3, name="s")) == "\n".join(lines)
    assert "state" in seen[0]


def test_placeholders_say_what_they_are() -> None:
    assert "an argument of the kernel" in shown(tl.placeholder((3,), name="x"))
    assert "bound to an array" in shown(tl.buffer(np.ones(3), name="ones"))


def test_a_long_chain_is_cut() -> None:
    tensor = tl.placeholder((2,), name="x")
    for n in range(MOST + 10):
        tensor = tl.compute((2,), lambda i, tensor=tensor: tensor[i] + 1, name=f"stage{n}")
    text = shown(tensor)
    assert "... 10 more before" in text
    assert "stage68[i]" in text and "stage3[i]" not in text


# Schedules, kernels, reports -----------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(programs(), st.integers(2, 5))
def test_a_schedule_shows_its_steps_and_its_nest(program: Any, factor: int) -> None:
    s = tl.Schedule(program.outputs)
    for loop in [loop for stage in s.stages() for loop in s.loops(stage)][:2]:
        if s.can("split", loop, factor):
            s.split(loop, factor)
    text = shown(s)
    assert repr(s) in text and str(s) in text
    assert text.startswith(f"{len(s.directives)} step")
    assert shown(s.nest) == str(s)


def test_loops_of_a_kind_stand_out_and_notes_stand_back() -> None:
    s = tl.Schedule(matmul())
    s.vectorize(s.split("C.j", 8)[1])
    page = s.nest._repr_html_()
    assert "<b>vector</b> j_i in range(8):" in page
    assert "<i> # j = 8 j_o + j_i   guard</i>" in page


def test_a_kernel_shows_its_declaration_and_its_nest() -> None:
    kernel = tl.compile(matmul())
    text = shown(kernel)
    assert kernel.signature in text and kernel.inspect("nest") in text
    assert "default" in text


def test_a_report_is_tables_and_its_picture_keeps_its_style_to_itself() -> None:
    report = tl.build(matmul()).report(repeats=2)
    text = shown(report)
    assert report.sentence in text and report.signature in text
    assert all(level.loop in text for level in report.levels if level.trips != 1)
    assert report.picture() in report._repr_html_()
    style = re.findall(r"<style>(.*?)</style>", report._repr_html_())
    assert all(selector.startswith((".tensorlang", ".roofline")) for sheet in style for selector in re.findall(r"([^{},]+)[^{}]*{", sheet))


# Tuning --------------------------------------------------------------------------------------------------------------------------


def outcome(made: Made, records: list[dict[str, Any]], **about: Any) -> Result:
    trials = tuple(Trial.of(record) for record in records)
    best = min((trial for trial in trials if trial.time is not None), key=lambda trial: trial.time or 0.0)
    s = tl.Schedule(made.task.outputs)
    s.vectorize(s.split("C.j", 16)[1])
    choice = VerifiedSchedule(best.time or 0.0, best.config, s.to_json(), best, made.task.outputs)
    return Result(made.task, target(), 1, choice, choice, 1.25, trials, "all trials done", **about)


def test_a_tuning_result_shows_winner_schedule_trials_and_failures() -> None:
    made = Made()
    times = (3e-4, 1e-4, None, 2e-4)
    records = [made.trial(seq, config, time) for (seq, config), time in zip(enumerate(made.configs(4)), times, strict=True)]
    result = outcome(made, records, speedup_interval=(1.2, 1.3))
    text = shown(result)
    assert "matmul: 100 us, 1.25 times the default (95 %: 1.20 to 1.30)" in text
    assert repr(result.best.schedule) in text and str(result.best.schedule) in text
    assert "1 wrong_result" in text
    assert ", ".join(f"{knob} = {value}" for knob, value in result.best.config.items()) in text
    assert text.index("100 us") < text.index("200 us") < text.rindex("300 us")


def test_a_winner_that_this_version_does_not_accept_is_shown_with_the_reason() -> None:
    made = Made()
    result = outcome(made, [made.trial(0, made.configs(1)[0], 1e-4)])
    stale = replace(result.best, directives='{"steps": 3}')
    assert "TL-S007" in shown(replace(result, best=stale, default=None, speedup=None))


def test_a_log_shows_a_row_for_each_study_and_trusts_nothing_in_it(tmp_path: Path) -> None:
    made = Made(op=HOSTILE)
    log = write(tmp_path / "log.jsonl", [made.trial(seq, {HOSTILE: seq}, 1e-4 * (seq + 1)) for seq in range(3)])
    with log.path.open("a") as file:
        file.write(f"{HOSTILE}\n")
    text = shown(log)
    assert HOSTILE in text and "100 us" in text and "1 lines skipped" in text
    assert "there is no log" in shown(Log(tmp_path / "none.jsonl"))


def test_a_space_shows_its_knobs() -> None:
    space = Made().plan.space
    assert str(space) in shown(space)


def test_importing_the_package_loads_no_markup() -> None:
    code = "import sys, tensorlang; sys.exit(' '.join(name for name in sys.modules if 'markup' in name or name in ('html', 'html.parser')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stderr.strip() == ""
