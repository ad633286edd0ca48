"""Tests of the line that D109 names if only one of two stored splits was transformed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.rule_findings import rule_faults
from tests.source.source_modules import run_program

HEADER = """\
import numpy as np
import torch
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from nbdebug.setup import Setup
rng = np.random.default_rng(0)
table = 40 + rng.normal(size=(600, 4)) * np.array([8.0, 90.0, 0.2, 30.0])
answers = (table[:, 0] > 40).astype(np.int64)
class Rows(Dataset):
    def __init__(self, rows, answers):
        self.rows, self.answers = torch.as_tensor(rows).float(), torch.as_tensor(answers)
    def __len__(self): return len(self.rows)
    def __getitem__(self, i): return self.rows[i], self.answers[i]
"""
FOOTER = """
setup = Setup(nn.Linear(4, 2), train_loader, val_loader, loss_fn=nn.CrossEntropyLoss())
"""
_SPLIT = "a, b, c, d = train_test_split(table, answers, test_size=0.3, random_state=0)\n"
_LOADERS = "train_loader, val_loader = DataLoader(train, 16, shuffle=True), DataLoader(val, 16)\n"
_TENSORS = "train, val = TensorDataset(x, torch.tensor(c)), TensorDataset(other, torch.tensor(d))\n" + _LOADERS
# The line with "here" is the last that makes the data of the split that lacks a transform.
PROGRAMS = {
    "converted alone": _SPLIT + "scaler = StandardScaler()\nx = torch.tensor(scaler.fit_transform(a)).float()\n"
    "other = torch.tensor(b).float()  # here\n" + _TENSORS,
    "in a function": "def load(scales):\n    a, b, c, d = train_test_split(table, answers, random_state=1)\n"
    "    a = StandardScaler().fit(a).transform(a).astype('float32')\n    if scales:\n"
    "        b = StandardScaler().fit(a).transform(b).astype('float32')\n    else:\n"
    "        b = b.astype('float32')  # here\n    return Rows(a, c), Rows(b, d)\n"
    "def program(scales=False):\n    train, val = load(scales)\n"
    "    return DataLoader(train, 16, shuffle=True), DataLoader(val, 16)\ntrain_loader, val_loader = program()\n",
    "arithmetic": "known, rest = table[:400], table[400:]\nmean, width = known.mean(0), known.std(0)\n"
    "x = torch.tensor((known - mean) / width, dtype=torch.float32)\n"
    "other = torch.tensor(rest, dtype=torch.float32)  # here\nc, d = answers[:400], answers[400:]\n" + _TENSORS,
    "training is not transformed": _SPLIT + "scaler = StandardScaler().fit(a)\n"
    "x = torch.tensor(a).float()\nother = torch.tensor(scaler.transform(b)).float()  # here\n" + _TENSORS,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_transform_of_one_split_names_the_line_of_the_other(name: str, tmp_path: Path) -> None:
    variables = run_program(tmp_path / "program.py", HEADER + PROGRAMS[name] + FOOTER)
    (finding,) = rule_faults(variables["setup"], "D109")
    assert "# here" in (finding.where.source or ""), finding.where
