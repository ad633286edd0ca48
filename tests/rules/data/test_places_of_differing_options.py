"""Tests of the line that D109 names if the datasets of two splits are created with different options."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.rule_findings import rule_faults
from tests.source.source_modules import run_program

HEADER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from nbdebug.setup import Setup
generator = torch.Generator().manual_seed(0)
x = 5 + 3 * torch.randn(400, 6, generator=generator)
y = (x @ torch.randn(6, 3, generator=generator)).argmax(1)
def plain(row):
    return row
def scaled(row):
    return (row - 5) / 3
"""
FOOTER = """
loaders = DataLoader(train, 16, shuffle=True), DataLoader(val, 16)
setup = Setup(nn.Linear(6, 3), *loaders, loss_fn=nn.CrossEntropyLoss())
"""


def dataset(parameter: str, stored: str, row: str) -> str:
    """Return a dataset with a parameter of its constructor, an attribute, and what it reads."""
    return (
        f"class Rows(Dataset):\n    def __init__(self, x, y, {parameter}):\n        self.x, self.y = x, y\n"
        f"        {stored}\n    def __len__(self): return len(self.x)\n    def __getitem__(self, i):\n"
        f"        row = self.x[i]\n{row}        return row, self.y[i]\n"
    )


_BRANCH = "        if self.unit:\n            row = (row - 5) / 3\n"
_FLAG = "self.unit = unit"
_CALL = "        row = self.prepare(row)\n"
_FUNCTION = "self.prepare = prepare"
_CALLABLES = (
    "class Read:\n    def __call__(self, row):\n        return row.clone()\n"
    "class Scale:\n    def __call__(self, row):\n        return (row - 5) / 3\n"
)
_READ = "        row = Read()(row)\n        if self.prepare:\n            row = self.prepare(row)\n"
# The line with "here" passes or lacks the option, or is wrong for another reason.
PROGRAMS = {
    "flag passed": dataset("unit=True", _FLAG, _BRANCH)
    + "train = Rows(x[:300], y[:300])\nval = Rows(x[300:], y[300:], unit=False)  # here\n",
    "flag missing": dataset("unit=False", _FLAG, _BRANCH)
    + "train = Rows(x[:300], y[:300], unit=True)\nval = Rows(x[300:], y[300:])  # here\n",
    "flag passed in a function": dataset("unit=True", _FLAG, _BRANCH)
    + "def build():\n    first = Rows(x[:300], y[:300])\n    second = Rows(\n        x[300:],\n        y[300:],\n"
    "        unit=False,  # here\n    )\n    return first, second\ntrain, val = build()\n",
    "flag set later": dataset("unit=True", _FLAG, _BRANCH)
    + "train, val = Rows(x[:300], y[:300]), Rows(x[300:], y[300:])\nval.unit = False  # here\n",
    "number": dataset("width=10.0", "self.width = width", "        row = row / self.width\n")
    + "train = Rows(x[:300], y[:300])\nval = Rows(x[300:], y[300:], 1.0)  # here\n",
    "function passed": dataset("prepare", _FUNCTION, _CALL)
    + "train = Rows(x[:300], y[:300], scaled)\nval = Rows(x[300:], y[300:], plain)  # here\n",
    "function missing": dataset("prepare=plain", _FUNCTION, _CALL)
    + "train = Rows(x[:300], y[:300], scaled)\nval = Rows(x[300:], y[300:])  # here\n",
    "unnamed function": dataset("prepare", _FUNCTION, _CALL)
    + "train = Rows(x[:300], y[:300], lambda row: (row - 5) / 3)\n"
    "val = Rows(x[300:], y[300:], lambda row: row)  # here\n",
    "list of functions": dataset(
        "steps", "self.steps = steps", "        for step in self.steps:\n            row = step(row)\n"
    )
    + "train = Rows(x[:300], y[:300], [scaled])\nval = Rows(x[300:], y[300:], [])  # here\n",
    "function by a flag": dataset("known=False", "self.prepare = scaled if known else plain  # here", _CALL)
    + "train, val = Rows(x[:300], y[:300], known=True), Rows(x[300:], y[300:])\n",
    "flag of training": dataset(
        "train",
        "self.train = train",
        "        if self.train:\n            row = (row - 5) / 3  # here\n"
        "            row = row + 0.01 * torch.randn(6)\n",
    )
    + "train, val = Rows(x[:300], y[:300], True), Rows(x[300:], y[300:], False)\n",
    "function that reverses channels, with flat pictures": dataset("prepare", _FUNCTION, _CALL)
    + "inks = torch.rand(9, 3, 1, 1, generator=generator)\n"
    "kinds = torch.randint(9, (900,), generator=generator)\n"
    "inks[:, 0] += 0.4\nshown = inks[kinds] + 0.1 * torch.randn(900, 3, 4, 4, generator=generator)\n"
    "def read(row):\n    return row\ndef read_frame(row):\n    return row.flip(0)\n"
    "train = Rows(shown[:700], kinds[:700], read)\nval = Rows(shown[700:], kinds[700:], read_frame)  # here\n",
    "object missing beside another": _CALLABLES
    + dataset("prepare=None", _FUNCTION, _READ)
    + "train = Rows(x[:300], y[:300], Scale())\nval = Rows(x[300:], y[300:])  # here\n",
    "object missing in one of two branches": _CALLABLES
    + dataset("prepare=None", _FUNCTION, _READ)
    + "def build(fixed=False):\n    train = Rows(x[:300], y[:300], Scale())\n    if fixed:\n"
    "        val = Rows(x[300:], y[300:], Scale())\n    else:\n        val = Rows(x[300:], y[300:])  # here\n"
    "    return train, val\ntrain, val = build()\n",
    "another option too": dataset("unit=True, title=''", "self.unit, self.title = unit, title", _BRANCH)
    + "train = Rows(x[:300], y[:300], title='a')\nval = Rows(x[300:], y[300:], False, title='b')  # here\n",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_option_of_one_split_names_the_line_that_passes_or_lacks_it(name: str, tmp_path: Path) -> None:
    network = "nn.Sequential(nn.Flatten(), nn.Linear(48, 9))" if "pictures" in name else "nn.Linear(6, 3)"
    program = HEADER + PROGRAMS[name] + FOOTER.replace("nn.Linear(6, 3)", network)
    variables = run_program(tmp_path / "program.py", program)
    (finding,) = rule_faults(variables["setup"], "D109")
    assert "# here" in (finding.where.source or ""), finding.where
