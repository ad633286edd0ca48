"""The second tutorial: five mistakes, each found with its line, each mended."""

from __future__ import annotations

from typing import Any

import pytest

from nbdebug import demo
from tests.tutorials.tutorial_outputs import committed_pages

PATH = demo.tutorial_path().with_name("02_is_it_wired_right.ipynb")
FOUND = {
    "L205": "return ((answer - truth) ** 2).mean()",
    "M303": "self.layers = [nn.Linear(width, width) for _ in range(depth)]",
    "M304": "states, _ = self.lstm(x)",
    "O503": "model.head = nn.Linear(64, 2)",
    "M305": "return self.head(self.block(x))",
}


@pytest.fixture(scope="module")
def executed() -> Any:
    """The notebook after a run of every cell."""
    return demo.execute_notebook(PATH)


def test_each_mistake_is_found_with_its_line_and_is_gone_after_the_fix(executed: Any) -> None:
    checkups = [text for text in demo.debugger_texts(executed) if text.startswith("nbdebug checkup")]
    assert len(checkups) == 2 * len(FOUND) + 1
    for (code, line), faulty, mended in zip(FOUND.items(), checkups[::2], checkups[1::2], strict=False):
        first = faulty.split("\n\n")[1]
        assert first.startswith(f"error {code}")
        assert line in first
        assert "error" not in mended.split("not checked")[0]
        assert "warning" not in mended.split("not checked")[0]


def test_the_summary_shows_the_head_that_no_group_holds(executed: Any) -> None:
    (summary,) = (text for text in demo.debugger_texts(executed) if text.startswith("nbdebug summary"))
    (head,) = (line for line in summary.splitlines() if line.startswith("  head Linear"))
    assert "130 in no group" in head
    assert head.endswith("O503")


def test_its_committed_outputs_are_static_pages_without_an_error() -> None:
    assert committed_pages(PATH) == 2 * len(FOUND) + 2
