"""The page says all of a log, opens offline, trusts nothing in it, stays small, and a real browser draws every mark inside its chart."""

import math
import random
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from tensorlang.autotune.jobs.peak import Peak
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.reporting import html, replay, winner_pages
from tensorlang.autotune.reporting.charts import Chart, Scale, ranked, thinned
from tensorlang.errors import LogError
from tests.autotune.made_logs import Made, matmul, write
from tests.browser import CHROMIUM, Parsed, browse, contrast, probed
from tests.work import work

MADE = Made()
STYLE = (Path(html.__file__).parent / "templates" / "style.css").read_text()
FIXTURES = Path(__file__).parent / "fixtures"
HOSTILE = '</title></style></svg><script>alert(1)</script><img src=x onerror=alert(2)>" onload="alert(3)\'><b>&amp;'


@pytest.fixture
def peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """The roofs are known, so that no test measures the machine."""
    monkeypatch.setattr(replay, "_measured", lambda threads, kind: Peak(100e9, 10e9))


def page_of(path: Path, *groups: Any, **how: Any) -> str:
    return html.write(write(path / "log.jsonl", *groups), path / "page.html", **{"measure": False, **how}).read_text()


def busy(made: Made, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """A long log: failures of several kinds, noise, load, drift."""
    draw = random.Random(seed)
    records = made.study(count, lambda config, seq: None if seq % 11 == 5 else 1e-4 * math.exp(draw.gauss(0, 0.7)))
    for record in records:
        if record["kind"] == "trial":
            record |= {"load": 1 + draw.random(), "sentinel": 1e-3 * (1.4 if count // 3 < record["seq"] < count // 2 else 1), "drift": 0.1}
            if record["status"] != "ok":
                record |= {"status": draw.choice(["crash", "compile_timeout", "wrong_result"])}
    return records


@pytest.mark.usefixtures("peak")
def test_the_page_has_every_part(tmp_path: Path) -> None:
    text = page_of(tmp_path, busy(MADE, 40), measure=True)
    seen = Parsed(text)
    words = " ".join(seen.words)
    for expected in (
        "matmul i=48,j=64,k=32 float32", "1 thread", "warm cache", "GFLOP/s", "of the measured peak", "95%: ", "Best so far against trials",
        "Best so far against wall time", "the expected best of n draws without replacement", "The finalists, side by side",
        "What each knob did", "explains ", "Failures by reason", "differs from the reference", "Noise of each trial",
        "Drift of the machine", "slowed by 40%", "feasible points tried", "Values tried", "Roofline", "memory 10 GB/s",
        "multiply-adds 100 GFLOP/s", "C[i, j]", "s = tl.Schedule(C)", "Fastest trials", "llvmlite", "the same CPU",
    ):  # fmt: skip
        assert expected in words, expected
    assert not seen.open, "every tag is closed"
    assert seen.tags["svg"] == sum(pair == ("role", "img") for pair in seen.attributes) - 1 + sum(
        pair == ("aria-hidden", "true") for pair in seen.attributes
    ), "each chart is named to those who do not see it, and so is the meter"
    assert seen.tags["desc"] >= 10 and seen.tags["table"] >= 10, "charts are described, and their numbers stand in tables"


@pytest.mark.usefixtures("peak")
def test_the_page_asks_for_nothing_and_runs_nothing(tmp_path: Path) -> None:
    seen = Parsed(page_of(tmp_path, busy(MADE, 30), measure=True))
    assert not seen.tags.keys() & {
        "script",
        "img",
        "iframe",
        "object",
        "embed",
        "video",
        "audio",
        "base",
        "form",
        "use",
        "image",
        "foreignobject",
    }
    assert {value for name, value in seen.attributes if name in ("href", "src", "xlink:href")} <= {"data:,"}
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    assert "@import" not in STYLE and "url(" not in STYLE and "http" not in STYLE


def test_nothing_in_a_log_can_reach_the_page_as_markup(tmp_path: Path) -> None:
    hostile = {"host": HOSTILE, "model": HOSTILE, "cores": HOSTILE, "memory": None}
    made = Made(op=HOSTILE, machine=hostile, software={HOSTILE: HOSTILE}, cache=HOSTILE, policy={HOSTILE: HOSTILE}, run=HOSTILE)
    records = made.study(12)
    records[0] |= {"search": HOSTILE, "seed": HOSTILE, "points": HOSTILE}
    records[-1] |= {"reason": HOSTILE}
    records[-2] |= {"speedup_interval": HOSTILE}
    for record in records[2:8]:
        record |= {
            "config": {HOSTILE: HOSTILE, "list": [HOSTILE]},
            "source": HOSTILE,
            "schedule": HOSTILE,
            "load": HOSTILE,
            "drift": HOSTILE,
        }
    records[3] |= {"status": "crash", "error": {"type": HOSTILE, "message": HOSTILE, "signal": HOSTILE}, "samples": []}
    text = page_of(tmp_path, records, [made.trial(99, {HOSTILE: 1}, 1e-9, schedule=HOSTILE)])
    seen = Parsed(text)
    assert not seen.tags.keys() & {"script", "img"} and not [name for name, _ in seen.attributes if name.startswith("on")]
    assert HOSTILE not in text and escape(HOSTILE) in text and not seen.open


def test_many_trials_make_a_page_that_hardly_grows_in_work_that_grows_with_them(tmp_path: Path) -> None:
    def made(trials: int) -> tuple[str, int]:
        log, page = write(tmp_path / f"{trials}.jsonl", busy(Made(matmul(256, 256, 256)), trials)), tmp_path / f"{trials}.html"
        calls = work(lambda: html.write(log, page, measure=False))
        return page.read_text(), calls

    (some, few), (many, more) = made(800), made(3200)
    assert len(many) < 1.5 * len(some) and more < 4.4 * few
    assert "3,200" in many and "extremes included" in many


def test_a_log_of_many_tasks_begins_with_a_list_of_them_and_stays_small(tmp_path: Path) -> None:
    studies = [Made(matmul(16 + n, 16, 16), run=str(n)).study(8) for n in range(6)]
    text = page_of(tmp_path, *studies)
    assert text.count('<section class="study"') == 6 and 'href="#study6"' in text and len(text) < 2_000_000


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-50, 50)), max_size=400), st.integers(8, 60))
def test_thinning_keeps_the_extremes_and_few_others(points: list[tuple[float, float]], most: int) -> None:
    kept = thinned(points, most)
    assert len(kept) <= 2 * most and len(set(kept)) == len(kept) and kept == sorted(kept)
    if points:
        levels = [points[place][1] for place in kept]
        assert min(levels) == min(y for _, y in points) and max(levels) == max(y for _, y in points)
        held = ranked([y for _, y in points], most)
        assert len(held) <= most and held[0] == min(levels) and held[-1] == max(levels)


