"""From a stack to the user's own line."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

import nbdebug
from nbdebug.autograd.patterns import remove_calls
from nbdebug.source.location import (
    SourceLine,
    find_user_line,
    get_cell_number,
    get_line_from_exception,
    get_line_from_frame,
)

MACHINERY = str(Path(nbdebug.__file__).with_name("debugger.py"))
LIBRARY = str(Path(sysconfig.get_paths()["purelib"]) / "torch" / "nn" / "functional.py")


def test_the_innermost_line_that_is_neither_a_librarys_nor_the_debuggers() -> None:
    stack = [
        SourceLine("notebook.py", 1),
        SourceLine(MACHINERY, 2),
        SourceLine("model.py", 3),
        SourceLine("layers.py", 4),
        SourceLine(LIBRARY, 5),
    ]
    assert find_user_line(reversed(stack)) == SourceLine("layers.py", 4)


def test_the_call_of_the_debugger_is_not_to_blame() -> None:
    assert find_user_line([SourceLine(LIBRARY, 3), SourceLine(MACHINERY, 2), SourceLine("notebook.py", 1)]) is None


def test_the_line_of_a_frame_and_of_an_exception() -> None:
    here = get_line_from_frame(sys._getframe())
    assert here is not None
    assert here.file == __file__
    assert "here = get_line_from_frame" in here.text
    with pytest.raises(ZeroDivisionError) as caught:
        print(1 / 0)
    line = get_line_from_exception(caught.value)
    assert line is not None
    assert "1 / 0" in line.text


def test_a_line_that_cannot_be_read_has_no_text() -> None:
    line = SourceLine("<string>", 3)
    assert line.text == ""
    assert line.where().context == ()


def test_a_cell_is_known_by_its_number() -> None:
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


@pytest.mark.parametrize(
    ("line", "mended"),
    [
        ("        return F.softmax(x, dim=1)", "return x"),
        ("return self.head(x).softmax(1)", "return self.head(x)"),
        ("y = torch.nn.functional.softmax(self.fc(x), -1) * 2", "y = self.fc(x) * 2"),
        ("return torch.softmax(input=x, dim=1)", None),
        ("return x", None),
        ("if x:", None),
    ],
)
def test_a_line_is_mended_by_taking_the_call_off(line: str, mended: str | None) -> None:
    assert remove_calls(line, {"softmax"}) == mended
