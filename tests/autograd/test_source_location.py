"""Tests of nbdebug.source.location: the line of the user in a stack."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

import nbdebug
from nbdebug.source.location import (
    SourceLine,
    find_user_line,
    get_cell_number,
    get_line_from_exception,
    get_line_from_frame,
)

PACKAGE_FILE = str(Path(nbdebug.__file__).with_name("debugger.py"))
TORCH_FILE = str(Path(sysconfig.get_paths()["purelib"]) / "torch" / "nn" / "functional.py")


def test_find_user_line_is_innermost_line_outside_libraries_and_nbdebug() -> None:
    stack = [
        SourceLine("notebook.py", 1),
        SourceLine(PACKAGE_FILE, 2),
        SourceLine("model.py", 3),
        SourceLine("layers.py", 4),
        SourceLine(TORCH_FILE, 5),
    ]
    assert find_user_line(reversed(stack)) == SourceLine("layers.py", 4)


def test_find_user_line_of_stack_inside_nbdebug_is_none() -> None:
    stack = [SourceLine(TORCH_FILE, 3), SourceLine(PACKAGE_FILE, 2), SourceLine("notebook.py", 1)]
    assert find_user_line(stack) is None


def test_line_of_frame_and_of_exception_has_file_and_text() -> None:
    frame_line = get_line_from_frame(sys._getframe())
    assert frame_line is not None
    assert frame_line.file == __file__
    assert "frame_line = get_line_from_frame" in frame_line.text
    with pytest.raises(ZeroDivisionError) as error:
        print(1 / 0)
    exception_line = get_line_from_exception(error.value)
    assert exception_line is not None
    assert "1 / 0" in exception_line.text


def test_source_line_that_cannot_be_read_has_no_text() -> None:
    line = SourceLine("<string>", 3)
    assert line.text == ""
    assert line.where().context == ()


def test_get_cell_number_of_notebook_cell_is_its_execution_count() -> None:
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        name = shell.compile.cache("x = 1\n", number=12)
        shell.compile._filename_map[name] = 12
        assert get_cell_number(name) == 12
        assert get_cell_number(__file__) is None
        assert str(SourceLine(name, 1).where()) == "In[12], line 1"
    finally:
        InteractiveShell.clear_instance()


def test_find_user_line_of_a_call_that_passes_through_the_debugger() -> None:
    stack = [SourceLine(PACKAGE_FILE, 3, "__torch_function__"), SourceLine("loss.py", 2), SourceLine(PACKAGE_FILE, 1)]
    assert find_user_line(stack) == SourceLine("loss.py", 2)