@given(st.lists(st.floats(1e-12, 1e12), min_size=1, max_size=5), st.booleans(), st.floats(-1e13, 1e13))
@example(values=[1.0000000000000002e-12, 1e-12], log=False, asked=0.0)
def test_a_scale_holds_whatever_it_is_asked_and_its_ticks(values: list[float], log: bool, asked: float) -> None:
    scale = Scale.over(values, log=log)
    assert 0 <= scale.at(asked) <= 1 and all(0 < scale.at(value) < 1 for value in values)
    ticks = scale.ticks()
    assert ticks and len(ticks) <= 13 and all(scale.low * (1 - 1e-6) <= tick <= scale.high * (1 + 1e-6) for tick in ticks)


def test_text_in_a_chart_is_escaped() -> None:
    chart = Chart("<title>", "<about>", Scale(0, 1), Scale(0, 1))
    chart.axes("<x>", "<y>")
    chart.dots([(0.5, 0.5)], "model", ["<told>"])
    chart.text(1, 1, "<text>", full="<full>")
    assert not re.search(r"<(about|x|y|told|text>T|full)>", chart.svg().replace("<text>", "")) and "&lt;told&gt;" in chart.svg()


def test_a_task_is_chosen_by_name_or_fingerprint_and_a_wrong_name_is_answered(tmp_path: Path) -> None:
    other = Made(matmul(16, 16, 16), op="small", run="s")
    both = (MADE.study(8), other.study(8))
    assert page_of(tmp_path, *both).count('<section class="study"') == 2
    for task in ("small", other.task.fingerprint[:10]):
        text = page_of(tmp_path, *both, task=task)
        assert text.count('<section class="study"') == 1 and "small i=16,j=16" in text
    with pytest.raises(LogError, match="did you mean 'small'"):
        page_of(tmp_path, *both, task="smal")


