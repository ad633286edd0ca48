"""From a stack to the user's own line."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

import nbdebug
from nbdebug.graph.rewrite import without_call
from nbdebug.graph.source import Line, cell_number, from_exception, from_frame, users_line

MACHINERY = str(Path(nbdebug.__file__).with_name("debugger.py"))
LIBRARY = str(Path(sysconfig.get_paths()["purelib"]) / "torch" / "nn" / "functional.py")


def test_the_innermost_line_that_is_neither_a_librarys_nor_the_debuggers() -> None:
    stack = [Line("notebook.py", 1), Line(MACHINERY, 2), Line("model.py", 3), Line("layers.py", 4), Line(LIBRARY, 5)]
    assert users_line(reversed(stack)) == Line("layers.py", 4)


def test_the_call_of_the_debugger_is_not_to_blame() -> None:
    assert users_line([Line(LIBRARY, 3), Line(MACHINERY, 2), Line("notebook.py", 1)]) is None


def test_the_line_of_a_frame_and_of_an_exception() -> None:
    here = from_frame(sys._getframe())
    assert here is not None
    assert here.file == __file__
    assert "here = from_frame" in here.text
    with pytest.raises(ZeroDivisionError) as caught:
        print(1 / 0)
    line = from_exception(caught.value)
    assert line is not None
    assert "1 / 0" in line.text


def test_a_line_that_cannot_be_read_has_no_text() -> None:
    line = Line("<string>", 3)
    assert line.text == ""
    assert line.where().context == ()


def test_a_cell_is_known_by_its_number() -> None:
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        name = shell.compile.cache("x = 1\n", number=12)
        shell.compile._filename_map[name] = 12
        assert cell_number(name) == 12
        assert cell_number(__file__) is None
        assert str(Line(name, 1).where()) == "In[12], line 1"
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
    assert without_call(line, {"softmax"}) == mended
