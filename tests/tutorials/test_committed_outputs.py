"""Tests of the outputs with which the tutorials are committed."""

from __future__ import annotations

import io
import re
from base64 import b64decode
from math import inf
from typing import Any

import nbformat
import pytest
from PIL import Image

from nbdebug import demo
from tests.tutorials.tutorial_outputs import tutorial_path

EXPECTED_ERRORS = {"07_it_does_not_even_run.ipynb": 6}
NAMED_FINDING = re.compile(r"<b>. (?:error|warning|note) ([A-Z]\d{3} [\w-]+)</b>")


def outputs_of(name: str) -> list[Any]:
    notebook: Any = nbformat.read(tutorial_path(name), as_version=4)  # type: ignore[no-untyped-call]
    assert "widgets" not in notebook.metadata
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.mark.parametrize(
    ("name", "min_pages", "max_pages", "max_characters"),
    [
        ("01_my_model_does_not_learn.ipynb", 6, 6, 120_000),
        ("02_is_it_wired_right.ipynb", 14, 14, 25_000),
        ("03_watch_it_learn.ipynb", 11, 11, 120_000),
        ("04_which_learning_rate.ipynb", 5, inf, 60_000),
        ("05_what_does_it_get_wrong.ipynb", 7, inf, 200_000),
        ("06_why_did_it_say_that.ipynb", 7, inf, 200_000),
        ("07_it_does_not_even_run.ipynb", 3, 3, 30_000),
        ("08_is_it_the_data.ipynb", 6, 6, 200_000),
        ("09_prove_the_fix.ipynb", 6, 6, 120_000),
        ("10_why_is_it_slow_and_can_i_repeat_it.ipynb", 5, 5, 30_000),
        ("11_lightning_hugging_face_and_many_machines.ipynb", 7, 7, 120_000),
    ],
)
def test_committed_outputs_are_static_pages_without_error(
    name: str, min_pages: int, max_pages: float, max_characters: int
) -> None:
    outputs = outputs_of(name)
    pages = [output["data"] for output in outputs if 'class="nbdebug"' in output.get("data", {}).get("text/html", "")]
    assert min_pages <= len(pages) <= max_pages
    assert all(set(page) == {"text/plain", "image/png", "text/html"} for page in pages)
    assert all(len(page["text/html"]) < max_characters for page in pages)
    assert sum(output["output_type"] == "error" for output in outputs) == EXPECTED_ERRORS.get(name, 0)
    assert not re.search(r"[~/][^\s:]*/site-packages/", "".join(map(str, outputs)))  # the folders of one machine


@pytest.mark.parametrize("path", sorted(demo.tutorial_path().parent.glob("*.ipynb")), ids=lambda path: path.stem[:2])
def test_committed_outputs_without_scripts_styles_and_html_tell_the_story(path: Any) -> None:
    pages = [output["data"] for output in outputs_of(path.name) if "image/png" in output.get("data", {})]
    assert pages
    for page in pages:
        *lines, trust = page["text/plain"].splitlines()
        assert re.match(r"nbdebug [\w ]+: \w", lines[0])
        assert len(lines) <= 10
        assert "jupyter trust" in trust
        picture = b64decode(page["image/png"])
        assert len(picture) <= 40_000
        assert len(Image.open(io.BytesIO(picture)).convert("RGB").getcolors(1_000_000) or ()) > 2
        findings = NAMED_FINDING.findall(page["text/html"])
        named = [finding for finding in findings if finding in page["text/plain"]]
        assert len(named) >= min(len(findings), 7)
        assert named == findings or "more lines" in lines[-1]
