"""Paths and text outputs of the tutorials."""

from __future__ import annotations

from pathlib import Path

from nbdebug import demo


def tutorial_path(name: str) -> Path:
    return demo.tutorial_path().with_name(name)


def executed_texts(path: Path) -> list[str]:
    """All results and printed texts of a fresh run of a tutorial."""
    notebook = demo.execute_notebook(path)
    prints = [output.text for cell in notebook.cells for output in cell.get("outputs", []) if "text" in output]
    return [*demo.debugger_texts(notebook), *prints]


def results_of(texts: list[str], tool: str) -> list[str]:
    """The texts of the results of one tool."""
    return [text for text in texts if text.startswith(f"nbdebug {tool}")]
