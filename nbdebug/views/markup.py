"""Escaped HTML of the simplest kind."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any


def table(rows: Iterable[Iterable[str]], head: Iterable[str] = ()) -> str:
    """A table of texts; nothing at all without rows."""
    body = "".join(_row(row, "td") for row in rows)
    return f"<table>{_row(head, 'th')}{body}</table>" if body else ""


def paragraph(text: Any) -> str:
    """A paragraph; nothing at all for an empty text."""
    return f"<p>{escape(str(text))}</p>" if text else ""


def listed(items: Iterable[str]) -> str:
    """A list with bullets; nothing at all without items."""
    body = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<ul>{body}</ul>" if body else ""


def _row(cells: Iterable[str], tag: str) -> str:
    texts = "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells)
    return f"<tr>{texts}</tr>" if texts else ""
