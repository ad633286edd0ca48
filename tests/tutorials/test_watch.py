"""Tests of the third tutorial: a healthy run, four faulty ones and a replay."""

from __future__ import annotations

import re

import pytest

from nbdebug import demo
from tests.tutorials.tutorial_outputs import tutorial_path


@pytest.fixture(scope="module")
def run_texts() -> list[str]:
    """The texts of all watched runs, each with its findings, and of replays."""
    texts: list[str] = []
    for text in demo.debugger_texts(demo.execute_notebook(tutorial_path("03_watch_it_learn.ipynb"))):
        if text.startswith(("nbdebug watch", "nbdebug replay")):
            texts.append(text)
        elif text.startswith("nbdebug findings of this run"):
            texts[-1] += f"\n{text}"
    return texts


def first_finding(text: str) -> str:
    """The first finding in the text of a run."""
    return re.split(r"\n(?=error|warning)", text)[1]


def test_watch_tutorial_runs_have_described_findings(run_texts: list[str]) -> None:
    healthy, sigmoids, relus, dead, non_finite, replay, silent = run_texts
    for quiet in (healthy, relus):
        assert "error" not in quiet
        assert "warning" not in quiet
    assert "G403 vanishing-gradient" in first_finding(sigmoids)
    assert "G401 dead-relu" in dead
    assert "O501 lr-too-high" in first_finding(dead)
    assert "M301 disconnected-parameter: ink.weight, ink.bias" in first_finding(silent)
    for text in (first_finding(non_finite), replay):
        assert "G405 non-finite-forward" in text
        assert "return centered / centered.std(1, keepdim=True)" in text
        assert "div gives NaN" in text
