"""The README and the pages of docs/ say what is so: their examples run, their links lead somewhere, CI runs their test command."""

import doctest
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```.*$", re.MULTILINE)


def label(page: Path) -> str:
    return str(page.relative_to(ROOT))


def quick_start() -> list[str]:
    """The code blocks between the heading "Quick start" and the next one."""
    text = (ROOT / "README.md").read_text()
    section = text.split("## Quick start\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^```\w*\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def test_the_quick_start_is_two_commands_of_one_line_each() -> None:
    blocks = quick_start()
    assert len(blocks) == 2
    assert all(block.count("\n") == 1 for block in blocks)
    install_and_tune, install_and_test = (block.strip() for block in blocks)
    assert install_and_tune.startswith("python -m pip install -e . && autotune run ")
    assert install_and_test == "python -m pip install -e '.[test]' && python -m pytest"


def test_the_quick_start_opens_the_readme() -> None:
    """`.ci/run` counts code blocks from the top of the file."""
    assert "```" not in (ROOT / "README.md").read_text().split("## Quick start", 1)[0]


def test_ci_runs_the_test_command_of_the_readme() -> None:
    body = re.search(r"^readme_test_command\(\) \{\n(.*?)^\}", (ROOT / ".ci" / "run").read_text(), re.MULTILINE | re.DOTALL)
    assert body
    found = subprocess.run(["bash", "-c", body[1]], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert found == quick_start()[1]


@pytest.mark.usefixtures("brief_jobs")
@pytest.mark.parametrize("page", PAGES, ids=label)
def test_the_examples_of_a_page_do_what_it_shows(page: Path) -> None:
    """A page is one doctest; its fences count as blank lines, so that line numbers stay."""
    text = FENCE.sub("", page.read_text())
    examples = doctest.DocTestParser().get_doctest(text, {}, label(page), str(page), 0)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples, out=report.append)
    assert result.failed == 0, "".join(report)


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_every_python_block_of_a_page_is_an_example(page: Path) -> None:
    """Nothing that looks like Python goes unrun."""
    for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        assert block.startswith(">>> "), block