def test_what_only_this_machine_could_add_is_left_out_with_the_reason_for_a_log_of_another(tmp_path: Path) -> None:
    foreign = Made(target={**MADE.shared["target"], "cpu": "strange", "fingerprint": "0" * 16})
    text = page_of(tmp_path, foreign.study(8), measure=True)
    assert "No roofline: the log is of" in text and "(strange)" in text
    assert "space cannot be rebuilt here" in text, "nor is its space this machine's"
    assert "for i" in text, "the nest is the same everywhere"


def test_a_log_without_a_valid_trial_or_default_or_final_still_has_a_page(tmp_path: Path) -> None:
    assert "No schedule is valid after 4 trials" in page_of(tmp_path, MADE.study(4, lambda config, seq: None))
    records = [record for record in MADE.study(8) if record["kind"] == "trial"]
    text = page_of(tmp_path, records)
    assert "has not reached its final measurement" in text and "does not say how many" in text
    text = page_of(tmp_path, records[1:])
    assert "no valid trial of the default" in text
    assert "1 trial" in page_of(tmp_path, records[:1])


def test_a_default_that_stands_is_not_sold_as_a_gain(tmp_path: Path) -> None:
    records = MADE.study(8)
    base = records[1]
    text = page_of(tmp_path, records[:-2], [MADE.final(base, base), MADE.end()])
    assert "The default schedule stands" in text and "the default won" in text


def test_a_gain_whose_interval_reaches_one_is_called_noise(tmp_path: Path) -> None:
    records = MADE.study(8)
    records[-2] |= {"speedup_interval": [0.98, 1.4]}
    assert "not beyond the noise" in page_of(tmp_path, records)


def test_a_noisy_machine_is_said_to_be(tmp_path: Path) -> None:
    records = MADE.study(8)
    assert "not quiet" not in page_of(tmp_path, records)
    for record in records:
        if record["kind"] == "trial":
            record |= {"mad": 0.2 * record["median"]}
    assert "scatter by 30%" in page_of(tmp_path, records)


