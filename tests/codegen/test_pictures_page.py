"""The page of a schedule has every part, says why one is missing, trusts no name in it, and a real browser plays its film."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pytest

import tensorlang as tl
from tensorlang.codegen import pictures
from tensorlang.codegen.pictures import times
from tensorlang.codegen.pictures.machine_code import machine_code
from tensorlang.codegen.pictures.page import _embedded
from tensorlang.codegen.pictures.steps import steps, summary_of
from tensorlang.codegen.pictures.working_sets import working_sets
from tensorlang.errors import BuildError, ScheduleError
from tensorlang.ir.printer import print_nest
from tensorlang.schedules.catalogue import DIRECTIVES
from tests.browser import CHROMIUM, Parsed, contrast, probed
from tests.codegen.test_pictures_walk import SCHEDULES, sliding, strips
from tests.thinned import few

STYLE = (Path(pictures.__file__).parent / "templates" / "style.css").read_text()


def product(n: int = 64, parallel: bool = False) -> tl.Schedule:
    A, B = tl.placeholder((n, n), name="A"), tl.placeholder((n, n), name="B")
    k = tl.reduce_axis(n, name="k")
    s = tl.Schedule(tl.compute((n, n), lambda i, j: tl.sum(A[i, k] * B[k, j], axis=k), name="C"))
    jo, ji = s.split("j", 8)
    io, ii = s.split("i", 4)
    s.reorder(jo, io, "k", ii, ji)
    s.accumulate("C", at=io)
    s.vectorize(ji)
    s.unroll(ii)
    if parallel:
        s.parallel(jo)
    return s


def images(n: int = 64) -> Any:
    """The corners of a picture, with the default schedule."""
    X = tl.placeholder((n, n), name="X")
    P = tl.pad(X, ((1, 1), (1, 1)), mode="edge")
    Ix = tl.compute((n, n), lambda y, x: P[y + 1, x + 2] - P[y + 1, x], name="Ix")
    Iy = tl.compute((n, n), lambda y, x: P[y + 2, x + 1] - P[y, x + 1], name="Iy")
    return tl.compute((n, n), lambda y, x: Ix[y, x] * Ix[y, x] - Iy[y, x] * Ix[y, x], name="corners")


def shown(path: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def words(path: Path) -> str:
    return " ".join(" ".join(Parsed(path.read_text()).words).split())


def test_the_page_has_every_part(tmp_path: Path) -> None:
    path = product().visualize(tmp_path / "page.html")
    text, data = words(path), shown(path)
    for expected in (
        "predicted", "measured", "What is computed, read and kept when", "The nest and its machine code", "What each directive did",
        "Working sets against the caches of", "Predicted and measured time", "What the prediction is made of", "s = tl.Schedule(C)",
    ):  # fmt: skip
        assert expected in text, expected
    assert [panel["name"] for panel in data["film"]["panels"]] == ["A", "B", "C_acc", "C"]
    assert len(data["steps"]["calls"]) == 6 and data["loops"][0]["code"] and len(data["film"]["pictures"]) > 40
    assert path.stat().st_size < 500_000 and not Parsed(path.read_text()).open


def test_the_page_asks_for_nothing(tmp_path: Path) -> None:
    seen = Parsed(product().visualize(tmp_path / "page.html", measure=False).read_text())
    assert {value for name, value in seen.attributes if name in ("href", "src")} == {"data:,"}
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    assert not seen.tags.keys() & {"img", "iframe", "object", "embed", "form", "base", "video"}
    assert "@import" not in STYLE and "url(" not in STYLE and "http" not in STYLE


def test_edits_of_the_steps_make_the_nest_of_each(tmp_path: Path) -> None:
    for made in (product(), sliding()):
        told = steps(made)
        now = list(told.first)
        for nest, (call, _, edits) in zip(made.nests[1:], told.calls, strict=True):
            assert call.startswith("s.") and edits is not None
            for at, gone, come in reversed(edits):
                now[at : at + gone] = come
            assert "\n".join(told.lines[place] for place in now) == print_nest(nest)


@pytest.mark.parametrize("name", DIRECTIVES)
def test_what_a_directive_does_is_a_sentence(name: str) -> None:
    told = summary_of(object.__new__(DIRECTIVES[name]))
    assert len(told) > 10 and "`" not in told and told[0].isupper()


# Machine code ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", few([lambda: product(parallel=True), product, *SCHEDULES.values()], 5))
def test_machine_code_with_lines_is_the_same_code(made: Callable[[], tl.Schedule]) -> None:
    schedule = made()
    kernel = tl.build(schedule, "x86-64-v3")
    found = machine_code(kernel, schedule.nest, schedule.estimate("x86-64-v3").stages)
    assert found.traced and found.loops
    assert all(text in kernel.inspect("asm") for loop in found.loops for text, _ in loop.code)


@pytest.mark.parametrize("parallel", [False, True])
def test_an_instruction_comes_from_the_line_that_says_what_it_does(parallel: bool) -> None:
    schedule = product(parallel=parallel)
    found = machine_code(tl.build(schedule, "x86-64-v3"), schedule.nest, schedule.estimate("x86-64-v3").stages)
    lines = print_nest(schedule.nest).splitlines()
    adds = [lines[line - 1] for text, line in found.loops[0].code if "vfmadd" in text and line]
    assert len(adds) == 4 and all("+= A[i, k] * B[k, j]" in line for line in adds)
    assert found.loops[0].stages[0] == "C"


def test_the_hottest_loop_is_of_the_stage_that_takes_most_time() -> None:
    schedule = strips(64, 16)
    predicted = schedule.estimate("x86-64-v3")
    found = machine_code(tl.build(schedule, "x86-64-v3"), schedule.nest, predicted.stages)
    assert max(predicted.stages, key=lambda name: predicted.stages[name]) in found.loops[0].stages
    assert [loop.seconds for loop in found.loops] == sorted((loop.seconds for loop in found.loops), reverse=True)


# Working sets ------------------------------------------------------------------------------------------------------------------------


def test_working_sets_are_those_of_the_loops_against_the_caches_of_the_machine() -> None:
    machine = tl.machine("znver3")
    found = {one.loop: one for one in working_sets(product(512).nest, machine, {})}
    assert found[""].home == "L3" and found[""].bytes == 3 * 512 * 512 * 4
    assert 512 * machine.line <= found["i_o"].buffers["B"] < 2 * 512 * machine.line, "half a line of each row, which may lie on two"
    assert found["k"].home == "L1"
    sizes = [found[name].bytes for name in ("", "j_o", "i_o", "k")]
    assert sizes == sorted(sizes, reverse=True)


# What cannot be shown ----------------------------------------------------------------------------------------------------------------


def test_a_path_that_cannot_be_written_is_one_error_before_any_work(tmp_path: Path) -> None:
    s = product()
    os.mkfifo(tmp_path / "fifo")
    begun = time.thread_time()
    for path, told in (
        (tmp_path / "none" / "page.html", "there is no folder"), (tmp_path, "it is a folder"), (tmp_path / "fifo", "it is a FIFO"),
        (tmp_path / ("x" * 300), "too long"), ("a\0b", "null"), (None, "is written to a path"), (3, "is written to a path"),
    ):  # fmt: skip
        with pytest.raises(BuildError, match=told):
            s.visualize(path)
    assert time.thread_time() - begun < 1


def test_dims_and_sizes_are_extents_of_dims() -> None:
    n = tl.dim("n")
    A = tl.placeholder((n,), name="A")
    s = tl.Schedule(tl.compute((n,), lambda i: A[i] + 1, name="B"))
    for wrong, told in (
        ({"sizes": {"m": 3}}, "no dim 'm'"),
        ({"sizes": {"n": -1}}, "extent"),
        ({"sizes": 3}, "mapping"),
        ({"m": 4}, "no dim 'm'"),
        ({"n": "x"}, "extent"),
    ):
        with pytest.raises(ScheduleError, match=told):
            s.visualize("unwritten.html", **wrong)
    with pytest.raises(BuildError, match="quux"):
        s.visualize("unwritten.html", "quux")
    assert not Path("unwritten.html").exists()


def test_a_symbolic_program_is_drawn_small_and_predicted_as_it_is_called(tmp_path: Path) -> None:
    n = tl.dim("n")
    A = tl.placeholder((n, n), name="A")
    s = tl.Schedule(tl.compute((n, n), lambda i, j: A[i, j] + 1, name="B"))
    text = words(s.visualize(tmp_path / "page.html", sizes={"n": 32}, n=100))
    assert "one call with n = 100" in text and "Drawn with n = 32" in text and "measured" in text
    assert "Drawn with n = 96" in words(s.visualize(tmp_path / "page.html", measure=False))


def test_a_machine_that_is_not_here_has_code_and_no_time(tmp_path: Path) -> None:
    text = words(product().visualize(tmp_path / "page.html", "sapphirerapids"))
    assert "predicted for sapphirerapids" in text
    text = words(product().visualize(tmp_path / "page.html", "aarch64-linux-gnu:cortex-a72"))
    assert "this machine cannot run it" in text and "Loops are found in code for x86-64" in text


def test_what_cannot_be_built_is_shown_without_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise BuildError("'C' cannot be built: too much")

    monkeypatch.setattr("tensorlang.codegen.pictures.page.build", refuse)
    text = words(product().visualize(tmp_path / "page.html"))
    assert text.count("cannot be built: too much") == 2 and "What each directive did" in text


def test_a_long_call_and_a_large_one_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    s = product(8)
    kernel = tl.build(s)
    assert "is predicted to take 9" in times.measured(kernel, s.nest, {}, 9.0).instead
    monkeypatch.setattr(times, "LARGEST", 100)
    assert "GiB are measured" in times.measured(kernel, s.nest, {}, 1e-6).instead


def test_a_program_that_cannot_be_walked_says_why(tmp_path: Path) -> None:
    A = tl.placeholder((1 << 20, 1 << 10), name="A")
    s = tl.Schedule(tl.compute((1 << 20, 1 << 10), lambda i, j: A[i, j] + 1, name="B"))
    text = words(s.visualize(tmp_path / "page.html", measure=False))
    assert "There is no animation: its tensors have" in text


def test_no_word_of_others_reaches_the_page_as_markup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A description of a machine is a file, and messages quote what they refuse."""
    hostile = "</script><script>alert(1)</script><b>&amp;"

    def refuse(*_: Any) -> None:
        raise BuildError(hostile)

    monkeypatch.setattr("tensorlang.codegen.pictures.page.find_machine", lambda _: replace(tl.machine("znver3"), name=hostile))
    monkeypatch.setattr("tensorlang.codegen.pictures.page.build", refuse)
    page = product().visualize(tmp_path / "page.html").read_text()
    seen = Parsed(page)
    assert hostile not in page and escape(hostile) in page and seen.tags["script"] == 2 and not seen.open
    assert "<" not in _embedded({"name": hostile}) and json.loads(_embedded({"name": hostile})) == {"name": hostile}


