"""Tests of the second tutorial: six mistakes in a model and its training, each located and repaired."""

from __future__ import annotations

import re
from typing import Any

import pytest

from nbdebug import demo
from tests.tutorials.tutorial_outputs import results_of, tutorial_path

MISTAKES = [
    ("L205", "return ((answer - truth) ** 2).mean()"),
    ("M303", "self.layers = [nn.Linear(width, width) for _ in range(depth)]"),
    ("M304", "self.lstm = nn.LSTM(8, 64)"),
    ("O503", "In[9], line 4"),
    ("M305", "return self.head(self.block(x))"),
    ("M305", "mask = torch.ones(x.shape[1], x.shape[1]).tril(-1).bool()"),
]


@pytest.fixture(scope="module")
def notebook() -> Any:
    return demo.execute_notebook(tutorial_path("02_is_it_wired_right.ipynb"))


def test_wiring_tutorial_checkups_locate_each_mistake_until_repaired(notebook: Any) -> None:
    checkups = results_of(demo.debugger_texts(notebook), "checkup")
    assert len(checkups) == 2 * len(MISTAKES) + 1
    for (code, line), faulty, repaired in zip(MISTAKES, checkups[::2], checkups[1::2], strict=False):
        first = re.split(r"\n(?=error|warning|note)", faulty)[1]
        assert first.startswith(f"error {code}")
        assert line in first
        assert "error" not in repaired.split("not checked")[0]
        assert "warning" not in repaired.split("not checked")[0]


def test_wiring_tutorial_summary_marks_head_without_optimizer_group(notebook: Any) -> None:
    (summary,) = results_of(demo.debugger_texts(notebook), "summary")
    (head,) = (line for line in summary.splitlines() if line.startswith("  head Linear"))
    assert "130 in no group" in head
    assert head.split()[2] == "O503"
