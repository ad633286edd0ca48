"""The user's own line, by a piece of its text: for what leaves no trace in a graph, such as an optimizer's options."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from typing import Any

from nbdebug.graph.source import Line, is_library, is_machinery


def line_with(text: str, *near: Any) -> Line | None:
    """The one line that holds ``text``, in the notebook or in the files that the classes of ``near`` come from.

    None where there is no such line, or more than one.
    """
    lines = [line for file in files(near) for line in lines_of(file) if text in line.text]
    return lines[0] if len(lines) == 1 else None


def files(near: tuple[Any, ...]) -> Iterator[str]:
    """The cells of the notebook, and the user's files among those that hold the classes of some objects."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    yield from getattr(getattr(shell, "compile", None), "_filename_map", {})
    homes = (sys.modules.get(type(one).__module__) for one in near)
    named = {getattr(home, "__file__", None) for home in (*homes, sys.modules.get("__main__"))}
    yield from (file for file in named if file and not is_library(file) and not is_machinery(file))


def lines_of(file: str) -> Iterator[Line]:
    """The lines of a file that hold code."""
    for number, text in enumerate(linecache.getlines(file), 1):
        if text.strip() and not text.lstrip().startswith("#"):
            yield Line(file, number)
