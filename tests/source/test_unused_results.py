"""Tests of the search for results that a function computes and does not use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nbdebug.source.location import SourceLine
from nbdebug.source.unused_results import find_unused_result, store_result, unread_results
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


# By name: the body of a forward with "# here" on an assignment, and the names that nothing reads.
UNREAD: dict[str, tuple[str, list[str]]] = {
    "state": ("_, state = self.encode(x)  # here\nreturn self.decode(x)", ["state"]),
    "state that is overwritten": ("_, h = self.encode(x)  # here\ny, h = self.decode(x)\nreturn y, h", ["h"]),
    "part of a result": ("state = self.encode(x)[1]  # here\nreturn self.decode(x)", ["state"]),
    "two names": ("a, b = self.encode(x)  # here\nreturn self.decode(x)", ["a", "b"]),
    "in a loop": ("for _ in x:\n    other = self.cell(x, h)  # here\nreturn h", ["other"]),
    "one of two names": ("a, b = self.encode(x)  # here\nreturn self.decode(a)", []),
    "state that is passed on": ("_, state = self.encode(x)  # here\nreturn self.decode(x, state)", []),
    "state of the next round": ("for t in x:\n    y = self.read(h)\n    h = self.cell(t)  # here\nreturn y", []),
    "read by a function inside": ("h = self.encode(x)  # here\nf = lambda: h\nreturn f()", []),
    "attribute": ("self.state = self.encode(x)  # here\nreturn self.decode(x)", []),
    "only ignored": ("_ = self.encode(x)  # here\nreturn self.decode(x)", []),
    "no assignment": ("self.encode(x)  # here\nreturn self.decode(x)", []),
}


@pytest.mark.parametrize("name", UNREAD)
def test_names_that_nothing_reads(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body, expected = UNREAD[name]
    indented = "\n".join(f"        {text}" for text in body.splitlines())
    text = f"class Model:\n    def forward(self, x, h=None):\n{indented}\n"
    number = 1 + next(number for number, line in enumerate(text.splitlines()) if line.endswith("# here"))
    monkeypatch.setitem(sys.modules, "unread_results_model", load_module(tmp_path / "model.py", text))
    assert unread_results(SourceLine(str(tmp_path / "model.py"), number)) == expected
