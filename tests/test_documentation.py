"""Tests of the README, the pages in docs/, the text of the tutorials, and of retired words."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from nbdebug.rule_engine import rule_registry
from tests.rule_table import documented_table, expected_table

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
TUTORIALS = sorted((ROOT / "notebooks").glob("*.ipynb"))
WORD_LISTS = ("vocabulary.md", "CONTRIBUTING.md", "rules.md")  # these quote retired words, or the pages of rules


def test_rules_page_lists_all_rules() -> None:
    assert documented_table() == expected_table(), (
        f"run python -m tests.rule_table; the expected table is\n{expected_table()}"
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_page_have_existing_targets(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"", text)
    for target, _, anchor in (("".join(link)).partition("#") for link in links):
        page = (path.parent / target).resolve() if target else path
        assert page.exists(), target
        assert not anchor or anchor in headings(page), f"{target}#{anchor}"


def headings(page: Path) -> set[str]:
    """Return the anchors of a page: its headings in lower case, with hyphens for spaces."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in titles}


def test_start_page_links_all_pages() -> None:
    index = ROOT / "docs/index.md"
    text = index.read_text(encoding="utf-8")
    assert [path.name for path in index.parent.glob("*.md") if path != index and f"]({path.name}) |" not in text] == []


def test_readme_links_start_page_and_tutorials_and_lists_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [ROOT / "docs/index.md", *(ROOT / "notebooks").glob("*.ipynb")]
    assert [path.name for path in pages if f"({path.relative_to(ROOT).as_posix()})" not in readme] == []
    assert [command for command in ("\nmake demo ", "\nmake test ", "`make lab`") if command not in readme] == []
    assert f"{len(rule_registry.load_rules())} rules" in readme


@pytest.mark.parametrize("path", [page for page in PAGES if page.name not in WORD_LISTS], ids=lambda path: path.name)
def test_page_contains_no_retired_word(path: Path) -> None:
    assert retired_words(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.name)
def test_tutorial_text_contains_no_retired_word(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    prose = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    assert retired_words("\n".join(prose)) == []


def test_package_contains_no_retired_word() -> None:
    paths = [path for suffix in ("py", "js") for path in (ROOT / "nbdebug").rglob(f"*.{suffix}")]
    retired = {path.name: retired_words(path.read_text(encoding="utf-8")) for path in paths}
    assert len(paths) > 400
    assert {name: words for name, words in retired.items() if words} == {}


def retired_words(text: str) -> list[str]:
    """Return the retired words of docs/vocabulary.md that a text contains, also across line breaks."""
    return retired_word_pattern().findall(" ".join(text.split()))


@cache
def retired_word_pattern() -> re.Pattern[str]:
    vocabulary = (ROOT / "docs/vocabulary.md").read_text(encoding="utf-8")
    listed = vocabulary.partition("<!-- retired: begin -->")[2].partition("<!-- retired: end -->")[0]
    words = re.findall(r"^\| `([^`]+)` \|", listed, re.MULTILINE)
    assert words
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b", re.IGNORECASE)
