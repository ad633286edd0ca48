"""Tests of the outputs with which the tutorials are committed."""

from __future__ import annotations

from math import inf
from typing import Any

import nbformat
import pytest

from tests.tutorials.tutorial_outputs import tutorial_path


@pytest.mark.parametrize(
    ("name", "min_pages", "max_pages", "max_characters"),
    [
        ("01_my_model_does_not_learn.ipynb", 6, 6, 200_000),
        ("02_is_it_wired_right.ipynb", 12, 12, 200_000),
        ("03_watch_it_learn.ipynb", 9, 9, 200_000),
        ("04_which_learning_rate.ipynb", 5, inf, 200_000),
        ("05_what_does_it_get_wrong.ipynb", 7, inf, 400_000),
        ("06_why_did_it_say_that.ipynb", 7, inf, 400_000),
    ],
)
def test_committed_outputs_are_static_pages_without_error(
    name: str, min_pages: int, max_pages: float, max_characters: int
) -> None:
    notebook: Any = nbformat.read(tutorial_path(name), as_version=4)  # type: ignore[no-untyped-call]
    assert "widgets" not in notebook.metadata
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pages = [output["data"] for output in outputs if "nbdebug" in output.get("data", {}).get("text/html", "")]
    assert min_pages <= len(pages) <= max_pages
    assert all(set(page) == {"text/plain", "text/html"} for page in pages)
    assert all(len(page["text/html"]) < max_characters for page in pages)
    assert not [output for output in outputs if output["output_type"] == "error"]
