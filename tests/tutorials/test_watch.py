"""The third tutorial: a healthy run from inside, and three that go wrong in their layers."""

from __future__ import annotations

import pytest

from nbdebug import demo
from tests.tutorials.tutorial_outputs import committed_pages

PATH = demo.tutorial_path().with_name("03_watch_it_learn.ipynb")


@pytest.fixture(scope="module")
def runs() -> list[str]:
    """What each watched run said after a run of every cell."""
    return [
        text
        for text in demo.debugger_texts(demo.execute_notebook(PATH))
        if text.startswith(("nbdebug watch", "nbdebug replay"))
    ]


def first(said: str) -> str:
    """The first finding in what a run said."""
    return next(part for part in said.split("\n\n") if part.startswith(("error", "warning")))


def test_each_run_says_what_its_text_tells(runs: list[str]) -> None:
    healthy, sigmoids, rectified, dead, broken, replayed = runs
    for quiet in (healthy, rectified):
        assert "error" not in quiet
        assert "warning" not in quiet
    assert "G403 vanishing-gradient" in first(sigmoids)
    assert "G401 dead-relu" in dead
    assert "O501 lr-too-high" in first(dead)
    for text in (first(broken), replayed):
        assert "G405 non-finite-forward" in text
        assert "return centered / centered.std(1, keepdim=True)" in text
        assert "div gives NaN" in text


def test_its_committed_outputs_are_static_pages_without_an_error() -> None:
    assert committed_pages(PATH) == 9
