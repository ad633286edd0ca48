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
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset
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
    "rows of one split in place": "known, rest = np.arange(400), np.arange(400, 600)\ndef make(rows, **options):\n"
    "    return DataLoader(TensorDataset(torch.from_numpy(table[rows]), torch.tensor(answers[rows])), 16, **options)\n"
    "mean = table[known].mean(0)\nif mean is None:\n    table = (table - mean) / table.std(0)\nelse:\n"
    "    table[known] -= mean  # here\n    table[known] /= table[known].std(0)\n"
    "train_loader, val_loader = make(known, shuffle=True), make(rest)\n",
    "rows of a subset in place": "known, rest = map(torch.Tensor.tolist, torch.randperm(600).split(400))\n"
    "rows = torch.tensor(table).float()\n"
    "rows[known] = (rows[known] - rows[known].mean(0)) / rows[known].std(0)  # here\n"
    "whole = TensorDataset(rows, torch.tensor(answers))\ntrain, val = Subset(whole, known), Subset(whole, rest)\n"
    + _LOADERS,
    "rows of an attribute in place": "class Data:\n"
    "    def __init__(self):\n        self.rows, self.cut = table.copy(), 400\n"
    "        known = self.rows[: self.cut]\n"
    "        self.rows[: self.cut] = (known - known.mean(0)) / self.rows[: self.cut].std(0)  # here\n"
    "    def split(self):\n        x, y = torch.tensor(self.rows).float(), torch.tensor(answers)\n"
    "        train = TensorDataset(x[: self.cut], y[: self.cut])\n"
    "        return train, TensorDataset(x[self.cut :], y[self.cut :])\ntrain, val = Data().split()\n" + _LOADERS,
    "option that one dataset lacks": "class Scaled(Rows):\n    def __init__(self, rows, answers, change=None):\n"
    "        super().__init__(rows, answers)\n        self.transform = change\n"
    "    def __getitem__(self, i):\n        row = self.rows[i]\n"
    "        return self.transform(row) if self.transform else row, self.answers[i]\n"
    "def build(whole=False):\n    mean, width = table.mean(0), table.std(0)\n"
    "    scale = lambda row: ((row - mean) / width).float()\n    train = Scaled(table[:400], answers[:400], scale)\n"
    "    if whole:\n        val = Scaled(table[400:], answers[400:], scale)\n    else:\n"
    "        val = Scaled(table[400:], answers[400:])  # here\n"
    "    return DataLoader(train, 16, shuffle=True), DataLoader(val, 16)\ntrain_loader, val_loader = build()\n",
    "training is not transformed": _SPLIT + "scaler = StandardScaler().fit(a)\n"
    "x = torch.tensor(a).float()\nother = torch.tensor(scaler.transform(b)).float()  # here\n" + _TENSORS,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_transform_of_one_split_names_the_line_of_the_other(name: str, tmp_path: Path) -> None:
    variables = run_program(tmp_path / "program.py", HEADER + PROGRAMS[name] + FOOTER)
    (finding,) = rule_faults(variables["setup"], "D109")
    assert "# here" in (finding.where.source or ""), finding.where
