"""What a tutorial says when every cell of it is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat

from nbdebug import demo


def spoken(path: Path) -> list[str]:
    """All texts of a run: of results, and what is printed."""
    notebook = demo.execute_notebook(path)
    printed = [output.text for cell in notebook.cells for output in cell.get("outputs", []) if "text" in output]
    return [*demo.debugger_texts(notebook), *printed]


def told(said: list[str], start: str) -> list[str]:
    """The results whose text begins so."""
    return [text for text in said if text.startswith(f"nbdebug {start}")]


def committed_pages(path: Path, most: int = 200_000) -> int:
    """How many pictures the notebook was committed with: static pages of so many characters at most, and no error."""
    notebook: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    assert "widgets" not in notebook.metadata
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pages = [output["data"] for output in outputs if "nbdebug" in output.get("data", {}).get("text/html", "")]
    assert all(len(page["text/html"]) < most for page in pages)
    assert not [output for output in outputs if output["output_type"] == "error"]
    return len(pages)
