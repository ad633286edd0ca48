"""Tests of lines of functions that an edit moved in their file, which IPython keeps as they were loaded."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from nbdebug.source.location import get_line_from_frame

SOURCE = """import sys


def plain():
    def inner():
        return sys._getframe()

    return inner()


class Thing:
    def method(self):
        return sys._getframe()


class Other:
    def method(self):
        return 1, sys._getframe()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module that was imported from ``SOURCE``."""
    (tmp_path / "moved_functions.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("IPython.extensions.autoreload")
    yield importlib.import_module("moved_functions")
    del sys.modules["moved_functions"]


def shown_lines(module: ModuleType) -> list[tuple[int, str]]:
    """Return the number and text that a finding shows for the line that runs in each function."""
    frames = module.plain(), module.Thing().method(), module.Other().method()[1]
    locations = [line.where() for frame in frames if (line := get_line_from_frame(frame))]
    return [(where.line or 0, (where.source or "").strip()) for where in locations]


def edit(module: ModuleType, source: str) -> None:
    assert module.__file__
    Path(module.__file__).write_text(source)
    os.utime(module.__file__, (0, len(source)))


def lines_of(source: str) -> list[tuple[int, str]]:
    return [(number, text.strip()) for number, text in enumerate(source.splitlines(), 1) if "_getframe" in text]


def test_lines_follow_edits_above_and_between_functions(module: ModuleType) -> None:
    assert shown_lines(module) == lines_of(SOURCE)
    for old, new in (("import sys", "# One.\n# Two.\n\nimport sys"), ("class Thing", "NUMBER = 3\n\n\nclass Thing")):
        edited = SOURCE.replace(old, new)
        edit(module, edited)
        assert shown_lines(module) == lines_of(edited) != lines_of(SOURCE)


def test_line_of_function_that_was_changed_keeps_its_number(module: ModuleType) -> None:
    (inner, *_), loaded = shown_lines(module), lines_of(SOURCE)
    assert inner == loaded[0]
    for changed in (SOURCE.replace("_getframe()", "_getframe(0)"), "", "def broken(:"):
        edit(module, f"# One.\n{changed}")
        assert shown_lines(module)[0][0] == inner[0]
    edit(module, SOURCE)
    assert shown_lines(module) == loaded


def test_lines_stay_as_loaded_without_autoreload(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython.extensions.autoreload")
    assert shown_lines(module) == lines_of(SOURCE)
    edit(module, f"# One.\n{SOURCE}")
    assert shown_lines(module) == lines_of(SOURCE)
