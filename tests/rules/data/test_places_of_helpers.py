"""Tests of the line that D101, D103 and D126 name if a function that a dataset or collate function calls is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.rule_findings import rule_findings
from tests.source.source_modules import run_program

HEADER = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from nbdebug.setup import Setup
generator = torch.Generator().manual_seed(0)
x = torch.randn(200, 6, generator=generator)
y = (x @ torch.randn(6, 3, generator=generator)).argmax(1)
tokens = torch.randint(0, 20, (200, 9), generator=generator)
class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(20, 8), nn.Linear(8, 20)
    def forward(self, x): return self.head(self.embedding(x).cumsum(1)).transpose(1, 2)
"""


def rows(sample: str, helper: str = "", methods: str = "", parts: str = "x, y", options: str = "") -> str:
    """Return a program whose dataset keeps ``parts`` and returns ``sample``."""
    names = parts.split(", ")
    kept = "\n".join(f"        self.{name} = {name}" for name in names)
    model = "Language()" if parts == "tokens" else "nn.Linear(6, 3)"
    return (
        f"{helper}class Rows(Dataset):\n    def __init__(self, {parts}):\n{kept}\n{methods}"
        f"    def __len__(self): return len(self.{names[0]})\n    def __getitem__(self, i):\n        return {sample}\n"
        f"loader = DataLoader(Rows({parts}), 16{options})\n"
        f"setup = Setup({model}, loader, loss_fn=nn.CrossEntropyLoss())\n"
    )


def collated(helper: str, sample: str = "self.x[i], self.y[i]", parts: str = "x, y") -> str:
    return rows(sample, helper, parts=parts, options=", collate_fn=collate")


_STACKED = "torch.stack([sample[0] for sample in samples])"
_LABELS = "    labels = torch.stack([sample[1] for sample in samples])\n"
_COLLATE_PAIR = "def collate(samples):\n    inputs, targets = pair(torch.stack(samples))\n    return inputs, targets\n"
# The line with "here" makes the wrong values.
PROGRAMS = {
    "D101 of one label": rows("self.x[i], code(self.y[i])", "def code(label):\n    return label + 1  # here\n"),
    "D101 beside a reversed array": rows(
        "self.x[i], code(self.y[i])",
        "import numpy as np\norder = np.full(200, 0.5)[::-1]\ndef code(label):\n    return label + 1  # here\n",
        parts="x, y, order",
    ),
    "D101 in a branch": rows(
        "self.x[i], code(self.y[i])",
        "def code(label):\n    number = label.clone()\n    if number == 2:\n        number = torch.tensor(7)  # here\n"
        "    return number\n",
    ),
    "D101 of a batch": collated(
        f"def labels_of(samples):\n{_LABELS}    return labels + 1  # here\n"
        f"def collate(samples):\n    return {_STACKED}, labels_of(samples)\n"
    ),
    "D101 written into a batch": collated(
        f"def labels_of(samples):\n{_LABELS}    labels[labels == 2] = 9  # here\n    return labels\n"
        f"def collate(samples):\n    x, y = {_STACKED}, labels_of(samples)\n    return x, y\n"
    ),
    "D103 of a row": rows(
        "scale(self.x[i]), self.y[i]", "def scale(row):\n    logs = row.log()  # here\n    return logs - 1\n"
    ),
    "D103 of a method": rows(
        "self.scale(self.x[i]), self.y[i]",
        methods="    def scale(self, row):\n        logs = row.log()  # here\n        return logs - 1\n",
    ),
    "D103 written into a row": rows(
        "scale(self.x[i]), self.y[i]",
        "def scale(row):\n    row = row.clone()\n    row[3] = float('nan')  # here\n    return row\n",
    ),
    "D103 of a batch": collated(
        "def scale(x):\n    x = x / x.clamp(min=0)  # here\n    return x - 0.5\ndef collate(samples):\n"
        f"    x = {_STACKED}\n    return scale(x), torch.stack([sample[1] for sample in samples])\n"
    ),
    "D103 stored": "x[5:9, 2] = float('nan')  # here\n" + rows("self.x[i], self.y[i]"),
    "D126 of a batch": collated(
        "def pair(tokens):\n    inputs = tokens[:, :-1]\n    targets = tokens[:, :-1].clone()  # here\n"
        f"    return inputs, targets\n{_COLLATE_PAIR}",
        "self.tokens[i]",
        "tokens",
    ),
    "D126 of a row": rows(
        "pair(self.tokens[i])",
        "def pair(row):\n    inputs = row[:-1]\n    targets = inputs  # here\n    return inputs, targets\n",
        parts="tokens",
    ),
}

