"""Tests of a result in a notebook that a builder of books turns into a page, in Chromium."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from torch import nn

import nbdebug

NODE_MISSING = "mystmd needs node, which is not installed"


@pytest.fixture
def output(tmp_path: Path) -> dict[str, Any]:
    """Write a notebook whose only output is a checkup that finds L201, and return that output."""
    batch = torch.randn(32, 4), torch.arange(32) % 3
    model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
    report = nbdebug.Debugger(model, [batch], loss_fn=nn.CrossEntropyLoss()).checkup("quick")
    data: dict[str, Any] = report._repr_mimebundle_()
    result = nbformat.v4.new_output("execute_result", data, execution_count=1)
    cells = [nbformat.v4.new_markdown_cell("# Book"), nbformat.v4.new_code_cell("dbg.checkup()", outputs=[result])]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "index.ipynb")
    return data


def build(folder: Path, *command: str, **environment: str) -> str:
    """Run a builder in a folder, and return what it printed."""
    process = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False
    )
    return process.stdout + process.stderr


def assert_page_is_drawn(page: Any, file: Path) -> None:
    """Assert that the script of the result has drawn its page, and that nothing was loaded from the network."""
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_function("!document.querySelector('.nb-plain')")
    page.locator(".nbdebug").get_by_text("softmax-before-cross-entropy").first.wait_for()
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_page_of_myst_nb_draws_a_result(page: Any, output: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("myst_nb", reason="myst-nb is not installed")
    settings = 'extensions = ["myst_nb"]\nnb_execution_mode = "off"\nnb_ipywidgets_js = {}\n'
    (tmp_path / "conf.py").write_text(settings, "utf-8")
    printed = build(tmp_path, sys.executable, "-m", "sphinx", "--quiet", "-W", ".", "built")
    assert (tmp_path / "built/index.html").exists(), printed
    assert_page_is_drawn(page, tmp_path / "built/index.html")


def test_content_of_mystmd_has_the_whole_result(page: Any, output: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("mystmd_py", reason="mystmd is not installed")
    command = shutil.which("myst", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if command is None or shutil.which("node") is None:
        pytest.skip(NODE_MISSING)
    settings = "version: 1\nproject:\n  toc:\n    - file: index.ipynb\nsite:\n  template: book-theme\n"
    (tmp_path / "myst.yml").write_text(settings, "utf-8")
    printed = build(tmp_path, command, "build", "--site", API_URL="http://127.0.0.1:9")  # no theme is loaded
    content = tmp_path / "_build/site/content/index.json"
    assert content.exists(), printed
    (html,) = _html_outputs(json.loads(content.read_text("utf-8"))["mdast"], tmp_path / "_build/site/public")
    assert html == output["text/html"]
    (tmp_path / "page.html").write_text(f"<!doctype html><meta charset=utf-8>{html}", "utf-8")
    assert_page_is_drawn(page, tmp_path / "page.html")


def pandoc() -> str:
    """Return the path of pandoc, with which Quarto makes its pages."""
    bundle = pytest.importorskip("pypandoc", reason="pypandoc-binary is not installed")
    try:
        return str(bundle.get_pandoc_path())
    except OSError:
        pytest.skip("pandoc is not installed")


def test_page_of_pandoc_draws_a_result(page: Any, output: dict[str, Any], tmp_path: Path) -> None:
    printed = build(tmp_path, pandoc(), "--standalone", "index.ipynb", "--output", "page.html")
    assert output["text/html"] in (tmp_path / "page.html").read_text("utf-8"), printed
    assert_page_is_drawn(page, tmp_path / "page.html")


def test_page_of_markdown_that_quarto_writes_draws_a_result(page: Any, output: dict[str, Any], tmp_path: Path) -> None:
    """Quarto writes the output into a raw block of a Markdown file, and passes that to pandoc."""
    raw_block = f"::: {{.cell-output .cell-output-display}}\n```{{=html}}\n{output['text/html']}\n```\n:::\n"
    (tmp_path / "page.md").write_text(f"# Book\n\n{raw_block}", "utf-8")
    settings = ("--from", "markdown", "--standalone", "--embed-resources", "--metadata", "title=Book")
    printed = build(tmp_path, pandoc(), *settings, "page.md", "--output", "page.html")
    assert (tmp_path / "page.html").exists(), printed
    assert_page_is_drawn(page, tmp_path / "page.html")


def _html_outputs(node: Any, folder: Path) -> Iterator[str]:
    """Yield the HTML of all outputs under a node of the document; that of large ones is in files."""
    if isinstance(node, dict):
        html = node.get("jupyter_data", {}).get("data", {}).get("text/html") if node.get("type") == "output" else None
        if html is not None:
            yield html["content"] if "content" in html else (folder / html["path"].lstrip("/")).read_text("utf-8")
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _html_outputs(child, folder)
