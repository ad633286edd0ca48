"""What a tutorial says when every cell of it is run."""

from __future__ import annotations

from pathlib import Path

from nbdebug import demo


def spoken(path: Path) -> list[str]:
    """All texts of a run: of results, and what is printed."""
    notebook = demo.executed(path)
    printed = [output.text for cell in notebook.cells for output in cell.get("outputs", []) if "text" in output]
    return [*demo.said(notebook), *printed]


def told(said: list[str], start: str) -> list[str]:
    """The results whose text begins so."""
    return [text for text in said if text.startswith(f"nbdebug {start}")]
