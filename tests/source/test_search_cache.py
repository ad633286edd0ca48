"""Tests that a file is searched as it is now, although what was found in its text is kept."""

from __future__ import annotations

import ast
import linecache
from pathlib import Path

from nbdebug.source.search import parameter_names, parse_expressions


def test_changed_file_is_parsed_again(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    for text, number in (("f(1)\n", 1), ("f(2222)\n", 2222)):
        script.write_text(text)
        linecache.checkcache(str(script))
        constants = [node.value for node in parse_expressions(str(script)) if isinstance(node, ast.Constant)]
        assert constants == [number]


def test_file_that_is_not_python_has_no_expressions(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("%matplotlib inline\n")
    assert parse_expressions(str(script)) == []


def test_parameters_of_a_constructor() -> None:
    assert parameter_names(complex) == ("real", "imag")
    assert parameter_names(type) == ()