def test_a_machine_is_a_target_of_a_page_as_of_an_estimate(tmp_path: Path) -> None:
    machine = replace(tl.machine("znver3"), name="a machine of one's own")
    assert machine.name in product().visualize(tmp_path / "page.html", machine, measure=False).read_text().replace("&#39;", "'")


def test_tensors_are_shown_with_their_default_schedule(tmp_path: Path) -> None:
    path = tl.visualize(images(), tmp_path / "page.html", measure=False)
    assert path == tmp_path / "page.html" and shown(path)["steps"]["calls"]


def test_text_and_marks_stand_out_in_both_schemes() -> None:
    light, dark = (dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in STYLE.split("prefers-color-scheme: dark")[:2])
    for scheme in (light, {**light, **dark}):
        assert all(contrast(scheme[name], scheme[ground]) >= 4.5 for name in ("ink", "soft", "blue") for ground in ("paper", "card"))
        assert all(contrast(scheme[one], scheme[other]) >= 1.5 for one, other in (("now", "read"), ("now", "empty"), ("read", "empty")))
        assert all(contrast(scheme["ink"], scheme[ground]) >= 4.5 for ground in ("less", "more", "live"))


# In a browser ------------------------------------------------------------------------------------------------------------------------

PROBE = """
const told = {errors: window.failures, wide: document.documentElement.scrollWidth - innerWidth, pictures: [], steps: [],
  fetched: performance.getEntriesByType('resource').map(e => e.name), ground: getComputedStyle(document.body).backgroundColor};
const colours = () => [...document.querySelectorAll('canvas')].map(canvas => {
  const copy = document.createElement('canvas'), pen = copy.getContext('2d', {willReadFrequently: true}), seen = new Set();
  copy.width = canvas.width; copy.height = canvas.height; pen.drawImage(canvas, 0, 0);
  const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
  for (let n = 0; n < pixels.length; n += 4) if (pixels[n + 3] === 255) seen.add(pixels[n] + ',' + pixels[n + 1] + ',' + pixels[n + 2]);
  return [...seen];
});
const key = name => document.dispatchEvent(new KeyboardEvent('keydown', {key: name, bubbles: true}));
const said = () => document.getElementById('told').textContent;
key('Home'); told.pictures.push([said(), colours()]);
key('ArrowRight'); told.pictures.push([said(), colours()]);
document.getElementById('next').click(); told.pictures.push([said(), colours()]);
const slider = document.getElementById('slider');
slider.value = 20; slider.dispatchEvent(new Event('input')); told.pictures.push([said(), colours()]);
key('End'); told.pictures.push([said(), colours()]);
document.getElementById('play').click(); told.playing = document.getElementById('play').textContent;
document.getElementById('play').click();
document.getElementById('step-next').click();
told.steps.push(document.getElementById('step-told').textContent, document.getElementById('after').innerText);
told.code = document.getElementById('asm').innerText; told.lines = document.querySelectorAll('#nest div').length;
told.bars = [...document.querySelectorAll('.set .track i')].map(bar => bar.getBoundingClientRect().width);
told.hidden = [...document.querySelectorAll('canvas')].filter(canvas => canvas.getBoundingClientRect().width < 4).length;
return told;
"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here to look at the page with")
@pytest.mark.parametrize(("dark", "width"), [(True, 1400), (False, 520)])
def test_a_browser_plays_the_film_by_keys_buttons_and_slider_and_fetches_nothing(tmp_path: Path, dark: bool, width: int) -> None:
    schedule = strips(48, 8)
    page = schedule.visualize(tmp_path / "page.html")
    text = page.read_text().replace(
        "<head>", "<head><script>window.failures = []; addEventListener('error', e => failures.push(e.message));</script>"
    )
    told = probed(text, PROBE, tmp_path, dark=dark, width=width)
    assert (told["errors"], told["fetched"], told["hidden"]) == ([], [], 0)
    assert told["wide"] <= 0, f"at {width} pixels the page is {told['wide']} too wide"
    assert [said.split()[1] for said, _ in told["pictures"]] == [
        "1",
        "2",
        "3",
        "21",
        str(len(shown(page)["film"]["pictures"])),
    ]
    assert all(len(seen) == 3 and all(seen) for _, seen in told["pictures"]), "a canvas for each tensor, with something on it"
    _, first, *_, last = (seen for _, seen in told["pictures"])
    assert len(last[2]) > 8 > len(first[2]), "an output shows when each row was computed"
    assert "pause" in told["playing"] and "Step 2 of 2" in told["steps"][0] and "P: float32" in told["steps"][1]
    assert "mm" in told["code"] and told["lines"] == len(print_nest(schedule.nest).splitlines())
    assert len(told["bars"]) >= 4 and all(bar > 0 for bar in told["bars"])
    assert told["ground"] == ("rgb(20, 23, 27)" if dark else "rgb(251, 250, 248)")
