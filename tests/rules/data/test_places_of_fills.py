"""Tests of the line that D113 names if the number for missing values is scaled or passed on: the one that writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.rule_findings import rule_findings
from tests.source.source_modules import run_program

HEADER = """\
import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from nbdebug.setup import Setup
rng = np.random.default_rng(0)
CODE, NAMES = -999.0, ["a", "b", "c", "d"]
levels, wanted = rng.normal(5, 1, size=(400, 4)), torch.randn(400, 1)
missing = rng.random((400, 4)) < 0.05
class Steps(Dataset):
    def __init__(self, rows, mean, std):
        self.rows = torch.tensor((rows - mean) / std, dtype=torch.float32)
        self.wanted = wanted
    def __len__(self): return 390
    def __getitem__(self, i):
        return self.rows[i : i + 5], self.wanted[i]
def scaled(rows):
    return torch.tensor((rows - rows.mean(0)) / rows.std(0)).float()
"""
TENSORS = "loader, model = DataLoader(TensorDataset(x, wanted), 20), nn.Linear(4, 1)\n"
STEPS = "loader, model = DataLoader(Steps(rows, rows.mean(0), rows.std(0)), 20), "
STEPS += "nn.Sequential(nn.Flatten(), nn.Linear(20, 1))\n"
FOOTER = "setup = Setup(model, loader, loss_fn=nn.MSELoss())\n"
# The line with "here" writes the number.
PROGRAMS = {
    "where in a function, in windows of a dataset": (
        "def reported(rows, out):\n    return np.where(out, CODE, rows)  # here\n"
        f"rows = reported(levels, missing)\n{STEPS}"
    ),
    "one of two branches of a function": (
        "def reported(rows, out, repairs):\n    if repairs:\n        return np.where(out, rows.mean(0), rows)\n"
        "    return np.where(out, -99, rows)  # here\ndef build(repairs):\n"
        f"    rows = reported(levels, missing, repairs)\n    {STEPS}    return loader, model\n"
        "options = {'repairs': False}\nloader, model = build(options['repairs'])\n"
    ),
    "fillna": (
        "frame = pd.DataFrame(np.where(missing, np.nan, levels), columns=NAMES)\n"
        f"frame = frame.fillna(-999)  # here\nx = scaled(frame.to_numpy())\n{TENSORS}"
    ),
    "write at a mask": (
        "def load():\n    rows = levels.copy()\n    rows[missing] = CODE  # here\n    return rows\n"
        f"x = scaled(load())\n{TENSORS}"
    ),
    "write to columns of a table": (
        "frame = pd.DataFrame(levels, columns=NAMES)\nframe.loc[missing[:, 0], 'a'] = -1.0  # here\n"
        f"x = scaled(frame.to_numpy())\n{TENSORS}"
    ),
    "nan_to_num": (
        "def fill(rows):\n    rows = np.where(missing, np.nan, rows)\n"
        "    return np.nan_to_num(rows, nan=-1.0)  # here\n"
        f"x = scaled(fill(levels))\n{TENSORS}"
    ),
    "masked_fill": (
        "rows = torch.tensor(levels).masked_fill(torch.tensor(missing), CODE)  # here\n"
        f"x = scaled(rows.numpy())\n{TENSORS}"
    ),
    "one of two numbers, as it is": (
        "rows = np.where(missing, -9.0, levels)  # here\nclipped = np.where(rows > 6, 6.0, rows)\n"
        f"x = torch.tensor(clipped).float()\n{TENSORS}"
    ),
    "two numbers that are scaled, so the line that makes the inputs": (
        "rows = np.where(missing, -9.0, levels)\nrows = np.where(rows > 8, 8.0, rows)\n"
        f"mean, std = rows.mean(0), rows.std(0)\nx = torch.tensor((rows - mean) / std).float()  # here\n{TENSORS}"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_number_for_missing_values_is_named_where_it_is_written(name: str, tmp_path: Path) -> None:
    variables = run_program(tmp_path / "program.py", HEADER + PROGRAMS[name] + FOOTER)
    finding, *_ = rule_findings(variables["setup"], "D113")
    assert "# here" in (finding.where.source or ""), finding.where