UNPACKED = (
    "from torch.utils.data import TensorDataset\n{helper}loader = DataLoader(TensorDataset(*pairs({data})), 16)\n"
    "setup = Setup({model}, loader, loss_fn=nn.CrossEntropyLoss())\n"
)
PROGRAMS |= {
    "D126 of an unpacked pair": UNPACKED.format(
        helper="def pairs(rows):\n    return rows, rows  # here\n", data="tokens", model="Language()"
    ),
    "D101 of an unpacked pair": UNPACKED.format(
        helper="def pairs(rows):\n    labels = y + 1  # here\n    return rows, labels\n",
        data="x",
        model="nn.Linear(6, 3)",
    ),
}
CHOSEN = (
    "from torch.utils.data import TensorDataset\ndef pair(rows, mode):\n"
    "    if mode:\n        {other}\n    {own}  # here\n"
    "def build(mode):\n    given, wanted = pair(tokens, mode)\n"
    "    return DataLoader(TensorDataset(given{cut}, wanted{cut}), 16)\n"
    "options = {{'mode': 0}}\nloader = build(options['mode'])\n"
    "setup = Setup(Language(), loader, loss_fn=nn.CrossEntropyLoss())\n"
)
_SHIFTED = "return rows[:, :-1], rows[:, 1:]"
PROGRAMS |= {
    "D126 of the return that copies": CHOSEN.format(other=_SHIFTED, own="return rows[:, 1:], rows[:, 1:]", cut=""),
    "D126 of the return that copies selected rows": CHOSEN.format(
        other=_SHIFTED, own="return rows[:, :-1], rows[:, :-1].clone()", cut="[:160]"
    ),
    "D126 of the return of one variable": CHOSEN.format(
        other=_SHIFTED, own="parts = rows[:, 1:]; return parts, parts", cut=""
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_wrong_values_are_named_in_the_function_that_makes_them(name: str, tmp_path: Path) -> None:
    variables = run_program(tmp_path / "program.py", HEADER + PROGRAMS[name])
    (finding,) = rule_findings(variables["setup"], name.split()[0])
    assert "# here" in (finding.where.source or ""), finding.where


HEALTHY = {
    "D101": rows("self.x[i], code(self.y[i])", "def code(label):\n    return label * 1\n"),
    "D103": rows("scale(self.x[i]), self.y[i]", "def scale(row):\n    return row.abs().log1p()\n"),
    "D126": rows("pair(self.tokens[i])", "def pair(row):\n    return row[:-1], row[1:]\n", parts="tokens"),
}


@pytest.mark.parametrize("code", HEALTHY)
def test_right_values_of_such_functions_are_not_reported(code: str, tmp_path: Path) -> None:
    variables = run_program(tmp_path / "program.py", HEADER + HEALTHY[code])
    assert rule_findings(variables["setup"], code) == []


def test_copying_return_is_related_to_the_call_of_its_function(tmp_path: Path) -> None:
    variables = run_program(tmp_path / "program.py", HEADER + PROGRAMS["D126 of the return that copies"])
    (finding,) = rule_findings(variables["setup"], "D126")
    assert ["given, wanted = pair(tokens, mode)" in (line.where.source or "") for line in finding.related] == [True]


def test_two_returns_that_may_copy_leave_the_call(tmp_path: Path) -> None:
    program = CHOSEN.format(other="return rows[:, 1:], rows[:, 1:]", own="return rows[:, 2:], rows[:, 2:]", cut="")
    variables = run_program(tmp_path / "program.py", HEADER + program)
    (finding,) = rule_findings(variables["setup"], "D126")
    assert "given, wanted = pair(tokens, mode)" in (finding.where.source or "")
