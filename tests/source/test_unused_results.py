"""Tests of the search for results that a function computes and does not use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nbdebug.source.location import SourceLine
from nbdebug.source.unused_results import find_unused_result, store_result
from tests.source.source_modules import load_module

# By name: the body of a forward, and the line that loses a result; None for no such line, or several.
BODIES: dict[str, tuple[str, str | None]] = {
    "call without effect": ("x = self.embed(x)\nself.position(x)\nreturn self.head(x)", "self.position(x)"),
    "overwritten variable": ("h = self.image(x)\nh = self.facts(y)\nreturn self.head(h)", "h = self.facts(y)"),
    "overwritten in a branch": (
        "if y is not None:\n    h = self.image(x)\n    h = self.facts(y)\nelse:\n    h = x\nreturn h",
        "h = self.facts(y)",
    ),
    "branch that would use it and return": (
        "h = self.image(x)\nif self.fuse:\n    return self.head(h)\nh = self.facts(y)\nreturn self.head(h)",
        "h = self.facts(y)",
    ),
    "two losses": ("self.norm(x)\nself.drop(x)\nreturn x", None),
    "chain of one variable": ("x = self.first(x)\nx = self.second(x)\nreturn x", None),
    "change in place": ("h = self.first(x)\nh += self.second(x)\nreturn h", None),
    "call that changes its argument": ("self.fill_(x)\nreturn x", None),
    "overwritten in one branch": ("h = self.first(x)\nif y:\n    h = self.second(x)\nreturn h", None),
    "read by a function inside": ("h = self.first(x)\nf = lambda: h\nh = self.second(x)\nreturn f() + h", None),
    "other function": ("print(x)\nreturn x", None),
    "activation without effect": ("x = self.first(x)\nF.relu(x)\nreturn x", "F.relu(x)"),
    "activation in place": ("x = self.first(x)\nF.relu(x, inplace=True)\nreturn x", None),
}


@pytest.mark.parametrize("name", BODIES)
def test_find_unused_result_returns_the_line_that_loses_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, expected = BODIES[name]
    file = tmp_path / "model.py"
    indented = "\n".join(f"        {text}" for text in body.splitlines())
    text = f"from torch.nn import functional as F\nclass Model:\n    def forward(self, x, y=None):\n{indented}\n"
    monkeypatch.setitem(sys.modules, "unused_results_model", load_module(file, text))
    line = find_unused_result(SourceLine(str(file), 3))
    assert (line.text.strip() if line else None) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [("x.add(self.place)", "x = x.add(self.place)"), ("self.place(x)", ""), ("F.relu(x)", ""), ("y = x.add(1)", "")],
)
def test_store_result_assigns_the_result_of_a_method_to_its_variable(tmp_path: Path, body: str, expected: str) -> None:
    file = tmp_path / "model.py"
    load_module(file, f"class Model:\n    def forward(self, x):\n        {body}\n        return x\n")
    assert store_result(SourceLine(str(file), 3, "forward")) == expected