def test_skipped_lines_are_listed(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", MADE.study(8))
    log.path.write_bytes(log.path.read_bytes() + b"<b>garbage\n")
    text = html.write(log, tmp_path / "deep" / "page.html", measure=False).read_text()
    assert "Lines of the log that were skipped: 1" in text and "<b>" not in text.split("<section")[-1]


def test_a_page_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", MADE.study(4))
    with pytest.raises(LogError, match="cannot write"):
        html.write(log, tmp_path, measure=False)


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.jsonl")), ids=lambda path: path.stem)
def test_logs_of_every_schema_have_a_page(path: Path, tmp_path: Path) -> None:
    assert html.write(Log(path), tmp_path / "page.html", measure=False).stat().st_size > 10_000


def test_no_plotting_library_is_imported() -> None:
    heavy = ("matplotlib", "pandas", "skopt", "PIL")
    code = f"import sys, tensorlang.autotune.reporting.html; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_text_and_marks_stand_out_in_both_schemes() -> None:
    light, dark = (dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in STYLE.split("prefers-color-scheme: dark"))
    for scheme in (light, {**light, **dark}):
        for ground in ("paper", "card"):
            assert all(contrast(scheme[name], scheme[ground]) >= 4.5 for name in ("ink", "soft", "blue")), (scheme, ground)
            marks = ("blue", "teal", "amber", "red", "plum", "band")
            assert all(contrast(scheme[name], scheme[ground]) >= 2.9 for name in marks), (scheme, ground)


# In a browser ------------------------------------------------------------------------------------------------------------------------

PROBE = """
const found = {charts: 0, marks: 0, empty: [], outside: [], wide: document.documentElement.scrollWidth - innerWidth,
  fetched: performance.getEntriesByType('resource').map(e => e.name), ground: getComputedStyle(document.body).backgroundColor,
  ink: getComputedStyle(document.body).color, text: document.body.innerText.length, sideways: []};
for (const svg of document.querySelectorAll('svg[role=img]')) {
  const frame = svg.getBoundingClientRect();
  const marks = svg.querySelectorAll('circle, path, rect, line, text');
  found.charts += 1; found.marks += marks.length;
  if (!svg.querySelector('circle, path, rect') || frame.width < 50) found.empty.push(svg.getAttribute('aria-label'));
  for (const mark of marks) {
    const box = mark.getBoundingClientRect();
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
      found.outside.push([svg.getAttribute('aria-label').slice(0, 40), mark.outerHTML.slice(0, 90)]);
  }
}
return found;
"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here to look at the page with")
@pytest.mark.usefixtures("peak")
@pytest.mark.parametrize("count", [24, 2000])
def test_a_browser_draws_every_mark_inside_its_chart_and_fetches_nothing(tmp_path: Path, count: int) -> None:
    made = Made(matmul(96, 96, 96))
    page = html.write(write(tmp_path / "log.jsonl", busy(made, count)), tmp_path / "page.html")
    document, console = browse(page, tmp_path / "profile")
    assert "Best so far against trials" in document and not console, console
    policy = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
    text, times = policy.subn("", page.read_text())
    assert times == 1, "the page forbids itself to fetch or run anything; the probe has to run"
    grounds = {}
    for scheme, width in (("dark", 1280), ("light", 500)):
        found = probed(text, PROBE, tmp_path, dark=scheme == "dark", width=width)
        assert found["charts"] >= 12 and found["marks"] > 300 and found["text"] > 2000
        assert (found["empty"], found["outside"], found["fetched"]) == ([], [], [])
        assert found["wide"] <= 0, f"at {width} pixels the page is {found['wide']} too wide"
        grounds[scheme] = (found["ground"], found["ink"])
    assert grounds["dark"] == ("rgb(20, 23, 27)", "rgb(230, 233, 236)") and grounds["light"][0] == "rgb(251, 250, 248)"


# The winner's page -------------------------------------------------------------------------------------------------------------------


def test_a_report_links_the_page_of_each_winner_beside_it(tmp_path: Path) -> None:
    other = Made(matmul(16, 16, 16), op="small", run="s")
    text = page_of(tmp_path, MADE.study(8), other.study(8), winners=True)
    links = {value for name, value in Parsed(text).attributes if name == "href"} - {"data:,", "#study1", "#study2"}
    assert links == {"page-winner-1.html", "page-winner-2.html"}
    for link in links:
        page = (tmp_path / link).read_text()
        assert "What each directive did" in page and "measure=False" in page and not Parsed(page).open


def test_a_winner_that_cannot_be_rebuilt_has_no_page_and_the_report_says_why(tmp_path: Path) -> None:
    records = MADE.study(8)
    for record in records:
        if "schedule" in record:
            record["schedule"] = HOSTILE
    text = page_of(tmp_path, records, winners=True)
    assert "The winner has no page of its own: TL-S007" in text and not list(tmp_path.glob("*-winner-*"))


def test_no_more_winners_have_pages_than_a_reader_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winner_pages, "PAGES", 1)
    text = page_of(tmp_path, MADE.study(8), Made(matmul(16, 16, 16), run="s").study(8), winners=True)
    assert "page-winner-1.html" in text and "choose this one with --task" in text and not (tmp_path / "page-winner-2.html").exists()
